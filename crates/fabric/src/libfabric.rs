//! Libfabric: what it offers on this host, and endpoints of its providers.
//!
//! Nothing here needs libfabric to be built; the library is opened when somebody asks, and if there is none, that is the
//! answer. All that is unsafe about it is in here.
//!
//! Parts: [`library`] opens it and asks for providers; [`channel`] is an endpoint with its peer; [`memory`] is what others may
//! write into; [`name`] is what an endpoint in shared memory is called; [`layout`] is the part of the interface that is used, written
//! down after version 1.17.

use crate::{Error, Result};

pub(crate) mod channel;
mod layout;
pub(crate) mod library;
mod memory;
pub(crate) mod name;

/// The library that was found, and its providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Libfabric {
    /// Its version, as in 1.17.
    pub version: (u16, u16),
    /// All that they offer; a provider may come several times, with another device or kind of endpoint.
    pub providers: Vec<Provider>,
}

/// One way of communication that a provider offers.
#[expect(clippy::struct_excessive_bools, reason = "they are told apart by the interface, and any combination occurs")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// `verbs`, `tcp`, `shm`, ….
    pub name: String,
    /// Its version.
    pub version: (u16, u16),
    /// The network, in the provider's own words.
    pub fabric: String,
    /// The device, in the provider's own words.
    pub domain: String,
    /// What kind of endpoint.
    pub endpoint: EndpointKind,
    /// It sends messages.
    pub messages: bool,
    /// It writes into a peer's memory (RMA).
    pub one_sided: bool,
    /// Local memory has to be registered before it is sent from.
    pub local_registration: bool,
    /// Peers name places in a region by virtual address; otherwise by offset.
    pub virtual_addresses: bool,
    /// The provider chooses a region's key; otherwise its owner does.
    pub provider_keys: bool,
    /// The longest message in bytes.
    pub longest_message: u64,
}

/// How an endpoint reaches its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointKind {
    /// Connected, reliable.
    Connected,
    /// Without connections, reliable (RDM).
    Reliable,
    /// Without connections, unreliable.
    Datagram,
    /// Any other.
    Other,
}

impl Libfabric {
    /// Looks for the library and asks it for its providers. `None`: there is no libfabric here.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where there is a library that can not be used.
    pub fn probe() -> Result<Option<Self>> {
        library::probe().map_err(|reason| Error::Invalid { reason: format!("libfabric: {reason}") })
    }

    /// Whether there is a provider of this name, alone or as a layer of another.
    pub fn has(&self, provider: &str) -> bool {
        self.providers.iter().any(|found| found.name.split(';').any(|layer| layer == provider))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_a_libfabric_it_offers_tcp() {
        let Some(found) = Libfabric::probe().expect("a library that can be used") else {
            println!("SKIPPED: there is no libfabric (Debian: libfabric1)");
            return;
        };
        assert!(found.version.0 >= 1, "{found:?}");
        let tcp = found.providers.iter().find(|provider| {
            provider.name.split(';').any(|name| name == "tcp") && provider.endpoint == EndpointKind::Reliable
        });
        let tcp = tcp.expect("over a loopback device at least");
        assert!(tcp.messages && tcp.one_sided && tcp.longest_message >= 1 << 20, "{tcp:?}");
        assert!(!tcp.domain.is_empty() && !tcp.fabric.is_empty(), "{tcp:?}");
        assert_eq!(Libfabric::probe().expect("again"), Some(found), "and the same when asked again");
    }
}

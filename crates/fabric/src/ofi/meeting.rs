//! The handshake, behind the greeting: both sides open an endpoint of the same provider, say over the connection of the
//! greeting how they are reached, and then whether they are.

use std::io::IoSlice;
use std::sync::OnceLock;
use std::time::Instant;

use super::leaving::WRITES;
use super::state::State;
use super::words::{EXTRA, MESSAGE, MESSAGES, OFFER, Offer, RING};
use super::{NAP, Ofi};
use crate::endpoint::Settings;
use crate::libfabric::channel::{Channel, OwnAddress, Sizes};
use crate::libfabric::library::Registration;
use crate::libfabric::name::Name;
use crate::region::random;
use crate::security::Side;
use crate::source::Fault;
use crate::tcp::wire::Wire;

/// Meets the peer of this connection at endpoints of `provider`.
pub(crate) fn meet(
    wire: Wire,
    provider: &str,
    side: Side,
    settings: &Settings,
    deadline: Instant,
) -> Result<Ofi, Fault> {
    let (opened, theirs) = match side {
        Side::Client => {
            let opened = open(&wire, provider).map_err(Fault::Refused)?;
            say(&wire, Some(&opened.1))?;
            (Ok(opened), hear(&wire, deadline)?)
        }
        Side::Server => {
            let theirs = hear(&wire, deadline)?;
            let opened = open(&wire, provider);
            say(&wire, opened.as_ref().ok().map(|(_, offer)| offer))?;
            (opened, theirs)
        }
    };
    let (mut channel, ours) = opened.map_err(Fault::Refused)?;
    let Some(theirs) = theirs else {
        let reason = format!(
            "it can not use libfabric's provider {provider}; what it has, `ishigaki media probe --fabric` tells there"
        );
        return Err(Fault::Refused(reason));
    };
    if theirs.provider != ours.provider {
        let reason =
            format!("it uses libfabric's provider {}, and we use {}; name the same", theirs.provider, ours.provider);
        return Err(Fault::Refused(reason));
    }
    if within_host(provider) && theirs.process == ours.process {
        return Err(Fault::Refused(format!(
            "libfabric's provider {provider} does not join two ends within one process"
        )));
    }
    channel.join(&theirs.address).map_err(Fault::Refused)?;
    let stream = Ofi::new(wire, settings.stall, State::new(channel, ours.secret, theirs))?;
    greet(&stream, deadline)?;
    Ok(stream)
}

/// An endpoint, and how it is reached.
fn open(wire: &Wire, provider: &str) -> Result<(Channel, Offer), String> {
    let failed = |error: std::io::Error| error.to_string();
    let local = wire.socket().local_addr().map_err(failed)?.ip().to_canonical();
    let within_host = within_host(provider);
    if within_host && local != wire.socket().peer_addr().map_err(failed)?.ip().to_canonical() {
        return Err("libfabric's provider shm is for peers on one host".to_owned());
    }
    let source = if within_host { OwnAddress::Shared(Name::claim()?) } else { OwnAddress::Host(local.to_string()) };
    let sizes = Sizes { ring: RING, message: MESSAGE, messages: MESSAGES + EXTRA, writes: WRITES };
    let mut channel = Channel::open(provider, source, Registration::Any, sizes)?;
    let secret = random().map_err(|error| error.to_string())?;
    let (provider, address) = (channel.name().to_owned(), channel.address()?);
    let offer = Offer { provider, address, landing: channel.landing(), secret, process: process()? };
    if offer.fits() { Ok((channel, offer)) } else { Err("the provider's name or address is too long".to_owned()) }
}

/// The provider is for processes of one host. It reaches an endpoint within its own process straight in that one's memory, also
/// when it is closed.
fn within_host(provider: &str) -> bool {
    provider.split(';').any(|layer| layer == "shm")
}

/// What tells this process from others.
fn process() -> Result<[u8; 16], String> {
    static PROCESS: OnceLock<Option<[u8; 16]>> = OnceLock::new();
    PROCESS.get_or_init(|| random().ok()).ok_or_else(|| "the operating system has no randomness to give".to_owned())
}

fn say(wire: &Wire, offer: Option<&Offer>) -> Result<(), Fault> {
    wire.send(&mut [IoSlice::new(&Offer::encode(offer))])
}

fn hear(wire: &Wire, deadline: Instant) -> Result<Option<Offer>, Fault> {
    let mut bytes = [0; OFFER];
    wire.receive_exact(&mut bytes, deadline)?;
    Offer::decode(&bytes).ok_or_else(|| Fault::Refused("an offer that is none".to_owned()))
}

/// Sends a first message, and waits until that is on its way and the peer's has come.
fn greet(stream: &Ofi, deadline: Instant) -> Result<(), Fault> {
    let mut said = false;
    loop {
        let mut state = stream.state.lock();
        said = said || state.say()?;
        let some = state.progress()?;
        if said && state.met && state.leaving.is_idle() {
            return Ok(());
        }
        let now = Instant::now();
        stream.look(&mut state, now);
        if state.end.is_some() && !state.met {
            return Err(Fault::Broken("the peer went away during the handshake".to_owned()));
        }
        if now >= deadline {
            let reason = "the peer is not reached by libfabric; see that the provider's network joins both hosts";
            return Err(Fault::Refused(reason.to_owned()));
        }
        if !some {
            stream.sleep(state, false, NAP);
        }
    }
}

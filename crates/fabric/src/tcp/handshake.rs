//! What both sides say before anything else: who speaks, which version, how many requests are welcome, and a proof of the
//! token where one is asked for. The bytes are pictured in `docs/format/fabric.md`.
//!
//! A server reads 44 bytes of a stranger, answers with 44, and reads 32 more; there is nothing in them to believe but
//! their values. All of it must happen within [`Settings::connect`].

use std::io::IoSlice;
use std::time::Instant;

use ishigaki_base::Fields;

use super::wire::Wire;
use crate::endpoint::Settings;
use crate::fabric::Fabric;
use crate::region::random;
use crate::security::{NONCE, PROOF, Security, Side};
use crate::source::Fault;

/// How a greeting begins.
const MAGIC: [u8; 4] = *b"ISGF";

/// The version of all of it.
const VERSION: u8 = 1;

/// Bytes of a greeting.
pub(crate) const GREETING: usize = 44;

/// A server's greeting says that the client may go on.
const WELCOME: u8 = 0;
/// The client speaks another version.
const OTHER_VERSION: u8 = 1;
/// The client wants another way of authentication.
const OTHER_METHOD: u8 = 2;
/// The client's proof is none.
const NO_PROOF: u8 = 3;
/// There are too many connections.
const FULL: u8 = 4;
/// The client wants libfabric to carry the bytes, and the server was not told to use it.
const NO_LIBFABRIC: u8 = 5;

/// What both sides have found out about each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Greeted {
    /// The peer's.
    pub(super) window: u16,
    /// Which one we are.
    pub(super) side: Side,
    /// Libfabric shall carry the bytes; otherwise this connection does.
    pub(super) libfabric: bool,
}

/// What one side says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) version: u8,
    pub(crate) method: u8,
    pub(crate) status: u8,
    pub(crate) libfabric: bool,
    pub(crate) window: u16,
    pub(crate) nonce: [u8; NONCE],
}

impl Greeting {
    pub(crate) fn encode(self) -> [u8; GREETING] {
        let mut bytes = [0; GREETING];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&[self.version, self.method, self.status, self.libfabric.into()]);
        bytes[8..10].copy_from_slice(&self.window.to_le_bytes());
        bytes[12..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Nothing: these are no greeting's bytes.
    pub(crate) fn decode(bytes: &[u8; GREETING]) -> Option<Self> {
        let fields = Fields(bytes);
        let [version, method, status, transport] = fields.array(4);
        let (window, zeros) = (u16::from_le_bytes(fields.array(8)), fields.array::<2>(10));
        let known = bytes.starts_with(&MAGIC) && transport <= 1 && zeros == [0; 2];
        let libfabric = transport == 1;
        known.then_some(Self { version, method, status, libfabric, window, nonce: fields.array(12) })
    }
}

/// Greets as the side that connected.
pub(super) fn client(
    wire: &Wire,
    settings: &Settings,
    security: &Security,
    deadline: Instant,
) -> Result<Greeted, Fault> {
    wire.agree(deadline)?;
    let own = greeting(settings, security)?;
    say(wire, &own.encode())?;
    let theirs = hear(wire, deadline)?;
    check_status(theirs.status)?;
    let as_asked = theirs.method == own.method && theirs.libfabric == own.libfabric;
    if theirs.version != VERSION || !as_asked || theirs.window == 0 {
        let reason = "it answers our greeting with another version, method or transport, or no window";
        return Err(Fault::Refused(reason.to_owned()));
    }
    if let Security::Token(token) = security {
        let nonces = [&own.nonce, &theirs.nonce];
        say(wire, &token.proof(Side::Client, nonces))?;
        let mut answer = [0; 1 + PROOF];
        wire.receive_exact(&mut answer, deadline)?;
        check_status(answer[0])?;
        if !token.is_proof(Side::Server, nonces, &Fields(&answer).array(1)) {
            return Err(Fault::Refused("the node does not know our token".to_owned()));
        }
    }
    Ok(Greeted { window: theirs.window, side: Side::Client, libfabric: own.libfabric })
}

/// Greets as the side that listened. `room` is asked once the peer has shown who it is: whether there is room for one more.
///
/// A peer that has a token to show is let in or told that there is no room after it has; so a stranger never takes room.
pub(super) fn server(
    wire: &Wire,
    settings: &Settings,
    security: &Security,
    room: impl FnOnce() -> bool,
    deadline: Instant,
) -> Result<Greeted, Fault> {
    wire.agree(deadline)?;
    let theirs = hear(wire, deadline)?;
    let mut own = greeting(settings, security)?;
    let can = own.libfabric;
    own.libfabric = theirs.libfabric;
    own.status = if theirs.version != VERSION {
        OTHER_VERSION
    } else if theirs.method != own.method {
        OTHER_METHOD
    } else if theirs.libfabric && !can {
        NO_LIBFABRIC
    } else {
        WELCOME
    };
    let mut room = Some(room);
    if own.status == WELCOME && theirs.window > 0 && !matches!(security, Security::Token(_)) {
        // TLS has authenticated the peer before it could greet; and without any security there is nothing to wait for.
        own.status = admit(&mut room);
    }
    say(wire, &own.encode())?;
    if own.status != WELCOME || theirs.window == 0 {
        return Err(Fault::Refused("a greeting that does not suit us".to_owned()));
    }
    if let Security::Token(token) = security {
        let nonces = [&theirs.nonce, &own.nonce];
        let mut proof = [0; PROOF];
        wire.receive_exact(&mut proof, deadline)?;
        let mut answer = [0; 1 + PROOF];
        let known = token.is_proof(Side::Client, nonces, &proof);
        answer[0] = if known { admit(&mut room) } else { NO_PROOF };
        if answer[0] == WELCOME {
            answer[1..].copy_from_slice(&token.proof(Side::Server, nonces));
        }
        say(wire, &answer)?;
        match answer[0] {
            WELCOME => {}
            FULL => return Err(Fault::Refused("there is no room for one more connection".to_owned())),
            _ => return Err(Fault::Refused("it does not know our token".to_owned())),
        }
    }
    Ok(Greeted { window: theirs.window, side: Side::Server, libfabric: own.libfabric })
}

/// Whether the peer may come in, as the status of an answer.
fn admit(room: &mut Option<impl FnOnce() -> bool>) -> u8 {
    if room.take().is_some_and(|room| room()) { WELCOME } else { FULL }
}

fn greeting(settings: &Settings, security: &Security) -> Result<Greeting, Fault> {
    let nonce = random().map_err(|error| Fault::Broken(error.to_string()))?;
    let libfabric = matches!(settings.fabric, Fabric::Libfabric { .. });
    let (method, window) = (security.method(), settings.window);
    Ok(Greeting { version: VERSION, method, status: WELCOME, libfabric, window, nonce })
}

fn say(wire: &Wire, bytes: &[u8]) -> Result<(), Fault> {
    wire.send(&mut [IoSlice::new(bytes)])
}

fn hear(wire: &Wire, deadline: Instant) -> Result<Greeting, Fault> {
    let mut bytes = [0; GREETING];
    wire.receive_exact(&mut bytes, deadline)?;
    Greeting::decode(&bytes).ok_or_else(|| {
        let reason = "what answers there speaks something else; see the port, and that both sides use TLS or neither";
        Fault::Refused(reason.to_owned())
    })
}

fn check_status(status: u8) -> Result<(), Fault> {
    let reason = match status {
        WELCOME => return Ok(()),
        OTHER_VERSION => "it speaks another version; run the same release on both sides",
        OTHER_METHOD => {
            "one side uses a token and the other does not; give both the same: a node says when it starts what to write behind its name"
        }
        NO_PROOF => "our token is not the node's",
        NO_LIBFABRIC => "it uses TCP alone; set its transport to libfabric, too, or ours to tcp",
        FULL => "it has as many connections as it takes; try again later",
        _ => "for a reason that this version does not know",
    };
    Err(Fault::Refused(reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_reads_back_and_nothing_else_is_one() {
        let greeting = Greeting { version: 1, method: 1, status: 3, libfabric: true, window: 128, nonce: [5; NONCE] };
        let bytes = greeting.encode();
        assert_eq!(Greeting::decode(&bytes), Some(greeting));
        for at in [0, 3, 7, 10, 11] {
            let mut other = bytes;
            other[at] ^= 0x40;
            assert_eq!(Greeting::decode(&other), None, "byte {at}");
        }
    }

    #[test]
    fn every_refusal_has_its_reason() {
        let reason = |status| match check_status(status) {
            Err(Fault::Refused(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert!(check_status(WELCOME).is_ok());
        let reasons: std::collections::BTreeSet<_> = (1..=6).map(reason).collect();
        assert_eq!(reasons.len(), 6);
    }
}

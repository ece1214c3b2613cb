//! Between hosts: messages, and writes into the peer's memory.
//!
//! An [`Endpoint`] is one end of a connection: it sends requests, replies and bytes for a registered [`Region`] of the
//! peer's (paper 3, section 3: remote memory access), in batches, and hands out what has come in. A [`Caller`] stands on
//! one and keeps many requests in flight for any number of threads. A server receives from its endpoint and replies.
//!
//! ```text
//!    client                                                       server
//!    region = register(memory)
//!    call(request, with the region's key) ──── request ─────────▶ receive
//!                                                                 … reads from its disk …
//!    bytes are in the region, the call returns ◀─ one-sided ───── send(write, completing)
//! ```
//!
//! *Flow.* Each side says at the handshake how many requests it takes at a time (its window). A request costs a credit and
//! the answer brings one back; who sends more than it may is cut off. Memory is bounded by windows and by the longest
//! message.
//!
//! *Time.* Everything has a deadline: connecting, an answer, a peer that does not read. A connection that misses one is
//! given up, and all who wait on it hear whether their request had been sent ([`Error::Lost`]).
//!
//! *Trust.* See [`Security`]. A peer that breaks the protocol is cut off; no length of a peer's is believed beyond a limit.
//!
//! *Transports.* Peers meet over TCP, by [`connect`] and [`Listener`], and what carries the bytes then is TCP, too, or a provider
//! of libfabric ([`Settings::fabric`]). The library is opened at run time; what it offers on this host, [`Libfabric`] tells. What
//! goes over a connection is pictured in `docs/format/fabric.md`, with what each key guards. Tried are the providers tcp, net
//! and shm (between processes); net of 1.17 often wakes who sleeps only after some ten milliseconds. Not tried is verbs, for want
//! of hardware; sockets, which libfabric has deprecated, loses connections.
//!
//! ```
//! use std::time::Duration;
//! use ishigaki_fabric::{Answer, Call, Caller, Event, Listener, Outgoing, Security, Settings, Wait, connect};
//!
//! let listener = Listener::bind("127.0.0.1:0", Settings::default(), Security::Open)?;
//! let address = listener.address().to_string();
//! let server = std::thread::spawn(move || -> ishigaki_fabric::Result<()> {
//!     let Some(arrival) = listener.accept()? else { return Ok(()) };
//!     let endpoint = arrival.greet(|| true)?;
//!     let mut events = Vec::new();
//!     endpoint.receive(&mut events, Wait::Until(std::time::Instant::now() + Duration::from_secs(5)))?;
//!     for event in events {
//!         if let Event::Request { id, bytes } = event {
//!             endpoint.send(&[Outgoing::Reply { id, credits: 1, bytes: &bytes }])?;
//!         }
//!     }
//!     Ok(())
//! });
//! let caller = Caller::new(connect(&address, &Settings::default(), &Security::Open)?, Duration::from_secs(5));
//! assert_eq!(caller.call(&Call::message(b"echo"))?, Answer::Message(b"echo"[..].into()));
//! # server.join().expect("the server ends")?;
//! # Ok::<(), ishigaki_fabric::Error>(())
//! ```

mod caller;
mod connection;
mod endpoint;
mod error;
mod fabric;
mod frame;
#[cfg(fuzzing)]
pub mod fuzz;
mod inbox;
mod libfabric;
mod ofi;
mod region;
mod security;
mod source;
mod tcp;
mod wait;

pub use caller::{Answer, Call, Caller, Pending};
pub use endpoint::{Endpoint, Event, Message, Outgoing, Settings, Wait};
pub use error::{Error, Result};
pub use fabric::Fabric;
pub use frame::{MAX_MESSAGE, MAX_WRITE};
pub use libfabric::{EndpointKind, Libfabric, Provider};
pub use region::{Region, RegionKey, Target};
pub use security::{Security, Tls, TlsFiles, Token};
pub use tcp::{Arrival, ArrivalCloser, Listener, connect};
pub use wait::{Patience, Spin};

//! What every service of the stack needs beside its own work, once for all of them.
//!
//! ```text
//!   Prometheus ──▶ door ──▶ http ──▶ Page      the figures, as the service says them
//!   systemd ◀────▶ Supervisor                  ready; descriptors kept for the next process
//! ```
//!
//! - [`asking`] puts a question again that a service has not taken.
//! - [`door`] lets visitors in, not too many and not for too long.
//! - [`http`] answers a scraper's request.
//! - [`Page`] writes figures in Prometheus' words.
//! - [`handing`] is what two processes need when one takes the place of the other.
//! - [`socket`] reaches a control socket wherever it lies.
//! - [`stored`] replaces the small files that a service keeps, durably.
//! - [`Supervisor`] is the service manager.
//!
//! Which figures there are, what is asked through a control socket, and what goes to the next process is the services' own.

pub mod asking;
pub mod door;
pub mod handing;
pub mod http;
mod page;
pub mod socket;
pub mod stored;
mod supervisor;

pub use page::Page;
pub use supervisor::{Kept, Supervisor};

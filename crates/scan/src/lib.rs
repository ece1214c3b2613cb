//! Scans of page files, and where their work is done.
//!
//! A [`PagedTable`] shows page files to DataFusion: its scans read only the columns and pages that a query can need, on
//! all threads. A page file on a storage node can be scanned in two ways: its pages travel and are worked on here
//! ([`Placement::Fetch`]), or the work travels and only its results come back ([`Placement::Push`]). Which is faster
//! depends on the link, on how much of the data the scan keeps, and on who has time. What lies on this machine is
//! worked on here ([`Placement::Local`]).
//!
//! ```text
//!   plan ─▶ Scan ──────┐
//!   link, node, client ┴▶ estimate each placement ─▶ choose, or Division: pages here and there at the same time
//!                                                                   ▲                │
//!                                                                   └─ what they took ┘
//! ```
//!
//! The choice is pure: figures in, choices out, no clock and no network. Parts: [`placement`] has the words, [`cost`] the
//! model, [`meter`] turns observations into figures, [`division`] divides one scan while it runs; [`table`] reads.
//! [`place`] decides for the scans of a plan, by what `forecast` and `node_side` know, before they begin. Work travels as a
//! `fragment`, which a node's [`worker`] does.

mod aggregate;
pub mod cost;
pub mod division;
pub mod exact;
mod forecast;
mod fragment;
pub mod meter;
mod node_side;
mod operator;
pub mod place;
pub mod placement;
mod runtime;
pub mod table;
pub mod worker;

pub use cost::{Estimate, Link, Resource, Scan, Side, Surroundings, choose, estimate};
pub use division::{Division, Turn};
pub use meter::LinkMeter;
pub use node_side::NodeSide;
pub use operator::only_input;
pub use place::{PlaceScans, ScanOptions};
pub use placement::{Placement, UnknownPlacement, Wish};
pub use runtime::end_runtime;
pub use table::{Nodes, OrdersExec, PageCache, PagedTable, Part, PushFailed, TallyPages, labelled};
pub use worker::{FragmentWorker, WorkerSettings};

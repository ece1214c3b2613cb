//! The experiments of paper 3: reads from a storage node beside the network alone and our own disk, a query's page accesses
//! done again, and whole queries by placement and size of pages; and queries over a link to a host that may be busy, which is
//! ours.
//!
//! Here is what is drawn of their lines; they are measured where queries are known, in `ishigaki-tpch`.

mod apart;
mod charts;
mod findings;
mod page;
mod paper;

pub(super) use charts::charts;
pub(super) use page::page;

//! A pool on the simulated medium, and what it must show.
//!
//! Parts: [`model`] is what a member's files should be, [`work`] does random things to both, [`life`] opens, works, ends.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod life;
pub(crate) mod model;
pub(crate) mod work;

//! Logs on trial: kept in every [`Way`], living [life after life](Trial) until something goes wrong, and held against a
//! [`Model`] of what they must show.

// Each file of tests takes of this what it needs.
#![allow(dead_code, unused_imports)]

mod life;
mod model;
mod rot;
mod way;

pub(crate) use life::{Trial, failures};
pub(crate) use model::{Model, Shown};
pub(crate) use rot::{checked_bytes, flip_bit, flip_checked, flip_written};
pub(crate) use way::{Medium, Way, each_way};

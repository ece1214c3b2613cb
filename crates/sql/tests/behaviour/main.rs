//! What the database does, seen from a session.

mod copy;
mod dml_planning;
mod paged;
mod plans;
mod shell;
mod statements;
mod types;
mod wordings;

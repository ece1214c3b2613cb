//! What the database does, seen from a session.

mod copy;
mod damage;
mod dml_planning;
mod paged;
mod plans;
mod row_values;
mod shell;
mod silence;
mod spilling;
mod statements;
mod subqueries;
mod types;
mod windows;
mod wordings;

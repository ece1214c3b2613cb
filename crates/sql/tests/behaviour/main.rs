//! What the database does, seen from a session.

mod casts;
mod copy;
mod correlated;
mod damage;
mod dml_planning;
mod large;
mod limits;
mod merged;
mod mixed;
mod numbers;
mod ordering;
mod paged;
mod paged_killed;
mod paged_turns;
mod plans;
mod row_values;
mod shell;
mod silence;
mod spilling;
mod statements;
mod subqueries;
mod times;
mod typeof_and_mode;
mod types;
mod windows;
mod wordings;

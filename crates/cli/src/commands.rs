//! One module for each command; each turns its arguments into settings of a crate below, calls it, and shows what comes
//! back.

mod bench;
mod completions;
mod log;
mod sql;

use clap::Subcommand;

use crate::failure::Failure;

/// What the binary can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Sql(sql::Arguments),
    Log(log::Arguments),
    Bench(bench::Arguments),
    Completions(completions::Arguments),
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Sql(arguments) => sql::run(&arguments),
            Self::Log(arguments) => log::run(&arguments),
            Self::Bench(arguments) => bench::run(arguments),
            Self::Completions(arguments) => completions::run(&arguments),
        }
    }
}

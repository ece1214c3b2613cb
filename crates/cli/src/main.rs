//! The `ishigaki` binary: arguments, a shell, progress, exit codes.
//!
//! Everything that is done is done by the crates below; here is what a person or a script meets. [`commands`] holds one
//! module for each command, [`shell`] what `ishigaki sql` runs statements with, [`output`] how results are written, and
//! [`failure`] how errors are told and what the process ends with. Only this crate reads the environment (`RUST_LOG`, and
//! where the user's files belong), and only its `main` decides how the process ends.

mod commands;
mod failure;
mod human;
mod log_level;
mod output;
mod shell;

use std::process::ExitCode;

use clap::Parser;

use commands::Command;
use failure::{EXIT_CODES, Failure};

const EXAMPLES: &str = "\
Examples:
  ishigaki sql                                   a shell on ./ishigaki-data
  ishigaki sql --data DIR -c 'SELECT 1'          one statement
  ishigaki log inspect DIR                       what the log of a database holds
  ishigaki verify DIR                            whether a database is what was written
  ishigaki salvage DIR --to DIR2                 every readable row of a damaged one
  ishigaki backup DIR --to DIR2                  a copy of a database, stopped or in use
  ishigaki migrate serve --from PLACE --to DIR --at DIR2    replace a file server
  ishigaki bench commit --data DIR               how long a commit takes here
  ishigaki node --data DIR                       serve a folder to other hosts
  ishigaki completions bash > ishigaki.bash      completions for a shell";

/// Ishigaki: a serializable SQL database on a parallel write-ahead log.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct Cli {
    /// What to tell on stderr about the inner workings: error, warn, info, debug, trace, or a filter such as
    /// `ishigaki_wal=debug`. Without it the environment variable `RUST_LOG` counts, and then `warn`.
    #[arg(long, global = true, value_name = "LEVEL")]
    log_level: Option<String>,

    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell();
            failure.exit_code()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    log_level::start(cli.log_level)?;
    cli.command.run()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().or(command.get_after_long_help()).map(ToString::to_string);
            assert!(help.is_some_and(|help| help.contains("Examples:")), "`{}` shows no examples", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}

//! `ishigaki completions`: what a shell needs to complete our command line.

use std::io::{self, Write};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Cli;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ishigaki completions bash > ~/.local/share/bash-completion/completions/ishigaki
  ishigaki completions zsh > ~/.zfunc/_ishigaki
  ishigaki completions fish > ~/.config/fish/completions/ishigaki.fish";

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "ishigaki", &mut script);
    Ok(io::stdout().write_all(&script)?)
}

//! The house's own chores, run as `cargo xtask <chore>`.
//!
//! `tidy` looks at the tree and says what is out of place; `test` is the one command that says whether the tree is good.
//! Nothing here ships, and nothing of the house is imported: a chore must run when the house does not compile.

mod guest;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
The chores of the house.

Usage: cargo xtask <CHORE>

Chores:
  test    Everything that must hold: format, clippy, tidy, tests, doc tests, examples, the loom model, fuzzing
  guest   Makes the image of a small virtual machine for tests that take one
  tidy    Which crate may import which, file lengths, links in the documents

`cargo xtask test --help` shows the options of `test`.
";

/// What ends a chore: a message for people, already complete.
type Failure = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (chore, rest) = match arguments.split_first() {
        Some((chore, rest)) => (chore.as_str(), rest),
        None => ("help", &[][..]),
    };
    let outcome = match chore {
        "test" => test::run(&root(), rest),
        "guest" => guest::run(&root(), rest),
        "tidy" => tidy::run(&root(), rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        unknown => Err(format!("there is no chore `{unknown}`\n\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace: two above this crate's own, as cargo tells it to what it runs. Build products may be shared between checkouts, so
/// the folder that this program was compiled in may be another one.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.ancestors().nth(2).unwrap_or(&here).to_path_buf()
}

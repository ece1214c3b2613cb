//! The shell's own commands, which begin with a dot.

use std::fs;
use std::io::{BufReader, Write};

use clap::ValueEnum;
use ishigaki_sql::Target;

use super::{Shell, schema};
use crate::commands::backup_text;
use crate::failure::Failure;
use crate::output::Format;

const HELP: &str = "\
A semicolon ends a statement. BEGIN, COMMIT and ROLLBACK make a transaction of several.

  .help                    show this
  .tables                  the tables
  .views                   the views
  .schema [NAME]           how the tables and views, or one of them, are defined
  .format [table|csv|json] how rows are written
  .timing [on|off]         whether times are shown
  .read FILE               run the statements of a file
  .backup DIR              copy this database into an empty directory, while it is used
  .quit                    leave; an open transaction is rolled back

Ctrl-C cancels the statement that runs, or clears the line; Ctrl-D leaves. Enter adds a line until a semicolon ends the
statement; the arrow keys move within it, and through earlier statements.
";

/// Whether the shell goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Leave,
}

/// Names of all commands, for completion.
pub(super) const NAMES: &[&str] =
    &[".help", ".tables", ".views", ".schema", ".format", ".timing", ".read", ".backup", ".quit"];

/// The command that a person means who types a word of other shells; theirs have no dot.
pub(super) fn meant_by(text: &str) -> Option<&'static str> {
    match text.trim().trim_end_matches(';').trim_end() {
        "exit" | "quit" => Some(".quit"),
        "help" | "?" => Some(".help"),
        _ => None,
    }
}

/// Runs one command, given with its dot.
pub(super) fn run(shell: &mut Shell, text: &str) -> Result<Next, Failure> {
    // People end everything with a semicolon here.
    let text = text.trim_end_matches(';').trim_end();
    let (name, argument) = match text.split_once(char::is_whitespace) {
        Some((name, argument)) => (name, Some(argument.trim())),
        None => (text, None),
    };
    match (name, argument) {
        (".quit" | ".exit", None) => return Ok(Next::Leave),
        (".help", None) => shell.out.write_all(HELP.as_bytes())?,
        (".tables", None) => shell.statement("SHOW TABLES")?,
        (".views", None) => shell.statement("SHOW VIEWS")?,
        (".schema", table) => {
            let text = shell.runtime.block_on(schema::definitions(&shell.session, table))?;
            shell.out.write_all(text.as_bytes())?;
        }
        (".format", None) => {
            let name = shell.format.to_possible_value().map(|value| value.get_name().to_owned());
            writeln!(shell.out, "{}", name.unwrap_or_default())?;
        }
        (".format", Some(format)) => {
            let wrong = |_| Failure::usage(format!("`.format {format}`: there are table, csv and json"));
            shell.format = Format::from_str(format, true).map_err(wrong)?;
        }
        (".timing", None) => writeln!(shell.out, "{}", if shell.timing { "on" } else { "off" })?,
        (".timing", Some("on")) => shell.timing = true,
        (".timing", Some("off")) => shell.timing = false,
        (".read", Some(path)) => {
            let file = fs::File::open(path).map_err(|error| Failure::file(path, &error))?;
            return shell.items(path, BufReader::new(file));
        }
        (".backup", Some(path)) => {
            let target = Target::folder(path)?;
            let done = shell.database.backup(&target, &ishigaki_txn::Progress::default())?;
            shell.out.write_all(backup_text(&done, true).as_bytes())?;
        }
        (".backup", None) => {
            return Err(
                Failure::usage("`.backup` wants a directory").with_hint(".backup DIR, which is empty or not there")
            );
        }
        (".read", None) => return Err(Failure::usage("`.read` wants the name of a file").with_hint(".read FILE")),
        _ => return Err(Failure::usage(format!("there is no command `{text}`")).with_hint(".help shows the commands")),
    }
    shell.out.flush()?;
    Ok(Next::Continue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_shells_are_understood_when_they_stand_alone() {
        assert_eq!(meant_by(" exit; "), Some(".quit"));
        assert_eq!(meant_by("help"), Some(".help"));
        assert_eq!(meant_by("help me"), None);
    }
}

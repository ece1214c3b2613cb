//! What ends a command or a statement, and the exit code that says so.
//!
//! This is the only place in the house that knows exit codes. Errors of the floors below come with an [`ErrorKind`],
//! which decides the code; the message is theirs, the hint is ours.

use std::fmt::Display;
use std::io::{self, ErrorKind as IoErrorKind, Write};
use std::process::ExitCode;

use ishigaki_base::ErrorKind;

/// The exit codes, for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    everything was done
  1    a statement or an operation failed
  2    the command line is wrong
  3    unavailable: the directory is in use, or a device failed
  4    corrupt: stored bytes are not what was written
  5    conflict: another transaction was in the way; run it again
  6    exhausted: memory, disk space or another limit
  130  interrupted";

/// The end of a command or statement that did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// To be told on stderr.
    Told {
        message: String,
        /// What one may do about it, where the message does not say so itself.
        hint: Option<String>,
        /// The exit code.
        code: u8,
    },
    /// Whoever read our output has gone, `head` for instance: nothing to tell, and nobody to tell it.
    Unheard,
}

impl Failure {
    /// An error of the floors below.
    pub(crate) fn of(kind: ErrorKind, message: impl Display) -> Self {
        let (code, hint) = match kind {
            ErrorKind::Invalid => (1, None),
            ErrorKind::Unavailable => (3, None),
            ErrorKind::Closed => (3, Some("open the database again: recovery keeps everything that was acknowledged")),
            ErrorKind::Corrupt => (
                4,
                Some(
                    "`ishigaki verify DIR` shows every damage of a database, `ishigaki salvage DIR --to DIR2` gets out what \
                     can be read",
                ),
            ),
            ErrorKind::Conflict => (5, Some("run the whole transaction again")),
            ErrorKind::Exhausted => (
                6,
                Some(
                    "free some space on the disk; or, for memory, `--memory` and `--query-memory` raise the limits, and for \
                     rows that are spilled `--spill-limit`",
                ),
            ),
            ErrorKind::Cancelled => (130, None),
        };
        Self::Told { message: message.to_string(), hint: hint.map(str::to_owned), code }
    }

    /// Something was asked for that can not be.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::of(ErrorKind::Invalid, message.into())
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Told { message: message.into(), hint: Some("`--help` shows how it is used".to_owned()), code: 2 }
    }

    /// A file of the user's can not be read or written.
    pub(crate) fn file(path: impl Display, error: &io::Error) -> Self {
        Self::of(ErrorKind::Invalid, format_args!("{path}: {error}"))
    }

    /// With other advice than the kind of the error would give.
    #[must_use]
    pub(crate) fn with_hint(self, advice: impl Into<String>) -> Self {
        match self {
            Self::Told { message, code, .. } => Self::Told { message, hint: Some(advice.into()), code },
            Self::Unheard => Self::Unheard,
        }
    }

    /// Where the advice for its kind does not help.
    #[must_use]
    pub(crate) fn without_hint(self) -> Self {
        match self {
            Self::Told { message, code, .. } => Self::Told { message, hint: None, code },
            Self::Unheard => Self::Unheard,
        }
    }

    /// Where the message itself says what helps.
    #[must_use]
    pub(crate) fn without_hint_if(self, names_remedy: bool) -> Self {
        if names_remedy { self.without_hint() } else { self }
    }

    /// With the place in a script in front: `load.sql:12: …`.
    #[must_use]
    pub(crate) fn at(self, source: &str, line: usize) -> Self {
        match self {
            Self::Told { message, hint, code } => {
                Self::Told { message: format!("{source}:{line}: {message}"), hint, code }
            }
            Self::Unheard => Self::Unheard,
        }
    }

    /// Tells it on stderr.
    pub(crate) fn tell(&self) {
        let Self::Told { message, hint, .. } = self else { return };
        let mut stderr = io::stderr().lock();
        // Where stderr is closed there is nobody left to tell.
        let _ = writeln!(stderr, "error: {message}");
        if let Some(hint) = hint {
            let _ = writeln!(stderr, "hint: {hint}");
        }
    }

    /// What the process ends with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Told { code, .. } => ExitCode::from(*code),
            Self::Unheard => ExitCode::SUCCESS,
        }
    }
}

/// Of writing to stdout; other files have [`Failure::file`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            IoErrorKind::BrokenPipe => Self::Unheard,
            _ => Self::of(ErrorKind::Unavailable, format_args!("the output can not be written: {error}")),
        }
    }
}

impl From<ishigaki_sql::Error> for Failure {
    fn from(error: ishigaki_sql::Error) -> Self {
        let names_remedy = error.names_remedy();
        Self::of(error.kind(), error).without_hint_if(names_remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure_to_tell() {
        let failure = Failure::from(io::Error::from(IoErrorKind::BrokenPipe));
        assert!(matches!(failure, Failure::Unheard));
        assert!(matches!(failure.at("a.sql", 1), Failure::Unheard));
    }

    #[test]
    fn the_place_in_a_script_comes_first() {
        let failure = Failure::invalid("no").at("a.sql", 3).with_hint("try");
        let Failure::Told { message, hint, code: 1 } = failure else { panic!("{failure:?}") };
        assert_eq!(message, "a.sql:3: no");
        assert_eq!(hint.as_deref(), Some("try"));
    }

    #[test]
    fn every_code_but_success_is_documented() {
        for kind in
            [ErrorKind::Invalid, ErrorKind::Unavailable, ErrorKind::Corrupt, ErrorKind::Conflict, ErrorKind::Cancelled]
        {
            let Failure::Told { code, .. } = Failure::of(kind, "x") else { panic!() };
            assert!(EXIT_CODES.contains(&format!("\n  {code:<3}  ")), "{code}");
        }
    }
}

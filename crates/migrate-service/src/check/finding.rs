//! One thing that is found.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The migration would not begin, or not end.
    Problem,
    /// It may go wrong.
    Warning,
    /// Worth to be known.
    Note,
}

/// Something that a person should know before a migration begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The setting that it is about, as the configuration file names it; `host` for this machine.
    pub about: String,
    /// What was found.
    pub message: String,
    /// What to do; empty where nothing is to be done.
    pub remedy: String,
}

impl Finding {
    fn new(severity: Severity, about: &str, message: impl Into<String>, remedy: &str) -> Self {
        Self { severity, about: about.to_owned(), message: message.into(), remedy: remedy.to_owned() }
    }

    pub(super) fn problem(about: &str, message: impl Into<String>, remedy: &str) -> Self {
        Self::new(Severity::Problem, about, message, remedy)
    }

    pub(super) fn warning(about: &str, message: impl Into<String>, remedy: &str) -> Self {
        Self::new(Severity::Warning, about, message, remedy)
    }

    pub(super) fn note(about: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, about, message, "")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Problem => "problem",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        write!(f, "{severity}: `{}`: {}", self.about, self.message)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

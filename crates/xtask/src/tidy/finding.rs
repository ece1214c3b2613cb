//! What `tidy` says about one place in the tree.

use std::fmt;

/// Something out of place: where, what, and how to mend it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    severity: Severity,
    file: String,
    line: usize,
    what: String,
    remedy: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Severity {
    Error,
    Warning,
}

impl Finding {
    /// Must be mended. `line` counts from 1.
    pub(crate) fn error(file: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Error, file: file.to_owned(), line, what: what.into(), remedy: remedy.into() }
    }

    /// Worth a thought.
    pub(crate) fn warning(file: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(file, line, what, remedy) }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}:{}: {severity}: {}\n    remedy: {}", self.file, self.line, self.what, self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_the_place_the_matter_and_the_remedy() {
        let finding = Finding::warning("a/b.rs", 7, "it leaks", "mend it");
        assert_eq!(finding.to_string(), "a/b.rs:7: warning: it leaks\n    remedy: mend it");
        assert!(!finding.is_error());
    }
}

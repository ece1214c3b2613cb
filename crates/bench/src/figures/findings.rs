//! What authors found beside what we see, as a page shows it. Each paper has its own rules.

use std::fmt::Write as _;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// What they say.
    pub(super) theirs: String,
    /// What we see.
    pub(super) ours: String,
    /// `None` if that is not for us to tell.
    pub(super) holds: Option<bool>,
}

/// Adds them to a page, theirs under the name of their work; nothing if there are none.
pub(super) fn beside(page: &mut String, title: &str, work: &str, findings: Vec<Finding>) {
    if findings.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n## {title}\n\n| {work} | here | holds |\n|---|---|---|");
    for finding in findings {
        let holds = match finding.holds {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "",
        };
        let _ = writeln!(page, "| {} | {} | {holds} |", finding.theirs, finding.ours);
    }
}

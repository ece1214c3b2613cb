//! What authors found beside what we see, as a page shows it. Each paper has its own rules.

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::Line;

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

/// How a figure compares with another one: less or more only where all of its rounds are.
pub(super) fn compare(own: &Line, other: &Line) -> Ordering {
    if own.max < other.min {
        Ordering::Less
    } else if own.min > other.max {
        Ordering::Greater
    } else {
        Ordering::Equal
    }
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

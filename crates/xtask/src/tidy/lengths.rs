//! One noun a file: a source file that outgrows a review is two files.

use super::finding::Finding;

/// From here on a file asks for a second look.
const REVIEW: usize = 500;
/// Beyond this it is split.
const LIMIT: usize = 600;

/// Judges one source file by its number of lines.
pub(crate) fn check(file: &str, lines: usize) -> Option<Finding> {
    if lines > LIMIT {
        let what = format!("the file has {lines} lines; at most {LIMIT} are allowed");
        Some(Finding::error(file, LIMIT + 1, what, "split it into `foo.rs` and `foo/`, one noun a file"))
    } else if lines > REVIEW {
        let what = format!("the file has {lines} lines; past {REVIEW} it deserves a review");
        Some(Finding::warning(file, REVIEW + 1, what, "see whether it holds two nouns"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_five_hundred_lines_passes() {
        assert_eq!(check("a.rs", 500), None);
    }

    #[test]
    fn a_file_past_five_hundred_lines_is_warned_about() {
        assert!(!check("a.rs", 501).unwrap().is_error());
        assert!(!check("a.rs", 600).unwrap().is_error());
    }

    #[test]
    fn a_file_past_six_hundred_lines_fails() {
        let finding = check("a.rs", 601).unwrap();
        assert!(finding.is_error());
        assert!(finding.to_string().starts_with("a.rs:601: error: the file has 601 lines"), "{finding}");
    }
}

//! What a person wrote into a page: it lies between two marks and stays when the page is drawn again.

/// The marks, each on a line of its own.
const BEGIN: &str = "<!-- by hand: this stays when the page is drawn again -->";
const END: &str = "<!-- end of what is by hand -->";

/// An empty place for notes.
pub(super) fn place() -> String {
    format!("{BEGIN}\n\n{END}\n")
}

/// The page with the notes of an earlier one. `None` if that one has no place for notes: whether any of it is by hand can
/// then not be told.
pub(super) fn keep(page: &str, earlier: &str) -> Option<String> {
    let notes = &earlier[span(earlier)?];
    let mut page = page.to_owned();
    page.replace_range(span(&page)?, notes);
    Some(page)
}

/// What lies between the marks.
fn span(page: &str) -> Option<std::ops::Range<usize>> {
    let begin = page.find(BEGIN)? + BEGIN.len();
    let end = begin + page[begin..].find(END)?;
    Some(begin..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_stay_and_all_else_is_the_new_page() {
        let page = |figure: u32| format!("# A page\n\n{}\n{figure}\n", place());
        let noted = page(1).replace(END, &format!("It is *so*.\n\n{END}"));
        let kept = keep(&page(2), &noted).unwrap();
        assert_eq!(kept, page(2).replace(END, &format!("It is *so*.\n\n{END}")));
        assert_eq!(keep(&page(3), &kept).unwrap(), kept.replace("\n2\n", "\n3\n"));
    }

    #[test]
    fn a_page_without_both_marks_in_their_order_has_no_notes() {
        for earlier in ["", "# A page", BEGIN, END, &format!("{END} {BEGIN}")] {
            assert_eq!(keep(&place(), earlier), None);
        }
    }
}

//! Links in documents that point into the repository must lead somewhere: to a file, and to a heading of it.
//!
//! A document is read once into its links and its anchors; then every link is followed. Links to other places (`https:`,
//! `mailto:`) are not: a test must not depend on somebody else's server. What stands in code is no link.

mod document;

use std::collections::BTreeMap;

use super::finding::Finding;
pub(crate) use document::Document;

/// Judges all documents of the tree at once; `exists` answers for a file or folder, by its path from the root.
pub(crate) fn check(documents: &[Document], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let by_path: BTreeMap<&str, &Document> = documents.iter().map(|document| (document.path(), document)).collect();
    let mut findings = Vec::new();
    for document in documents {
        for link in document.links() {
            if let Some((what, remedy)) = objection(document, &link.target, &by_path, &exists) {
                findings.push(Finding::error(document.path(), link.line, what, remedy));
            }
        }
    }
    findings
}

/// Why a link leads nowhere, and what to do about it; nothing if it leads somewhere.
fn objection(
    document: &Document,
    target: &str,
    documents: &BTreeMap<&str, &Document>,
    exists: impl Fn(&str) -> bool,
) -> Option<(String, String)> {
    if leaves_the_repository(target) {
        return None;
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let path = if path.is_empty() { Some(document.path().to_owned()) } else { resolve(document.path(), &decode(path)) };
    let Some(path) = path else {
        let what = format!("the link `{target}` points out of the repository");
        return Some((what, "link to something that everyone who has the repository has".into()));
    };
    if !exists(&path) {
        return Some((
            format!("the link `{target}` leads to `{path}`, which is not there"),
            "correct or remove the link".into(),
        ));
    }
    // Anchors are known of documents alone; `#L10` of a source file is the host's affair.
    let (Some(anchor), Some(goal)) = (anchor, documents.get(path.as_str())) else { return None };
    if goal.has_anchor(&decode(anchor)) {
        return None;
    }
    let remedy = match goal.nearest_anchor(anchor) {
        Some(nearest) => format!("`#{nearest}` is there; correct or remove the anchor"),
        None => "correct or remove the anchor".into(),
    };
    Some((format!("the link `{target}` leads to a heading that `{path}` does not have"), remedy))
}

/// True for `https://…`, `mailto:…` and the like: letters and a colon before anything else.
fn leaves_the_repository(target: &str) -> bool {
    target.starts_with("//")
        || target.split_once(':').is_some_and(|(scheme, _)| {
            scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        })
}

/// The path from the root of what `link` means in the document at `from`; none if that lies outside of the repository.
fn resolve(from: &str, link: &str) -> Option<String> {
    let (mut parts, link): (Vec<&str>, &str) = match link.strip_prefix('/') {
        Some(from_the_root) => (Vec::new(), from_the_root),
        None => (from.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev().collect(), link),
    };
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Undoes `%20` and the like.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = (first == b'%').then(|| tail.get(..2)).flatten().and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said about a tree of these documents and of one source file, `crates/x/src/lib.rs`.
    fn messages(tree: &[(&str, &str)]) -> Vec<String> {
        let documents: Vec<_> = tree.iter().map(|(path, text)| Document::read(path, text)).collect();
        let files: Vec<&str> =
            tree.iter().map(|(path, _)| *path).chain(["crates", "crates/x/src/lib.rs", "a b.md"]).collect();
        check(&documents, |path| files.contains(&path)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let tree = [
            (
                "README.md",
                "# Top\n[a](docs/a.md) [b](docs/a.md#one-two) [c](#top) [d](crates/) [e](a%20b.md) [f](<a b.md>)",
            ),
            (
                "docs/a.md",
                "## One, two!\n[up](../README.md#top \"title\") [root](/crates/x/src/lib.rs#L3) ![i](../crates/x/src/lib.rs)",
            ),
        ];
        assert_eq!(messages(&tree), [""; 0]);
    }

    #[test]
    fn other_peoples_servers_are_left_alone() {
        assert_eq!(messages(&[("a.md", "[a](https://example.org/x#y) [b](mailto:a@b.c) <https://x.y>")]), [""; 0]);
    }

    #[test]
    fn a_link_to_a_missing_file_is_an_error_at_its_line() {
        let found = messages(&[("docs/a.md", "text\n\nsee [b](b.md)")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("docs/a.md:3: error: the link `b.md` leads to `docs/b.md`"), "{found:?}");
    }

    #[test]
    fn a_link_to_a_missing_heading_is_an_error_that_names_the_nearest() {
        let found = messages(&[("a.md", "# The watermark\n[w](#the-watermarks)")]);
        assert!(found.len() == 1 && found[0].contains("`#the-watermark` is there"), "{found:?}");
    }

    #[test]
    fn a_link_out_of_the_repository_is_an_error() {
        let found = messages(&[("docs/a.md", "[x](../../secret.md)")]);
        assert!(found.len() == 1 && found[0].contains("out of the repository"), "{found:?}");
    }

    #[test]
    fn definitions_and_html_are_links_too() {
        assert_eq!(
            messages(&[("a.md", "[x]: gone.md\n\n<img src=\"gone.svg\"> <a href=\"gone.html\">x</a>")]).len(),
            3
        );
    }
}

//! Statements as trees of text, which can be made smaller in steps.
//!
//! A generator puts a statement together from [`Part`]s and says of each what it may do without: a clause that may be left out, a
//! list of which items may, a value that another value of the same family may replace. So the shrinker needs to know no SQL: it
//! tries every smaller tree, and keeps one that fails in the same way.

use crate::kind::Family;

/// A piece of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) sort: Sort,
    pub(crate) parts: Vec<Part>,
}

/// By what a tree may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Nothing.
    Words,
    /// A value of that family.
    Value(Family),
    /// A query with as many columns.
    Query(usize),
}

/// What a tree is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    /// What has two spellings.
    Differs {
        ours: String,
        theirs: String,
    },
    /// Where a paged table's pages are: other folders each time that a script is run.
    Place(Where),
    Tree(Tree),
    /// What may be left out.
    Maybe(Tree),
    /// Items, of which some may be left out.
    List {
        separator: &'static str,
        items: Vec<Tree>,
        least: usize,
    },
}

/// Where pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Here,
    AtTheNode,
    /// Some here, some at the node.
    Both,
}

/// The folders for pages.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) here: String,
    pub(crate) node: String,
}

impl Places {
    /// As they are shown to people.
    pub(crate) fn shown() -> Self {
        Self { here: "/tmp/sqldiff-pages".to_owned(), node: "node://127.0.0.1:7117/sqldiff-pages".to_owned() }
    }
}

/// For which side a statement is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side<'a> {
    /// With the folders for pages.
    Ours(&'a Places),
    Theirs,
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Tree> for Part {
    fn from(tree: Tree) -> Self {
        Self::Tree(tree)
    }
}

/// A tree of these parts: `tree!(Sort::Words; "DELETE FROM ", name, clause)`.
macro_rules! tree {
    ($sort:expr; $($part:expr),* $(,)?) => {
        $crate::tree::Tree { sort: $sort, parts: vec![$($crate::tree::Part::from($part)),*] }
    };
}
pub(crate) use tree;

impl Tree {
    /// A value that is written so.
    pub(crate) fn value(family: Family, text: impl Into<String>) -> Self {
        Self { sort: Sort::Value(family), parts: vec![Part::Text(text.into())] }
    }

    /// Words that stay as they are.
    pub(crate) fn words(text: impl Into<String>) -> Self {
        Self { sort: Sort::Words, parts: vec![Part::Text(text.into())] }
    }

    /// As SQL.
    pub(crate) fn sql(&self, side: Side<'_>) -> String {
        let mut text = String::new();
        self.write(side, &mut text);
        text
    }

    fn write(&self, side: Side<'_>, to: &mut String) {
        for part in &self.parts {
            match (part, side) {
                (Part::Text(text), _) => to.push_str(text),
                (Part::Differs { ours, .. }, Side::Ours(_)) => to.push_str(ours),
                (Part::Differs { theirs, .. }, Side::Theirs) => to.push_str(theirs),
                (Part::Place(Where::Here), Side::Ours(places)) => to.push_str(&places.here),
                (Part::Place(Where::AtTheNode), Side::Ours(places)) => to.push_str(&places.node),
                (Part::Place(Where::Both), Side::Ours(Places { here, node })) => {
                    to.push_str(&[here.as_str(), ", ", node].concat());
                }
                (Part::Place(_), Side::Theirs) => {}
                (Part::Tree(inner) | Part::Maybe(inner), _) => inner.write(side, to),
                (Part::List { separator, items, .. }, _) => {
                    for (number, item) in items.iter().enumerate() {
                        if number > 0 {
                            to.push_str(separator);
                        }
                        item.write(side, to);
                    }
                }
            }
        }
    }

    /// All trees that are one step smaller, the largest steps of each place first.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        if self.parts.iter().any(|part| !matches!(part, Part::Text(_))) || self.is_long() {
            self.inside(self.sort, &mut found);
            if let Sort::Value(family) = self.sort {
                found.extend(family.simplest().map(|text| Self::value(family, text)));
            }
        }
        for (at, part) in self.parts.iter().enumerate() {
            let mut put = |part: Part| {
                let mut tree = self.clone();
                tree.parts[at] = part;
                found.push(tree);
            };
            match part {
                Part::Tree(inner) => inner.smaller().into_iter().for_each(|inner| put(Part::Tree(inner))),
                Part::Maybe(inner) => {
                    put(Part::Text(String::new()));
                    inner.smaller().into_iter().for_each(|inner| put(Part::Maybe(inner)));
                }
                Part::List { separator, items, least } => {
                    let list = |items| Part::List { separator, items, least: *least };
                    for rest in fewer(items, *least) {
                        put(list(rest));
                    }
                    for (number, item) in items.iter().enumerate() {
                        for smaller in item.smaller() {
                            let mut items = items.clone();
                            items[number] = smaller;
                            put(list(items));
                        }
                    }
                }
                Part::Text(_) | Part::Differs { .. } | Part::Place(_) => {}
            }
        }
        found
    }

    fn is_long(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Text(text)] if text.len() > 8)
    }

    /// The topmost trees below this one that could take its place.
    fn inside(&self, sort: Sort, found: &mut Vec<Self>) {
        if sort == Sort::Words {
            return;
        }
        let mut look =
            |tree: &Self| if tree.sort == sort { found.push(tree.clone()) } else { tree.inside(sort, found) };
        for part in &self.parts {
            match part {
                Part::Tree(inner) | Part::Maybe(inner) => look(inner),
                Part::List { items, .. } => items.iter().for_each(&mut look),
                Part::Text(_) | Part::Differs { .. } | Part::Place(_) => {}
            }
        }
    }
}

/// Lists without some of their items: first without one half, at last without single ones.
pub(crate) fn fewer<T: Clone>(items: &[T], least: usize) -> Vec<Vec<T>> {
    let mut found = Vec::new();
    let mut size = items.len().div_ceil(2);
    while size > 0 {
        for start in (0..items.len()).step_by(size) {
            let end = (start + size).min(items.len());
            if items.len() - (end - start) >= least {
                found.push(items[..start].iter().chain(&items[end..]).cloned().collect());
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_smaller_tree_leaves_something_out_or_replaces_it() {
        let sum = tree!(Sort::Value(Family::Integer); Tree::value(Family::Integer, "a"), " + ", Tree::value(Family::Integer, "b"));
        let list =
            Part::List { separator: ", ", items: vec![sum.clone(), Tree::value(Family::Integer, "c")], least: 1 };
        let tree = tree!(Sort::Words; "SELECT ", list, Part::Maybe(Tree::words(" LIMIT 1")));
        assert_eq!(tree.sql(Side::Theirs), "SELECT a + b, c LIMIT 1");
        let all: Vec<String> = tree.smaller().iter().map(|tree| tree.sql(Side::Theirs)).collect();
        for expected in [
            "SELECT a + b, c",
            "SELECT c LIMIT 1",
            "SELECT a + b LIMIT 1",
            "SELECT a, c LIMIT 1",
            "SELECT b, c LIMIT 1",
        ] {
            assert!(all.contains(&expected.to_owned()), "{expected}: {all:?}");
        }
    }

    #[test]
    fn what_has_two_spellings_is_written_for_each_side() {
        let tree = tree!(Sort::Words; Part::Differs { ours: "x".into(), theirs: "y".into() }, Part::Place(Where::Here));
        let places = Places { here: "/p".to_owned(), node: String::new() };
        assert_eq!((tree.sql(Side::Ours(&places)), tree.sql(Side::Theirs)), ("x/p".to_owned(), "y".to_owned()));
    }
}

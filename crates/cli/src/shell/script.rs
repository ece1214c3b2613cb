//! Cuts text into statements, line by line, so that the first statement runs before the last one was read.
//!
//! It knows just enough of SQL to see where a statement ends: a semicolon that stands in no string, quoted name, comment
//! or dollar-quoted text. Whether it is SQL at all is for the parser to say. A line that begins with a dot where a
//! statement could begin is a command to the shell.

/// What a script consists of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A statement without its semicolon.
    Statement {
        text: String,
        /// Where it begins; counts from 1.
        line: usize,
    },
    /// A command to the shell, with its dot.
    Command {
        text: String,
        /// Counts from 1.
        line: usize,
    },
}

/// A script while it is read.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Of the statement that has begun; empty between statements.
    text: String,
    /// Where that statement began.
    begin: usize,
    /// Lines read so far.
    lines: usize,
    inside: Inside,
}

/// What the next character stands in.
#[derive(Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Nothing,
    /// `'…'`, where a doubled quote closes and opens again; in `E'…'` a backslash takes the next character along.
    String { escapes: bool },
    /// `"…"`
    Name,
    /// `/* … */`, which nests.
    Comment { depth: usize },
    /// `$tag$ … $tag$`; the mark is kept with both dollars.
    Dollars { mark: String },
}

impl Script {
    /// Takes the next line and returns what ends in it.
    pub(crate) fn line(&mut self, line: &str) -> Vec<Item> {
        self.lines += 1;
        let between = self.text.is_empty() && self.inside == Inside::Nothing;
        if between && line.trim_start().starts_with('.') {
            return vec![Item::Command { text: line.trim().to_owned(), line: self.lines }];
        }
        let mut items = Vec::new();
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            rest = match std::mem::take(&mut self.inside) {
                Inside::Nothing => self.step(first, rest, &mut items),
                Inside::String { escapes } => {
                    let taken = if escapes && first == '\\' { two(rest) } else { first.len_utf8() };
                    if first != '\'' {
                        self.inside = Inside::String { escapes };
                    }
                    self.keep(rest, taken)
                }
                Inside::Name => {
                    if first != '"' {
                        self.inside = Inside::Name;
                    }
                    self.keep(rest, first.len_utf8())
                }
                Inside::Comment { depth } => self.comment(depth, rest),
                Inside::Dollars { mark } => {
                    if rest.starts_with(&mark) {
                        self.keep(rest, mark.len())
                    } else {
                        self.inside = Inside::Dollars { mark };
                        self.keep(rest, first.len_utf8())
                    }
                }
            };
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        items
    }

    /// The last statement, if the script ends without its semicolon.
    pub(crate) fn finish(&mut self) -> Option<Item> {
        self.inside = Inside::Nothing;
        self.end()
    }

    /// True when nothing is open: the next line may begin something new.
    pub(crate) fn is_between_statements(&self) -> bool {
        self.text.is_empty() && self.inside == Inside::Nothing
    }

    /// One step outside of everything that quotes.
    fn step<'l>(&mut self, first: char, rest: &'l str, items: &mut Vec<Item>) -> &'l str {
        if first == ';' {
            items.extend(self.end());
            return &rest[1..];
        }
        if rest.starts_with("--") {
            return "";
        }
        if rest.starts_with("/*") {
            self.inside = Inside::Comment { depth: 1 };
            return self.keep_if_begun(rest, 2);
        }
        if first.is_whitespace() {
            return self.keep_if_begun(rest, first.len_utf8());
        }
        if first == '\'' {
            self.inside = Inside::String { escapes: self.text.ends_with(['e', 'E']) && !self.ends_in_a_word() };
        } else if first == '"' {
            self.inside = Inside::Name;
        } else if let Some(mark) = dollar_mark(rest).filter(|_| !self.text.ends_with(is_word)) {
            self.inside = Inside::Dollars { mark: mark.to_owned() };
            return self.keep(rest, mark.len());
        }
        self.keep(rest, first.len_utf8())
    }

    fn comment<'l>(&mut self, depth: usize, rest: &'l str) -> &'l str {
        let (depth, taken) = if rest.starts_with("/*") {
            (depth + 1, 2)
        } else if rest.starts_with("*/") {
            (depth - 1, 2)
        } else {
            (depth, rest.chars().next().map_or(0, char::len_utf8))
        };
        if depth > 0 {
            self.inside = Inside::Comment { depth };
        }
        self.keep_if_begun(rest, taken)
    }

    /// Moves the first `taken` bytes of `rest` to the statement.
    fn keep<'l>(&mut self, rest: &'l str, taken: usize) -> &'l str {
        if self.text.is_empty() {
            self.begin = self.lines;
        }
        self.text.push_str(&rest[..taken]);
        &rest[taken..]
    }

    /// Space and comments before a statement are no part of it.
    fn keep_if_begun<'l>(&mut self, rest: &'l str, taken: usize) -> &'l str {
        if self.text.is_empty() { &rest[taken..] } else { self.keep(rest, taken) }
    }

    fn end(&mut self) -> Option<Item> {
        let text = std::mem::take(&mut self.text).trim_end().to_owned();
        (!text.is_empty()).then_some(Item::Statement { text, line: self.begin })
    }

    /// Whether an `E` at the end is the last letter of a longer word rather than the mark of an escape string.
    fn ends_in_a_word(&self) -> bool {
        self.text.chars().rev().nth(1).is_some_and(is_word)
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// Bytes of the first two characters.
fn two(text: &str) -> usize {
    text.chars().take(2).map(char::len_utf8).sum()
}

/// `$$` or `$tag$` at the beginning.
fn dollar_mark(text: &str) -> Option<&str> {
    let tag = text.strip_prefix('$')?;
    let end = tag.find('$')?;
    let is_tag = tag[..end].chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_parameter = tag.starts_with(|c: char| c.is_ascii_digit());
    (is_tag && !is_parameter).then(|| &text[..end + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Vec<Item> {
        let mut script = Script::default();
        let mut items: Vec<Item> = text.lines().flat_map(|line| script.line(line)).collect();
        items.extend(script.finish());
        items
    }

    fn texts(script: &str) -> Vec<String> {
        let text = |item| match item {
            Item::Statement { text, .. } | Item::Command { text, .. } => text,
        };
        items(script).into_iter().map(text).collect()
    }

    #[test]
    fn semicolons_end_statements_and_the_last_needs_none() {
        assert_eq!(texts("SELECT 1; SELECT\n2;;\n;SELECT 3"), ["SELECT 1", "SELECT\n2", "SELECT 3"]);
    }

    #[test]
    fn semicolons_in_quotes_and_comments_end_nothing() {
        assert_eq!(
            texts("SELECT 'a;''b;' , \"c;\" /* d; /* e; */ f; */ ;g"),
            ["SELECT 'a;''b;' , \"c;\" /* d; /* e; */ f; */", "g"]
        );
        assert_eq!(texts("SELECT $$a;$$, $x$b;$$;$x$; c"), ["SELECT $$a;$$, $x$b;$$;$x$", "c"]);
        assert_eq!(texts("SELECT 1 -- not; here\n+ 1; b"), ["SELECT 1 \n+ 1", "b"]);
    }

    #[test]
    fn a_backslash_escapes_only_in_strings_marked_so() {
        assert_eq!(texts(r"SELECT E'a\';b'; c"), [r"SELECT E'a\';b'", "c"]);
        assert_eq!(texts(r"SELECT 'a\'; c"), [r"SELECT 'a\'", "c"]);
        assert_eq!(texts(r"SELECT CASE'a\'; c"), [r"SELECT CASE'a\'", "c"]);
    }

    #[test]
    fn strings_go_on_over_lines_and_parameters_are_no_quotes() {
        assert_eq!(texts("SELECT 'a\n;b'; c"), ["SELECT 'a\n;b'", "c"]);
        assert_eq!(texts("SELECT $1; SELECT $2"), ["SELECT $1", "SELECT $2"]);
    }

    #[test]
    fn text_beyond_ascii_is_kept() {
        assert_eq!(texts("SELECT '石垣;' ; é"), ["SELECT '石垣;'", "é"]);
    }

    #[test]
    fn lines_are_counted_from_the_first_word_of_a_statement() {
        assert_eq!(
            items("\n-- comment\n\nSELECT\n1;\n.help\n"),
            [Item::Statement { text: "SELECT\n1".into(), line: 4 }, Item::Command { text: ".help".into(), line: 6 }]
        );
    }

    #[test]
    fn a_dot_within_a_statement_is_no_command() {
        assert_eq!(texts("SELECT 0\n.5;\n  .quit"), ["SELECT 0\n.5", ".quit"]);
    }

    #[test]
    fn what_is_open_is_seen() {
        for open in ["SELECT 1", "SELECT 'a;", "/* a;", "SELECT \"a;", "SELECT $$;"] {
            let mut script = Script::default();
            assert_eq!(script.line(open), []);
            assert!(!script.is_between_statements(), "{open}");
        }
        for complete in ["SELECT 1;", "", "-- a", "/* a */", ".help"] {
            let mut script = Script::default();
            script.line(complete);
            assert!(script.is_between_statements(), "{complete}");
        }
    }

    #[test]
    fn only_comments_are_no_statement() {
        assert_eq!(texts("-- a\n/* b */ ; -- c"), [""; 0]);
    }
}

//! One document, reduced to its links and its anchors.

use std::collections::BTreeMap;

/// What [`super::check`] needs to know of one document.
pub(crate) struct Document {
    path: String,
    links: Vec<Link>,
    anchors: Vec<String>,
}

/// Where a document points to.
pub(crate) struct Link {
    /// Counts from 1.
    pub(crate) line: usize,
    /// As written: a path, an anchor, both, or an address.
    pub(crate) target: String,
}

impl Document {
    /// Reads the text of the document at `path`.
    pub(crate) fn read(path: &str, text: &str) -> Self {
        let mut document = Self { path: path.to_owned(), links: Vec::new(), anchors: Vec::new() };
        let mut slugs = BTreeMap::new();
        let mut fence: Option<&str> = None;
        let mut previous = "";
        for (index, line) in text.lines().enumerate() {
            if let Some(open) = fence {
                if fence_of(line).is_some_and(|mark| mark.starts_with(open) && line.trim().len() == mark.len()) {
                    fence = None;
                }
                continue;
            }
            fence = fence_of(line);
            if fence.is_none() {
                document.read_line(index + 1, line);
                if let Some(heading) = heading_of(line, previous) {
                    let slug = numbered(&mut slugs, slug_of(heading));
                    document.anchors.push(slug);
                }
            }
            previous = line;
        }
        document
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn links(&self) -> &[Link] {
        &self.links
    }

    pub(crate) fn has_anchor(&self, anchor: &str) -> bool {
        self.anchors.iter().any(|known| known == anchor)
    }

    /// The anchor that shares the longest beginning with `wanted`, for a hint.
    pub(crate) fn nearest_anchor(&self, wanted: &str) -> Option<&str> {
        let shared = |anchor: &str| anchor.bytes().zip(wanted.bytes()).take_while(|(a, b)| a == b).count();
        let nearest = self.anchors.iter().max_by_key(|anchor| shared(anchor))?;
        (shared(nearest) > 2).then_some(nearest)
    }

    fn read_line(&mut self, line: usize, text: &str) {
        let text = &without_code(text);
        let mut add = |target: &str| {
            if !target.is_empty() {
                self.links.push(Link { line, target: target.to_owned() });
            }
        };
        text.match_indices("](").for_each(|(at, _)| add(target_of(&text[at + 2..])));
        if let Some(definition) = definition_of(text) {
            add(definition);
        }
        for attribute in ["href=\"", "src=\""] {
            for (at, _) in text.match_indices(attribute) {
                add(text[at + attribute.len()..].split('"').next().unwrap_or_default());
            }
        }
        for attribute in [" id=\"", " name=\""] {
            for (at, _) in text.match_indices(attribute) {
                self.anchors.extend(text[at + attribute.len()..].split('"').next().map(str::to_owned));
            }
        }
    }
}

/// The run of backticks or tildes that opens or closes a block of code.
fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    // Backticks after the opening ones mean code within a line.
    (length >= 3 && (mark == '~' || !line[length..].contains('`'))).then(|| &line[..length])
}

/// The line with everything between backticks blanked out, byte for byte.
fn without_code(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        let after = &rest[start + ticks..];
        kept.push_str(&rest[..start]);
        let Some(end) = closing(after, ticks) else {
            rest = after;
            continue;
        };
        kept.extend(std::iter::repeat_n(' ', ticks + end + ticks));
        rest = &after[end + ticks..];
    }
    kept + rest
}

/// Where a run of exactly `ticks` backticks begins.
fn closing(text: &str, ticks: usize) -> Option<usize> {
    let mut from = 0;
    while let Some(start) = text[from..].find('`').map(|at| from + at) {
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        if run == ticks {
            return Some(start);
        }
        from = start + run;
    }
    None
}

/// What stands in the parentheses of a link, without its title.
fn target_of(text: &str) -> &str {
    let text = text.trim_start();
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split('>').next().unwrap_or_default();
    }
    let mut depth = 0;
    let end = text.find(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth < 0 || c.is_whitespace()
    });
    &text[..end.unwrap_or(text.len())]
}

/// The target of `[label]: target`; footnotes are none.
fn definition_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if !line.starts_with('[') || line.starts_with("[^") {
        return None;
    }
    let (label, target) = line.split_once("]:")?;
    (!label.contains(']')).then(|| target_of(target))
}

/// The text of a heading: after hashes, or what stands on the line before a line of `=` or `-`.
fn heading_of<'l>(line: &'l str, previous: &'l str) -> Option<&'l str> {
    let trimmed = line.trim();
    let hashes = trimmed.len() - trimmed.trim_start_matches('#').len();
    let after = &trimmed[hashes..];
    if (1..=6).contains(&hashes) && (after.is_empty() || after.starts_with(' ')) {
        return Some(after.trim().trim_end_matches('#').trim());
    }
    let underlined = |mark| !trimmed.is_empty() && trimmed.chars().all(|c| c == mark);
    let is_text = !previous.trim().is_empty() && !previous.trim_start().starts_with(['#', '>', '|', '-']);
    ((underlined('=') || underlined('-')) && is_text).then(|| previous.trim())
}

/// The anchor that hosts make of a heading: letters, digits, `-` and `_`, in lower case, a dash for each space.
fn slug_of(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    // Of a link only its words count.
    while let Some((before, link)) = rest.split_once('[') {
        text.push_str(before);
        match link.split_once("](") {
            Some((words, tail)) => {
                text.push_str(words);
                rest = tail.split_once(')').map_or("", |(_, after)| after);
            }
            None => rest = link,
        }
    }
    text.push_str(rest);
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The second heading of the same words gets `-1`, the third `-2`.
fn numbered(seen: &mut BTreeMap<String, usize>, slug: String) -> String {
    let count = seen.entry(slug.clone()).or_insert(0);
    *count += 1;
    if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        Document::read("a.md", text).links.into_iter().map(|link| link.target).collect()
    }

    #[test]
    fn what_stands_in_code_is_no_link() {
        assert_eq!(targets("`[a](b)` ``x ` [c](d)`` [e](f) `open [g](h)"), ["f", "h"]);
        assert_eq!(targets("```\n[a](b)\n~~~\n```\n[c](d)\n~~~~ text\n```\n~~~\n[e](f)\n~~~~\n[g](h)"), ["d", "h"]);
    }

    #[test]
    fn titles_brackets_and_parentheses_are_understood() {
        assert_eq!(targets("[a](b \"title\") [c](<d e>) [f](g(h)) ![i](j)"), ["b", "d e", "g(h)", "j"]);
        assert_eq!(targets("[label]: target 'title'\n[^note]: words"), ["target"]);
    }

    #[test]
    fn anchors_are_made_as_hosts_make_them() {
        let text =
            "# The Log's `format`, v1\n## A [link](x.md) here ##\n# Twice\n# Twice\nUnder\n=====\n<a id=\"own\"></a>";
        let document = Document::read("a.md", text);
        assert_eq!(document.anchors, ["the-logs-format-v1", "a-link-here", "twice", "twice-1", "under", "own"]);
    }

    #[test]
    fn a_hash_in_code_or_without_a_space_is_no_heading() {
        let document = Document::read("a.md", "```\n# comment\n```\n#hash\n| a |\n---\n");
        assert_eq!(document.anchors, [""; 0]);
    }
}

//! Figures in Prometheus' words (text format 0.0.4).

use std::fmt::{self, Display, Write};

use hdrhistogram::Histogram;

/// In front of every name.
const PREFIX: &str = "ishigaki_";

/// A page of figures, written one after the other.
///
/// ```
/// use ishigaki_service::Page;
///
/// let mut page = Page::default();
/// page.figure("files", "gauge", "Files that are known", 3)?;
/// assert_eq!(page.text(), "# HELP ishigaki_files Files that are known.\n# TYPE ishigaki_files gauge\nishigaki_files 3\n");
/// # Ok::<(), std::fmt::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// What is on it.
    pub fn text(self) -> String {
        self.text
    }

    /// What a name means, before its values. The kind is `gauge`, `counter` or `histogram`; the help has no full stop.
    ///
    /// # Errors
    ///
    /// None: writing to memory does not fail.
    pub fn head(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        writeln!(self.text, "# HELP {PREFIX}{name} {help}.\n# TYPE {PREFIX}{name} {kind}")
    }

    /// A figure that there is once.
    ///
    /// # Errors
    ///
    /// As [`head`](Self::head).
    pub fn figure(&mut self, name: &str, kind: &str, help: &str, value: impl Display) -> fmt::Result {
        self.head(name, kind, help)?;
        writeln!(self.text, "{PREFIX}{name} {value}")
    }

    /// A value of a name that has several, told apart by a label.
    ///
    /// # Errors
    ///
    /// As [`head`](Self::head).
    pub fn labelled(&mut self, name: &str, label: &str, of: &str, value: impl Display) -> fmt::Result {
        let of = of.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        writeln!(self.text, "{PREFIX}{name}{{{label}=\"{of}\"}} {value}")
    }

    /// Buckets count all values up to their end. The label is written whole (`member="a"`), or empty; ends and sum are divided by the unit.
    ///
    /// # Errors
    ///
    /// As [`head`](Self::head).
    pub fn histogram(
        &mut self,
        name: &str,
        label: &str,
        values: &Histogram<u64>,
        ends: &[u64],
        unit: f64,
    ) -> fmt::Result {
        let comma = if label.is_empty() { "" } else { "," };
        for &end in ends {
            let (count, end) = (values.count_between(0, end), end as f64 / unit);
            writeln!(self.text, "{PREFIX}{name}_bucket{{{label}{comma}le=\"{end}\"}} {count}")?;
        }
        let braces = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
        let (count, sum) = (values.len(), values.mean() * values.len() as f64 / unit);
        writeln!(self.text, "{PREFIX}{name}_bucket{{{label}{comma}le=\"+Inf\"}} {count}")?;
        writeln!(self.text, "{PREFIX}{name}_sum{braces} {sum}\n{PREFIX}{name}_count{braces} {count}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_everything_up_to_their_end() {
        let mut values = Histogram::<u64>::new(3).unwrap();
        for value in [1, 2, 2, 100] {
            values.record(value).unwrap();
        }
        let mut page = Page::default();
        page.histogram("x", "member=\"a\"", &values, &[1, 2, 8], 1.0).unwrap();
        let expected = "\
ishigaki_x_bucket{member=\"a\",le=\"1\"} 1
ishigaki_x_bucket{member=\"a\",le=\"2\"} 3
ishigaki_x_bucket{member=\"a\",le=\"8\"} 3
ishigaki_x_bucket{member=\"a\",le=\"+Inf\"} 4
ishigaki_x_sum{member=\"a\"} 105
ishigaki_x_count{member=\"a\"} 4
";
        assert_eq!(page.text(), expected);
    }

    #[test]
    fn ends_of_buckets_are_said_in_their_unit() {
        let mut page = Page::default();
        page.histogram("x", "", &Histogram::new(3).unwrap(), &[20_000], 1e9).unwrap();
        let text = page.text();
        assert!(text.starts_with("ishigaki_x_bucket{le=\"0.00002\"} 0\n"), "{text}");
        assert!(text.ends_with("ishigaki_x_sum 0\nishigaki_x_count 0\n"), "{text}");
    }

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.labelled("x", "source", "a\"b\\c\nd", 1).unwrap();
        assert_eq!(page.text(), "ishigaki_x{source=\"a\\\"b\\\\c\\nd\"} 1\n");
    }
}

//! Lines by their cases: what a page and its charts ask of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::chart::{Point, Series};
use super::units::Unit;
use crate::{Line, Metric};

/// What the case of a line says about a key, as text.
pub(super) fn text(line: &Line, key: &str) -> String {
    line.case.get(key).map_or_else(String::new, |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// What it says as a number; 0 where it says none.
pub(super) fn number(line: &Line, key: &str) -> f64 {
    line.case.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

/// The different texts that they give for a key, in the order of the lines.
pub(super) fn texts<'a>(lines: impl IntoIterator<Item = &'a Line>, key: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for text in lines.into_iter().map(|line| text(line, key)) {
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// The different numbers that they give for a key, the least first.
pub(super) fn numbers(lines: &[&Line], key: &str) -> Vec<u64> {
    let mut numbers: Vec<u64> = lines.iter().map(|line| number(line, key) as u64).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Each machine with each source, once, as rows of a table.
pub(super) fn machines(lines: &[Line]) -> String {
    let mut rows: Vec<String> = Vec::new();
    for Line { machine, commit, .. } in lines {
        let row = format!("| ours | {machine}; source {commit} |\n");
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows.concat()
}

/// Those of one metric.
pub(super) fn with<'a>(lines: &[&'a Line], metric: Metric) -> Vec<&'a Line> {
    lines.iter().filter(|line| line.metric == metric).copied().collect()
}

/// The figures of one case, by metric.
pub(super) struct Figures<'a>(pub(super) Vec<&'a Line>);

impl Figures<'_> {
    pub(super) fn median(&self, metric: Metric) -> Option<f64> {
        self.0.iter().find(|line| line.metric == metric).map(|line| line.median)
    }

    pub(super) fn show(&self, metric: Metric, unit: Unit) -> String {
        self.median(metric).map_or_else(String::new, |value| unit.show(value))
    }
}

/// The cases of these lines, in their order.
pub(super) fn cases<'a>(lines: &[&'a Line]) -> Vec<Figures<'a>> {
    let mut cases: Vec<Figures<'a>> = Vec::new();
    for line in lines {
        match cases.iter_mut().find(|case| case.0[0].case == line.case) {
            Some(case) => case.0.push(line),
            None => cases.push(Figures(vec![line])),
        }
    }
    cases
}

/// Series by what `key` says of a line, each with its points in the order of `x`.
pub(super) fn series(lines: &[&Line], key: impl Fn(&Line) -> String, x: &str) -> Vec<Series> {
    let mut groups: Vec<(String, BTreeMap<u64, Point>)> = Vec::new();
    for line in lines {
        let (key, x) = (key(line), number(line, x));
        let place = groups.iter().position(|(name, _)| *name == key).unwrap_or_else(|| {
            groups.push((key, BTreeMap::new()));
            groups.len() - 1
        });
        groups[place].1.insert(x.to_bits(), Point { x, y: line.median, low: line.min, high: line.max });
    }
    let named = |(colour, (name, points)): (usize, (String, BTreeMap<u64, Point>))| Series {
        name,
        points: points.into_values().collect(),
        colour,
        dashed: false,
    };
    groups.into_iter().enumerate().map(named).collect()
}

/// The name of a chart's file: letters, digits and lines.
pub(super) fn file_name(parts: &[&str]) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    parts.join("-").chars().map(plain).collect()
}

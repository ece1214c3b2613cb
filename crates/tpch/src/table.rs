//! The figures of a run for a person: a row for each query and placement.

use std::fmt::Write as _;

use ishigaki_bench::figures::Unit;
use ishigaki_bench::{Case, Line, Metric, columns};
use serde_json::Value;

/// A row for each query and placement: how long it took, how that compares with the same query on this machine's own pages,
/// what it took of both sides' processors, and how much came over the network.
pub fn table(lines: &[Line]) -> String {
    let mut text = String::new();
    let Some(first) = lines.first() else { return text };
    let word = |key| word(&first.case, key);
    let memory = first.case.get("page_memory").and_then(Value::as_u64).unwrap_or(0);
    let kept = if memory == 0 { "none kept in memory".to_owned() } else { format!("{} kept", bytes(memory as f64)) };
    let _ = writeln!(text, "TPC-H at scale {}, pages of {}, {kept}", word("scale"), word("page"));
    let _ = writeln!(text, "{}, source {}, seed {}", first.machine, first.commit, first.seed);
    let heads = ["query", "placement", "time", "spread", "over local", "client CPU", "node CPU", "received", "answer"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(lines.iter().filter(|line| line.metric == Metric::LatencyP50).map(|time| row(lines, time)));
    text + &columns(&rows, &[1, 8])
}

fn row(lines: &[Line], time: &Line) -> [String; 9] {
    let median = |metric, key: &str, value: &str| {
        let of_it = |line: &&Line| line.metric == metric && is_of(&line.case, &time.case, key, value);
        lines.iter().find(of_it).map(|line| line.median)
    };
    let shown = |value: Option<f64>, unit: Unit| value.map_or_else(String::new, |value| unit.show(value));
    let chosen = word(&time.case, "chosen");
    let placement = word(&time.case, "placement");
    [
        word(&time.case, "query"),
        if chosen.is_empty() || chosen == placement { placement } else { format!("{placement}: {chosen}") },
        Unit::Time.show(time.median),
        format!("{} - {}", Unit::Time.show(time.min), Unit::Time.show(time.max)),
        median(Metric::Ratio, "of", "time over local").map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        shown(median(Metric::Processor, "side", "client"), Unit::Time),
        shown(median(Metric::Processor, "side", "node"), Unit::Time),
        median(Metric::BytesReceived, "", "").map_or_else(String::new, bytes),
        word(&time.case, "checked"),
    ]
}

/// Whether a case is another one with one key more.
fn is_of(case: &Case, whole: &Case, key: &str, value: &str) -> bool {
    let mut with = whole.clone();
    if !key.is_empty() {
        with.insert(key.to_owned(), value.into());
    }
    *case == with
}

fn word(case: &Case, key: &str) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    case.get(key).map_or_else(String::new, text)
}

fn bytes(count: f64) -> String {
    ishigaki_base::ByteSize(count as u64).to_string()
}

#[cfg(test)]
mod tests {
    use ishigaki_base::random::Seed;
    use ishigaki_bench::Origin;

    use super::*;

    #[test]
    fn each_placement_has_a_row_with_both_sides() {
        let origin = Origin { machine: "a machine".into(), commit: "abc".into(), seed: Seed(7) };
        let case = |placement: &str, more: Option<(&str, &str)>| {
            let mut case = Case::from_iter([
                ("query".to_owned(), 6.into()),
                ("scale".to_owned(), "1".into()),
                ("placement".to_owned(), placement.into()),
                ("page_memory".to_owned(), 0.into()),
            ]);
            case.extend(more.map(|(key, value)| (key.to_owned(), value.into())));
            case
        };
        let line = |case, metric, value| Line::new("tpch", case, metric, vec![value], &origin);
        let lines = [
            line(case("local", None), Metric::LatencyP50, 0.1),
            line(case("local", Some(("side", "client"))), Metric::Processor, 0.15),
            line(case("push", None), Metric::LatencyP50, 0.2),
            line(case("push", Some(("side", "client"))), Metric::Processor, 0.01),
            line(case("push", Some(("side", "node"))), Metric::Processor, 0.3),
            line(case("push", None), Metric::BytesReceived, 2048.0),
            line(case("push", Some(("of", "time over local"))), Metric::Ratio, 2.0),
        ];
        let text = table(&lines);
        let rows: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(rows.len(), 2, "{text}");
        for word in ["push", "200 ms", "2.00", "10 ms", "300 ms", "2.0 KiB"] {
            assert!(rows[1].contains(word), "{word} in {text}");
        }
        assert!(rows[0].contains("local") && !rows[0].contains("KiB"), "{text}");
    }
}

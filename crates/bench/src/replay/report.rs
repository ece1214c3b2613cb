//! Lines for programs and a table for people.

use std::fmt::Write as _;

use ishigaki_base::ByteSize;

use super::{NAME, Settings, Side, Taking, hit_ratio};
use crate::figures::Unit;
use crate::{Case, Line, Metric, columns};

/// What figures call a side.
pub(super) fn name(side: Side) -> &'static str {
    match side {
        Side::Local => "local",
        Side::Remote => "remote",
        Side::Cached(_) => "cached",
    }
}

/// The figures: of each side, and of each cache what it is worth and its hits beside those of an LRU.
pub(super) fn lines(settings: &Settings, takings: &[(Side, Taking)]) -> Vec<Line> {
    let (trace, page) = (&settings.trace, settings.page.as_u64());
    let line = |case: Case, metric, runs| Line::new(NAME, case, metric, runs, &settings.origin);
    let remote = takings.iter().find(|(side, _)| *side == Side::Remote).map(|(_, taking)| taking);
    let mut lines = Vec::new();
    for (side, taking) in takings {
        let case = case(settings, *side, name(*side));
        lines.push(line(case.clone(), Metric::LatencyP50, taking.seconds.clone()));
        let bandwidth = taking.seconds.iter().map(|seconds| trace.bytes() as f64 / seconds).collect();
        lines.push(line(case.clone(), Metric::Bandwidth, bandwidth));
        let (Side::Cached(share), Some(remote)) = (side, remote) else { continue };
        lines.push(line(case, Metric::HitRatio, taking.hit_ratios.clone()));
        let room = (settings.memory(*share).as_u64() / page) as usize;
        let lru = self::case(settings, *side, "lru");
        lines.push(line(lru, Metric::HitRatio, vec![hit_ratio(trace, room, page)]));
        let pairs = remote.seconds.iter().zip(&taking.seconds);
        let worth = self::case(settings, *side, "remote/cached");
        lines.push(line(worth, Metric::Ratio, pairs.map(|(without, with)| without / with).collect()));
    }
    lines
}

fn case(settings: &Settings, side: Side, target: &str) -> Case {
    let (trace, page) = (&settings.trace, settings.page.as_u64());
    let mut case = settings.case.clone();
    let mut add = |key: &str, value: serde_json::Value| _ = case.insert(key.to_owned(), value);
    add("target", target.into());
    add("reads", trace.accesses.len().into());
    add("bytes", trace.bytes().into());
    add("distinct", (trace.footprint(page) as u64 * page).into());
    add("depth", settings.readers.into());
    if let Side::Cached(share) = side {
        add("share", share.into());
        add("cache", settings.memory(share).as_u64().into());
        add("cache_page", page.into());
    }
    case
}

/// A row for each side.
pub fn table(lines: &[Line]) -> String {
    let mut text = String::new();
    let Some(first) = lines.first() else { return text };
    let number = |line: &Line, key: &str| line.case.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0);
    let size = |line: &Line, key: &str| ByteSize(number(line, key)).to_string();
    let (reads, bytes, distinct) = (number(first, "reads"), size(first, "bytes"), size(first, "distinct"));
    let _ =
        writeln!(text, "{reads} reads of {bytes}, {distinct} of them different, {} in flight", number(first, "depth"));
    let _ = writeln!(text, "{}, source {}, seed {}", first.machine, first.commit, first.seed);
    let heads = ["side", "cache", "time", "spread", "bandwidth", "remote/this", "hits", "hits of an LRU"];
    let mut rows = vec![heads.map(str::to_owned)];
    for time in lines.iter().filter(|line| line.metric == Metric::LatencyP50) {
        let of = |target: &str, metric: Metric| {
            let same = |line: &&Line| {
                line.metric == metric
                    && line.case.get("target").is_some_and(|is| is == target)
                    && line.case.get("share") == time.case.get("share")
            };
            lines.iter().find(same).map(|line| line.median)
        };
        let target = time.case.get("target").and_then(|target| target.as_str()).unwrap_or_default();
        let share = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{:.1}%", ratio * 100.0));
        rows.push([
            target.to_owned(),
            if target == "cached" { size(time, "cache") } else { String::new() },
            Unit::Time.show(time.median),
            format!("{} - {}", Unit::Time.show(time.min), Unit::Time.show(time.max)),
            of(target, Metric::Bandwidth).map_or_else(String::new, |rate| Unit::Bandwidth.show(rate)),
            of("remote/cached", Metric::Ratio).map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            share(of(target, Metric::HitRatio)),
            share(of("lru", Metric::HitRatio)),
        ]);
    }
    text + &columns(&rows, &[])
}

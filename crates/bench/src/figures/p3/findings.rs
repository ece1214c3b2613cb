//! What the author found, and whether it holds for our lines.
//!
//! Each finding is judged by a rule that is written beside it. Where one of our figures is said to be more or less than another
//! one, that is [`compare`]'s: they count as equal where the spreads of their rounds meet. Where the rule has a number, medians
//! are held against it.

use super::charts::{Load, of_bench, page_bytes, that};
use super::paper::{MOST, MOST_DYNAMIC, REMOTE_OVER_LOCAL};
use crate::figures::cases::{number, numbers, text, with};
use crate::figures::findings::{Finding, compare};
use crate::figures::units::Unit;
use crate::{Line, Metric};

/// Their findings, in their order, each that our lines say something about.
pub(super) fn findings(lines: &[Line]) -> Vec<Finding> {
    let all = [near_local, most, pools_win, no_profit_without_cache, cache_pays, as_good_as_lru];
    let queries = [push_beats_local, equal_when_large, selectivity_hardly_matters, fetch_is_slowest];
    let own = super::apart::findings(lines);
    all.into_iter().chain(queries).filter_map(|finding| finding(lines)).chain(own).collect()
}

/// The best of the ways of I/O at each size, with the most in flight.
fn near_local(lines: &[Line]) -> Option<Finding> {
    let ratios = that(&with(&busiest(lines), Metric::Ratio), "of", "throughput");
    let best = |size: u64| {
        let of = ratios.iter().filter(|line| number(line, "size") as u64 == size).map(|line| line.median);
        of.max_by(f64::total_cmp)
    };
    let pairs: Vec<(u64, f64, f64)> =
        REMOTE_OVER_LOCAL.iter().filter_map(|&(size, there)| Some((size, there, best(size)?))).collect();
    let (_, _, _) = *pairs.first()?;
    let show = |of: fn(&(u64, f64, f64)) -> f64| {
        let each = pairs.iter().map(|pair| format!("{:.0}% ({})", of(pair) * 100.0, Unit::Bytes.show(pair.0 as f64)));
        each.collect::<Vec<_>>().join(", ")
    };
    Some(Finding {
        theirs: format!("Remote reads reach this share of local ones: {}", show(|pair| pair.1)),
        ours: format!("by the best way of I/O {}; it holds if no share is smaller", show(|pair| pair.2)),
        holds: Some(pairs.iter().all(|(_, there, here)| here >= there)),
    })
}

fn busiest(lines: &[Line]) -> Vec<&Line> {
    let loads = Load::all(lines);
    loads.into_iter().max_by_key(|load| load.connections * load.depth).map_or_else(Vec::new, |load| load.of(lines))
}

fn remote_reads<'a>(lines: &'a [Line], io: &str) -> Option<&'a Line> {
    let reads = that(&with(&of_bench(lines, "remote"), Metric::Throughput), "target", "remote");
    let of = that(&reads, "io", io);
    of.into_iter().max_by(|one, other| one.median.total_cmp(&other.median))
}

fn most(lines: &[Line]) -> Option<Finding> {
    let best = ["dynamic", "static", "ring"].into_iter().filter_map(|io| remote_reads(lines, io));
    let best = best.max_by(|one, other| one.median.total_cmp(&other.median))?;
    Some(Finding {
        theirs: format!("Up to {} of 512 B from the other server", Unit::Rate.show(MOST)),
        ours: format!(
            "up to {} of {}, by {}",
            Unit::Rate.show(best.median),
            Unit::Bytes.show(number(best, "size")),
            text(best, "io")
        ),
        holds: None,
    })
}

fn pools_win(lines: &[Line]) -> Option<Finding> {
    let rate = |io| remote_reads(lines, io).map(|line| line.median);
    let (dynamic, pool) = (rate("dynamic")?, rate("static")?);
    Some(Finding {
        theirs: format!(
            "A pool of threads for each connection wins by far; a thread for each request reads {} at best",
            Unit::Rate.show(MOST_DYNAMIC)
        ),
        ours: format!(
            "{} by a thread for each request, {} by pools, {:.1} times as many{}; it holds from twice on",
            Unit::Rate.show(dynamic),
            Unit::Rate.show(pool),
            pool / dynamic,
            rate("ring").map_or_else(String::new, |ring| format!(", and {} by io_uring", Unit::Rate.show(ring)))
        ),
        holds: Some(pool >= 2.0 * dynamic),
    })
}

fn replayed<'a>(lines: &'a [Line], target: &str, metric: Metric) -> Vec<&'a Line> {
    with(&that(&of_bench(lines, "replay"), "target", target), metric)
}

fn no_profit_without_cache(lines: &[Line]) -> Option<Finding> {
    let time = |target| replayed(lines, target, Metric::LatencyP50).first().copied();
    let (local, remote) = (time("local")?, time("remote")?);
    Some(Finding {
        theirs: "Replayed page accesses: local I/O profits from the locality of a query, remote I/O without a cache does not"
            .to_owned(),
        ours: format!(
            "here local reads go past the system's cache as well: {} from our own disk, {} from the node",
            Unit::Time.show(local.median),
            Unit::Time.show(remote.median)
        ),
        holds: None,
    })
}

fn cache_pays(lines: &[Line]) -> Option<Finding> {
    let ratios = replayed(lines, "remote/cached", Metric::Ratio);
    let best = ratios.iter().max_by(|one, other| one.median.total_cmp(&other.median))?;
    Some(Finding {
        theirs: "A cache for remote reads is left as future work".to_owned(),
        ours: format!(
            "{:.1} times as fast as without, with one of {} of the pages; it is worth something from 3 times on",
            best.median,
            Unit::Share.show(number(best, "share") / 100.0)
        ),
        holds: Some(best.median >= 3.0),
    })
}

fn as_good_as_lru(lines: &[Line]) -> Option<Finding> {
    let lru = replayed(lines, "lru", Metric::HitRatio);
    let pairs: Vec<(&Line, &Line)> = replayed(lines, "cached", Metric::HitRatio)
        .into_iter()
        .filter_map(|own| Some((own, *lru.iter().find(|lru| lru.case.get("share") == own.case.get("share"))?)))
        .collect();
    pairs.first()?;
    let show = |(own, lru): &(&Line, &Line)| {
        let share = |line: &Line| Unit::Share.show(line.median);
        format!("{} and {} with {}", share(own), share(lru), Unit::Share.show(number(own, "share") / 100.0))
    };
    Some(Finding {
        theirs: "(ours to show: the cache finds as much as an LRU of its size)".to_owned(),
        ours: format!(
            "hits of the cache and of an LRU: {}; it holds if none is smaller, by the spreads",
            pairs.iter().map(show).collect::<Vec<_>>().join(", ")
        ),
        holds: Some(pairs.iter().all(|(own, lru)| compare(own, lru).is_ge())),
    })
}

/// Times of queries.
struct Times<'a>(Vec<&'a Line>);

impl<'a> Times<'a> {
    fn of(lines: &'a [Line]) -> Self {
        Self(with(&of_bench(lines, "tpch"), Metric::LatencyP50))
    }

    fn pages(&self) -> Vec<u64> {
        let mut pages: Vec<u64> = self.0.iter().map(|line| page_bytes(line)).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    fn at(&self, query: u64, page: u64, placement: &str) -> Option<&'a Line> {
        let is = |line: &&&Line| {
            number(line, "query") as u64 == query && page_bytes(line) == page && text(line, "placement") == placement
        };
        self.0.iter().find(is).copied()
    }

    /// Pairs of the same query and page.
    fn pairs(&self, one: &str, other: &str) -> Vec<(&'a Line, &'a Line)> {
        let mut pairs = Vec::new();
        for query in numbers(&self.0, "query") {
            for page in self.pages() {
                pairs.extend(self.at(query, page, one).zip(self.at(query, page, other)));
            }
        }
        pairs
    }
}

fn push_beats_local(lines: &[Line]) -> Option<Finding> {
    let pairs = Times::of(lines).pairs("push", "local");
    pairs.first()?;
    let faster = pairs.iter().filter(|(push, local)| compare(push, local).is_lt()).count();
    Some(Finding {
        theirs: "Remote processing beats even the local query, since the processors of both servers work".to_owned(),
        ours: format!(
            "it is faster in {faster} of {} cases; here client and node share the same processors. It holds if in all, by the spreads",
            pairs.len()
        ),
        holds: Some(faster == pairs.len()),
    })
}

fn equal_when_large(lines: &[Line]) -> Option<Finding> {
    let times = Times::of(lines);
    let largest = times.pages().last().copied()?;
    let mut judged = Vec::new();
    for query in numbers(&times.0, "query") {
        let found: Option<Vec<&Line>> =
            ["local", "fetch", "push"].iter().map(|placement| times.at(query, largest, placement)).collect();
        let Some(found) = found else { continue };
        let medians = || found.iter().map(|line| line.median);
        let (least, most) = (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max));
        judged.push((query, most / least));
    }
    judged.first()?;
    let show = |(query, ratio): &(u64, f64)| format!("{ratio:.2} in query {query}");
    Some(Finding {
        theirs: "With pages of 128 KiB the three placements are equal".to_owned(),
        ours: format!(
            "the slowest over the fastest with pages of {}: {}; it holds up to 1.25",
            Unit::Bytes.show(largest as f64),
            judged.iter().map(show).collect::<Vec<_>>().join(", ")
        ),
        holds: Some(judged.iter().all(|(_, ratio)| *ratio <= 1.25)),
    })
}

fn selectivity_hardly_matters(lines: &[Line]) -> Option<Finding> {
    let times = Times::of(lines);
    let largest = times.pages().last().copied()?;
    let gain = |query| {
        let (push, fetch) = (times.at(query, largest, "push")?, times.at(query, largest, "fetch")?);
        Some((query, fetch.median / push.median))
    };
    let gains: Vec<(u64, f64)> = numbers(&times.0, "query").into_iter().filter_map(gain).collect();
    let values = || gains.iter().map(|(_, gain)| *gain);
    gains.get(1)?;
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let show = |(query, gain): &(u64, f64)| format!("{gain:.2} in query {query}");
    Some(Finding {
        theirs: "How many rows pass hardly matters".to_owned(),
        ours: format!(
            "time with pages travelling over time with the work travelling, pages of {}: {}; it holds if the largest is at \
             most 1.25 times the smallest",
            Unit::Bytes.show(largest as f64),
            gains.iter().map(show).collect::<Vec<_>>().join(", ")
        ),
        holds: Some(most <= 1.25 * least),
    })
}

fn fetch_is_slowest(lines: &[Line]) -> Option<Finding> {
    let times = Times::of(lines);
    let pairs: Vec<_> = ["push", "local"].iter().flat_map(|other| times.pairs("fetch", other)).collect();
    pairs.first()?;
    let slower = pairs.iter().filter(|(fetch, other)| compare(fetch, other).is_ge()).count();
    Some(Finding {
        theirs: "Processing here what travels from there is the slowest, the more so with many threads".to_owned(),
        ours: format!(
            "slower than remote processing and than the local query, or equal to them by the spreads, in {slower} of {} \
             comparisons; it holds if in all. Threads were not varied: there are too few processors",
            pairs.len()
        ),
        holds: Some(slower == pairs.len()),
    })
}

//! What the authors found, and whether it holds for our lines; and what we aimed at beyond them.
//!
//! Each finding is judged by a rule that is written beside it. Where one of our figures is said to be more or less than another
//! one, that is [`compare`]'s: they count as equal where the spreads of their rounds meet. Where the rule has a number, medians
//! are held against it.

use super::charts::{OF_SEPARATE, Setup, at, of_bench, ratios, smallest};
use super::paper::{ALONE, AT_BEST, DELAY_SAVES};
use crate::figures::cases::{numbers, text, texts, with};
use crate::figures::findings::{Finding, compare};
use crate::{Line, Metric};

/// The way of waiting that a pool has unless told otherwise.
const AUTO: &str = "auto";

/// Where the separate logs are compared with one; of the size of transactions that all numbers of servers have.
struct Compared<'a> {
    setup: Setup,
    all: Vec<&'a Line>,
    small: Vec<&'a Line>,
}

impl<'a> Compared<'a> {
    fn all(lines: &'a [Line]) -> Vec<Self> {
        let of = |setup: Setup| {
            let all = setup.of(lines);
            let small = at(&all, "integers", smallest(&all));
            Self { setup, all, small }
        };
        Setup::all(lines).into_iter().map(of).collect()
    }

    /// The paper's own: its server, on that disk.
    fn on(lines: &'a [Line], device: &str) -> Option<Self> {
        let theirs = Setup { device: device.to_owned(), server: "mariadb".to_owned() };
        Self::all(lines).into_iter().find(|compared| compared.setup == theirs)
    }

    fn servers(&self) -> Vec<u64> {
        numbers(&ratios(&self.small, OF_SEPARATE), "servers")
    }

    fn ratio(&self, side: &str, servers: u64) -> Option<&'a Line> {
        that(&at(&ratios(&self.small, OF_SEPARATE), "servers", servers), side)
    }

    fn figure(&self, metric: Metric, side: &str, servers: u64) -> Option<&'a Line> {
        that(&with(&at(&self.small, "servers", servers), metric), side)
    }
}

fn that<'a>(lines: &[&'a Line], side: &str) -> Option<&'a Line> {
    lines.iter().find(|line| text(line, "side") == side).copied()
}

/// Their findings, in their order, each that our lines say something about.
pub(super) fn findings(lines: &[Line]) -> Vec<Finding> {
    let [hdd, ssd] = ["hdd", "ssd"].map(|device| Compared::on(lines, device));
    let of_both = |finding: fn(&Compared<'_>, &str) -> Option<Finding>| {
        [(&hdd, "hdd"), (&ssd, "ssd")].map(|(compared, device)| finding(compared.as_ref()?, device))
    };
    let of_hdd = |finding: fn(&Compared<'_>) -> Option<Finding>| finding(hdd.as_ref()?);
    let mut found: Vec<Option<Finding>> = Vec::new();
    found.extend(of_both(at_best));
    found.push(of_hdd(more_servers));
    found.extend(of_both(alone));
    found.extend([of_hdd(polling), of_hdd(delay), hdd.as_ref().and_then(size)]);
    found.push(costs_a_core(lines));
    found.into_iter().flatten().collect()
}

fn at_best(compared: &Compared<'_>, device: &str) -> Option<Finding> {
    let (_, servers, there) = AT_BEST.into_iter().find(|(known, ..)| *known == device)?;
    let here = compared.ratio(AUTO, servers)?;
    Some(Finding {
        theirs: format!(
            "On `{device}`, {servers} servers take {there:.2} of the separate logs' time with one log, at best"
        ),
        ours: format!("{:.2} by `auto`; it holds up to theirs", here.median),
        holds: Some(here.median <= there),
    })
}

fn more_servers(compared: &Compared<'_>) -> Option<Finding> {
    let shares: Vec<(u64, f64)> =
        compared.servers().into_iter().filter_map(|count| Some((count, compared.ratio(AUTO, count)?.median))).collect();
    (shares.len() > 1).then(|| Finding {
        theirs: "On a hard disk, the more servers, the more one log saves".to_owned(),
        ours: format!(
            "{} of the separate logs' time with {} servers; it holds if each is less than the one before",
            listed(shares.iter().map(|(_, share)| format!("{share:.2}"))),
            listed(shares.iter().map(|(count, _)| count.to_string())),
        ),
        holds: Some(shares.is_sorted_by(|few, many| few.1 > many.1)),
    })
}

fn alone(compared: &Compared<'_>, device: &str) -> Option<Finding> {
    let (_, there) = ALONE.into_iter().find(|(known, _)| *known == device)?;
    let here = compared.ratio(AUTO, 1)?;
    Some(Finding {
        theirs: format!("On `{device}`, one server alone takes up to {there:.2} times as long with it"),
        ours: format!("{:.2} times by `auto`; it holds up to theirs", here.median),
        holds: Some(here.median <= there),
    })
}

fn polling(compared: &Compared<'_>) -> Option<Finding> {
    let servers = compared.servers().last().copied()?;
    let times = ["poll", "sleep"].map(|side| compared.figure(Metric::Elapsed, side, servers));
    let [Some(poll), Some(sleep)] = times else { return None };
    let ratio = poll.median / sleep.median;
    Some(Finding {
        theirs: "On a hard disk, polling does not help much".to_owned(),
        ours: format!("{ratio:.2} of the time of sleeping, {servers} servers; it holds from 0.95 on"),
        holds: Some(ratio >= 0.95),
    })
}

fn delay(compared: &Compared<'_>) -> Option<Finding> {
    let saved = |count: u64| {
        let times = ["delay", "sleep"].map(|side| compared.figure(Metric::Elapsed, side, count));
        let [Some(delay), Some(sleep)] = times else { return None };
        Some((count, 1.0 - delay.median / sleep.median))
    };
    let saved: Vec<(u64, f64)> = compared.servers().into_iter().filter_map(saved).collect();
    let (servers, most) = saved.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    Some(Finding {
        theirs: format!("On a hard disk, a delay saves up to {:.0}% more", DELAY_SAVES * 100.0),
        ours: format!(
            "up to {:.0}% of the time of sleeping, {servers} servers; it holds from half of theirs on",
            most * 100.0
        ),
        holds: Some(most >= DELAY_SAVES / 2.0),
    })
}

fn size(compared: &Compared<'_>) -> Option<Finding> {
    let servers = numbers(&compared.all, "servers").last().copied()?;
    let shares = ratios(&at(&compared.all, "servers", servers), OF_SEPARATE);
    let sizes = numbers(&shares, "integers");
    let (&least, &most) = (sizes.first()?, sizes.last()?);
    let share = |size| that(&at(&shares, "integers", size), AUTO);
    let (small, large) = (share(least)?, share(most)?);
    (least < most).then(|| Finding {
        theirs: "On a hard disk, the smaller a transaction, the more one log saves".to_owned(),
        ours: format!(
            "{:.2} of the separate logs' time with {least} integers and {:.2} with {most}, {servers} servers; it holds if the \
             small one's is less, by the spreads",
            small.median, large.median
        ),
        holds: Some(compare(small, large).is_lt()),
    })
}

/// Wherever it polls.
fn costs_a_core(lines: &[Line]) -> Option<Finding> {
    let all = of_bench(lines, "inserts");
    let shares = ratios(&all, "pool's processor over elapsed");
    let polling: Vec<&Line> = shares.into_iter().filter(|line| text(line, "side").starts_with("poll")).collect();
    let least = polling.iter().map(|line| line.median).min_by(f64::total_cmp)?;
    let most = polling.iter().map(|line| line.median).max_by(f64::total_cmp)?;
    Some(Finding {
        theirs: "Polling takes a processor for itself".to_owned(),
        ours: format!("{least:.2} to {most:.2} processors; it holds if it is 0.8 at least, everywhere"),
        holds: Some(least >= 0.8),
    })
}

/// What we aimed at beyond them, each that our lines say something about.
pub(super) fn aims(lines: &[Line]) -> Vec<Finding> {
    let alone = Compared::on(lines, "hdd").and_then(|compared| {
        let here = compared.ratio(AUTO, 1)?;
        Some(Finding {
            theirs: "On `hdd`, one server alone takes at most 1.05 times as long with it".to_owned(),
            ours: format!("{:.2} times by `auto`", here.median),
            holds: Some(here.median <= 1.05),
        })
    });
    let logged = [("mariadb", 8.0), ("postgresql", 15.0)].map(|(server, part)| logged(lines, server, part));
    let arrivals = texts(of_bench(lines, "arrivals"), "device").into_iter();
    let arrivals = arrivals.flat_map(|device| [near_the_best(lines, &device), no_later(lines, &device)]);
    [alone].into_iter().chain(logged).chain(arrivals).flatten().collect()
}

/// On small commits.
fn logged(lines: &[Line], server: &str, part: f64) -> Option<Finding> {
    let mut shares = Vec::new();
    for compared in Compared::all(lines).iter().filter(|compared| compared.setup.server == server) {
        let of = ratios(&compared.small, "logged over written");
        shares.extend(of.iter().filter(|line| text(line, "side") == AUTO).map(|line| line.median));
    }
    let most = shares.into_iter().max_by(f64::total_cmp)?;
    Some(Finding {
        theirs: format!("At most 1/{part} of the bytes that {server} writes for small commits are logged"),
        ours: format!("1/{:.1} at most, by `auto`, with every disk and number of servers", 1.0 / most),
        holds: Some(most <= 1.0 / part),
    })
}

/// Patterns, in the order of the lines, each with the figures of all ways.
fn by_pattern<'a>(lines: &'a [Line], device: &str, metric: Metric) -> Vec<(String, Vec<&'a Line>)> {
    let all = with(&of_bench(lines, "arrivals"), metric);
    let on: Vec<&Line> = all.into_iter().filter(|line| text(line, "device") == device).collect();
    let of = |pattern: String| {
        let own = on.iter().filter(|line| text(line, "pattern") == pattern).copied().collect();
        (pattern, own)
    };
    texts(on.iter().copied(), "pattern").into_iter().map(of).collect()
}

fn near_the_best(lines: &[Line], device: &str) -> Option<Finding> {
    let mut shares = Vec::new();
    for (pattern, ways) in by_pattern(lines, device, Metric::Throughput) {
        let fixed = ways.iter().filter(|line| text(line, "side") != AUTO);
        let best = fixed.max_by(|one, other| one.median.total_cmp(&other.median))?;
        shares.push((format!("{pattern} ({})", text(best, "side")), that(&ways, AUTO)?.median / best.median));
    }
    shares.first()?;
    Some(Finding {
        theirs: format!(
            "On `{device}`, `auto` commits at least 0.95 of what the best fixed way does, however commits come"
        ),
        ours: listed(shares.iter().map(|(pattern, share)| format!("{share:.2} {pattern}"))),
        holds: Some(shares.iter().all(|(_, share)| *share >= 0.95)),
    })
}

fn no_later(lines: &[Line], device: &str) -> Option<Finding> {
    let (_, ways) =
        by_pattern(lines, device, Metric::LatencyP50).into_iter().find(|(pattern, _)| pattern == "alone")?;
    let (auto, sleep) = (that(&ways, AUTO)?, that(&ways, "sleep")?);
    Some(Finding {
        theirs: format!("On `{device}`, a member that is alone waits no longer by `auto` than by sleeping"),
        ours: format!("{:.2} of the time, p50; it holds if it is not more, by the spreads", auto.median / sleep.median),
        holds: Some(!compare(auto, sleep).is_gt()),
    })
}

fn listed(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

//! A scan that is divided while it runs, in a simulated world whose paces nobody knows beforehand.

use std::time::Duration;

use ishigaki_scan::{Division, Turn};
use ishigaki_testkit::seeded_runs;

const PAGES: u64 = 2048;
/// Pages of a unit that is fetched.
const UNIT: u64 = 8;
/// A step of the simulation, in seconds.
const STEP: f64 = 0.000_2;
/// What an order takes beside its pages.
const ROUND_TRIP: f64 = 0.001;

/// What became of a scan.
#[derive(Debug, Default)]
struct Flown {
    seconds: f64,
    fetched: u64,
    pushed: u64,
    orders: u32,
    taken_back: u64,
}

/// Pages a second of fetching and of pushing at each moment.
type Paces<'a> = &'a dyn Fn(f64) -> (f64, f64);

/// A scan with that belief in the paces, by one reader who reads a unit ahead, and an order at a time there, whose results come
/// at its end.
fn fly(believed: (f64, f64), speeds: Paces<'_>) -> Flown {
    fly_by(1, false, believed, speeds)
}

/// The same by several readers, each of whom has his part of the pace and no unit ahead; and with results that come soon.
fn fly_by(readers: usize, streams: bool, believed: (f64, f64), speeds: Paces<'_>) -> Flown {
    let mut division = Division::new(PAGES, believed.0, believed.1).read_by(readers as u64).streamed(streams);
    let most = if readers == 1 { 2 } else { readers };
    let mut flown = Flown::default();
    let mut units: Vec<(u64, f64)> = Vec::new();
    let mut order: Option<(u64, f64)> = None;
    let mut fetching = true;
    for step in 0_u64.. {
        let seconds = step as f64 * STEP;
        assert!(seconds < 600.0, "it has no end: {flown:?}");
        let now = Duration::from_secs_f64(seconds);
        while fetching && units.len() < most {
            match division.fetch(UNIT, now) {
                Turn::Take(pages) => units.push((pages, pages as f64)),
                Turn::TakeBack => flown.taken_back += order.take().expect("one is under way").0,
                Turn::Wait => break,
                Turn::End => fetching = false,
            }
        }
        if order.is_none()
            && let Turn::Take(pages) = division.push(now)
        {
            flown.orders += 1;
            order = Some((pages, pages as f64 + ROUND_TRIP * speeds(seconds).1));
        }
        if !fetching && units.is_empty() && order.is_none() {
            flown.seconds = seconds;
            assert_eq!((flown.fetched + flown.pushed, division.left()), (PAGES, 0), "each page once: {flown:?}");
            return flown;
        }
        let (fetch, push) = speeds(seconds);
        units.iter_mut().take(readers).for_each(|(_, left)| *left -= fetch * STEP / readers as f64);
        units.retain(|(pages, left)| {
            if *left <= 0.0 {
                flown.fetched += *pages;
                division.fetched(*pages, now);
            }
            *left > 0.0
        });
        if let Some((pages, left)) = &mut order {
            *left -= push * STEP;
            if streams && *left < 0.9 * *pages as f64 {
                division.answered();
            }
            if *left <= 0.0 {
                flown.pushed += *pages;
                division.pushed(*pages, now);
                order = None;
            }
        }
    }
    flown
}

/// How long the better one of the two ways takes alone.
fn better((fetch, push): (f64, f64)) -> f64 {
    (PAGES as f64 / fetch).min(PAGES as f64 / push + ROUND_TRIP)
}

/// Pages a second as they are measured: a link of 1 Gbit/s and none, queries 1 and 6, nodes idle and busy.
const WORLDS: [(f64, f64); 8] = [
    (950.0, 2_600.0),
    (950.0, 500.0),
    (950.0, 50_000.0),
    (950.0, 10_000.0),
    (2_700.0, 2_600.0),
    (2_400.0, 500.0),
    (8_000.0, 50_000.0),
    (6_000.0, 10_000.0),
];

/// Checks each world with beliefs about it that are up to three times too much or too little.
fn with_wrong_beliefs(name: &str, runs: u64, mut check: impl FnMut((f64, f64), (f64, f64))) {
    seeded_runs(name, runs, |seed| {
        let mut rng = seed.generator();
        for world in WORLDS {
            let mut wrong = |pace: f64| pace * 3_f64.powf(rng.f64() * 2.0 - 1.0);
            check(world, (wrong(world.0), wrong(world.1)));
        }
    });
}

#[test]
fn who_knows_both_paces_is_not_behind_the_better_way() {
    for world in WORLDS {
        let flown = fly(world, &|_| world);
        assert!(flown.seconds <= better(world) * 1.05 + 0.003, "{world:?}: {flown:?} instead of {}", better(world));
        assert_eq!(flown.taken_back, 0, "{world:?}: {flown:?}");
    }
}

#[test]
fn two_alike_share_the_scan_and_take_half_the_time() {
    let world = (2_700.0, 2_600.0);
    let flown = fly(world, &|_| world);
    assert!(flown.seconds < 0.56 * better(world), "{flown:?} instead of {}", better(world));
}

#[test]
fn a_way_that_is_far_slower_keeps_out() {
    let flown = fly((950.0, 50_000.0), &|_| (950.0, 50_000.0));
    assert_eq!((flown.fetched, flown.pushed), (0, PAGES), "{flown:?}");
    let flown = fly((50_000.0, 950.0), &|_| (50_000.0, 950.0));
    assert_eq!((flown.fetched, flown.pushed), (PAGES, 0), "{flown:?}");
}

#[test]
fn many_readers_are_judged_by_all_of_them_though_one_tries() {
    // Each of sixteen is four times slower than the node, and all of them are four times faster.
    let world = (6_400.0, 1_600.0);
    for believed in [world, (800.0, 1_600.0)] {
        let flown = fly_by(16, false, believed, &|_| world);
        assert!(flown.seconds < 1.15 * better(world) + 0.05, "{believed:?}: {flown:?} instead of {}", better(world));
    }
}

#[test]
fn who_streams_results_is_not_behind_the_better_way_either() {
    let name = "who_streams_results_is_not_behind_the_better_way_either";
    with_wrong_beliefs(name, 100, |world, believed| {
        let flown = fly_by(4, true, believed, &|_| world);
        let behind = (flown.seconds - 0.05) / better(world);
        assert!(behind <= 1.15, "{behind:.3} times the better: {world:?}, believed {believed:?}: {flown:?}");
    });
}

#[test]
fn a_node_that_becomes_slow_while_it_answers_keeps_what_it_has_and_no_more() {
    let world = |now: f64| (300.0, if now < 0.1 { 3_000.0 } else { 300.0 });
    let flown = fly_by(1, true, world(0.0), &world);
    // Half of what was left then.
    assert!(flown.fetched > PAGES / 4, "{flown:?}");
}

#[test]
fn a_fetch_that_kept_out_is_tried_again() {
    let world = |now: f64| (if now < 0.3 { 30.0 } else { 3_000.0 }, 600.0);
    let flown = fly(world(0.0), &world);
    assert!(flown.fetched > PAGES / 3, "{flown:?}");
}

#[test]
fn who_works_alone_gets_few_orders() {
    let flown = fly((100.0, 2_600.0), &|_| (100.0, 2_600.0));
    assert!(flown.orders <= 4, "{flown:?}");
}

#[test]
fn who_is_wrong_about_both_paces_is_at_most_fifteen_percent_behind_the_better_way() {
    let mut worst = 0.0_f64;
    let name = "who_is_wrong_about_both_paces_is_at_most_fifteen_percent_behind_the_better_way";
    with_wrong_beliefs(name, 200, |world, believed| {
        let flown = fly(believed, &|_| world);
        // A few milliseconds are lost by an order or a unit that was one too many.
        let behind = (flown.seconds - 0.01) / better(world);
        worst = worst.max(behind);
        assert!(behind <= 1.15, "{behind:.3} times the better: {world:?}, believed {believed:?}: {flown:?}");
    });
    println!("at worst {worst:.3} times the better way");
}

#[test]
fn a_node_that_becomes_busy_during_a_scan_is_left_and_what_it_has_is_taken_back() {
    let world = |now: f64| (950.0, if now < 0.2 { 2_600.0 } else { 5.0 });
    let flown = fly(world(0.0), &world);
    assert!(flown.taken_back > 0 && flown.pushed > 0, "{flown:?}");
    // The pages that the node was busy with may be fetched late, but no more than that.
    assert!(flown.seconds < 1.5 * PAGES as f64 / 950.0, "{flown:?}");
    // Who does not look is late by minutes.
    assert!(flown.seconds * 10.0 < PAGES as f64 / 5.0);
}

#[test]
fn a_link_that_becomes_slow_during_a_scan_is_left() {
    let world = |now: f64| (if now < 0.2 { 3_000.0 } else { 100.0 }, 1_500.0);
    let flown = fly(world(0.0), &world);
    assert!(flown.pushed > PAGES / 2 && flown.seconds < 1.3, "{flown:?}");
}

#[test]
fn a_node_that_becomes_idle_is_found_by_trying_it_again() {
    let world = |now: f64| (300.0, if now < 0.5 { 30.0 } else { 3_000.0 });
    let flown = fly(world(0.0), &world);
    assert!(flown.seconds < 0.6 * PAGES as f64 / 300.0, "{flown:?}");
}

#[test]
fn nobody_begins_what_the_other_way_will_have_done_sooner() {
    let mut division = Division::new(101, 100.0, 250.0);
    assert_eq!(division.fetch(1, Duration::ZERO), Turn::Take(1));
    let now = Duration::from_millis(10);
    division.fetched(1, now);
    assert!(matches!(division.push(now), Turn::Take(1..)));
    // 0.8 seconds here, and all of it takes the node 0.4.
    assert_eq!(division.fetch(80, now), Turn::Wait);
    assert_eq!(division.fetch(20, now), Turn::Take(20));
}

#[test]
fn until_the_pace_of_fetching_is_known_one_small_unit_is_fetched() {
    let mut division = Division::new(PAGES, 1e3, 1e3);
    let now = Duration::from_millis(1);
    assert!(matches!(division.push(Duration::ZERO), Turn::Take(1..)));
    assert_eq!(division.fetch(64, Duration::ZERO), Turn::Take(PAGES / 256));
    assert_eq!(division.fetch(64, now), Turn::Wait);
    division.fetched(PAGES / 256, now);
    assert_eq!(division.fetch(64, now), Turn::Take(64));
}

#[test]
fn a_node_that_refuses_gets_no_more() {
    let mut division = Division::new(PAGES, 1e3, 1e6);
    let now = Duration::ZERO;
    assert!(matches!(division.push(now), Turn::Take(1..)));
    assert_eq!(division.fetch(UNIT, now), Turn::Wait);
    division.refused();
    assert_eq!((division.left(), division.push(now)), (PAGES, Turn::End));
    assert_eq!(division.fetch(UNIT, now), Turn::Take(UNIT));
}

#[test]
fn nobody_waits_for_a_way_that_is_not_there() {
    let late = Duration::from_secs(1);
    // Both seem hopeless beside the other one, who never comes.
    let mut fetches = Division::new(PAGES, 1.0, 1e9);
    assert_eq!(fetches.fetch(UNIT, Duration::ZERO), Turn::Wait);
    assert_eq!(fetches.fetch(UNIT, late), Turn::Take(UNIT));
    let mut pushes = Division::new(PAGES, 1e9, 1.0);
    assert_eq!(pushes.push(Duration::ZERO), Turn::Wait);
    assert!(matches!(pushes.push(late), Turn::Take(1..)));
    // One whose results nobody takes is late, and so is left.
    let mut stuck = Division::new(100 * PAGES, 1e3, 1e6);
    assert!(matches!(stuck.push(Duration::ZERO), Turn::Take(1..)));
    stuck.answered();
    assert_eq!(stuck.fetch(UNIT, Duration::from_millis(1)), Turn::Wait);
    assert_eq!(stuck.fetch(UNIT, Duration::from_mins(1)), Turn::Take(UNIT));
    // Nor for who tries, and does not end.
    let mut tried = Division::new(100 * PAGES, 1e3, 1e3);
    assert!(matches!(tried.push(Duration::ZERO), Turn::Take(1..)));
    assert!(matches!(tried.fetch(UNIT, Duration::ZERO), Turn::Take(1..)));
    assert_eq!(tried.fetch(UNIT, Duration::from_millis(1)), Turn::Wait);
    assert!(matches!(tried.fetch(UNIT, late), Turn::Take(1..)));
}

//! The pilot in a simulated world whose figures it does not know.

use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_scan::{Corrections, Link, Observation, Pilot, Placement, Scan, Side, Surroundings, Wish, estimate};
use ishigaki_testkit::seeded_runs;

/// Scans like those of TPC-H's Q1, Q6 and Q15 at scale 1, in pages of 128 KiB: with aggregates, and with rows that
/// travel.
fn scans() -> Vec<Scan> {
    let scan = |work: u64, results: ByteSize| Scan {
        pages: 2500,
        page_size: ByteSize::kib(128),
        cached: 0.0,
        work: Duration::from_millis(work),
        results,
        results_work: Duration::from_micros(results.as_u64() / 1000),
    };
    vec![
        scan(700, ByteSize::kib(2)),
        scan(120, ByteSize::kib(1)),
        scan(150, ByteSize::mib(3)),
        scan(400, ByteSize::mib(400)),
    ]
}

/// Two machines of two cores.
fn world(bandwidth: f64, others: f64) -> Surroundings {
    let side = Side { cores: 2.0, others: 0.0, speed: 1.0, storage: 2e9 };
    let link = Link { bandwidth, latency: Duration::from_micros(80), in_flight: 64 };
    Surroundings { link, node: Side { others, ..side }, client: side }
}

/// The worlds in which the placements are compared: links of 1 Gbit/s and without a limit, nodes idle and busy.
fn worlds() -> Vec<Surroundings> {
    [125e6, 2.5e9].into_iter().flat_map(|bandwidth| [0.0, 8.0].map(|others| world(bandwidth, others))).collect()
}

/// How long a scan takes in a world that is `at` each moment (given in seconds since the beginning) as it is, and how
/// often the pilot changed its mind. What a stretch takes is `noise` times what it should take.
fn fly_in_noise(
    wish: Wish,
    scan: &Scan,
    believed: Surroundings,
    node_reports: bool,
    mut noise: impl FnMut() -> f64,
    at: impl Fn(f64) -> Surroundings,
) -> (f64, u32) {
    let mut pilot = Pilot::new(wish, *scan, believed, Corrections::default());
    let mut now = 0.0;
    while pilot.stretch() > 0 {
        let pages = pilot.stretch();
        let share = pages as f64 / scan.pages as f64;
        let stretch = Scan {
            pages,
            work: scan.work.mul_f64(share),
            results: ByteSize((scan.results.as_u64() as f64 * share) as u64),
            results_work: scan.results_work.mul_f64(share),
            ..*scan
        };
        let world = at(now);
        let time = estimate(pilot.placement(), &stretch, &world).time.mul_f64(noise());
        now += time.as_secs_f64();
        let others_on_node = node_reports.then_some(world.node.others);
        pilot.observe(&Observation { pages, time, others_on_node, others_here: None, link: None });
    }
    (now, pilot.changes())
}

/// The same without noise.
fn fly(
    wish: Wish,
    scan: &Scan,
    believed: Surroundings,
    node_reports: bool,
    at: impl Fn(f64) -> Surroundings,
) -> (f64, u32) {
    fly_in_noise(wish, scan, believed, node_reports, || 1.0, at)
}

/// The time of the better one of the two placements.
fn better(scan: &Scan, at: impl Fn(f64) -> Surroundings + Copy) -> f64 {
    let fixed = |placement| fly(Wish::Fixed(placement), scan, at(0.0), true, at).0;
    fixed(Placement::Fetch).min(fixed(Placement::Push))
}

#[test]
fn who_knows_the_world_takes_the_better_placement_and_stays() {
    for scan in scans() {
        for world in worlds() {
            let (time, changes) = fly(Wish::Auto, &scan, world, true, |_| world);
            assert_eq!(changes, 0, "{scan:?} in {world:?}");
            // Trials of the other one cost a little.
            assert!(time <= better(&scan, |_| world) * 1.04, "{scan:?} in {world:?}");
        }
    }
}

#[test]
fn who_is_wrong_about_the_world_is_at_most_fifteen_percent_behind_the_better_placement() {
    let mut worst = 0.0_f64;
    seeded_runs("who_is_wrong_about_the_world_is_at_most_fifteen_percent_behind_the_better_placement", 300, |seed| {
        let mut rng = seed.generator();
        for scan in scans() {
            for world in worlds() {
                // Up to three times too much or too little.
                let mut wrong = || 3_f64.powf(rng.f64() * 2.0 - 1.0);
                let mut believed = world;
                believed.link.bandwidth *= wrong();
                believed.node.speed *= wrong();
                believed.client.speed *= wrong();
                believed.node.storage *= wrong();
                let reports = rng.bool();
                let noise = || 0.8 + 0.4 * rng.f64();
                let (time, changes) = fly_in_noise(Wish::Auto, &scan, believed, reports, noise, |_| world);
                let behind = time / better(&scan, |_| world);
                worst = worst.max(behind);
                assert!(behind <= 1.15, "{behind:.3} times the better: {scan:?} in {world:?}, believed {believed:?}");
                assert!(changes <= 6, "{changes} changes of mind: {scan:?} in {world:?}, believed {believed:?}");
            }
        }
    });
    println!("at worst {worst:.3} times the better placement");
}

#[test]
fn a_node_that_becomes_busy_during_a_scan_is_left_and_found_again_when_it_says_so() {
    // The node has no time for a second.
    let scan = Scan { work: Duration::from_secs(2), ..scans()[0] };
    let at = |now: f64| world(2.5e9, if (0.25..1.25).contains(&now) { 30.0 } else { 0.0 });
    // Alone it is the faster one, by far.
    let slow_here = |mut world: Surroundings| {
        world.client.speed = 0.5;
        world
    };
    let at = |now| slow_here(at(now));
    let (auto, changes) = fly(Wish::Auto, &scan, at(0.0), true, at);
    assert_eq!(changes, 2, "away and back");
    assert!(auto < better(&scan, at), "better than either placement alone");
    let (deaf, changes) = fly(Wish::Auto, &scan, at(0.0), false, at);
    assert!(
        changes >= 1 && deaf < fly(Wish::Fixed(Placement::Fetch), &scan, at(0.0), true, at).0,
        "without its word, too"
    );
}

#[test]
fn a_node_that_becomes_idle_without_a_word_is_found_by_trying_it_again() {
    let scan = Scan { work: Duration::from_secs(2), ..scans()[0] };
    let at = |now: f64| {
        let mut world = world(2.5e9, if now < 0.5 { 4.0 } else { 0.0 });
        world.client.speed = 0.5;
        world
    };
    let (auto, changes) = fly(Wish::Auto, &scan, at(0.0), false, at);
    let fetch = fly(Wish::Fixed(Placement::Fetch), &scan, at(0.0), false, at).0;
    assert_eq!(changes, 1, "from fetching to pushing");
    assert!(auto < 0.85 * fetch, "{auto} instead of {fetch} seconds");
}

#[test]
fn what_one_scan_has_shown_helps_the_next_one() {
    // The node is busy, and thought to be idle.
    let (scan, world, believed) = (scans()[0], world(2.5e9, 8.0), world(2.5e9, 0.0));
    let mut pilot = Pilot::new(Wish::Auto, scan, believed, Corrections::default());
    assert_eq!(pilot.placement(), Placement::Push);
    let time = estimate(Placement::Push, &scan, &world).time;
    pilot.observe(&Observation { pages: scan.pages, time, others_on_node: None, others_here: None, link: None });
    let next = Pilot::new(Wish::Auto, scan, believed, pilot.corrections());
    assert_eq!(next.placement(), Placement::Fetch);
    let knows = Pilot::new(Wish::Fixed(Placement::Push), scan, believed, pilot.corrections()).estimate().time;
    assert!(knows.abs_diff(time) < time / 1000, "{knows:?} instead of {time:?}");
}

#[test]
fn a_wish_is_kept_whatever_is_observed() {
    for placement in [Placement::Fetch, Placement::Push] {
        for world in worlds() {
            assert_eq!(fly(Wish::Fixed(placement), &scans()[3], world, true, |_| world).1, 0);
        }
    }
}

#[test]
fn stretches_are_short_and_cover_all_pages() {
    for pages in [0, 1, 63, 64, 65, 100_000] {
        let scan = Scan { pages, ..scans()[0] };
        let mut pilot = Pilot::new(Wish::Auto, scan, worlds()[0], Corrections::default());
        let (mut covered, mut stretches) = (0, 0);
        while pilot.stretch() > 0 {
            (covered, stretches) = (covered + pilot.stretch(), stretches + 1);
            let time = Duration::from_millis(1);
            let pages = pilot.stretch();
            pilot.observe(&Observation { pages, time, others_on_node: None, others_here: None, link: None });
        }
        assert_eq!(covered, pages);
        assert!(stretches <= 70, "{stretches}");
    }
}

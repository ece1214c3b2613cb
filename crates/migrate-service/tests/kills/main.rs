//! The service is killed, and the destination's disk loses its power, at random moments and again and again, while clients work through the
//! folder. Each client has a directory of its own and remembers what it has done. After each end it looks: what it was told to be done is there,
//! what was under way is there in part at most, what it has not touched is as at the source. Then it works on. Files that no client touches
//! are the crawler's, which is held back so that it has work at every end. At the end the migration has
//! brought everything by itself, and nothing of it is left.
//!
//! Takes root and `/dev/fuse`.

mod client;
mod journal;
mod model;
mod place;
mod power;
mod service;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_device::Drive;
use ishigaki_migrate_service::status::Phase;
use ishigaki_testkit::seeded;

use client::{Client, Keeps};
use place::Place;
use service::Service;

/// Clients at work at a time.
const CLIENTS: u64 = 3;
/// More seconds than pass on a busy machine from one end to the next, on average.
const LONGEST_ROUND: u64 = 60;

/// What clients have done until an end.
pub(crate) struct Load<'a> {
    /// The end has begun: errors are to be expected.
    pub(crate) ends: AtomicBool,
    /// Changes that clients were told to be done.
    pub(crate) done: AtomicU64,
    /// The disk that loses its power, if one does.
    pub(crate) drive: Option<&'a Drive>,
}

impl Load<'_> {
    /// Whether what a client has just been told counts. A host loses its power together with its disk, so that none of its programs hears what a file
    /// system says afterwards: xfs syncs a directory without an error then.
    pub(crate) fn has_power(&self) -> bool {
        self.drive.is_none_or(Drive::is_on)
    }
}

/// Has clients work until an end, which `end` brings about some time after so many changes.
fn work(
    place: &Place,
    clients: &mut [Client],
    random: &mut fastrand::Rng,
    drive: Option<&Drive>,
    end: impl FnOnce(),
) -> u64 {
    let load = Load { ends: AtomicBool::new(false), done: AtomicU64::new(0), drive };
    let (changes, more) = (random.u64(1..60), Duration::from_micros(random.u64(..30_000)));
    std::thread::scope(|scope| {
        let (at, told) = (&place.at, &load);
        let workers: Vec<_> = clients.iter_mut().map(|client| scope.spawn(move || client.work(at, told))).collect();
        while load.done.load(Ordering::Acquire) < changes
            && !workers.iter().any(std::thread::ScopedJoinHandle::is_finished)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(more);
        load.ends.store(true, Ordering::Release);
        end();
    });
    load.done.into_inner()
}

/// How a service is ended, and what must be done before the next one.
struct End<'a> {
    /// Ends it, with a seed for what that leaves; whether it counts.
    ends: &'a mut dyn FnMut(&mut Service, Seed) -> bool,
    /// When no client is at work any more.
    prepare: &'a dyn Fn(),
    /// The disk whose power it cuts.
    drive: Option<&'a Drive>,
    keeps: Keeps,
}

/// The whole of a run, until so many ends have counted.
fn again_and_again(name: &str, ends: u32, place: &mut Place, seed: Seed, how: &mut End<'_>) {
    let mut random = seed.generator();
    place.fill(CLIENTS, &mut random);
    let mut clients = place.clients(CLIENTS, how.keeps, &mut random);
    // So slow that there is something to do until the last end, however long a round takes.
    let mut service = Service::start(place, place.bytes / (u64::from(ends) * LONGEST_ROUND));
    let (mut changes, mut counted, mut rounds) = (0, 0, 0);
    while counted < ends {
        rounds += 1;
        assert!(rounds <= 5 * ends, "{counted} of {rounds} ends counted");
        let moment = seed.derive(rounds.into());
        changes += work(place, &mut clients, &mut random, how.drive, || {
            counted += u32::from((how.ends)(&mut service, moment));
        });
        (how.prepare)();
        service.start_again();
        for client in &mut clients {
            client.look(&place.at, false);
        }
    }
    let left = service.until(|status| status.here > 0);
    println!("{name}: {rounds} ends, {changes} changes acknowledged; {} of {} bytes were here", left.here, left.bytes);
    assert!(changes >= u64::from(rounds), "there was a load: {changes} changes");
    assert!(left.phase == Phase::Crawling && left.whole < left.files, "work was left over at the last end: {left:?}");
    service.let_go();
    let status = service.until_done();
    assert_eq!((status.problems, status.conflicts), (0, 0), "{:?}", status.first_problems);
    for client in &mut clients {
        client.look(&place.at, true);
    }
    place.rest_is_as_at_the_source(&place.at);
    service.finish();
    for client in &mut clients {
        client.look(&place.new, true);
        client.compare_untouched(&place.old, &place.new);
    }
    place.rest_is_as_at_the_source(&place.new);
    place.nothing_is_left();
}

fn killed(name: &str, ends: u32) {
    seeded(name, |seed| {
        let Some(mut place) = Place::new(name) else { return };
        let mut kill = |service: &mut Service, _| {
            service.kill();
            true
        };
        let mut how = End { ends: &mut kill, prepare: &|| (), drive: None, keeps: Keeps::Everything };
        again_and_again(name, ends, &mut place, seed, &mut how);
    });
}

#[test]
fn a_service_that_is_killed_loses_nothing() {
    killed("a_service_that_is_killed_loses_nothing", 4);
}

#[test]
#[ignore = "takes minutes"]
fn a_service_that_is_killed_100_times_loses_nothing() {
    killed("a_service_that_is_killed_100_times_loses_nothing", 100);
}

/// Not a test of its own: the body of a service.
#[test]
#[ignore = "another test starts it"]
fn serves_until_it_is_told_to_end() {
    service::serve();
}

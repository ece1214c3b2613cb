use std::collections::VecDeque;

use ishigaki_testkit::seeded;

use super::*;

const PAGE: usize = 4096;

/// Copies as if there were a watch, number 1, and the node knew of file 1.
fn copies() -> Copies {
    let copies =
        Copies::new(CacheSettings { memory: ByteSize::mib(1), page: ByteSize::kib(4) }).expect("good settings");
    watched(&copies, 1);
    copies
}

fn watched(copies: &Copies, watch: u64) {
    copies.state.lock().watch = watch;
    copies.until.store(u64::MAX, Ordering::Release);
    assert_eq!(copies.watch_to_tell(1), Some(watch));
    copies.told(1, watch);
    assert_eq!(copies.watch_to_tell(1), None);
}

fn begin(offset: u64, length: u64) -> Notice {
    Notice::Begin { file: 1, offset, length }
}

fn end() -> Notice {
    Notice::End { file: 1, offset: 0, length: 1 }
}

#[test]
fn a_page_is_kept_until_somebody_changes_it() {
    let copies = copies();
    copies.keep(copies.note(1), 0, &[7; 4 * PAGE]);
    assert_eq!(copies.get(1, 3).expect("kept")[..], [7; PAGE]);
    copies.hear(begin(2 * PAGE as u64 + 100, 1));
    assert!(copies.get(1, 1).is_some() && copies.get(1, 2).is_none() && copies.get(1, 3).is_some());
    copies.hear(end());
    copies.begin_own(1, 0, PAGE as u64 + 1);
    assert!(copies.get(1, 0).is_none() && copies.get(1, 1).is_none() && copies.get(1, 3).is_some());
    copies.end_own(1, true);
    copies.hear(begin(0, u64::MAX));
    assert!(copies.get(1, 3).is_none());
    let CacheStatistics { hits, dropped, pages, .. } = copies.statistics();
    assert_eq!((hits, dropped, pages), (4, 4, 0));
}

#[test]
fn what_was_read_while_a_change_was_under_way_is_not_kept() {
    let copies = copies();
    let kept = |copies: &Copies| copies.get(1, 0).is_some();
    // It began after the read was noted, whether or not it has ended when the read comes.
    let noted = copies.note(1);
    copies.hear(begin(0, 1));
    copies.keep(noted, 0, &[1; PAGE]);
    assert!(!kept(&copies));
    copies.hear(end());
    copies.keep(noted, 0, &[1; PAGE]);
    assert!(!kept(&copies));
    // It had begun before.
    copies.hear(begin(0, 1));
    assert!(copies.note(1).is_none());
    copies.hear(end());
    // Our own.
    let noted = copies.note(1);
    copies.begin_own(1, 0, 1);
    assert!(copies.note(1).is_none());
    copies.end_own(1, true);
    copies.keep(noted, 0, &[1; PAGE]);
    assert!(!kept(&copies));
    copies.keep(copies.note(1), 0, &[1; PAGE]);
    assert!(kept(&copies));
    assert_eq!(copies.statistics().not_kept, 3);
}

#[test]
fn without_a_watch_or_a_lease_no_copy_is_used_and_none_is_made() {
    let copies = copies();
    let noted = copies.note(1);
    copies.keep(noted, 0, &[1; PAGE]);
    copies.until.store(copies.now(), Ordering::Release);
    assert!(copies.get(1, 0).is_none(), "the lease has run out");
    copies.renewed(1, Instant::now(), Duration::from_mins(1));
    assert!(copies.get(1, 0).is_some(), "it was renewed in time, and the node has waited for it");
    copies.lose_watch();
    copies.renewed(1, Instant::now(), Duration::from_mins(1));
    assert!(copies.get(1, 0).is_none() && !copies.may_use());
    watched(&copies, 2);
    assert!(copies.get(1, 0).is_none());
    copies.keep(noted, 0, &[1; PAGE]);
    assert!(copies.get(1, 0).is_none(), "read under the old watch");
    copies.told(1, 1);
    assert!(copies.note(1).is_some(), "the old watch's answer came late");
}

#[test]
fn after_a_write_of_ours_that_may_still_happen_everything_goes() {
    let copies = copies();
    copies.keep(copies.note(1), 0, &[1; PAGE]);
    copies.begin_own(1, 8 * PAGE as u64, 1);
    copies.end_own(1, false);
    assert!(copies.get(1, 0).is_none() && copies.watch() == 0 && copies.note(1).is_none());
}

#[test]
fn a_cache_takes_no_more_memory_than_it_may() {
    let copies = copies();
    for page in 0..5000 {
        copies.keep(copies.note(1), page, &[1; PAGE]);
    }
    let CacheStatistics { pages, bytes, .. } = copies.statistics();
    assert!(bytes <= 1 << 20 && (200..=256).contains(&pages), "{pages} pages, {bytes} bytes");
    for settings in [
        CacheSettings { page: ByteSize(5000), ..CacheSettings::default() },
        CacheSettings { page: ByteSize::mib(2), ..CacheSettings::default() },
        CacheSettings { memory: ByteSize::kib(100), ..CacheSettings::default() },
    ] {
        assert!(Copies::new(settings).is_err(), "{settings:?}");
    }
}

/// How often a cache that drops the least recently used of so many pages hits.
fn lru(trace: &[u64], room: usize) -> usize {
    let (mut order, mut hits) = (VecDeque::new(), 0);
    for page in trace {
        if let Some(at) = order.iter().position(|other| other == page) {
            order.remove(at);
            hits += 1;
        } else if order.len() == room {
            order.pop_front();
        }
        order.push_back(*page);
    }
    hits
}

#[test]
fn a_scan_does_not_drive_out_what_is_read_again_and_again() {
    seeded("a_scan_does_not_drive_out_what_is_read_again_and_again", |seed| {
        let mut random = seed.generator();
        let (mut trace, mut scanned) = (Vec::new(), 10_000);
        for _ in 0..20 {
            // Few pages often, as of an index; then a scan of many, once.
            trace.extend((0..500).map(|_| (random.f64() * random.f64() * 300.0) as u64));
            trace.extend(scanned..scanned + 300);
            scanned += 300;
        }
        let copies = copies();
        let hits = trace.iter().filter(|&&page| {
            let found = copies.get(1, page).is_some();
            if !found {
                copies.keep(copies.note(1), page, &[0; PAGE]);
            }
            found
        });
        let (hits, room) = (hits.count(), (1 << 20) / (PAGE + 96));
        let simulated = lru(&trace, room);
        assert!(hits >= simulated, "{hits} hits; the least recently used would give {simulated}");
    });
}

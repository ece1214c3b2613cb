use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn noted(number: u64) -> Noted {
    Noted { file: 1, watch: 1, number }
}

fn nowhere(_: u64, _: u64) -> Option<Arc<[u8]>> {
    None
}

fn joins(flights: &Flights, noted: Noted, page: u64) -> Option<Arc<Flight>> {
    let mut lead = flights.begin(noted, page);
    match lead.claim(nowhere) {
        Claim::Join(flight) => Some(flight),
        Claim::Lead => None,
        Claim::Found(_) => panic!("nothing was read"),
    }
}

#[test]
fn who_comes_while_a_page_is_on_its_way_waits_for_it_and_who_comes_later_finds_it() {
    let flights = Flights::default();
    let mut lead = flights.begin(noted(1), 7);
    assert!((0..2).all(|_| matches!(lead.claim(nowhere), Claim::Lead)));
    assert_eq!(lead.pages(), 7..9);
    let waiting = [7, 8].map(|page| joins(&flights, noted(1), page).expect("on its way"));
    for (file, page) in [(1, 6), (1, 9), (2, 7)] {
        assert!(joins(&flights, Noted { file, ..noted(1) }, page).is_none(), "{file}, {page}");
    }
    lead.land(7 * 4096, &Arc::new(AlignedBuffer::zeroed(8192)));
    for flight in waiting {
        let (begin, bytes) = flight.wait().expect("landed");
        assert_eq!((begin, bytes.len()), (7 * 4096, 8192));
    }
    let found: Arc<[u8]> = Arc::from([1; 4096]);
    let mut late = flights.begin(noted(1), 7);
    assert!(matches!(late.claim(|_, _| Some(Arc::clone(&found))), Claim::Found(_)));
    assert!(matches!(late.claim(nowhere), Claim::Lead), "unless it was not kept");
    drop(late);
    assert!(flights.under_way.lock().is_empty());
}

#[test]
fn a_flight_that_began_before_a_change_is_not_joined_after_it() {
    let flights = Flights::default();
    let (mut before, mut after) = (flights.begin(noted(1), 0), flights.begin(noted(2), 0));
    assert!(matches!(before.claim(nowhere), Claim::Lead));
    assert!(matches!(after.claim(nowhere), Claim::Lead), "it is a successor");
    assert!(joins(&flights, noted(3), 0).is_none(), "which has one, too, if that does not hold any more");
    assert!(matches!(after.claim(nowhere), Claim::Lead));
    let other = joins(&flights, noted(2), 1).expect("the successor is joined");
    before.land(0, &Arc::new(AlignedBuffer::zeroed(4096)));
    assert!(joins(&flights, noted(2), 1).is_some(), "its end is not the successor's");
    drop(after);
    assert!(other.wait().is_none());
    assert!(flights.under_way.lock().is_empty());
}

#[test]
fn a_flight_whose_leader_fails_or_panics_wakes_all_who_wait_and_is_forgotten() {
    for panics in [false, true] {
        let (flights, waiting, woken) = (Flights::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let mut lead = flights.begin(noted(1), 0);
        assert!(matches!(lead.claim(nowhere), Claim::Lead));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let flight = joins(&flights, noted(1), 0).expect("on its way");
                    waiting.fetch_add(1, Ordering::SeqCst);
                    assert!(flight.wait().is_none());
                    woken.fetch_add(1, Ordering::SeqCst);
                });
            }
            while waiting.load(Ordering::SeqCst) < 4 {
                std::thread::yield_now();
            }
            assert_eq!(woken.load(Ordering::SeqCst), 0);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let _lead = lead;
                assert!(!panics, "on purpose");
            }));
            assert_eq!(ended.is_err(), panics);
        });
        assert_eq!(woken.load(Ordering::SeqCst), 4);
        assert!(flights.under_way.lock().is_empty());
    }
}

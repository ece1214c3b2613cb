use std::time::{Duration, Instant};

use super::*;
use crate::libfabric::Libfabric;

const SIZES: Sizes = Sizes { ring: 8192, message: 256, messages: 4, writes: 4 };

fn loopback() -> OwnAddress {
    OwnAddress::Host("127.0.0.1".to_owned())
}

/// Two channels that know each other, of every provider that there is; the second one's memory is registered as asked for.
fn pairs(mode: Registration, test: impl Fn(&str, Channel, Channel)) {
    pairs_with(SIZES, mode, test);
}

fn pairs_with(sizes: Sizes, mode: Registration, test: impl Fn(&str, Channel, Channel)) {
    let Some(found) = Libfabric::probe().expect("a library that can be used") else {
        println!("SKIPPED: there is no libfabric (Debian: libfabric1)");
        return;
    };
    for provider in ["tcp", "net"] {
        if !found.has(provider) {
            println!("SKIPPED: libfabric has no provider {provider} here");
            continue;
        }
        let open = |mode| Channel::open(provider, loopback(), mode, sizes).expect("opened");
        let (mut one, mut other) = (open(mode), open(mode));
        let (first, second) = (one.address().expect("an address"), other.address().expect("an address"));
        one.join(&second).expect("joined");
        other.join(&first).expect("joined");
        test(provider, one, other);
    }
}

/// Lets both work until one of them has done what is looked for; everything that was done, or the error.
fn until(
    one: &mut Channel,
    other: &mut Channel,
    mut enough: impl FnMut(&[Done], &[Done]) -> bool,
) -> Result<(Vec<Done>, Vec<Done>), String> {
    let (mut by_one, mut by_other) = (Vec::new(), Vec::new());
    let deadline = Instant::now() + Duration::from_secs(10);
    while !enough(&by_one, &by_other) {
        assert!(Instant::now() < deadline, "{by_one:?} and {by_other:?}");
        one.poll(&mut by_one)?;
        other.poll(&mut by_other)?;
    }
    Ok((by_one, by_other))
}

fn wait_for(one: &mut Channel, other: &mut Channel, begin: impl Fn(&mut Channel) -> Result<bool, String>) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !begin(one).expect("nothing is wrong") {
        assert!(Instant::now() < deadline, "the provider is busy");
        let mut done = Vec::new();
        one.poll(&mut done).expect("polled");
        other.poll(&mut done).expect("polled");
        assert!(done.is_empty());
    }
}

#[test]
fn messages_and_writes_arrive_under_both_ways_of_registration() {
    for mode in [Registration::Any, Registration::Basic] {
        pairs(mode, |provider, mut one, mut other| {
            assert_eq!(other.by_address, mode == Registration::Basic, "{provider}");
            one.stage(100, b"into the ring");
            one.compose(3, 0, b"a message");
            let (landing, numbers) = (other.landing(), one.numbers());
            assert_eq!(numbers, other.numbers(), "{provider}");
            wait_for(&mut one, &mut other, |one| one.write(2, 100, 13, landing, 77));
            if numbers {
                let enough =
                    |one: &[Done], other: &[Done]| one.contains(&Done::Wrote(2)) && other.contains(&Done::Placed(77));
                until(&mut one, &mut other, enough).expect("written");
            }
            wait_for(&mut one, &mut other, |one| one.send(3, 9));
            let (_, heard) =
                until(&mut one, &mut other, |one, other| one.contains(&Done::Sent(3)) && !other.is_empty())
                    .expect("sent");
            let mut bytes = [0; 15];
            other.landed(99, &mut bytes);
            assert_eq!(&bytes, b"\0into the ring\0", "{provider}");
            let [Done::Received(slot, 9)] = heard[..] else { panic!("{provider}: {heard:?}") };
            let mut bytes = [0; 9];
            other.received(slot, 0, &mut bytes);
            assert_eq!(&bytes, b"a message");
        });
    }
}

#[test]
fn a_write_with_another_key_or_beyond_the_ring_changes_nothing() {
    for mode in [Registration::Any, Registration::Basic] {
        pairs(mode, |provider, mut one, mut other| {
            // The provider connects with the first one.
            wait_for(&mut one, &mut other, |one| one.send(0, 1));
            until(&mut one, &mut other, |one, other| !one.is_empty() && !other.is_empty()).expect("sent");
            one.stage(0, &[9; 512]);
            let right = other.landing();
            let wrong = Landing { key: right.key ^ 1, base: right.base };
            let beyond = Landing { key: right.key, base: right.base + SIZES.ring as u64 - 256 };
            for landing in [wrong, beyond] {
                // It is an error at once, later, or none that is told; but nothing is ever there.
                let _ = one.write(0, 0, 512, landing, 5);
                let (mut done, begin) = (Vec::new(), Instant::now());
                while begin.elapsed() < Duration::from_millis(100) {
                    let _ = (one.poll(&mut done), other.poll(&mut done));
                }
                assert!(!done.contains(&Done::Placed(5)), "{provider}: {done:?}");
            }
            let mut bytes = vec![1; SIZES.ring];
            other.landed(0, &mut bytes);
            assert!(bytes.iter().all(|&byte| byte == 0), "{provider}");
        });
    }
}

#[test]
fn an_endpoint_can_be_closed_while_half_of_a_write_is_there() {
    // More than the system takes in between them.
    let sizes = Sizes { ring: 64 << 20, ..SIZES };
    for mode in [Registration::Any, Registration::Basic] {
        pairs_with(sizes, mode, |provider, mut one, mut other| {
            wait_for(&mut one, &mut other, |one| one.send(0, 1));
            until(&mut one, &mut other, |one, other| !one.is_empty() && !other.is_empty()).expect("sent");
            one.stage(0, &[9; 4096]);
            let landing = other.landing();
            wait_for(&mut one, &mut other, |one| one.write(0, 0, sizes.ring, landing, 5));
            let (mut head, begun) = ([0; 4096], Instant::now());
            while head[4095] == 0 {
                let mut done = Vec::new();
                one.poll(&mut done).expect("polled");
                other.poll(&mut done).expect("polled");
                assert!(done.is_empty() && begun.elapsed() < Duration::from_secs(10), "{provider}: {done:?}");
                other.landed(0, &mut head);
            }
            drop(other);
            drop(one);
        });
    }
}

#[test]
fn a_provider_that_there_is_not_is_named() {
    if Library::open().expect("a library that can be used").is_none() {
        println!("SKIPPED: there is no libfabric (Debian: libfabric1)");
        return;
    }
    let error = Channel::open("carrier-pigeon", loopback(), Registration::Any, SIZES).expect_err("there is none");
    assert!(error.contains("carrier-pigeon"), "{error}");
}

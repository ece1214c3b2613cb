//! What reads in flight promise.

use std::os::fd::AsFd;
use std::sync::mpsc;

use super::*;
use crate::{Directory, FileDirectory};

fn device(pages: u64) -> Option<(tempfile::TempDir, Arc<FileDevice>)> {
    let place = tempfile::tempdir().expect("a place");
    let created = FileDirectory::open(place.path()).expect("opened").create("f", pages * 4096).expect("created");
    let mut page = AlignedBuffer::zeroed(4096);
    for number in 0..pages {
        page.fill(number as u8);
        created.write_at(number * 4096, &page).expect("written");
    }
    let device = FileDevice::open_path(place.path().join("f")).expect("opened");
    match Reads::<()>::new(1) {
        Ok(_) => Some((place, Arc::new(device))),
        Err(error) => {
            println!("SKIPPED: {error}");
            None
        }
    }
}

#[test]
fn every_read_lands_once_with_its_own_bytes_however_many_are_begun() {
    let Some((_place, device)) = device(200) else { return };
    let mut reads = Reads::new(4).expect("a ring");
    for page in 0..200_u64 {
        reads.begin(&device, page * 4096, AlignedBuffer::zeroed(8192), 4096, page).expect("begun");
    }
    let mut landed = Vec::new();
    while reads.in_flight() > 0 {
        reads.wait(&mut landed, None).expect("waited");
    }
    landed.sort_by_key(|read| read.token);
    assert_eq!(landed.len(), 200);
    for (page, read) in landed.iter().enumerate() {
        assert_eq!(read.token, page as u64);
        assert!(read.outcome.is_ok() && read.buffer[..4096].iter().all(|&byte| byte == page as u8), "{page}");
        assert!(read.buffer[4096..].iter().all(|&byte| byte == 0), "only what was asked for");
    }
}

#[test]
fn a_read_that_no_device_could_serve_is_refused_at_once() {
    let Some((_place, device)) = device(1) else { return };
    let mut reads = Reads::new(4).expect("a ring");
    for (offset, length) in [(0, 8192), (4096, 4096), (1, 4096), (0, 100)] {
        let outcome = reads.begin(&device, offset, AlignedBuffer::zeroed(4096), length, ());
        assert!(matches!(outcome, Err(Error::Invalid { .. })), "{length} at {offset}");
    }
    assert_eq!(reads.in_flight(), 0);
}

#[test]
fn a_file_that_was_cut_short_is_an_error_of_that_read_alone() {
    let Some((place, device)) = device(4) else { return };
    let file = std::fs::OpenOptions::new().write(true).open(place.path().join("f")).expect("opened");
    file.set_len(4096).expect("cut short");
    let mut reads = Reads::new(4).expect("a ring");
    for page in [0, 2] {
        reads.begin(&device, page * 4096, AlignedBuffer::zeroed(4096), 4096, page).expect("begun");
    }
    let mut landed = Vec::new();
    while reads.in_flight() > 0 {
        reads.wait(&mut landed, None).expect("waited");
    }
    landed.sort_by_key(|read| read.token);
    assert!(landed[0].outcome.is_ok() && landed[1].outcome.is_err());
}

#[test]
fn waiting_ends_with_its_time_and_when_the_watched_descriptor_is_readable() {
    let Some((_place, _device)) = device(1) else { return };
    let (mut writer, reader) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let mut reads = Reads::<()>::new(4).expect("a ring");
    reads.watch(reader.as_fd()).expect("watched");
    let mut landed = Vec::new();
    assert!(!reads.wait(&mut landed, Some(Duration::from_millis(5))).expect("waited"));
    for _ in 0..3 {
        io::Write::write_all(&mut writer, b"x").expect("written");
        assert!(reads.wait(&mut landed, Some(Duration::from_secs(5))).expect("waited"));
        io::Read::read_exact(&mut &reader, &mut [0]).expect("read");
    }
}

#[test]
fn reads_that_are_dropped_in_flight_are_waited_for() {
    let Some((_place, device)) = device(64) else { return };
    for _ in 0..20 {
        let mut reads = Reads::new(64).expect("a ring");
        for page in 0..64 {
            reads.begin(&device, page * 4096, AlignedBuffer::zeroed(4096), 4096, ()).expect("begun");
        }
        reads.submit().expect("submitted");
    }
    assert_eq!(Arc::strong_count(&device), 1, "every read has let go of the device");
}

/// Runs what must not wait for ever.
fn in_time(body: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let runner = std::thread::spawn(move || {
        body();
        let _ = tell.send(());
    });
    let ended = told.recv_timeout(Duration::from_secs(20));
    assert_ne!(ended, Err(mpsc::RecvTimeoutError::Timeout), "a read that is not under way is waited for");
    runner.join().expect("the test succeeds");
}

#[test]
fn a_read_that_does_not_get_into_the_queue_is_not_under_way() {
    let Some((_place, device)) = device(2) else { return };
    in_time(move || {
        let mut reads = Reads::new(4).expect("a ring");
        reads.refusals = 1;
        reads.begin(&device, 0, AlignedBuffer::zeroed(4096), 4096, 0).expect_err("refused");
        assert_eq!((reads.in_flight(), Arc::strong_count(&device)), (0, 1));
        reads.begin(&device, 4096, AlignedBuffer::zeroed(4096), 4096, 1).expect("begun");
        let mut landed = Vec::new();
        reads.wait(&mut landed, None).expect("waited");
        assert!(matches!(&landed[..], [Landed { token: 1, outcome: Ok(()), .. }]), "{landed:?}");
    });
}

#[test]
fn a_read_that_can_not_go_on_lands_with_the_error() {
    let Some((place, device)) = device(4) else { return };
    let file = std::fs::OpenOptions::new().write(true).open(place.path().join("f")).expect("opened");
    file.set_len(4096).expect("cut short");
    in_time(move || {
        let mut reads = Reads::new(4).expect("a ring");
        for token in 0..3 {
            reads.begin(&device, 0, AlignedBuffer::zeroed(8192), 8192, token).expect("begun");
        }
        // The kernel gives half of each, and the other halves can not be asked for.
        reads.refusals = 3;
        let mut landed = Vec::new();
        while reads.in_flight() > 0 {
            reads.wait(&mut landed, None).expect("waited");
        }
        assert!(landed.len() == 3 && landed.iter().all(|read| read.outcome.is_err()), "{landed:?}");
        assert_eq!(reads.refusals, 0, "it was tried for each");
    });
}

#[test]
fn a_descriptor_is_watched_though_asking_for_it_failed_once() {
    let Some((_place, _device)) = device(1) else { return };
    let (mut writer, reader) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let mut reads = Reads::<()>::new(4).expect("a ring");
    reads.watch(reader.as_fd()).expect("watched");
    reads.refusals = 1;
    reads.wait(&mut Vec::new(), Some(Duration::from_millis(5))).expect_err("refused");
    io::Write::write_all(&mut writer, b"x").expect("written");
    assert!(reads.wait(&mut Vec::new(), Some(Duration::from_secs(5))).expect("waited"));
}

#[test]
fn a_descriptor_takes_the_place_of_the_one_that_was_watched_before() {
    let Some((_place, _device)) = device(1) else { return };
    let pairs = [0, 1].map(|_| std::os::unix::net::UnixStream::pair().expect("a pair"));
    let mut reads = Reads::<()>::new(4).expect("a ring");
    for (_, reader) in &pairs {
        reads.watch(reader.as_fd()).expect("watched");
        assert!(!reads.wait(&mut Vec::new(), Some(Duration::from_millis(5))).expect("waited"));
    }
    let [(mut before, _before), (mut now, _now)] = pairs;
    io::Write::write_all(&mut before, b"x").expect("written");
    assert!(
        !reads.wait(&mut Vec::new(), Some(Duration::from_millis(50))).expect("waited"),
        "it is not watched any more"
    );
    io::Write::write_all(&mut now, b"x").expect("written");
    assert!(reads.wait(&mut Vec::new(), Some(Duration::from_secs(5))).expect("waited"));
}

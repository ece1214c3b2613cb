//! What only rings do. What every directory does is in `tests/behaviour.rs`.

use std::os::fd::OwnedFd;
use std::sync::Barrier;

use rustix::io::ReadWriteFlags;

use super::*;
use crate::AlignedBuffer;
use crate::file::{Calls, Run, Transfer};
use crate::ring::queue::MOST;

fn filled(byte: u8, length: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(length);
    buffer.fill(byte);
    buffer
}

/// A directory, or nothing where the kernel has no ring. Says so past the test harness.
fn in_temporary() -> Option<(tempfile::TempDir, RingDirectory)> {
    let place = tempfile::tempdir().expect("a place for temporary files");
    match RingDirectory::open(place.path()) {
        Err(Error::NoRing { source, .. }) => {
            let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("SKIPPED: no io_uring: {source}\n"));
            None
        }
        opened => Some((place, opened.expect("opened"))),
    }
}

#[test]
fn more_runs_than_a_ring_takes_at_once_are_all_written() {
    let Some((_place, directory)) = in_temporary() else { return };
    let count = 2 * MOST + 7;
    let device = directory.create("d", (count * 4096) as u64).expect("created");
    let runs: Vec<AlignedBuffer> = (0..count).map(|run| filled(run as u8, 4096)).collect();
    let writes: Vec<(u64, &[u8])> =
        runs.iter().enumerate().map(|(run, bytes)| ((run * 4096) as u64, &bytes[..])).collect();
    device.write_all_durable(&writes).expect("written");
    let mut back = AlignedBuffer::zeroed(count * 4096);
    FileDirectory::open(directory.path())
        .expect("opened")
        .open("d")
        .expect("there")
        .read_at(0, &mut back)
        .expect("read");
    assert!(back.chunks(4096).enumerate().all(|(run, bytes)| bytes.iter().all(|byte| *byte == run as u8)));
}

#[test]
fn what_one_request_leaves_undone_the_next_one_does() {
    let Some((_place, _directory)) = in_temporary() else { return };
    let pool = Pool::of_requests_up_to(4096).expect("a ring");
    let file = OwnedFd::from(tempfile::tempfile().expect("a file"));
    let mut pattern = AlignedBuffer::zeroed(20_000);
    pattern.iter_mut().enumerate().for_each(|(index, byte)| *byte = (index / 100) as u8);
    let run = |range: std::ops::Range<usize>| Run {
        offset: range.start as u64,
        bytes: &pattern[range],
        flags: ReadWriteFlags::empty(),
    };
    pool.write(&file, &[run(9000..20_000), run(0..0), run(0..9000)]).expect("written");
    let mut back = vec![0; pattern.len()];
    Calls.read(&file, 0, &mut back).expect("read");
    assert!(back == pattern[..]);
}

#[test]
fn there_are_no_more_rings_than_calls_at_once() {
    let Some((_place, _directory)) = in_temporary() else { return };
    let pool = Pool::new().expect("a ring");
    let file = tempfile::tempfile().expect("a file");
    file.set_len(1 << 20).expect("its length");
    let file = OwnedFd::from(file);
    let together = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (pool, file, together) = (&pool, &file, &together);
            scope.spawn(move || {
                together.wait();
                let bytes = filled(thread as u8, 4096);
                for turn in 0..50 {
                    let run =
                        Run { offset: (thread * 50 + turn) * 4096, bytes: &bytes, flags: ReadWriteFlags::empty() };
                    pool.write(file, &[run]).expect("written");
                }
            });
        }
    });
    let rings = pool.idle();
    assert!((1..=4).contains(&rings), "{rings}");
    let mut back = filled(9, 200 * 4096);
    Calls.read(&file, 0, &mut back).expect("read");
    assert!(back.chunks(4096).enumerate().all(|(turn, bytes)| bytes.iter().all(|byte| *byte as usize == turn / 50)));
}

#[test]
fn a_failed_request_is_told_and_the_ring_goes_on() {
    let Some((place, _directory)) = in_temporary() else { return };
    let path = place.path().join("f");
    std::fs::write(&path, [1; 1000]).expect("written");
    let pool = Pool::new().expect("a ring");
    let read_only = OwnedFd::from(std::fs::File::open(&path).expect("opened"));
    let bytes = [7; 512];
    let run = |offset| Run { offset, bytes: &bytes, flags: ReadWriteFlags::empty() };
    assert_eq!(pool.write(&read_only, &[run(0), run(512)]), Err(Errno::BADF));
    let file = OwnedFd::from(std::fs::OpenOptions::new().write(true).open(&path).expect("opened"));
    pool.write(&file, &[run(0), run(512)]).expect("written");
    assert_eq!(std::fs::read(&path).expect("read"), [7; 1024]);
    assert_eq!(pool.idle(), 1, "it is the same ring");
}

#[test]
fn a_ring_that_can_not_be_had_comes_with_a_remedy() {
    for errno in [Errno::NOSYS, Errno::PERM, Errno::NOMEM, Errno::MFILE] {
        let error = Error::NoRing { name: "d".to_owned(), source: errno.into(), remedy: remedy(errno) };
        assert!(!remedy(errno).is_empty() && error.to_string().contains("io_uring can not be used here"), "{error}");
    }
    assert!(remedy(Errno::PERM).contains("kernel.io_uring_disabled"));
}

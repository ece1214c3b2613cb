//! Durable writes by system calls and by `io_uring`, in turns: what a ring gains on a medium.
//!
//! `cargo run --release -p ishigaki-device --example file_or_ring -- DIRECTORY [ROUNDS]`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_device::{AlignedBuffer, Device, Directory, Error, FileDirectory, RingDirectory};

/// Time of each case in each round.
const TIME: Duration = Duration::from_millis(100);
const LENGTH: u64 = 8 << 20;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let place = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let place = place.join(format!("file-or-ring-{}", std::process::id()));
    let outcome = compare(&place, rounds);
    // Nothing more can be done about what can not be removed.
    let _ = std::fs::remove_dir_all(&place);
    outcome
}

fn compare(place: &std::path::Path, rounds: usize) -> Result<(), Error> {
    let files = FileDirectory::open(place)?;
    let mut ways = vec![("file", files.create("by-calls", LENGTH)?)];
    match RingDirectory::open(place) {
        Ok(rings) => ways.push(("ring", rings.create("by-ring", LENGTH)?)),
        Err(error) => println!("{error}"),
    }
    println!("{:>6} {:>7} {:>5} {:>11} {:>21}", "way", "size", "runs", "median", "rounds");
    for (size, runs) in [(512, 1), (4096, 1), (512, 8), (4096, 8)] {
        let mut medians = vec![Vec::new(); ways.len()];
        for round in 0..rounds {
            for ((_, device), medians) in ways.iter().zip(&mut medians) {
                medians.push(median_of_one_round(device, size, runs, round as u8)?);
            }
        }
        for ((way, _), medians) in ways.iter().zip(&mut medians) {
            medians.sort_unstable();
            let micros = |time: &Duration| time.as_secs_f64() * 1e6;
            let (least, most) = (medians.first().map_or(0.0, micros), medians.last().map_or(0.0, micros));
            let middle = medians.get(medians.len() / 2).map_or(0.0, micros);
            println!("{way:>6} {size:>5} B {runs:>5} {middle:>8.1} us   {least:>6.1} to {most:>6.1} us");
        }
    }
    Ok(())
}

/// The median time of one call that makes `runs` runs durable, none beside its neighbour.
fn median_of_one_round(device: &Arc<dyn Device>, size: usize, runs: u64, byte: u8) -> Result<Duration, Error> {
    let mut block = AlignedBuffer::zeroed(size);
    block.fill(byte);
    let (stride, mut turn, mut times) = (2 * size as u64, 0, Vec::new());
    let begin = Instant::now();
    while begin.elapsed() < TIME {
        let first = turn * runs * stride % (LENGTH - runs * stride) / stride * stride;
        let writes: Vec<(u64, &[u8])> = (0..runs).map(|run| (first + run * stride, &block[..])).collect();
        let before = Instant::now();
        device.write_all_durable(&writes)?;
        times.push(before.elapsed());
        turn += 1;
        if turn == 1 {
            let mut back = AlignedBuffer::zeroed(size);
            device.read_at(first + (runs - 1) * stride, &mut back)?;
            assert!(back[..] == block[..], "the last run is not what was written");
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

//! What it costs to pack entries, and what it saves: a server commits, each time the tail block of its log again, 4 KiB, in
//! memory, without syncs.
//!
//! ```sh
//! cargo run --release -p ishigaki-logpool --example packing -- 50000
//! ```
//!
//! *Rows* are as `InnoDB` does it: 256 bytes a commit, three quarters of them as in every row, and, with the second commit
//! into a block, what the block before it had in that place. *Random* ones resemble nothing.

use std::sync::Arc;
use std::time::Instant;

use fastrand::Rng;
use ishigaki_base::random::Seed;
use ishigaki_device::MemoryDirectory;
use ishigaki_logpool::{Durability, MemberSettings, Pool, Settings};

type Failure = Box<dyn std::error::Error>;

const BLOCK: usize = 4096;
const ROW: usize = 256;
/// Blocks of the log file, which is written around and around.
const BLOCKS: usize = 1024;
const ROUNDS: usize = 5;

fn main() -> Result<(), Failure> {
    let commits: usize = std::env::args().nth(1).map_or(Ok(2000), |count| count.parse())?;
    println!("{:<8} {:>12} {:>12} {:>12} {:>10}", "fresh", "least", "median", "logged", "of written");
    for (what, alike) in [("rows", true), ("random", false)] {
        let mut rounds = (0..ROUNDS).map(|_| commit(commits, alike)).collect::<Result<Vec<_>, _>>()?;
        rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (median, logged) = rounds[ROUNDS / 2];
        let each = logged / commits as f64;
        println!(
            "{what:<8} {:>9.2} µs {median:>9.2} µs {each:>10.0} B {:>10}",
            rounds[0].0,
            format!("1/{:.1}", BLOCK as f64 / each)
        );
    }
    Ok(())
}

/// Microseconds of a commit, and bytes that all have logged.
fn commit(commits: usize, alike: bool) -> Result<(f64, f64), Failure> {
    let pool = Pool::open_together(Arc::new(MemoryDirectory::new()), Settings::default())?;
    let member = pool.add("server", MemberSettings::default())?;
    let file = member.create("log")?;
    let mut random = Seed(1).generator();
    let mut same = [0; ROW];
    random.fill(&mut same);
    let (mut block, mut before) = ([0; BLOCK], [0; BLOCK]);
    let began = Instant::now();
    for commit in 0..commits {
        let (at, place) = (commit * ROW % BLOCK, commit * ROW / BLOCK % BLOCKS);
        if at == 0 {
            (before, block) = (block, [0; BLOCK]);
        }
        row(&mut block[at..at + ROW], &same, alike, &mut random);
        if at == ROW {
            block[2 * ROW..].copy_from_slice(&before[2 * ROW..]);
        }
        file.write((place * BLOCK) as u64, &block, Durability::Later)?;
    }
    Ok((began.elapsed().as_secs_f64() * 1e6 / commits as f64, member.statistics().logged as f64))
}

fn row(into: &mut [u8], same: &[u8; ROW], alike: bool, random: &mut Rng) {
    random.fill(into);
    if alike {
        let rest = into.iter_mut().zip(same).enumerate().filter(|(at, _)| at % 64 >= 16);
        rest.for_each(|(_, (byte, same))| *byte = *same);
    }
}

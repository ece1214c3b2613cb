//! One side in one round: a reader alone, then beside servers that write.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ishigaki_servers::{Kind, Running, Server};
use rustix::fs::{Advice, fadvise};

use super::{NAME, Settings, queries};
use crate::one_log::{Data, Place, Side, Standing};
use crate::{Error, Result, median};

/// A buffer far smaller than the tables.
const OF_MARIADB: &[&str] = &["--innodb-buffer-pool-size=8M", "--innodb-buffer-pool-load-at-startup=0"];
const OF_POSTGRESQL: &[&str] = &["-c", "shared_buffers=4MB", "-c", "max_parallel_workers_per_gather=0"];

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Seconds that each query took, the middle of its times: while nobody wrote, and while all others did.
    pub(super) queries: [[f64; 2]; 2],
    /// Rows that were written a second, of all writers.
    pub(super) written: f64,
}

/// Measures one side. The first answers are kept; all others must be the same.
pub(super) fn run(
    standing: &Standing<'_>,
    settings: &Settings,
    side: Side,
    answers: &mut Option<[String; 2]>,
) -> Result<Outcome> {
    let of_reader = match settings.kind {
        Kind::MariaDb => OF_MARIADB,
        Kind::PostgreSql => OF_POSTGRESQL,
    };
    let place = Place::new(standing, side, |number| match number {
        0 => (Data::Disk, of_reader),
        _ => (Data::Memory, &[][..]),
    })?;
    let mut running = place.start()?;
    place.wait_until_up()?;
    standing.settle()?;
    let (reader, writers) = place.servers.split_first().expect("there is a reader, as the settings say");
    let alone = read(settings, reader, answers)?;
    let end = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    let (beside, acknowledged, rate) = std::thread::scope(|scope| {
        let threads: Vec<_> =
            writers.iter().map(|server| scope.spawn(|| write(settings, server, &end, &written))).collect();
        let began = Instant::now();
        let beside = read(settings, reader, answers);
        let rate = written.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
        end.store(true, Ordering::Relaxed);
        let joined = threads.into_iter().map(|thread| thread.join().expect("a writer returns its errors"));
        Ok::<_, Error>((beside?, joined.collect::<Result<Vec<u64>>>()?, rate))
    })?;
    running.iter_mut().try_for_each(Running::kill)?;
    drop(running);
    let _again = place.start()?;
    for (server, rows) in writers.iter().zip(acknowledged) {
        let question = "select concat(count(*), ' ', coalesce(max(number), -1) + 1) from written;\n";
        let found = server.run_when_up(question, &|| settings.under().is_stopped())?;
        if found.trim() != format!("{rows} {rows}") {
            return Err(wrong(settings, format!("{rows} rows were acknowledged, and there are {}", found.trim())));
        }
    }
    Ok(Outcome { queries: [0, 1].map(|query| [alone[query], beside[query]]), written: rate })
}

/// Asks both queries, one after the other, some times; gives the middle of the times of each.
fn read(settings: &Settings, reader: &Server, answers: &mut Option<[String; 2]>) -> Result<[f64; 2]> {
    let texts = queries::texts(settings.kind);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..settings.times {
        let mut answer = [String::new(), String::new()];
        for (query, text) in texts.iter().enumerate() {
            forget(&reader.data().join("db")).map_err(|source| Error::Io {
                path: reader.data().to_owned(),
                operation: "giving memory of the reader's files back",
                source,
            })?;
            let began = Instant::now();
            answer[query] = reader.run_when_up(text, &|| settings.under().is_stopped())?;
            times[query].push(began.elapsed().as_secs_f64());
        }
        if answer.iter().any(|answer| answer.trim().is_empty())
            || answers.as_ref().is_some_and(|known| *known != answer)
        {
            return Err(wrong(settings, "a query has no answer, or another one than before".to_owned()));
        }
        answers.get_or_insert(answer);
    }
    Ok(times.map(|times| median(&times)))
}

/// Inserts row after row until the end; gives how many were acknowledged.
fn write(settings: &Settings, server: &Server, end: &AtomicBool, written: &AtomicU64) -> Result<u64> {
    let mut client = server.client()?;
    let mut rows = 0;
    while !end.load(Ordering::Relaxed) {
        settings.under().go_on()?;
        let answer = client.ask(&format!("insert into written values ({rows}, 7) returning 'ok';"))?;
        if answer != "ok" {
            return Err(wrong(settings, format!("a server has answered an insert with `{answer}`")));
        }
        rows += 1;
        written.fetch_add(1, Ordering::Relaxed);
    }
    Ok(rows)
}

/// Has the host forget what it keeps of the files of a folder, those below it as well.
fn forget(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            forget(&entry.path())?;
        } else if entry.file_type()?.is_file() {
            // A server may remove what we have just seen.
            if let Ok(file) = File::open(entry.path()) {
                fadvise(&file, 0, None, Advice::DontNeed)?;
            }
        }
    }
    Ok(())
}

fn wrong(settings: &Settings, reason: String) -> Error {
    Error::Wrong { workload: NAME, reason, path: settings.host.scratch.clone() }
}

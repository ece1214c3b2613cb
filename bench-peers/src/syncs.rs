//! `--sync-counts`: what each engine really asks of the kernel for a transaction.
//!
//! While the clients run, and only then, `strace` is attached to this very process. Afterwards each call is put down as a
//! sync (`fdatasync`, `fsync`, `msync`, `sync_file_range`), as a durable write (`RWF_DSYNC`, or through a descriptor opened
//! with `O_DSYNC` or `O_SYNC`) or as a plain write, and divided by the transactions that were acknowledged meanwhile.
//! Tracing slows every call down, so that groups come out larger than in measured runs; the figures of one client do not
//! suffer from that.

mod trace;

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ishigaki_bench::{Line, Origin, Progress};
use rustix::process::{Pid, Signal, kill_process};

use crate::contest::{self, Settings};
use crate::drive::Plan;
use crate::engine::Engine;
use crate::figures;
use trace::Descriptors;

pub(crate) use trace::{Calls, Kind};

/// Longest wait for `strace` to attach.
const ATTACH: Duration = Duration::from_secs(10);

/// The calls that are looked at; `?` lets `strace` know fewer of them.
const CALLS: &str = "trace=write,writev,pwrite64,pwritev,?pwritev2,fsync,fdatasync,msync,sync_file_range,syncfs,sync,\
                     ?io_uring_enter,?io_submit";

/// Runs every bout once, traced.
pub(crate) fn run(
    settings: &Settings,
    engines: &[Box<dyn Engine>],
    origin: &Origin,
    progress: &mut dyn Progress,
) -> Result<Vec<Line>> {
    let site = contest::site(&settings.data)?;
    let bouts = settings.bouts(engines);
    let (mut lines, of) = (Vec::new(), bouts.len() as u64);
    for (done, &bout) in (0..).zip(&bouts) {
        let (workload, clients, engine) = bout;
        let engine = engines[engine].as_ref();
        progress.step(&format!("{}, {clients} clients, {}", engine.name(), workload.name()), done, of);
        let plan = Plan::new(workload, clients, settings.seed.derive(done), settings.measured);
        let (transactions, calls) = count(engine, site.path(), &plan, done)?;
        lines.extend(figures::calls(engines, bout, transactions, &calls, origin));
    }
    Ok(lines)
}

/// How many transactions were acknowledged under the eyes of `strace`, and which calls they took.
fn count(engine: &dyn Engine, site: &Path, plan: &Plan, number: u64) -> Result<(u64, Calls)> {
    let (output, words) = (site.join(format!("trace-{number}")), site.join(format!("words-{number}")));
    let mut descriptors = Descriptors::new();
    let run = contest::once(engine, &site.join(format!("traced-{number}")), plan, |store| {
        descriptors.extend(flags()?);
        let mut strace = attach(&output, &words)?;
        let run = store.drive(plan);
        let detached = detach(&mut strace);
        descriptors.extend(flags()?);
        detached.and(run)
    })?;
    let run = run.map_err(anyhow::Error::msg).context(engine.name())?;
    let transactions = run.done.iter().sum();
    let text = fs::read_to_string(&output).with_context(|| output.display().to_string())?;
    Ok((transactions, trace::calls(&text, &descriptors)))
}

/// The calls of a trace of files that were opened without a flag.
#[cfg(test)]
pub(crate) fn calls_of(text: &str) -> Calls {
    trace::calls(text, &Descriptors::new())
}

fn attach(output: &Path, words: &Path) -> Result<Child> {
    let mut strace = Command::new("strace")
        .args(["-f", "-y", "-s", "0", "-e", "signal=none", "-e", CALLS, "-o"])
        .arg(output)
        .args(["-p", &std::process::id().to_string()])
        .stdin(Stdio::null())
        .stderr(File::create(words)?)
        .spawn()
        .context("starting strace; install it, or leave --sync-counts out")?;
    let started = Instant::now();
    loop {
        let said = fs::read_to_string(words)?;
        if said.contains("attached") {
            return Ok(strace);
        }
        if strace.try_wait()?.is_some() || started.elapsed() > ATTACH {
            let _ = strace.kill();
            bail!("strace can not attach to this process (root can): {}", said.trim());
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn detach(strace: &mut Child) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(strace.id())?).context("a child has a process number")?;
    kill_process(pid, Signal::INT)?;
    strace.wait()?;
    Ok(())
}

/// With which flags each open file was opened.
fn flags() -> Result<HashMap<u32, u64>> {
    let mut flags = HashMap::new();
    for entry in fs::read_dir("/proc/self/fdinfo")? {
        let entry = entry?;
        // The descriptor of this very directory is closed by now.
        let Ok(info) = fs::read_to_string(entry.path()) else { continue };
        let octal = info.lines().find_map(|line| line.strip_prefix("flags:")).map(str::trim);
        let number = entry.file_name().to_string_lossy().parse().ok();
        if let Some((number, octal)) = number.zip(octal) {
            flags.insert(number, u64::from_str_radix(octal, 8)?);
        }
    }
    Ok(flags)
}

//! `peers`: the same durable updates on Ishigaki and on its rivals.
//!
//! ```text
//! arguments ─▶ contest: rounds × workloads × clients × engines, shuffled
//!                 │ one run: engine.create ─▶ store.drive (clients) ─▶ close ─▶ engine.check against the history
//!                 ▼
//!              figures: medians, ratios to the best rival ─▶ JSON lines, tables, or a page with them
//! ```
//!
//! What is updated is in [`workload`], who takes part in [`engine`], how clients are driven in [`drive`]. What the figures
//! mean, how the rivals are set and why, and results worth keeping are in `docs/results/peers.md` of the repository.

mod arguments;
mod contest;
mod drive;
mod engine;
mod figures;
mod syncs;
mod workload;

use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use ishigaki_base::random::Seed;
use ishigaki_bench::figures::read;
use ishigaki_bench::{Line, Origin, Progress};

use arguments::Arguments;
use engine::Engine;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let Some(data) = arguments.data.clone() else {
        let kept: Vec<Vec<Line>> = arguments.from.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        return show(&arguments, &kept.concat(), "");
    };
    let settings = contest::Settings {
        data,
        workloads: arguments.workload.clone(),
        clients: arguments.clients.clone(),
        measured: arguments.seconds,
        rounds: arguments.rounds.into(),
        seed: arguments.seed.unwrap_or_else(Seed::from_entropy),
    };
    let engines = arguments.engines();
    let origin = Origin::here(env!("PEERS_COMMIT"), settings.seed);
    let mut bar = Bar::new();
    let lines = if arguments.sync_counts {
        syncs::run(&settings, &engines, &origin, &mut bar)
    } else {
        contest::run(&settings, &engines, &mut bar).map(|results| figures::lines(&engines, &results, &origin))
    };
    bar.0.finish_and_clear();
    show(&arguments, &lines?, &introduce(&engines))
}

/// As JSON, in a page, or as tables under their introduction.
fn show(arguments: &Arguments, lines: &[Line], introduction: &str) -> Result<()> {
    let text = if arguments.json {
        lines.iter().map(|line| line.json() + "\n").collect()
    } else if let Some(path) = &arguments.page {
        let about = || path.display().to_string();
        let page = fs::read_to_string(path).with_context(about)?;
        let page = figures::insert(&page, &figures::tables(lines)).with_context(about)?;
        return fs::write(path, page).with_context(about);
    } else {
        format!("{introduction}{}", figures::tables(lines))
    };
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

/// Who takes part, with versions and settings.
fn introduce(engines: &[Box<dyn Engine>]) -> String {
    let line = |engine: &dyn Engine| format!("{} {}: {}\n", engine.name(), engine.version(), engine.settings());
    engines.iter().map(|engine| line(engine.as_ref())).chain(["\n".to_owned()]).collect()
}

/// On a terminal; elsewhere it is silent.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self(bar)
    }
}

impl Progress for Bar {
    fn step(&mut self, now: &str, done: u64, of: u64) {
        self.0.set_length(of);
        self.0.set_position(done);
        self.0.set_message(now.to_owned());
    }
}

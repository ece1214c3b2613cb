//! An eye on a running statement: a bar for COPY, and Ctrl-C.
//!
//! Only the interactive shell catches Ctrl-C, because only there does anything go on after it. Elsewhere it ends the
//! process at once, which the database is made for.

use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use ishigaki_sql::{CancelHandle, Progress, Session};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::failure::Failure;
use crate::human::counted;

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// Watches one statement.
pub(super) struct Watch {
    cancel: CancelHandle,
    interrupt: Option<Signal>,
    bar: Option<Bar>,
}

impl Watch {
    /// Of a statement that begins now.
    pub(super) fn new(session: &Session, sql: &str, catches_interrupts: bool) -> Result<Self, Failure> {
        let interrupt = catches_interrupts.then(|| signal(SignalKind::interrupt())).transpose();
        let interrupt = interrupt.map_err(|error| Failure::invalid(format!("Ctrl-C can not be caught: {error}")))?;
        let is_copy = sql.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("copy"));
        let bar = is_copy.then(|| Bar::new(session.progress()));
        Ok(Self { cancel: session.cancel_handle(), interrupt, bar })
    }

    /// Waits for `work`, and cancels the statement when Ctrl-C is pressed meanwhile; `work` then ends by itself, with an
    /// error that says so.
    pub(super) async fn until<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = pressed(self.interrupt.as_mut()) => {
                    // The terminal has shown `^C`; what follows begins a line.
                    let _ = writeln!(io::stderr());
                    self.cancel.cancel();
                }
                () = tick(self.bar.as_mut()) => {}
            }
        }
    }
}

async fn pressed(interrupt: Option<&mut Signal>) {
    match interrupt {
        // The stream of signals has no end.
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

async fn tick(bar: Option<&mut Bar>) {
    match bar {
        Some(bar) => bar.tick().await,
        None => std::future::pending().await,
    }
}

/// How far a COPY is, on stderr; invisible when that is no terminal.
struct Bar {
    progress: Progress,
    /// What the counters of the session said before the statement began.
    before: (u64, u64),
    interval: Interval,
    shown: Option<ProgressBar>,
}

impl Bar {
    fn new(progress: Progress) -> Self {
        let mut interval = interval(TICK);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let before = (progress.bytes(), progress.rows());
        Self { progress, before, interval, shown: None }
    }

    async fn tick(&mut self) {
        self.interval.tick().await;
        if self.shown.is_none() && (self.progress.bytes(), self.progress.rows()) == self.before {
            return;
        }
        let total = self.progress.total_bytes();
        let bar = self.shown.get_or_insert_with(|| begin(total));
        bar.set_length(total);
        bar.set_position(self.progress.bytes());
        bar.set_message(counted(self.progress.rows(), "row"));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn begin(total: u64) -> ProgressBar {
    let (bar, template) = if total > 0 {
        (ProgressBar::new(total), "{wide_bar} {percent}% of {binary_total_bytes}, {msg}, {eta} left")
    } else {
        (ProgressBar::new_spinner(), "{spinner} {binary_bytes}, {msg}")
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

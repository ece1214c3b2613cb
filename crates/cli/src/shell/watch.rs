//! An eye on a running statement: a bar for COPY, what others spill to disk, and Ctrl-C.
//!
//! Only the interactive shell catches Ctrl-C, because only there does anything go on after it. Elsewhere it ends the
//! process at once, which the database is made for.

use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use ishigaki_base::ByteSize;
use ishigaki_sql::{CancelHandle, Database, Progress, Session, Spilled};
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
    bar: Bar,
}

impl Watch {
    /// Of a statement that begins now.
    pub(super) fn new(
        database: &Database,
        session: &Session,
        sql: &str,
        catches_interrupts: bool,
    ) -> Result<Self, Failure> {
        let interrupt = catches_interrupts.then(|| signal(SignalKind::interrupt())).transpose();
        let interrupt = interrupt.map_err(|error| Failure::invalid(format!("Ctrl-C can not be caught: {error}")))?;
        let is_copy = sql.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("copy"));
        let bar = Bar::new(database, is_copy.then(|| session.progress()));
        Ok(Self { cancel: session.cancel_handle(), interrupt, bar })
    }

    /// The statement's rows come: from here on the terminal is theirs.
    pub(super) fn rows_come(&mut self) {
        self.bar.end();
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
                () = self.bar.tick() => {}
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

/// How far a statement is, on stderr; invisible when that is no terminal.
struct Bar {
    database: Database,
    /// Of a COPY: its counters, and what they said before the statement began.
    copy: Option<(Progress, (u64, u64))>,
    interval: Interval,
    shown: Option<ProgressBar>,
    /// Nothing is shown any more: the terminal belongs to the rows.
    is_over: bool,
}

impl Bar {
    fn new(database: &Database, copy: Option<Progress>) -> Self {
        let mut interval = interval(TICK);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let copy = copy.map(|progress| {
            let before = (progress.bytes(), progress.rows());
            (progress, before)
        });
        Self { database: database.clone(), copy, interval, shown: None, is_over: false }
    }

    async fn tick(&mut self) {
        self.interval.tick().await;
        if self.is_over {
            return;
        }
        match &self.copy {
            Some((progress, before)) if self.shown.is_some() || (progress.bytes(), progress.rows()) != *before => {
                let total = progress.total_bytes();
                let bar = self.shown.get_or_insert_with(|| begin(total));
                bar.set_length(total);
                bar.set_position(progress.bytes());
                bar.set_message(counted(progress.rows(), "row"));
            }
            _ => self.spilled(),
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        if let Some(bar) = self.shown.take() {
            bar.finish_and_clear();
        }
    }

    /// What a statement has spilled by now. Nothing is shown before the first byte.
    fn spilled(&mut self) {
        let Spilled { bytes, limit, .. } = self.database.spilled();
        if bytes == 0 && self.shown.is_none() {
            return;
        }
        let bar = self.shown.get_or_insert_with(|| styled(ProgressBar::new_spinner(), "{spinner} {msg}"));
        let size = |bytes| ByteSize(bytes).display().iec();
        bar.set_message(format!("{} spilled to disk, of {} that may be", size(bytes), size(limit)));
        bar.tick();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.end();
    }
}

fn begin(total: u64) -> ProgressBar {
    let (bar, template) = if total > 0 {
        (ProgressBar::new(total), "{wide_bar} {percent}% of {binary_total_bytes}, {msg}, {eta} left")
    } else {
        (ProgressBar::new_spinner(), "{spinner} {binary_bytes}, {msg}")
    };
    styled(bar, template)
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

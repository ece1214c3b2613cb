//! What a command that serves until somebody ends it needs: the signals that do, and lines that are read at once.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use ishigaki_migrate::source::Cancel;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The exit code of a process that was interrupted.
const INTERRUPTED: i32 = 130;

/// How often one looks whether work has ended.
const BRIEF: Duration = Duration::from_millis(20);

/// One line, at once also into a pipe.
pub(super) fn say(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// SIGINT and SIGTERM, caught: some are told, and one more ends the process at once, whatever the command is at. SIGHUP asks to
/// start again, and SIGUSR1 to end for a restart by the service manager, where that is heard.
pub(super) struct Ends {
    signals: Receiver<()>,
    /// SIGHUP has come.
    restart: Arc<AtomicBool>,
    /// SIGUSR1 has come.
    keep: Arc<AtomicBool>,
    /// One has come while work was done: that may have ended before it was cancelled, and what is done next ends at once.
    has_come: AtomicBool,
    /// How many more are told.
    told: Arc<AtomicUsize>,
}

impl Ends {
    /// That tells of the first so many. SIGHUP ends the process, as it does by default.
    pub(super) fn new(told: usize) -> Result<Self, Failure> {
        Self::catch(told, false)
    }

    /// The same, and SIGHUP is [told](Self::is_to_restart). SIGUSR1 ends as SIGTERM does, and is [told](Self::is_to_keep) apart.
    pub(super) fn with_restart(told: usize) -> Result<Self, Failure> {
        Self::catch(told, true)
    }

    fn catch(told: usize, restarts: bool) -> Result<Self, Failure> {
        let deaf = |error: io::Error| Failure::invalid(format!("signals can not be caught: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(deaf)?;
        let entered = runtime.enter();
        let mut interrupts = signal(SignalKind::interrupt()).map_err(deaf)?;
        let mut terminations = signal(SignalKind::terminate()).map_err(deaf)?;
        let mut hangups = restarts.then(|| signal(SignalKind::hangup())).transpose().map_err(deaf)?;
        let mut keeps = restarts.then(|| signal(SignalKind::user_defined1())).transpose().map_err(deaf)?;
        drop(entered);
        let (restart, keep) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (asked, to_keep) = (restart.clone(), keep.clone());
        let (tell, signals) = mpsc::channel();
        let told = Arc::new(AtomicUsize::new(told));
        let left = told.clone();
        // Waits beside the command and ends with the process.
        std::thread::spawn(move || {
            runtime.block_on(async {
                loop {
                    let hangup = heard(&mut hangups);
                    let kept = heard(&mut keeps);
                    tokio::select! {
                        _ = interrupts.recv() => {}
                        _ = terminations.recv() => {}
                        () = hangup => {
                            asked.store(true, Ordering::SeqCst);
                            continue;
                        }
                        () = kept => to_keep.store(true, Ordering::SeqCst),
                    }
                    let is_told = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                    if is_told.is_err() {
                        std::process::exit(INTERRUPTED);
                    }
                    // Who does not listen yet may later, or is ending.
                    let _ = tell.send(());
                }
            });
        });
        Ok(Self { has_come: AtomicBool::new(false), signals, restart, keep, told })
    }

    /// Waits until the next one comes. One that came while [work](Self::cancelling) was done counts.
    pub(super) fn wait(&self) {
        if self.has_come.load(Ordering::SeqCst) {
            return;
        }
        // The other side never ends; if it did, the process would be on its end.
        let _ = self.signals.recv();
    }

    /// Does work that can be cancelled, and cancels it when a signal comes; shows how far it is meanwhile.
    pub(super) fn cancelling<T: Send>(&self, work: impl FnOnce(&Cancel) -> T + Send, mut show: impl FnMut()) -> T {
        let cancel = Cancel::new();
        if self.has_come.load(Ordering::SeqCst) {
            cancel.cancel();
        }
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| work(&cancel));
            while !worker.is_finished() {
                if self.comes_within(BRIEF) {
                    self.has_come.store(true, Ordering::SeqCst);
                    cancel.cancel();
                }
                show();
            }
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Waits so long at most; whether one has come, which may have been while [work](Self::cancelling) was done.
    pub(super) fn wait_for(&self, time: Duration) -> bool {
        self.has_come.load(Ordering::SeqCst) || self.comes_within(time)
    }

    /// Waits so long at most; whether one comes.
    fn comes_within(&self, time: Duration) -> bool {
        !matches!(self.signals.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    /// Whether SIGHUP has come since this was asked last.
    pub(super) fn is_to_restart(&self) -> bool {
        self.restart.swap(false, Ordering::SeqCst)
    }

    /// Whether SIGUSR1 has come.
    pub(super) fn is_to_keep(&self) -> bool {
        self.keep.load(Ordering::SeqCst)
    }

    /// From now on the next one ends the process at once.
    pub(super) fn end_the_process(self) {
        self.told.store(0, Ordering::SeqCst);
    }
}

/// Waits for the next one, for ever where it is not heard.
async fn heard(signals: &mut Option<Signal>) {
    match signals {
        Some(signals) => drop(signals.recv().await),
        None => std::future::pending().await,
    }
}

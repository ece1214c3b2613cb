//! A bar for long work that counts bytes, on stderr; invisible when that is no terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use ishigaki_txn::Progress;

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(120);

/// Does the work and shows how far it is: a spinner, and a bar as soon as it is known how much there is.
pub(super) fn watched<T>(what: &'static str, work: impl FnOnce(&Progress) -> T) -> T {
    let bar = ProgressBar::new_spinner().with_message(what);
    let (progress, done) = (Progress::default(), AtomicBool::new(false));
    let worked = std::thread::scope(|scope| {
        let watch = scope.spawn(|| show(&bar, &progress, &done));
        let worked = work(&progress);
        done.store(true, Ordering::Release);
        watch.thread().unpark();
        worked
    });
    bar.finish_and_clear();
    worked
}

fn show(bar: &ProgressBar, progress: &Progress, done: &AtomicBool) {
    while !done.load(Ordering::Acquire) {
        if progress.total() > 0 && bar.length().is_none() {
            let template = "{msg} {wide_bar} {percent}% of {binary_total_bytes}, {eta} left";
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
        if progress.total() > 0 {
            bar.set_length(progress.total());
            bar.set_position(progress.read());
        }
        bar.tick();
        std::thread::park_timeout(TICK);
    }
}

//! SIGINT and SIGTERM, which end a measurement instead of its process, so that nothing stays behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use tokio::signal::unix::{SignalKind, signal};

pub(crate) type Failure = Box<dyn std::error::Error>;

/// Set once a person has asked to end.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// Hears SIGINT and SIGTERM from now on. One more ends the process at once, whatever it waits for.
pub(crate) fn until_told() -> Result<Receiver<()>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    drop(entered);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if STOP.swap(true, Ordering::AcqRel) {
                    std::process::exit(130);
                }
                let _ = tell.send(());
            }
        });
    });
    Ok(told)
}

//! How a runtime ends.

use std::time::Duration;

use tokio::runtime::{Handle, Runtime};

/// As long as its threads may take to notice; what they are in the middle of then goes on without anybody who waits.
const LONGEST: Duration = Duration::from_secs(1);

/// Ends a runtime, from wherever it is let go of, and waits until its threads are gone.
///
/// Not to wait would be to detach threads that are just about to end, and a C library may look once more at the memory of a
/// thread that it has detached, which the thread itself may have given back by then: glibc 2.36 does, and the process dies.
/// Inside of a runtime nobody may wait, so a thread of its own does.
pub fn end_runtime(runtime: Runtime) {
    let ending = Ending(Some(runtime));
    if Handle::try_current().is_err() {
        ending.wait();
    } else {
        // If there is no thread to be had, nobody waits.
        let _ = std::thread::Builder::new().name("ishigaki-end".to_owned()).spawn(move || ending.wait());
    }
}

/// A runtime that must not be dropped just so: that would wait, too.
struct Ending(Option<Runtime>);

impl Ending {
    fn wait(mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(LONGEST);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use tokio::runtime::Builder;

    use super::*;

    /// A runtime with two threads that have begun; `living` counts those that have not ended.
    fn runtime(living: &Arc<AtomicUsize>) -> Runtime {
        let (begun, ended) = (Arc::clone(living), Arc::clone(living));
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_start(move || {
                begun.fetch_add(1, Ordering::SeqCst);
            })
            .on_thread_stop(move || {
                std::thread::sleep(Duration::from_millis(20));
                ended.fetch_sub(1, Ordering::SeqCst);
            })
            .build()
            .unwrap();
        while living.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        runtime
    }

    #[test]
    fn its_threads_are_gone_when_it_has_ended() {
        let living = Arc::default();
        end_runtime(runtime(&living));
        assert_eq!(living.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn inside_of_another_one_it_ends_soon_after() {
        let (living, outer) = (Arc::default(), Builder::new_current_thread().build().unwrap());
        outer.block_on(async { end_runtime(runtime(&living)) });
        let begun = Instant::now();
        while living.load(Ordering::SeqCst) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "its threads go on");
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_is_in_the_middle_of_something_holds_nobody_up_for_long() {
        let living = Arc::default();
        let runtime = runtime(&living);
        let (let_go, wait) = std::sync::mpsc::channel::<()>();
        drop(runtime.spawn_blocking(move || wait.recv()));
        let begun = Instant::now();
        end_runtime(runtime);
        assert!((LONGEST..20 * LONGEST).contains(&begun.elapsed()));
        drop(let_go);
    }
}

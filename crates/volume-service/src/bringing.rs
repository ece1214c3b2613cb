//! Brings chunks of several volumes at the same time, and waits for no device that does not answer: its volume is left alone until it does, and the others' chunks come.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What brings one chunk, and tells how many bytes have come.
pub(crate) type Bring = Box<dyn FnOnce() -> u64 + Send>;

/// Chunks that are under way.
#[derive(Debug)]
pub(crate) struct Bringing {
    /// How long some that come together are waited for.
    patience: Duration,
    /// By volume, those that have not come.
    under_way: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Bringing {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, under_way: Arc::default() }
    }

    /// Brings chunks, each with its volume's name, together. How many bytes have come.
    pub(crate) fn together(&self, chunks: Vec<(String, Bring)>) -> u64 {
        let (told, heard) = channel();
        let left_alone: Vec<_> = self.under_way.lock().keys().cloned().collect();
        let mut begun = 0_usize;
        for (volume, bring) in chunks {
            if left_alone.contains(&volume) {
                continue;
            }
            *self.under_way.lock().entry(volume.clone()).or_default() += 1;
            let comes = Coming { volume, under_way: self.under_way.clone() };
            let told = told.clone();
            let work = move || {
                let brought = bring();
                drop(comes);
                // It may not be waited for any more.
                let _ = told.send(brought);
            };
            // One that can not be begun is left for the next window.
            if Builder::new().name("volume-bring".to_owned()).spawn(work).is_ok() {
                begun += 1;
            }
        }
        drop(told);
        let until = Instant::now() + self.patience;
        let mut sum = 0;
        for _ in 0..begun {
            match heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(brought) => sum += brought,
                Err(RecvTimeoutError::Timeout) => {
                    let volumes: Vec<_> = self.under_way.lock().keys().cloned().collect();
                    tracing::warn!(
                        ?volumes,
                        "the slow device does not answer; nothing is brought for these volumes until it does"
                    );
                    break;
                }
                // The others have panicked.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        sum
    }
}

/// One that is under way; *drop* says that it is not any more.
struct Coming {
    volume: String,
    under_way: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Drop for Coming {
    fn drop(&mut self) {
        let mut under_way = self.under_way.lock();
        if let Some(count) = under_way.get_mut(&self.volume) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.volume);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(volume: &str, bring: impl FnOnce() -> u64 + Send + 'static) -> (String, Bring) {
        (volume.to_owned(), Box::new(bring))
    }

    #[test]
    fn one_that_does_not_answer_is_left_alone_until_it_does() {
        let bringing = Bringing::new(Duration::from_millis(200));
        let (answer, hangs) = channel::<()>();
        let hanging = of("hangs", move || {
            hangs.recv().unwrap();
            1
        });
        assert_eq!(bringing.together(vec![of("well", || 2), hanging, of("well", || 4)]), 6);
        let began = Instant::now();
        assert_eq!(bringing.together(vec![of("hangs", || 8), of("well", || 16)]), 16);
        assert!(began.elapsed() < Duration::from_millis(200), "it is not waited for again");
        answer.send(()).unwrap();
        let began = Instant::now();
        while bringing.together(vec![of("hangs", || 8)]) == 0 {
            assert!(began.elapsed() < Duration::from_mins(1), "it answers, and is still left alone");
        }
    }

    #[test]
    fn one_that_panics_is_under_way_no_more() {
        let bringing = Bringing::new(Duration::from_mins(1));
        assert_eq!(bringing.together(vec![of("a", || panic!("as it is to")), of("b", || 2)]), 2);
        assert_eq!(bringing.together(vec![of("a", || 1)]), 1);
    }
}

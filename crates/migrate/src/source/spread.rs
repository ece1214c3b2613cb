//! Many calls of a source that takes one at a time from each thread.

use std::thread;
use std::time::Instant;

use super::NEAR;

/// The most calls at a time.
const THREADS: usize = 16;

/// Does the same to each item, and tells the results in order: one after the other, or if the first takes long many at a time.
pub(crate) fn spread<T: Send, R: Send>(items: &mut [T], one: impl Fn(&mut T) -> R + Sync) -> Vec<R> {
    let Some((first, rest)) = items.split_first_mut() else { return Vec::new() };
    let began = Instant::now();
    let mut results = vec![one(first)];
    if began.elapsed() < NEAR || rest.len() < 2 {
        results.extend(rest.iter_mut().map(one));
        return results;
    }
    let (share, one) = (rest.len().div_ceil(THREADS), &one);
    thread::scope(|scope| {
        let start = |items| scope.spawn(move || <[T]>::iter_mut(items).map(one).collect::<Vec<R>>());
        let threads: Vec<_> = rest.chunks_mut(share).map(start).collect();
        for thread in threads {
            results.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    results
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// What comes of so many items that take so long each, and how many were under way at a time.
    fn spread_of(many: usize, time: Duration) -> (Vec<usize>, usize) {
        let (under_way, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mut items: Vec<usize> = (0..many).collect();
        let results = spread(&mut items, |item| {
            most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(time);
            under_way.fetch_sub(1, Ordering::SeqCst);
            *item * 2
        });
        (results, most.into_inner())
    }

    #[test]
    fn what_takes_long_is_done_many_at_a_time_and_told_in_order() {
        for many in [0, 1, 2, 3, 16, 17, 100] {
            let (results, most) = spread_of(many, 10 * NEAR);
            assert_eq!(results, (0..many).map(|item| item * 2).collect::<Vec<_>>());
            assert!(most <= THREADS && (most > 1 || many < 16), "{many}: {most}");
        }
    }
}

//! The sides of a replay: readers beside each other that take the next read of the trace until there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::crc32c;
use ishigaki_device::{AlignedBuffer, Device};

use super::NAME;
use super::trace::Trace;
use crate::{Error, Result};

/// What a read should bring: looked at in every replay but for the checksum, which takes its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    begin: u64,
    end: u64,
    crc: u32,
}

impl Content {
    fn ends(bytes: &[u8]) -> (u64, u64) {
        let word =
            |at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes);
        (word(0), word(bytes.len().saturating_sub(8)))
    }

    fn of(bytes: &[u8]) -> Self {
        let (begin, end) = Self::ends(bytes);
        Self { begin, end, crc: crc32c(bytes) }
    }

    fn is(&self, bytes: &[u8], wholly: bool) -> bool {
        if wholly { Self::of(bytes) == *self } else { Self::ends(bytes) == (self.begin, self.end) }
    }
}

/// What all reads of a trace bring from these files.
pub(super) fn contents(trace: &Trace, files: &[Arc<dyn Device>]) -> Result<Vec<Content>> {
    let mut buffer = AlignedBuffer::zeroed(longest(trace));
    let mut contents = Vec::with_capacity(trace.accesses.len());
    for access in &trace.accesses {
        let bytes = &mut buffer[..access.length];
        files[access.file].read_at(access.offset, bytes)?;
        contents.push(Content::of(bytes));
    }
    Ok(contents)
}

/// Does all reads of the trace by so many readers; how long that took.
pub(super) fn replay(
    trace: &Trace,
    files: &[Arc<dyn Device>],
    readers: usize,
    contents: &[Content],
    wholly: bool,
) -> Result<Duration> {
    let next = AtomicUsize::new(0);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let read = || {
            let mut buffer = AlignedBuffer::zeroed(longest(trace));
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let (Some(access), Some(content)) = (trace.accesses.get(at), contents.get(at)) else { return Ok(()) };
                let bytes = &mut buffer[..access.length];
                files[access.file].read_at(access.offset, bytes)?;
                if !content.is(bytes, wholly) {
                    let name = &trace.files[access.file];
                    let reason = format!("{} bytes from {} of {name} are others there", access.length, access.offset);
                    return Err(Error::Wrong { workload: NAME, reason, path: name.into() });
                }
            }
        };
        let readers: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
        // A panic in a thread goes on in this one.
        readers.into_iter().try_for_each(|reader| match reader.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    Ok(begin.elapsed())
}

fn longest(trace: &Trace) -> usize {
    trace.accesses.iter().map(|access| access.length).max().unwrap_or(0)
}

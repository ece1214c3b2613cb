//! Requests that follow one another in a row: a stream that is longer than some length goes past the fast device, where it would drive
//! out what is used again.

use std::collections::VecDeque;

/// How many streams of a volume are followed at a time.
const FOLLOWED: usize = 32;

/// The streams of a volume, the one that went on last first.
#[derive(Debug, Default)]
pub(crate) struct Streams(VecDeque<Stream>);

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Where its next request would begin.
    end: u64,
    length: u64,
}

impl Streams {
    /// Notes a request. How many bytes its stream has, with it.
    pub(crate) fn note(&mut self, offset: u64, length: u64) -> u64 {
        let at = self.0.iter().position(|stream| stream.end == offset);
        let before = at.and_then(|at| self.0.remove(at)).map_or(0, |stream| stream.length);
        let stream = Stream { end: offset + length, length: before + length };
        self.0.truncate(FOLLOWED - 1);
        self.0.push_front(stream);
        stream.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_streams_are_followed_at_a_time() {
        let mut streams = Streams::default();
        for step in 0..10 {
            for stream in 0..FOLLOWED as u64 {
                assert_eq!(streams.note((stream << 30) + step * 4096, 4096), (step + 1) * 4096);
            }
        }
        assert_eq!(streams.note(1 << 50, 4096), 4096);
        // The one that went on longest ago was forgotten.
        assert_eq!(streams.note(10 * 4096, 4096), 4096);
        assert_eq!(streams.note((31 << 30) + 10 * 4096, 4096), 11 * 4096);
    }
}

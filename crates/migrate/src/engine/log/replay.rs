//! Reads the log, in pieces: however long its file says that it is, memory holds one window of it.

use std::io;

use super::State;
use super::event::{self, LONGEST};

/// More than the longest event.
const WINDOW: usize = 2 * LONGEST;

/// What the events in a file of that size come to, and where the last whole one ends. `read` gives bytes from an offset on, fewer at the end only.
pub(super) fn replay(size: u64, mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>) -> io::Result<(State, u64)> {
    let mut state = State::default();
    let mut window = vec![0; usize::try_from(size).unwrap_or(WINDOW).min(WINDOW)];
    let mut end = 0;
    loop {
        let count = read(end, &mut window)?.min(window.len());
        let mut rest = &window[..count];
        while let Some((event, behind)) = event::first(rest) {
            state.replay(event);
            rest = behind;
        }
        let taken = count - rest.len();
        if taken == 0 {
            return Ok((state, end));
        }
        end += taken as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Event;
    use super::*;
    use crate::destination::NodeId;

    #[test]
    fn a_log_of_many_windows_is_read_to_its_end_and_an_empty_one_of_any_size_takes_no_memory() {
        let mut bytes = Vec::new();
        let mut number = 1;
        while bytes.len() < 3 * WINDOW {
            let name = "n".repeat(200);
            let (node, above) = (NodeId(number), (number > 1).then_some(NodeId(1)));
            Event::Found { node, above, name: std::ffi::OsStr::new(&name).into() }.write(&mut bytes);
            number += 1;
        }
        let mut longest = 0;
        let (state, end) = replay(u64::MAX, |at, window| {
            longest = longest.max(window.len());
            let rest = &bytes[(at as usize).min(bytes.len())..];
            let count = rest.len().min(window.len());
            window[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
        .expect("reads");
        assert_eq!((end, state.totals.directories, longest), (bytes.len() as u64, number - 1, WINDOW));
        let holes = replay(u64::MAX, |_, window| {
            window.fill(0);
            Ok(window.len())
        });
        assert_eq!(holes.expect("reads").1, 0);
    }
}

//! A buffer that is filled by many requests at a time.

use std::collections::HashMap;

/// Pieces of one file that are under way.
pub(in crate::source) const PIECES: usize = 16;

/// Which places of a buffer are asked for, and which have been.
pub(in crate::source) struct Pieces {
    /// The most bytes of a piece.
    size: usize,
    next: usize,
    /// Where the buffer ends, or the file in it.
    end: usize,
    /// What is left of pieces that came short.
    rest: Vec<(usize, usize)>,
    asked: HashMap<u64, (usize, usize)>,
}

impl Pieces {
    pub(in crate::source) fn new(length: usize, size: usize) -> Self {
        Self { size, next: 0, end: length, rest: Vec::new(), asked: HashMap::new() }
    }

    /// The next place to ask for: from where, to where.
    pub(in crate::source) fn next(&mut self) -> Option<(usize, usize)> {
        loop {
            let (from, to) = match self.rest.pop() {
                Some(piece) => piece,
                None if self.next < self.end => (self.next, self.end.min(self.next + self.size)),
                None => return None,
            };
            self.next = self.next.max(to);
            if from < self.end {
                return Some((from, to));
            }
        }
    }

    /// A place is asked for by that ticket.
    pub(in crate::source) fn sent(&mut self, ticket: u64, piece: (usize, usize)) {
        self.asked.insert(ticket, piece);
    }

    /// The place that an answer is for.
    pub(in crate::source) fn answered(&mut self, ticket: u64) -> Option<(usize, usize)> {
        self.asked.remove(&ticket)
    }

    /// An answer came short of its place, and the file goes on.
    pub(in crate::source) fn again(&mut self, rest: (usize, usize)) {
        self.rest.push(rest);
    }

    /// The file ends there.
    pub(in crate::source) fn ends(&mut self, at: usize) {
        self.end = self.end.min(at);
    }

    /// How many bytes of the buffer are filled when nothing is under way any more.
    pub(in crate::source) fn filled(&self) -> usize {
        self.end
    }
}

//! What transactions change: a lock, a number and the last writer for each row. A page of U-1 and U-10 is one, too.

use ishigaki_base::Position;
use parking_lot::{Mutex, MutexGuard};

/// What a row's lock guards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) value: u32,
    /// The record of the transaction that wrote the value.
    pub(super) writer: Position,
}

/// All rows. A transaction locks its rows in ascending order, so that no two wait for each other.
#[derive(Debug)]
pub(super) struct Rows(Vec<Mutex<Row>>);

impl Rows {
    /// That many, all zero.
    pub(super) fn new(count: u32) -> Self {
        Self((0..count).map(|_| Mutex::new(Row { value: 0, writer: Position::NONE })).collect())
    }

    pub(super) fn lock(&self, row: u32) -> MutexGuard<'_, Row> {
        self.0[row as usize].lock()
    }

    /// The numbers, row by row.
    pub(super) fn values(&self) -> Vec<u32> {
        self.0.iter().map(|row| row.lock().value).collect()
    }
}

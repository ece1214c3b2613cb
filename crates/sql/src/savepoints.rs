//! The named savepoints of the open transaction, by the rules of the SQL standard and `PostgreSQL`.
//!
//! They lie in a stack. A name may be set again: the newer one hides the older until it is released. Going back to one
//! keeps it and forgets those above it; releasing one forgets it, too. What was changed since stays changed.

use crate::current::Mark;
use crate::{Error, Result};

/// The stack. The oldest is at the bottom.
#[derive(Debug, Default)]
pub(crate) struct Savepoints {
    stack: Vec<(String, Mark)>,
}

impl Savepoints {
    /// Sets a savepoint.
    pub(crate) fn set(&mut self, name: String, mark: Mark) {
        self.stack.push((name, mark));
    }

    /// Forgets those above a savepoint; where to go back to.
    pub(crate) fn rewind(&mut self, name: &str) -> Result<&Mark> {
        let position = self.position(name)?;
        self.stack.truncate(position + 1);
        Ok(&self.stack[position].1)
    }

    /// Forgets a savepoint and those above it.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let position = self.position(name)?;
        self.stack.truncate(position);
        Ok(())
    }

    fn position(&self, name: &str) -> Result<usize> {
        let found = self.stack.iter().rposition(|(known, _)| known == name);
        found.ok_or_else(|| Error::NoSuchSavepoint { name: name.to_owned() })
    }
}

//! Taking all of a log's space at once, so that no other user of the medium gets it.

use ishigaki_base::ByteSize;

use super::Pool;
use super::spares::Spare;
use crate::Result;

impl Pool {
    /// Makes spares until the bound is reached. Where the medium has not so much, those that were made are removed again.
    pub(crate) fn reserve(&self) -> Result<()> {
        let left = self.bound.saturating_sub(self.inner.lock().used);
        self.directory.check_room("the log", left - left % self.length)?;
        let mut made = Vec::new();
        while let Some(name) = self.next_reserved() {
            if let Err(error) = self.directory.reserve(&name, self.length) {
                self.inner.lock().used -= self.length * (made.len() as u64 + 1);
                made.iter().try_for_each(|name: &String| self.directory.remove(name))?;
                return Err(error.into());
            }
            made.push(name);
        }
        if made.is_empty() {
            return Ok(());
        }
        self.directory.sync()?;
        tracing::debug!(segments = made.len(), bytes = %ByteSize(self.length * made.len() as u64), "space of the log reserved");
        let length = self.length;
        // What the medium sets aside is blanked before it is used, as every spare is.
        self.inner.lock().spares.soiled.extend(made.into_iter().map(|name| Spare { name, length }));
        self.wake_all();
        Ok(())
    }

    /// The name of one more spare, which counts from now on, if the bound allows one.
    fn next_reserved(&self) -> Option<String> {
        let mut inner = self.inner.lock();
        if inner.used + self.length > self.bound {
            return None;
        }
        inner.used += self.length;
        Some(inner.spares.next_name())
    }
}

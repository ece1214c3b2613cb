//! How a home grows: by regions, when files do, and by longer ledgers, when its limits do.

use super::{EXTENT, Home, ledger_length, region_name};
use crate::format::Intent;
use crate::image::BLOCK;
use crate::{Quota, Result};

impl Home {
    /// Makes sure that there is space for so many extents.
    pub(crate) fn reserve(&self, extents: u64) -> Result<()> {
        let _one = self.growing.lock();
        let before = self.regions.read().len();
        let needed = extents.div_ceil(self.region / EXTENT) as usize;
        let more = needed.saturating_sub(before) as u64;
        self.directory.check_room(&self.name, more.saturating_mul(self.region))?;
        let mut made = Vec::new();
        for index in before..needed {
            match self.directory.reserve(&region_name(&self.name, index), self.region) {
                Ok(device) => made.push(Some(device)),
                Err(error) => {
                    // A full medium is no failure; what was made until then must not be in the way.
                    (before..index).try_for_each(|index| self.directory.remove(&region_name(&self.name, index)))?;
                    return Err(error.into());
                }
            }
        }
        if !made.is_empty() {
            self.directory.sync()?;
            self.regions.write().extend(made);
        }
        Ok(())
    }

    /// Takes the space of all that these limits allow, so that it is there whatever others write: for the files, and for what is
    /// written with each round. No round is under way.
    pub(crate) fn reserve_all(&self, quota: &Quota) -> Result<()> {
        self.reserve(quota.home.0.div_ceil(EXTENT))?;
        // A round brings what is in the member's share.
        let extents = (quota.home.0 / EXTENT + 1).min(quota.share.0 / BLOCK + 1);
        self.ledgers.fit(ledger_length(quota), Intent::longest(extents))
    }
}

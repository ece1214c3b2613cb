//! A migration in which nothing is missing, that does not say so of some files: the door reads and writes those itself.

use std::io;
use std::ops::Range;

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_fs::{Act, Arrivals, Change, Object, WriteAct};

/// Nothing is missing, but of files whose size is odd it is not said.
pub(crate) struct OddIsServed;

impl Arrivals for OddIsServed {
    fn is_over(&self) -> bool {
        false
    }

    fn is_normal(&self, object: Object<'_>) -> io::Result<bool> {
        Ok(rustix::fs::statx(object, c"", rustix::fs::AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::SIZE)?.stx_size % 2
            == 0)
    }

    fn names_needed(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn names_change(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn moving(&self, act: Act<'_>) -> io::Result<()> {
        act()
    }

    fn has_hidden_name(&self, _: u64) -> bool {
        false
    }

    fn seen(&self, _: Object<'_>, _: &mut rustix::fs::Statx) -> io::Result<()> {
        Ok(())
    }

    fn extras_needed(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn attributes_change(&self, _: Object<'_>, _: &Cancel, act: Act<'_>) -> io::Result<()> {
        act()
    }

    fn bytes_needed(&self, _: Object<'_>, _: Range<u64>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, _: Object<'_>, _: Range<u64>, _: &Cancel, act: WriteAct<'_>) -> io::Result<u64> {
        act()
    }

    fn change(&self, _: Object<'_>, _: &Change, _: &Cancel, act: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        act()
    }

    fn next_data(&self, _: Object<'_>, offset: u64) -> io::Result<Option<Range<u64>>> {
        Ok(Some(offset..u64::MAX))
    }

    fn hides_name(&self, name: &[u8]) -> bool {
        name == b".hidden"
    }

    fn hides_extra(&self, _: &[u8]) -> bool {
        false
    }
}

//! The engine of a migration, behind a door.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_migrate::destination::NodeId;
use ishigaki_migrate::destination::local::{Held, Local};
use ishigaki_migrate::engine::{Engine, Error, File};
use ishigaki_migrate::source::{Cancel, Timestamp};
use rustix::fs::{Statx, StatxTimestamp};
use rustix::io::Errno;

use crate::arrivals::{Act, Arrivals, Change, Object, WriteAct};

/// A migration into the destination of a door.
pub struct Migration {
    engine: Arc<Engine<Local>>,
    is_over: AtomicBool,
}

impl Migration {
    /// That engine's.
    pub fn new(engine: Arc<Engine<Local>>) -> Self {
        Self { engine, is_over: AtomicBool::new(false) }
    }

    /// The engine has [finished](Engine::finish): it is asked no more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    fn hold(&self, object: Object<'_>) -> io::Result<Held> {
        self.engine.destination().hold(object.place.try_clone_to_owned()?)
    }

    /// The stub, if a file is one.
    fn stub(&self, file: Object<'_>) -> io::Result<Option<File<Local>>> {
        self.engine.file(&self.hold(file)?).map_err(answer)
    }
}

impl std::fmt::Debug for Migration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Migration").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

/// What a program gets.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn answer(error: Error) -> io::Error {
    match &error {
        Error::Cancelled => Errno::INTR.into(),
        Error::Destination { error: cause, .. } => match cause.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => Errno::IO.into(),
        },
        _ => {
            tracing::warn!(%error, "a request fails");
            Errno::IO.into()
        }
    }
}

fn set(place: &mut StatxTimestamp, time: Timestamp) {
    (place.tv_sec, place.tv_nsec) = (time.seconds, time.nanos);
}

impl Arrivals for Migration {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn is_normal(&self, file: Object<'_>) -> io::Result<bool> {
        Ok(self.stub(file)?.is_none_or(|stub| stub.is_normal()))
    }

    fn names_needed(&self, directory: Object<'_>, cancel: &Cancel) -> io::Result<()> {
        self.engine.look_into(&self.hold(directory)?, cancel).map_err(answer)
    }

    fn names_change(&self, directory: Object<'_>, cancel: &Cancel) -> io::Result<()> {
        self.engine.before_names_change(&self.hold(directory)?, cancel).map_err(answer)
    }

    fn moving(&self, act: Act<'_>) -> io::Result<()> {
        let _moving = self.engine.moving();
        act()
    }

    fn has_hidden_name(&self, number: u64) -> bool {
        self.engine.has_temporary_name(NodeId(number))
    }

    fn seen(&self, file: Object<'_>, attributes: &mut Statx) -> io::Result<()> {
        let held = self.hold(file)?;
        attributes.stx_nlink = self.engine.names_seen(&held, attributes.stx_nlink);
        if let Some(stub) = self.engine.file(&held).map_err(answer)? {
            let status = stub.status().map_err(answer)?;
            attributes.stx_size = status.size;
            set(&mut attributes.stx_atime, status.accessed);
            set(&mut attributes.stx_mtime, status.modified);
            set(&mut attributes.stx_ctime, status.changed);
        }
        Ok(())
    }

    fn extras_needed(&self, file: Object<'_>, cancel: &Cancel) -> io::Result<()> {
        self.stub(file)?.map_or(Ok(()), |stub| stub.attributes_needed(cancel).map_err(answer))
    }

    fn attributes_change(&self, file: Object<'_>, cancel: &Cancel, act: Act<'_>) -> io::Result<()> {
        let Some(stub) = self.stub(file)? else { return act() };
        let _changing = stub.before_attributes_change(cancel).map_err(answer)?;
        act()
    }

    fn bytes_needed(&self, file: Object<'_>, range: Range<u64>, cancel: &Cancel) -> io::Result<()> {
        self.stub(file)?.map_or(Ok(()), |stub| stub.read_needed(range, cancel).map_err(answer))
    }

    fn write(&self, file: Object<'_>, range: Range<u64>, cancel: &Cancel, act: WriteAct<'_>) -> io::Result<u64> {
        let Some(stub) = self.stub(file)? else { return act() };
        let changing = stub.before_write(range.clone(), cancel).map_err(answer)?;
        let written = act()?;
        Ok(changing.wrote(range.start..range.start + written))
    }

    fn change(&self, file: Object<'_>, change: &Change, cancel: &Cancel, act: Act<'_>) -> io::Result<()> {
        let Some(stub) = self.stub(file)? else { return act() };
        match change {
            // The engine does it, and keeps account. The act does it once more, for what else comes of it: times, room, bits of the mode.
            Change::Zero(range) => {
                let mut done = Ok(());
                stub.punch_and(range.clone(), cancel, || done = act()).map_err(answer)?;
                done
            }
            Change::Resize(size) => {
                let mut done = Ok(());
                stub.truncate_and(*size, cancel, || done = act()).map_err(answer)?;
                done
            }
            // What is allocated counts as here.
            Change::Reserve(range) => {
                stub.read_needed(range.clone(), cancel).map_err(answer)?;
                let changing = stub.before_write(range.clone(), cancel).map_err(answer)?;
                act()?;
                changing.wrote(range.clone());
                Ok(())
            }
        }
    }

    fn next_data(&self, file: Object<'_>, offset: u64) -> io::Result<Option<Range<u64>>> {
        match self.stub(file)? {
            Some(stub) => stub.next_data(offset).map_err(answer),
            None => Ok(Some(offset..u64::MAX)),
        }
    }

    fn hides_extra(&self, name: &[u8]) -> bool {
        self.engine.is_own_attribute(OsStr::from_bytes(name))
    }

    fn hides_name(&self, name: &[u8]) -> bool {
        self.engine.is_hidden(OsStr::from_bytes(name))
    }
}

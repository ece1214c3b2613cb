//! Looks for stubs everywhere.
//!
//! The crawler finds directories where they were found. Where clients have moved names meanwhile, something may be elsewhere; then all of the
//! destination is looked through once more, at the end. It follows inodes down from the root, and holds open only the directories above
//! the one that it looks into.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use super::hidden::HIDDEN;
use super::log::Place;
use super::{Doing, Engine, Result};
use crate::destination::{Destination, NodeId};
use crate::record::Record;
use crate::source::FileType;

struct Folder<D: Destination> {
    object: D::Object,
    place: Arc<Place>,
}

/// Hears of a stub: its directory's place, its name if it is a file, its directory's inode, and itself; whether it wants to hear of more.
pub(super) type Tell<'a, D> =
    dyn FnMut(&Arc<Place>, Option<&OsString>, NodeId, &<D as Destination>::Object) -> bool + 'a;

pub(super) fn path_of(place: &Place) -> PathBuf {
    let mut names = vec![&place.name];
    let mut at = place.above.as_ref();
    while let Some(above) = at {
        names.push(&above.name);
        at = above.above.as_ref();
    }
    names.into_iter().rev().collect()
}

impl<D: Destination> Engine<D> {
    /// The path of any stub.
    pub(super) fn any_stub(&self) -> Result<Option<PathBuf>> {
        let mut found = None;
        self.walk(&mut |place, stub, _, _| {
            found = Some(stub.map_or_else(|| path_of(place), |name| path_of(place).join(name)));
            false
        })?;
        Ok(found)
    }

    /// Gives all directories that are stubs, or hold stub files, to the crawler; whether there were any.
    pub(super) fn sweep(&self) -> Result<bool> {
        let mut last = None;
        self.walk(&mut |place, file, node, _| {
            if file.is_none() || last != Some(node) {
                self.queue.swept(place, file.is_none());
                last = file.is_some().then_some(node);
            }
            true
        })?;
        Ok(last.is_some() || self.queue.is_waiting())
    }

    /// Tells of the record of each stub; not of those that can not be read.
    pub(super) fn each_stub(&self, tell: &mut dyn FnMut(Record)) -> Result<()> {
        self.walk(&mut |_, _, _, object| {
            if let Ok(Some((record, _))) = self.record(object) {
                tell(record);
            }
            true
        })
    }

    /// Tells of each stub, until `tell` has enough.
    pub(super) fn walk(&self, tell: &mut Tell<'_, D>) -> Result<()> {
        let root = self.destination.root();
        let place = Arc::new(Place { node: self.destination.id(&root), name: OsString::new(), above: None });
        if self.has_record(&root)? && !tell(&place, None, place.node, &root) {
            return Ok(());
        }
        let top = Arc::new(Folder::<D> { object: root, place });
        let mut stack: Vec<(Arc<Folder<D>>, Option<OsString>)> = vec![(top, None)];
        while let Some((above, name)) = stack.pop() {
            let folder = match name {
                None => above,
                Some(name) => {
                    let object = self.destination.lookup(&above.object, &name).doing("looking for stubs")?;
                    let Some(object) = object else { continue };
                    let node = self.destination.id(&object);
                    let place = Arc::new(Place { node, name, above: Some(above.place.clone()) });
                    if self.has_record(&object)? && !tell(&place, None, node, &object) {
                        return Ok(());
                    }
                    Arc::new(Folder { object, place })
                }
            };
            for name in self.destination.names(&folder.object).doing("looking for stubs")? {
                match name.file_type {
                    FileType::Directory if folder.place.above.is_none() && name.name == HIDDEN => {}
                    FileType::Directory => stack.push((folder.clone(), Some(name.name))),
                    FileType::Regular => {
                        let file = self.destination.lookup(&folder.object, &name.name).doing("looking for stubs")?;
                        if let Some(file) = file
                            && self.has_record(&file)?
                            && !tell(&folder.place, Some(&name.name), folder.place.node, &file)
                        {
                            return Ok(());
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

//! Two objects of one path.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use ishigaki_migrate::access_list::mapped;
use ishigaki_migrate::source::{Attributes, Error as SourceError, ErrorKind, FileType, Location, Source, Timestamp};

use super::report::{Difference, Kind};
use super::{Comparison, bytes};
use crate::config::From;
use crate::shown::shown;
use crate::{Error, Result};

pub(super) fn word(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::BlockDevice => "block device",
        FileType::CharDevice => "character device",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
    }
}

fn moment(at: Timestamp) -> String {
    format!("{}.{:09}", at.seconds, at.nanos)
}

/// Where and what an object is at one side.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) location: Location,
    pub(super) attributes: Attributes,
}

impl Comparison<'_> {
    /// Compares two objects; whether what is in them is to be compared, because both are directories.
    pub(super) fn pair(&self, source: usize, path: &Path, old: &Seen, new: &Seen) -> Result<bool> {
        let kinds = (old.attributes.file_type, new.attributes.file_type);
        if kinds.0 != kinds.1 {
            self.tell(Difference::new(path, Kind::Type, word(kinds.0), word(kinds.1)));
            return Ok(false);
        }
        let here = match self.new.extras(&new.location, self.cancel) {
            Ok(extras) => extras,
            Err(error) => return self.unreadable(path, None, error).map(|()| false),
        };
        if here.attributes.iter().any(|(name, _)| *name == self.mark) {
            self.tell(Difference::new(path, Kind::NotYetHere, "", ""));
            return Ok(false);
        }
        self.attributes(source, path, &old.attributes, &new.attributes);
        if kinds.0 == FileType::Symlink || self.old[source].capabilities().extras {
            match self.old[source].extras(&old.location, self.cancel) {
                Ok(extras) => {
                    if extras.target != here.target {
                        let [old, new] = [&extras.target, &here.target]
                            .map(|target| shown(target.as_deref().unwrap_or(Path::new(""))));
                        self.tell(Difference::new(path, Kind::Target, old, new));
                    }
                    self.extended(source, path, extras.attributes, here.attributes);
                }
                Err(error) => self.unreadable(path, Some(source), error)?,
            }
        }
        if kinds.0 == FileType::Directory {
            self.progress.directories.fetch_add(1, Ordering::Relaxed);
            return Ok(true);
        }
        self.links.lock().add(source, path, &old.attributes, &new.attributes);
        if kinds.0 == FileType::Regular {
            self.content(source, path, old, new)?;
        }
        self.progress.files.fetch_add(1, Ordering::Relaxed);
        Ok(false)
    }

    /// What listings tell.
    fn attributes(&self, source: usize, path: &Path, old: &Attributes, new: &Attributes) {
        let tell = |kind, old, new| self.tell(Difference::new(path, kind, old, new));
        if old.file_type != FileType::Symlink && old.mode != new.mode {
            tell(Kind::Mode, format!("{:04o}", old.mode), format!("{:04o}", new.mode));
        }
        let owner = self.config.ids.map(old.owner);
        if self.old[source].capabilities().owners && owner != new.owner {
            let shown = |owner: ishigaki_migrate::source::Owner| format!("{}:{}", owner.user, owner.group);
            tell(Kind::Owner, shown(owner), shown(new.owner));
        }
        if old.modified != new.modified {
            tell(Kind::Modified, moment(old.modified), moment(new.modified));
        }
        let is_device = matches!(old.file_type, FileType::BlockDevice | FileType::CharDevice);
        if is_device && old.device != new.device {
            let shown = |(major, minor): (u32, u32)| format!("{major}:{minor}");
            tell(Kind::Device, shown(old.device), shown(new.device));
        }
    }

    /// Extended attributes and access lists. A server that has access lists only can not tell what else is missing there.
    fn extended(&self, source: usize, path: &Path, old: Vec<(OsString, Vec<u8>)>, new: Vec<(OsString, Vec<u8>)>) {
        let tells_all = matches!(self.config.sources[source].from, From::Path(_));
        let owners = |owner| self.config.ids.map(owner);
        if old.iter().any(|(name, _)| *name == self.mark) {
            self.leave_out(path, &format!("attribute {}", shown(Path::new(&self.mark))));
        }
        let old = old.into_iter().filter(|(name, _)| *name != self.mark);
        let old: BTreeMap<_, _> = old.map(|(name, value)| (name.clone(), mapped(&name, value, &owners))).collect();
        let new: BTreeMap<_, _> = new.into_iter().collect();
        let show = |name: &OsStr, value: Option<&Vec<u8>>| {
            value.map_or(String::new(), |value| format!("{} ({} bytes)", shown(Path::new(name)), value.len()))
        };
        for name in old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))) {
            let known = tells_all || old.contains_key(name) || name.as_bytes().starts_with(b"system.posix_acl_");
            let values = (old.get(name), new.get(name));
            if known && values.0 != values.1 {
                self.tell(Difference::new(path, Kind::Attribute, show(name, values.0), show(name, values.1)));
            }
        }
    }

    fn content(&self, source: usize, path: &Path, old: &Seen, new: &Seen) -> Result<()> {
        let (wanted, found) = (old.attributes.size, new.attributes.size);
        if wanted != found {
            self.tell(Difference::new(path, Kind::Size, wanted.to_string(), found.to_string()));
            return Ok(());
        }
        let sides: (&dyn Source, &dyn Source) = (&*self.old[source], &self.new);
        let compared = bytes::first_difference((sides.0, &old.location), (sides.1, &new.location), wanted, self.cancel);
        match compared {
            Ok(None) => {
                self.progress.bytes.fetch_add(wanted, Ordering::Relaxed);
            }
            Ok(Some(at)) => self.tell(Difference::new(path, Kind::Bytes, format!("from byte {at} on"), "")),
            Err(error) => self.unreadable(path, Some(source), error)?,
        }
        Ok(())
    }

    /// One object could not be read; or nothing can be any more.
    pub(super) fn unreadable(&self, path: &Path, source: Option<usize>, error: SourceError) -> Result<()> {
        match error.kind {
            ErrorKind::Cancelled => Err(Error::Cancelled),
            ErrorKind::Unavailable => Err(match source {
                Some(source) => self.config.sources[source].from.failed(error),
                None => {
                    Error::Destination { path: self.config.to.join(path), cause: std::io::Error::other(error.message) }
                }
            }),
            _ => {
                let (old, new) =
                    if source.is_some() { (error.message, String::new()) } else { (String::new(), error.message) };
                self.tell(Difference::new(path, Kind::Unreadable, old, new));
                Ok(())
            }
        }
    }
}

//! What an object of a source says of itself.

use std::ffi::OsString;
use std::path::PathBuf;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A file with data.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// A moment: seconds since 1970 began in UTC, and nanoseconds within the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Negative before 1970.
    pub seconds: i64,
    /// Below 1,000,000,000.
    pub nanos: u32,
}

/// The user and the group that own an object, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// What every listing or attribute request tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// What it is.
    pub file_type: FileType,
    /// Permissions with set-user-ID, set-group-ID and sticky bits: below `0o10000`.
    pub mode: u32,
    /// By whom it is owned; of no meaning where the source knows no [owners](super::Capabilities::owners).
    pub owner: Owner,
    /// Names that it has.
    pub links: u32,
    /// In bytes; of a symbolic link, of its target.
    pub size: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// The file system within the source and the object's number in it: equal for two names of one object. The number is 0 where the source keeps none.
    pub id: (u64, u64),
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of the data.
    pub modified: Timestamp,
    /// Last change of data or attributes, by the source's own clock.
    pub changed: Timestamp,
    /// When it was made, where the source knows that.
    pub created: Option<Timestamp>,
}

/// By what a change at the source is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The object's number, or 0 where the source keeps none.
    pub id: u64,
    /// In bytes.
    pub size: u64,
    /// Last change of the data.
    pub modified: Timestamp,
    /// Last change of data or attributes.
    pub changed: Timestamp,
}

impl Stamp {
    /// Whether both may be of one object. A number of 0 is not known, and is as any other.
    pub fn is_of_one_object(&self, other: &Self) -> bool {
        self.id == other.id || self.id == 0 || other.id == 0
    }

    /// Whether both may be of one version of one object.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_of_one_object(other) && Self { id: 0, ..*self } == Self { id: 0, ..*other }
    }
}

/// By what a source's root is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// 0 where it is not told.
    pub(crate) number: u64,
    /// In nanoseconds since 1970; 0 where it is not told.
    pub(crate) created: i64,
}

impl Identity {
    pub(crate) fn new(number: u64, created: Option<Timestamp>) -> Self {
        let nanos = |time: Timestamp| time.seconds.saturating_mul(1_000_000_000).saturating_add(time.nanos.into());
        Self { number, created: created.map_or(0, nanos) }
    }

    pub(crate) fn of(root: &Attributes) -> Self {
        Self::new(root.id.1, root.created)
    }

    /// Either number may come anew: a server may make them up of what it does not keep.
    pub(crate) fn is_same(self, other: Self) -> bool {
        let is_untold = |one: Self| one.number == 0 && one.created == 0;
        let [numbers, times] = [self.number == other.number, self.created == other.created];
        is_untold(self) || is_untold(other) || (numbers && self.number != 0) || (times && self.created != 0)
    }
}

impl Attributes {
    /// By what a later change is noticed.
    pub fn stamp(&self) -> Stamp {
        Stamp { id: self.id.1, size: self.size, modified: self.modified, changed: self.changed }
    }
}

/// What takes requests of its own to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The target of a symbolic link.
    pub target: Option<PathBuf>,
    /// Extended attributes by their full names, as Linux has them: `user.…`, `system.posix_acl_access`, and Windows' access control lists as Samba
    /// stores them, `security.NTACL`.
    pub attributes: Vec<(OsString, Vec<u8>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_known_by_its_number_or_by_the_time_when_it_was_made() {
        let identity = |number, created| Identity { number, created };
        for (other, is_same) in [
            (identity(2, 50), true),
            (identity(2, 0), true),
            (identity(2, 51), true),
            (identity(3, 50), true),
            (identity(0, 50), true),
            (identity(0, 0), true),
            (identity(3, 51), false),
            (identity(3, 0), false),
            (identity(0, 51), false),
        ] {
            assert_eq!(identity(2, 50).is_same(other), is_same, "{other:?}");
            assert_eq!(other.is_same(identity(2, 50)), is_same, "{other:?}");
        }
    }

    #[test]
    fn a_number_that_is_not_known_is_as_any_other() {
        let moment = Timestamp { seconds: 1, nanos: 2 };
        let stamp = Stamp { id: 7, size: 10, modified: moment, changed: moment };
        assert!(
            stamp.is_same(&stamp)
                && stamp.is_same(&Stamp { id: 0, ..stamp })
                && Stamp { id: 0, ..stamp }.is_same(&stamp)
        );
        let later = Timestamp { seconds: 2, ..moment };
        for other in [
            Stamp { id: 8, ..stamp },
            Stamp { id: 0, size: 11, ..stamp },
            Stamp { modified: later, ..stamp },
            Stamp { changed: later, ..stamp },
        ] {
            assert!(!stamp.is_same(&other) && !other.is_same(&stamp), "{other:?}");
        }
    }
}

//! POSIX access lists as Linux' extended attributes have them, and the numbers of users and groups in them.

use std::ffi::OsStr;

use crate::source::Owner;

const NAMES: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];
/// What such an attribute begins with; entries of a tag, permissions and a number follow.
const VERSION: [u8; 4] = 2_u32.to_le_bytes();
const ENTRY: usize = 8;
const USER: u16 = 2;
const GROUP: u16 = 8;

/// An extended attribute of a source, as the destination gets it: in an access list, users and groups have the destination's numbers. Entries that get one
/// number become one, with the permissions of both.
///
/// ```
/// use std::ffi::OsStr;
///
/// use ishigaki_migrate::access_list::mapped;
/// use ishigaki_migrate::source::Owner;
///
/// let list = [2, 0, 0, 0, 2, 0, 6, 0, 77, 0, 0, 0];
/// let owners = |owner: Owner| Owner { user: owner.user + 1, ..owner };
/// assert_eq!(mapped(OsStr::new("system.posix_acl_access"), list.to_vec(), &owners)[8], 78);
/// assert_eq!(mapped(OsStr::new("user.other"), list.to_vec(), &owners), list);
/// ```
pub fn mapped(name: &OsStr, value: Vec<u8>, owners: &dyn Fn(Owner) -> Owner) -> Vec<u8> {
    let entries = value.strip_prefix(&VERSION).filter(|entries| entries.len() % ENTRY == 0);
    let Some(entries) = entries.filter(|_| NAMES.iter().any(|known| name == *known)) else { return value };
    let mut done: Vec<(u16, u16, u32)> = Vec::new();
    for entry in entries.chunks_exact(ENTRY) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let permissions = u16::from_le_bytes([entry[2], entry[3]]);
        let old = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let new = match tag {
            USER => owners(Owner { user: old, group: 0 }).user,
            GROUP => owners(Owner { user: 0, group: old }).group,
            _ => old,
        };
        match done.iter_mut().find(|(known, _, number)| (*known, *number) == (tag, new)) {
            Some((_, both, _)) => *both |= permissions,
            None => done.push((tag, permissions, new)),
        }
    }
    let entries = done.into_iter().flat_map(|(tag, permissions, number)| {
        [tag.to_le_bytes(), permissions.to_le_bytes()].concat().into_iter().chain(number.to_le_bytes())
    });
    VERSION.into_iter().chain(entries).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = VERSION.to_vec();
        for (tag, permissions, number) in entries {
            bytes.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn users_and_groups_are_mapped_and_nothing_else() {
        const NONE: u32 = u32::MAX;
        let owners = |owner: Owner| Owner {
            user: if owner.user < 10 { 100 } else { owner.user },
            group: if owner.group == 5 { 500 } else { owner.group },
        };
        let old = list(&[
            (1, 6, NONE),
            (2, 4, 5),
            (2, 2, 6),
            (2, 7, 10),
            (4, 4, NONE),
            (8, 5, 5),
            (0x10, 7, NONE),
            (0x20, 0, NONE),
        ]);
        let new =
            list(&[(1, 6, NONE), (2, 6, 100), (2, 7, 10), (4, 4, NONE), (8, 5, 500), (0x10, 7, NONE), (0x20, 0, NONE)]);
        for name in NAMES {
            assert_eq!(mapped(OsStr::new(name), old.clone(), &owners), new, "{name}");
        }
        assert_eq!(mapped(OsStr::new("user.acl"), old.clone(), &owners), old);
        // What is no list stays.
        for odd in [&old[..7], &old[..3], &[], &[1, 0, 0, 0]] {
            assert_eq!(mapped(OsStr::new(NAMES[0]), odd.to_vec(), &owners), odd);
        }
    }
}

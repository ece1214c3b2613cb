//! POSIX access lists by the side protocol that Solaris and Linux have for them (program 100227, version 3). It is described by their
//! sources only: `fs/nfs_common/nfsacl.c` and `fs/nfsd/nfs3acl.c` in Linux.

use std::ffi::OsString;

use super::flight::Flight;
use super::pool::Pool;
use super::protocol::{self, Trouble};
use super::rpc::{Call, Program};
use super::xdr::{Malformed, Put, Reader};
use crate::source::{Attributes, Cancel, ErrorKind, Result};

const NFS_ACL: Program = Program { number: 100_227, version: 3, name: "access list protocol", tells_status: true };
const GETACL: u32 = 1;
/// The list and the default list, without their counts alone.
const ACCESS: u32 = 1;
const DEFAULT: u32 = 4;
/// The most entries of a list.
const ENTRIES: u32 = 1024;
/// What marks the entries of a default list.
const IS_DEFAULT: u32 = 0x1000;
/// The version of a list in an extended attribute.
const XATTR_VERSION: u32 = 2;

const USER_OBJ: u32 = 1;
const USER: u32 = 2;
const GROUP_OBJ: u32 = 4;
const GROUP: u32 = 8;
const MASK: u32 = 0x10;
const OTHER: u32 = 0x20;

/// Asks for both lists of an object.
pub(super) fn getacl(handle: &[u8]) -> Call {
    let mut arguments = Vec::new();
    arguments.put_opaque(handle);
    arguments.put_u32(ACCESS | DEFAULT);
    Call { program: NFS_ACL, procedure: GETACL, arguments }
}

/// Whether the server has access lists for this root. One that has them gives at least what the mode says, as Solaris and Linux do; NFS-Ganesha
/// answers with empty lists for all objects of a file system whose lists it does not know.
pub(super) fn are_there(nfs: &Pool, root: &[u8], cancel: &Cancel) -> Result<bool> {
    match Flight::call(nfs, cancel, getacl(root)) {
        Ok(answer) => Ok(has_any(answer.results())),
        Err(failure) if failure.error.kind == ErrorKind::Cancelled => Err(failure.error),
        Err(_) => Ok(false),
    }
}

/// Whether an answer to [`getacl`] holds entries.
fn has_any(mut reader: Reader<'_>) -> bool {
    let mut count = || {
        protocol::status(&mut reader).ok()?;
        reader.option(protocol::attributes).ok()?;
        let is_there = reader.u32().ok()? & ACCESS != 0;
        reader.u32().ok()?;
        Some(if is_there { reader.u32().ok()? } else { 0 })
    };
    count().is_some_and(|count| count > 0)
}

/// Access lists as Linux' extended attributes, and what their object says of itself, if the server tells.
pub(super) type Lists = (Vec<(OsString, Vec<u8>)>, Option<Attributes>);

/// The answer to [`getacl`]. Objects of some kinds have no lists.
pub(super) fn lists(mut reader: Reader<'_>) -> Result<Lists, Trouble> {
    match protocol::status(&mut reader) {
        Err(Trouble::Status(protocol::NOT_SUPPORTED | protocol::INVALID)) => return Ok(Lists::default()),
        outcome => outcome?,
    }
    let now = reader.option(protocol::attributes)?;
    let mask = reader.u32()?;
    let mut found = Vec::new();
    for (bit, flag, name) in [(ACCESS, 0, "system.posix_acl_access"), (DEFAULT, IS_DEFAULT, "system.posix_acl_default")]
    {
        if mask & bit != 0
            && let Some(list) = list(&mut reader, flag)?
        {
            found.push((name.into(), list));
        }
    }
    Ok((found, now))
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    tag: u32,
    id: u32,
    permissions: u32,
}

/// A list as an extended attribute; `None` if there is none, or it says no more than the mode does.
fn list(reader: &mut Reader<'_>, flag: u32) -> Result<Option<Vec<u8>>, Malformed> {
    reader.u32()?;
    let count = reader.u32()?;
    if count > ENTRIES {
        return Err(Malformed("an access list is too long"));
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let (tag, id, permissions) = (reader.u32()? & !flag, reader.u32()?, reader.u32()?);
        let id = if tag & (USER | GROUP) == 0 { u32::MAX } else { id };
        entries.push(Entry { tag, id, permissions });
    }
    if entries.is_empty() {
        return Ok(None);
    }
    entries.sort_unstable();
    check(&entries)?;
    let of = |tag| entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions);
    let is_named = entries.iter().any(|entry| entry.tag & (USER | GROUP) != 0);
    // Servers put in a mask that is the group's entry again, for clients that want one.
    let is_mode = !is_named && of(MASK).is_none_or(|mask| Some(mask) == of(GROUP_OBJ));
    if is_mode && flag == 0 {
        return Ok(None);
    }
    let mut xattr = XATTR_VERSION.to_le_bytes().to_vec();
    for entry in entries.iter().filter(|entry| !(is_mode && entry.tag == MASK)) {
        xattr.extend_from_slice(&(entry.tag as u16).to_le_bytes());
        xattr.extend_from_slice(&(entry.permissions as u16).to_le_bytes());
        xattr.extend_from_slice(&entry.id.to_le_bytes());
    }
    Ok(Some(xattr))
}

/// What every list must have.
fn check(entries: &[Entry]) -> Result<(), Malformed> {
    let count = |tag| entries.iter().filter(|entry| entry.tag == tag).count();
    let known = [USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER];
    let is_named = count(USER) + count(GROUP) > 0;
    let is_whole = [USER_OBJ, GROUP_OBJ, OTHER].iter().all(|tag| count(*tag) == 1)
        && count(MASK) <= 1
        && (count(MASK) == 1 || !is_named)
        && entries.windows(2).all(|pair| (pair[0].tag, pair[0].id) != (pair[1].tag, pair[1].id))
        && entries.iter().all(|entry| known.contains(&entry.tag) && entry.permissions <= 7);
    if is_whole { Ok(()) } else { Err(Malformed("an access list is not complete")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(access: &[[u32; 3]], default: &[[u32; 3]]) -> Vec<u8> {
        let mut record = Vec::new();
        for word in [0, 0, ACCESS | DEFAULT] {
            record.put_u32(word);
        }
        for list in [access, default] {
            record.put_u32(list.len() as u32);
            record.put_u32(list.len() as u32);
            list.iter().flatten().for_each(|word| record.put_u32(*word));
        }
        record
    }

    #[test]
    fn a_list_becomes_what_the_kernel_stores() {
        let access = [[1, 0, 6], [2, 1234, 4], [4, 0, 4], [0x10, 0, 4], [0x20, 0, 0]];
        let default = [[0x1001, 0, 7], [0x1004, 0, 5], [0x1010, 0, 5], [0x1020, 0, 0]];
        let (lists, now) = lists(Reader::new(&answer(&access, &default))).expect("lists");
        assert_eq!(now, None);
        assert_eq!(lists.len(), 2);
        let (name, list) = &lists[0];
        assert_eq!((name.to_str(), list.len(), &list[..4]), (Some("system.posix_acl_access"), 44, &[2, 0, 0, 0][..]));
        assert_eq!(list[12..20], [2, 0, 4, 0, 0xd2, 4, 0, 0]);
        assert_eq!((lists[1].0.to_str(), lists[1].1.len()), (Some("system.posix_acl_default"), 28));
    }

    #[test]
    fn a_list_that_is_the_mode_is_none() {
        let mode = [[1, 0, 6], [4, 0, 4], [0x10, 0, 4], [0x20, 0, 0]];
        assert_eq!(lists(Reader::new(&answer(&mode, &[]))).expect("lists").0, []);
        let masked = [[1, 0, 6], [4, 0, 6], [0x10, 0, 4], [0x20, 0, 0]];
        assert_eq!(lists(Reader::new(&answer(&masked, &[]))).expect("lists").0.len(), 1);
    }

    #[test]
    fn a_server_that_gives_empty_lists_has_none() {
        assert!(has_any(Reader::new(&answer(&[[1, 0, 6], [4, 0, 4], [0x20, 0, 0]], &[]))));
        assert!(!has_any(Reader::new(&answer(&[], &[]))));
        let mut refused = Vec::new();
        refused.put_u32(10_004);
        assert!(!has_any(Reader::new(&refused)) && !has_any(Reader::new(&[])));
    }

    #[test]
    fn a_list_that_is_none_is_refused() {
        for list in [
            &[[1, 0, 6], [4, 0, 4]][..],
            &[[1, 0, 6], [2, 7, 4], [4, 0, 4], [0x20, 0, 0]],
            &[[1, 0, 8], [4, 0, 4], [0x20, 0, 0]],
            &[[1, 0, 6], [4, 0, 4], [0x20, 0, 0], [0x40, 0, 0]],
        ] {
            assert!(lists(Reader::new(&answer(list, &[]))).is_err());
        }
    }
}

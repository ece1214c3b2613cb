//! Reads the requests that the library does not know, and writes their answers.

use std::ffi::CStr;
use std::mem::size_of;

use fuse_backend_rs::abi::fuse_abi::{CreateIn, EntryOut, InHeader};
use fuse_backend_rs::api::filesystem::{Context, Entry};
use rustix::fs::Statx;
use rustix::io::Errno;
use vm_memory::ByteValued;

use super::{Beside, Copy, NewAttribute, Opened};

const SETXATTR: u32 = 21;
const COPY_FILE_RANGE: u32 = 47;
const TMPFILE: u32 = 51;
const STATX: u32 = 52;
const COPY_FILE_RANGE_64: u32 = 53;

/// In the second word of `struct fuse_setxattr_in`'s flags.
const CLEARS_SET_GROUP_ID: u32 = 1;

/// The most that an answer with a 32-bit length tells of.
const MOST: u64 = 0xFFFF_F000;

/// A request: its header, and what follows.
pub(crate) type Asked<'a> = (&'a InHeader, &'a [u8]);

/// Whether that request is answered here.
pub(crate) fn is_beside(header: &InHeader, extended: bool) -> bool {
    match header.opcode {
        COPY_FILE_RANGE | TMPFILE | STATX | COPY_FILE_RANGE_64 => true,
        SETXATTR => extended,
        _ => false,
    }
}

/// The answer's body.
pub(crate) fn answer(beside: &dyn Beside, (header, body): Asked<'_>) -> Result<Vec<u8>, Errno> {
    let ctx = Context { uid: header.uid, gid: header.gid, pid: header.pid.cast_signed() };
    let mut body = Fields(body);
    match header.opcode {
        COPY_FILE_RANGE => {
            let mut copy = copy(header.nodeid, &mut body)?;
            copy.length = copy.length.min(MOST);
            let size = beside.copy(&ctx, &copy)? as u32;
            Ok([size.to_ne_bytes(), [0; 4]].concat())
        }
        COPY_FILE_RANGE_64 => Ok(beside.copy(&ctx, &copy(header.nodeid, &mut body)?)?.to_ne_bytes().to_vec()),
        TMPFILE => {
            let args =
                CreateIn { flags: body.word()?, mode: body.word()?, umask: body.word()?, fuse_flags: body.word()? };
            let (entry, opened) = beside.make_unnamed(&ctx, header.nodeid, args)?;
            Ok(opened_out(entry, opened))
        }
        STATX => {
            let (attributes, belief) = beside.attributes(&ctx, header.nodeid)?;
            Ok(statx_out(&attributes, belief))
        }
        SETXATTR => {
            let (size, flags, more) = (body.word()?, body.word()?, body.word()?);
            let _padding = body.word()?;
            let name = CStr::from_bytes_until_nul(body.0).map_err(|_| Errno::INVAL)?;
            let value = &body.0[name.count_bytes() + 1..];
            if value.len() != size as usize {
                return Err(Errno::INVAL);
            }
            let clears_set_group_id = more & CLEARS_SET_GROUP_ID != 0;
            let attribute = NewAttribute { name, value, flags, clears_set_group_id };
            beside.set_attribute(&ctx, header.nodeid, &attribute)?;
            Ok(Vec::new())
        }
        _ => Err(Errno::NOSYS),
    }
}

/// Words of a request, one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn word(&mut self) -> Result<u32, Errno> {
        let (word, rest) = self.0.split_first_chunk().ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(u32::from_ne_bytes(*word))
    }

    fn long(&mut self) -> Result<u64, Errno> {
        let (long, rest) = self.0.split_first_chunk().ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*long))
    }
}

fn copy(from: u64, body: &mut Fields<'_>) -> Result<Copy, Errno> {
    let (handle, from_offset, to, to_handle) = (body.long()?, body.long()?, body.long()?, body.long()?);
    let (to_offset, length, flags) = (body.long()?, body.long()?, body.long()?);
    if flags != 0 {
        return Err(Errno::INVAL);
    }
    Ok(Copy { from: (from, handle), from_offset, to: (to, to_handle), to_offset, length })
}

/// `struct fuse_entry_out` and `struct fuse_open_out`.
fn opened_out(entry: Entry, opened: Opened) -> Vec<u8> {
    let mut out = EntryOut::from(entry).as_slice().to_vec();
    out.extend(opened.handle.to_ne_bytes());
    out.extend(opened.options.bits().to_ne_bytes());
    out.extend(opened.backing.unwrap_or_default().to_ne_bytes());
    out
}

/// `struct fuse_statx_out`.
fn statx_out(attributes: &Statx, belief: std::time::Duration) -> Vec<u8> {
    let mut out = Vec::with_capacity(288);
    out.extend(belief.as_secs().to_ne_bytes());
    out.extend(belief.subsec_nanos().to_ne_bytes());
    out.extend([0; 4 + 16]);
    let put32 = |out: &mut Vec<u8>, values: &[u32]| values.iter().for_each(|value| out.extend(value.to_ne_bytes()));
    let put64 = |out: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|value| out.extend(value.to_ne_bytes()));
    put32(&mut out, &[attributes.stx_mask, attributes.stx_blksize]);
    put64(&mut out, &[attributes.stx_attributes.bits()]);
    put32(&mut out, &[attributes.stx_nlink, attributes.stx_uid, attributes.stx_gid]);
    out.extend(attributes.stx_mode.to_ne_bytes());
    out.extend([0; 2]);
    let mask = attributes.stx_attributes_mask.bits();
    put64(&mut out, &[attributes.stx_ino, attributes.stx_size, attributes.stx_blocks, mask]);
    for time in [attributes.stx_atime, attributes.stx_btime, attributes.stx_ctime, attributes.stx_mtime] {
        out.extend(time.tv_sec.to_ne_bytes());
        out.extend(time.tv_nsec.to_ne_bytes());
        out.extend([0; 4]);
    }
    put32(&mut out, &[attributes.stx_rdev_major, attributes.stx_rdev_minor]);
    put32(&mut out, &[attributes.stx_dev_major, attributes.stx_dev_minor]);
    out.extend([0; 14 * size_of::<u64>()]);
    out
}

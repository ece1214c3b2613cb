//! In whose name the calling thread acts on the destination.
//!
//! *Who may do what* is decided by the kernel before a request comes here (`default_permissions`, with access control lists by the
//! option `POSIX_ACL`). It alone knows the program's supplementary groups, capabilities and user namespace at that moment; a process
//! that takes the program's user and group by `setfsuid` knows neither, so that a file which is the program's by its second group would be
//! refused. The door therefore acts with the right to do everything, and takes the program's name for what the destination writes down:
//! the owner and group of a new object, quotas.
//!
//! Two rights are left out for any user but root: the blocks that a file system keeps for root (`CAP_SYS_RESOURCE`), and, where
//! bytes change, to leave set-user-ID and set-group-ID bits of a file that is written (`CAP_FSETID`).
//!
//! To take a name costs up to four calls of the system, so a thread keeps the one that it has until a request needs another: what only looks
//! or removes is done in [any name](any).

#![allow(unsafe_code, reason = "a thread gets its own mask of permissions, for which rustix has no safe call")]

use std::cell::Cell;

use fuse_backend_rs::api::filesystem::Context;
use rustix::fs::Mode;
use rustix::io::Result;
use rustix::process::umask;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, Gid, Uid, UnshareFlags, capabilities, set_capabilities,
    set_capabilities_secure_bits, set_thread_res_gid, set_thread_res_uid, unshare_unsafe,
};

/// What a thread is at this moment.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name {
    user: u32,
    group: u32,
    mask: u32,
    /// Rights that are left out.
    without: CapabilitySet,
}

const ROOT: Name = Name { user: 0, group: 0, mask: 0, without: CapabilitySet::empty() };

/// The user and group that own nothing (`nobody`).
const NOBODY: u32 = 65534;

/// What the kernel may not do with a file that it has been given.
const PASSERS: CapabilitySet = CapabilitySet::SYS_RESOURCE.union(CapabilitySet::FSETID);

const SET_GROUP_ID: u32 = 0o2000;

impl Name {
    /// Whether it has the rights of a user who is not root: which one does not matter.
    fn is_passer(self) -> bool {
        self.user != 0 && self.group != 0 && self.without == PASSERS
    }
}

#[derive(Clone, Copy)]
struct Own {
    name: Name,
    sets: CapabilitySets,
}

thread_local! {
    static OWN: Cell<Option<Own>> = const { Cell::new(None) };
}

/// The thread may do anything on the destination, in whatever name it has: nothing is made, nor written.
pub(crate) fn any() -> Result<()> {
    if OWN.get().is_some() { Ok(()) } else { root() }
}

/// The thread acts as root.
pub(crate) fn root() -> Result<()> {
    take(ROOT)
}

/// The thread makes objects for a program, with its mask of permissions. The kernel has seen to the set-group-ID bit in `mode`.
pub(crate) fn maker(ctx: &Context, mode: u32, mask: u32) -> Result<()> {
    let mut without = if ctx.uid == 0 { CapabilitySet::empty() } else { CapabilitySet::SYS_RESOURCE };
    if ctx.uid != 0 && mode & SET_GROUP_ID == 0 {
        without |= CapabilitySet::FSETID;
    }
    take(Name { user: ctx.uid, group: ctx.gid, mask, without })
}

/// The thread moves a name for a program, or adds one: directories may become larger.
pub(crate) fn mover(ctx: &Context) -> Result<()> {
    match OWN.get() {
        Some(own) if ctx.uid != 0 && own.name.is_passer() => Ok(()),
        _ if ctx.uid != 0 => passer(),
        _ => root(),
    }
}

/// The thread gives an object, which is that group's, to others for a program. A set-group-ID bit goes where it would for the program itself: where that is neither
/// root nor of the group.
pub(crate) fn giver(ctx: &Context, group: u32) -> Result<()> {
    if ctx.uid == 0 || is_in_group(ctx.pid, group) {
        return root();
    }
    take(Name { group: ctx.gid, without: CapabilitySet::FSETID, ..ROOT })
}

/// Whether a group is one of the further groups of a program, which waits for this request.
fn is_in_group(program: i32, group: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{program}/status")) else { return false };
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.is_some_and(|groups| groups.split_whitespace().any(|one| one.parse() == Ok(group)))
}

/// The thread changes bytes for a program. `clears` says that set-user-ID and set-group-ID bits go.
pub(crate) fn writer(ctx: &Context, clears: bool) -> Result<()> {
    let mut without = if ctx.uid == 0 { CapabilitySet::empty() } else { CapabilitySet::SYS_RESOURCE };
    if clears {
        without |= CapabilitySet::FSETID;
    }
    let mask = OWN.get().map_or(0, |own| own.name.mask);
    take(Name { user: ctx.uid, group: ctx.gid, mask, without })
}

/// The thread gives a file to the kernel, which uses it with this thread's rights for all programs: those of a user who is not root.
pub(crate) fn passer() -> Result<()> {
    let own = OWN.get();
    if own.is_some_and(|own| own.name.is_passer()) {
        return Ok(());
    }
    let mask = own.map_or(0, |own| own.name.mask);
    take(Name { user: NOBODY, group: NOBODY, mask, without: PASSERS })
}

fn take(name: Name) -> Result<()> {
    let mut own = if let Some(own) = OWN.get() {
        own
    } else {
        let own = begin()?;
        OWN.set(Some(own));
        own
    };
    let (was, sets) = (own.name, own.sets);
    if was == name {
        return Ok(());
    }
    // What fails midway is not believed.
    OWN.set(None);
    if was.without != name.without {
        set_capabilities(None, CapabilitySets { effective: sets.effective - name.without, ..sets })?;
    }
    if was.group != name.group {
        set_thread_res_gid(None, Gid::from_raw(name.group), None)?;
    }
    if was.user != name.user {
        set_thread_res_uid(None, Uid::from_raw(name.user), None)?;
    }
    if was.mask != name.mask {
        umask(Mode::from_raw_mode(name.mask & 0o777));
    }
    own.name = name;
    OWN.set(Some(own));
    Ok(())
}

/// What a thread does once: it keeps its rights whatever its name is, and has a mask of its own.
fn begin() -> Result<Own> {
    set_capabilities_secure_bits(CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
    // SAFETY: the table of files stays shared. Apart are the mask, the root and the working directory, and no path here is relative.
    unsafe { unshare_unsafe(UnshareFlags::FS) }?;
    let sets = capabilities(None)?;
    let all = CapabilitySets { effective: sets.permitted, ..sets };
    set_capabilities(None, all)?;
    set_thread_res_gid(None, Gid::ROOT, None)?;
    set_thread_res_uid(None, Uid::ROOT, None)?;
    umask(Mode::empty());
    Ok(Own { name: ROOT, sets: all })
}

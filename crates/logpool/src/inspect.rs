//! A look at the entries of a pool's log, one after the other. Nothing is written.

use std::collections::BTreeMap;

use ishigaki_base::Lsn;
use ishigaki_device::Directory;
use ishigaki_wal::Changes;

use crate::format::{Change, Entry, is_packed, unpack};
use crate::rebuild::read_roster;
use crate::{FileId, MemberId, Result};

/// An entry, as people want to see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryReport {
    /// Its place in the log.
    pub lsn: Lsn,
    /// Whose it is.
    pub member: MemberId,
    /// The member's name; `None` for one that was removed.
    pub name: Option<String>,
    /// Its number among the member's entries.
    pub number: u64,
    /// `data`, `zero`, `truncate`, `create`, `rename`, `remove`, `restate` or `restated`.
    pub kind: &'static str,
    /// The file, where it is about one.
    pub file: Option<FileId>,
    /// Where the request began, in bytes.
    pub offset: u64,
    /// How long it was, in bytes; for `truncate` the new length.
    pub length: u64,
    /// How many of its bytes changed and are in the entry.
    pub changed: u64,
    /// Bytes of the entry in the log, chunk headers left out.
    pub bytes: u64,
    /// Whether these bytes are its packed form.
    pub packed: bool,
    /// The path or paths that it names.
    pub paths: Vec<String>,
}

/// Shows every entry of the log, the oldest first, to `see`, until that says false.
pub fn inspect(directory: &dyn Directory, see: &mut dyn FnMut(EntryReport) -> bool) -> Result<()> {
    let roster = read_roster(directory)?;
    let names: BTreeMap<_, _> = roster.members.into_iter().map(|member| (member.id, member.name)).collect();
    let start = ishigaki_wal::inspect(directory)?.start;
    for record in Changes::of(directory, start.lsn)? {
        let (position, payload) = record?;
        let plain = unpack(&payload)?;
        let entry = Entry::decode(&plain)?;
        let name = names.get(&entry.member).cloned();
        if !see(report(position.lsn(), name, &entry, &payload)) {
            return Ok(());
        }
    }
    Ok(())
}

fn report(lsn: Lsn, name: Option<String>, entry: &Entry<'_>, payload: &[u8]) -> EntryReport {
    let (member, number, kind) = (entry.member, entry.number, entry.change.name());
    let (file, offset, length, changed, paths) = match &entry.change {
        Change::Data { file, offset, length, runs } => {
            let changed = runs.iter().map(|run| run.length).sum();
            (Some(*file), *offset, *length, changed, Vec::new())
        }
        Change::Zero { file, offset, length, .. } => (Some(*file), *offset, *length, 0, Vec::new()),
        Change::Truncate { file, length } => (Some(*file), 0, *length, 0, Vec::new()),
        Change::Create { path, file } => (*file, 0, 0, 0, vec![path.clone()]),
        Change::Rename { from, to } => (None, 0, 0, 0, vec![from.clone(), to.clone()]),
        Change::Remove { path } => (None, 0, 0, 0, vec![path.clone()]),
        Change::Restate { nodes, .. } => (None, 0, 0, 0, nodes.iter().map(|node| node.path.clone()).collect()),
        Change::Restated => (None, 0, 0, 0, Vec::new()),
    };
    let (bytes, packed) = (payload.len() as u64, is_packed(payload));
    EntryReport { lsn, member, name, number, kind, file, offset, length, changed, bytes, packed, paths }
}

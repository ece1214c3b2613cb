//! The door for `fuzz/`: the pool's decoders, with what must hold whatever they are given.
//!
//! Compiled under `--cfg fuzzing` only.

use ishigaki_base::{ByteSize, LogId};

use crate::format::{
    Change, Entry, Extent, LEDGER, Ledger, LedgerFile, Node, ROSTER, Roster, RosterMember, Run, SLOT, Slot, pack, seal,
    unpack,
};
use crate::home::EXTENT;
use crate::{Area, FileId, MemberId, MemberSettings, Profile, Settings};

/// Settings of a pool that takes little memory.
pub fn settings() -> Settings {
    Settings {
        log: ByteSize::mib(1),
        segment: ByteSize::kib(128),
        region: ByteSize::kib(256),
        background: false,
        ..Settings::default()
    }
}

/// Unpacks and decodes an entry; says whether that was one.
///
/// # Panics
///
/// If an entry that was accepted does not encode to the same plain bytes, or these do not unpack to themselves.
pub fn entry(bytes: &[u8]) -> bool {
    let Ok(plain) = unpack(bytes) else { return false };
    let Ok(entry) = Entry::decode(&plain) else { return false };
    assert_eq!(entry.encode(), *plain);
    assert_eq!(unpack(&pack(plain.to_vec())).expect("it was packed just now"), plain);
    true
}

/// Decodes a ledger, as it is and with the checksum put right; says whether the latter was one.
///
/// # Panics
///
/// If a ledger that was accepted does not encode to the same bytes.
pub fn ledger(body: &[u8]) -> bool {
    let _ = Ledger::decode(body);
    let sealed = seal(LEDGER, body);
    let Ok(ledger) = Ledger::decode(&sealed) else { return false };
    assert_eq!(ledger.encode(), sealed);
    true
}

/// The same for a copy of a checkpoint area.
///
/// # Panics
///
/// If a copy that was accepted does not encode to the same bytes.
pub fn slot(body: &[u8]) -> bool {
    let _ = Slot::decode(body);
    let sealed = seal(SLOT, body);
    let Ok(slot) = Slot::decode(&sealed) else { return false };
    assert_eq!(slot.encode(), sealed);
    true
}

/// The same for a roster.
///
/// # Panics
///
/// If a roster that was accepted does not encode to the same bytes.
pub fn roster(body: &[u8]) -> bool {
    let _ = Roster::decode(body);
    let sealed = seal(ROSTER, body);
    let Ok(roster) = Roster::decode(&sealed) else { return false };
    assert_eq!(roster.encode(), sealed);
    true
}

/// Entries of a member with number 0, in an order that makes sense; one is packed.
pub fn entries() -> Vec<Vec<u8>> {
    let (file, bytes) = (FileId(0), Some(&b"abc"[..]));
    let rows = b"INSERT INTO stones; ".repeat(15);
    let changes = [
        Change::Create { path: "d".to_owned(), file: None },
        Change::Create { path: "d/f".to_owned(), file: Some(file) },
        Change::Data {
            file,
            offset: 8192,
            length: 4096,
            runs: vec![Run { at: 5, length: 3, bytes }, Run { at: 100, length: 3000, bytes: None }],
        },
        Change::Data {
            file,
            offset: 9000,
            length: 512,
            runs: vec![Run { at: 0, length: rows.len() as u64, bytes: Some(&rows) }],
        },
        Change::Zero { file, offset: 0, length: 16 << 10, keep_length: true },
        Change::Truncate { file, length: 10_017 },
        Change::Rename { from: "d/f".to_owned(), to: "g".to_owned() },
        Change::Remove { path: "d".to_owned() },
        Change::Restate { since: 2, nodes: vec![Node { path: "h".to_owned(), file: Some((FileId(3), 100)) }] },
        Change::Restated,
    ];
    let entry = |(number, change)| pack(Entry { member: MemberId(0), number, change }.encode());
    (1..).zip(changes).map(entry).collect()
}

fn body(sealed: &[u8]) -> Vec<u8> {
    sealed[16..sealed.len() - 4].to_vec()
}

/// Bodies of ledgers.
pub fn ledgers() -> Vec<Vec<u8>> {
    let extents = vec![Some(Extent::zeros(9)), None];
    let file = LedgerFile { path: "d/f".to_owned(), file: FileId(4), length: EXTENT + 1, extents };
    let ledger = Ledger {
        log: LogId(99),
        member: MemberId(2),
        sequence: 7,
        entries: 300,
        next_file: 5,
        region: 1 << 20,
        regions: 1,
        directories: vec!["d".to_owned()],
        files: vec![file],
        is_old: false,
    };
    vec![body(&ledger.encode())]
}

/// Bodies of copies of checkpoint areas.
pub fn slots() -> Vec<Vec<u8>> {
    let bytes = vec![3; Area::LENGTH as usize];
    let (log, member, file) = (LogId(99), MemberId(2), FileId(4));
    vec![body(&Slot { log, member, area: 1, file, sequence: 7, after: 300, bytes }.encode())]
}

/// Bodies of rosters.
pub fn rosters() -> Vec<Vec<u8>> {
    let settings = MemberSettings { profile: Profile::MARIADB, ..MemberSettings::default() };
    let members = vec![RosterMember { id: MemberId(2), name: "a".to_owned(), settings }];
    vec![body(&Roster { log: LogId(99), next: 3, sequence: 5, leaving: vec!["b".to_owned()], members }.encode())]
}

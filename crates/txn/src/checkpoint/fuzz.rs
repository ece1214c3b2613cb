//! Checkpoints' part of the door for `fuzz/`.

use ishigaki_base::{Fields, Generation, LogId, Lsn, crc32c};

use super::Start;
use super::manifest::{self, Manifest, Part};
use super::page::{self, Draft, Identity};
use crate::table::TableId;

/// Decodes a page, with its checksums put right; says whether that was one.
///
/// # Panics
///
/// If a page that was accepted does not encode to the same bytes, but for spare ones.
pub fn page(bytes: &[u8]) -> bool {
    let _ = page::decode(bytes);
    let mut bytes = bytes.to_vec();
    seal_pages(&mut bytes);
    let Ok((page, behind)) = page::decode(&bytes) else { return false };
    let Ok(rows) = page.rows().collect::<Result<Vec<_>, _>>() else { return false };
    if rows.is_empty() {
        return true;
    }
    let mut draft = Draft::default();
    for (version, key, value) in &rows {
        draft.push(*version, key, value);
    }
    let encoded = draft.seal(page.identity, page.table);
    let page = &bytes[..bytes.len() - behind.len()];
    assert_eq!(encoded.len(), page.len());
    assert_eq!((&encoded[..5], &encoded[8..48]), (&page[..5], &page[8..48]));
    assert_eq!(encoded[page::HEADER..], page[page::HEADER..]);
    true
}

/// Decodes a manifest, with its checksum put right; says whether that was one.
///
/// # Panics
///
/// If a manifest that was accepted does not read back after it was encoded.
pub fn manifest(bytes: &[u8]) -> bool {
    let _ = manifest::decode(bytes);
    let mut bytes = bytes.to_vec();
    seal_manifest(&mut bytes);
    let Ok(found) = manifest::decode(&bytes) else { return false };
    assert_eq!(manifest::decode(&found.encode()), Ok(found));
    true
}

/// Puts right the checksums of pages that lie one behind the other.
pub fn seal_pages(bytes: &mut [u8]) {
    let mut rest = bytes;
    while let Some((header, behind)) = rest.split_at_mut_checked(page::HEADER) {
        let length = (Fields(header).u32(40) as usize).min(behind.len());
        let (payload, behind) = behind.split_at_mut(length);
        header[44..48].copy_from_slice(&crc32c(payload).to_le_bytes());
        let crc = crc32c(&header[..48]);
        header[48..52].copy_from_slice(&crc.to_le_bytes());
        rest = behind;
    }
}

/// Puts right the checksum of a manifest.
pub fn seal_manifest(bytes: &mut [u8]) {
    let parts = usize::try_from(Fields(bytes).u64(64)).ok();
    let end = parts.and_then(|parts| parts.checked_mul(manifest::PART)?.checked_add(manifest::HEADER));
    let Some((told, crc)) = end.and_then(|end| bytes.split_at_mut_checked(end)) else { return };
    if let Some(crc) = crc.first_chunk_mut() {
        *crc = crc32c(told).to_le_bytes();
    }
}

/// Pages.
pub fn pages() -> Vec<Vec<u8>> {
    let mut draft = Draft::default();
    draft.push(Lsn(3), b"", b"");
    draft.push(Lsn(9), b"key", b"value");
    vec![draft.seal(Identity { log: LogId(7), checkpoint: 3, page: 11 }, TableId(5)).to_vec()]
}

/// Manifests.
pub fn manifests() -> Vec<Vec<u8>> {
    let manifest = |parts: u32| Manifest {
        log: LogId(7),
        number: 9,
        start: Start { generation: Generation(3), lsn: Lsn(40) },
        end: Lsn(77),
        rows: 1000,
        next_table: TableId(12),
        parts: (0..parts).map(|pages| Part { length: 1000, pages }).collect(),
    };
    vec![manifest(0).encode(), manifest(2).encode()]
}

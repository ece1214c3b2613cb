//! The mark of files whose data is not here yet, for clients of Samba.
//!
//! Samba keeps what Windows knows of a file in the extended attribute `user.DOSATTRIB`. While bytes of a file are missing, the door adds
//! `FILE_ATTRIBUTE_OFFLINE` to it: file managers then show a name and an icon, and do not read the file for a picture of it. The mark is made when a
//! program asks, and is never stored: what a program writes, it has read before, with the mark.
//!
//! ```text
//!   "" and padding: 0, 0 │ version 3 to 5: u16 │ again: u32 │ what is valid: u32 │ attributes: u32 │ more
//! ```
//!
//! NDR, little endian, after Samba's `librpc/idl/xattr.idl`. A value of another form is passed on as it is.

/// The extended attribute.
pub(crate) const NAME: &[u8] = b"user.DOSATTRIB";

const OFFLINE: u32 = 0x1000;
/// `XATTR_DOSINFO_ATTRIB`.
const VALID: u32 = 1;
const VERSIONS: std::ops::RangeInclusive<u32> = 3..=5;
const VALID_AT: usize = 8;
const ATTRIBUTES_AT: usize = 12;

fn word(value: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*value.get(at..)?.first_chunk()?))
}

fn attributes(value: &[u8]) -> Option<u32> {
    let version = word(value, 4)?;
    let begins = value.starts_with(&[0, 0]) && value[2..4] == (version as u16).to_le_bytes();
    (begins && VERSIONS.contains(&version)).then(|| word(value, ATTRIBUTES_AT)).flatten()
}

fn set(value: &mut [u8], at: usize, word: u32) {
    value[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// Adds the mark to what is stored, if anything is.
pub(crate) fn mark(stored: Option<Vec<u8>>) -> Vec<u8> {
    let Some(mut value) = stored else {
        // Nothing is valid but the attributes.
        let mut value = vec![0, 0, 5, 0, 5, 0, 0, 0];
        value.extend([VALID.to_le_bytes(), OFFLINE.to_le_bytes()].concat());
        value.extend([0; 8]);
        return value;
    };
    if let (Some(attributes), Some(valid)) = (attributes(&value), word(&value, VALID_AT)) {
        // What is there without being valid means nothing.
        let kept = if valid & VALID == 0 { 0 } else { attributes };
        set(&mut value, VALID_AT, valid | VALID);
        set(&mut value, ATTRIBUTES_AT, kept | OFFLINE);
    }
    value
}

/// Takes the mark from what a program stores; `None` if it is not there.
pub(crate) fn without_mark(value: &[u8]) -> Option<Vec<u8>> {
    let attributes = attributes(value).filter(|attributes| attributes & OFFLINE != 0)?;
    let mut value = value.to_vec();
    set(&mut value, ATTRIBUTES_AT, attributes & !OFFLINE);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `ndr_pack` of an `xattr.DOSATTRIB` of version 5: hidden and archive.
    const STORED: [u8; 24] =
        [0, 0, 5, 0, 5, 0, 0, 0, 0x11, 0, 0, 0, 0x22, 0, 0, 0, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0xd9, 1];

    #[test]
    fn the_mark_is_added_to_what_is_stored_and_taken_from_it() {
        let marked = mark(Some(STORED.to_vec()));
        let mut wanted = STORED;
        wanted[13] = 0x10;
        assert_eq!(marked, wanted);
        assert_eq!(without_mark(&marked).as_deref(), Some(&STORED[..]));
        assert_eq!(without_mark(&STORED), None);
    }

    #[test]
    fn where_nothing_is_stored_the_mark_is_all() {
        let marked = mark(None);
        assert_eq!((attributes(&marked), word(&marked, VALID_AT)), (Some(OFFLINE), Some(VALID)));
        assert_eq!(mark(Some(marked.clone())), marked);
    }

    #[test]
    fn attributes_that_are_not_valid_do_not_become_so() {
        let mut stored = STORED;
        stored[8] = 0x10;
        let marked = mark(Some(stored.to_vec()));
        assert_eq!((attributes(&marked), word(&marked, VALID_AT)), (Some(OFFLINE), Some(0x11)));
    }

    #[test]
    fn a_value_of_another_form_is_left_alone() {
        let mut later = STORED;
        later[4] = 6;
        for other in [&b"0x20\0"[..], &STORED[..15], &later, &[]] {
            assert_eq!(mark(Some(other.to_vec())), other);
            assert_eq!(without_mark(other), None);
        }
    }
}

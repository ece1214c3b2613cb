//! What Windows knows of a file, as Samba stores it in extended attributes.
//!
//! A security descriptor is stored in Samba's `security.NTACL` in version 1, which has no hash of the POSIX permissions beside it: Samba's
//! `acl_xattr` takes it as it is, whatever the permissions are. Its offsets count from the beginning of the attribute, and those of a
//! descriptor on the wire from its own.
//!
//! ```text
//!   security.NTACL   version 1: u16 │ version again: u16 │ pointer, not zero: u32 │ descriptor
//!   user.DOSATTRIB   "" and padding: 0, 0 │ version 5: u16 │ again: u32 │ what is valid: u32 │ attributes: u32 │ created: u64
//! ```
//!
//! Both are NDR, little endian, after Samba's `librpc/idl/xattr.idl`.

use super::bytes::{Body, Fields, Malformed};

/// Before the descriptor.
const NTACL_HEADER: u32 = 8;
/// The size of a descriptor's beginning, where its offsets are.
const DESCRIPTOR_HEADER: usize = 20;
/// Owner, group, and the two lists: [MS-DTYP] 2.4.6.
const OFFSETS: [usize; 4] = [4, 8, 12, 16];
/// The least of what an offset leads to: an empty list, or an identifier without parts.
const LEAST: usize = 8;
/// Attributes that Samba stores: read-only, hidden, system, directory, archive.
const STORED: u32 = 0x37;
/// `XATTR_DOSINFO_ATTRIB` and `XATTR_DOSINFO_CREATE_TIME`.
const VALID: u32 = 0x11;

/// The value of `security.NTACL` for a descriptor, self-relative as the wire has it.
pub(super) fn ntacl(descriptor: &[u8]) -> Result<Vec<u8>, Malformed> {
    let fields = Fields(descriptor);
    let control = fields.u16(2)?;
    if fields.bytes(0, DESCRIPTOR_HEADER)?[0] != 1 || control & 0x8000 == 0 {
        return Err(Malformed("a security descriptor is of another form"));
    }
    let mut value = Body::default().u16(1).u16(1).u32(0x0002_0000).bytes(descriptor).0;
    for at in OFFSETS {
        let offset = fields.u32(at)?;
        if offset == 0 {
            continue;
        }
        if (offset as usize) < DESCRIPTOR_HEADER || fields.bytes(offset as usize, LEAST).is_err() {
            return Err(Malformed("a security descriptor points out of itself"));
        }
        let at = at + NTACL_HEADER as usize;
        value[at..at + 4].copy_from_slice(&(offset + NTACL_HEADER).to_le_bytes());
    }
    Ok(value)
}

/// The value of `user.DOSATTRIB`: the attributes of a file, and when it was made, as the wire has them.
pub(super) fn dosattrib(attributes: u32, created: u64) -> Vec<u8> {
    Body::default().u16(0).u16(5).u32(5).u32(VALID).u32(attributes & STORED).u64(created).0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `O:S-1-5-21-1-2-3-500G:S-1-5-21-1-2-3-513D:PAI(A;OICI;0x1f01ff;;;BA)(D;;0x2;;;WD)(A;OICIID;0x1200a9;;;S-1-5-21-1-2-3-1001)`,
    /// packed by Samba 4.17's `ndr_pack`.
    const DESCRIPTOR: &str = "010004941400000030000000000000004c000000010500000000000515000000010000000200000003000000f401000001050000000000051500000001000000020000000300000001020000040058000300000000031800ff011f0001020000000000052000000020020000010014000200000001010000000000010000000000132400a9001200010500000000000515000000010000000200000003000000e9030000";
    /// The same in an `xattr.NTACL` of version 1.
    const NTACL: &str = "0100010000000200010004941c000000380000000000000054000000010500000000000515000000010000000200000003000000f401000001050000000000051500000001000000020000000300000001020000040058000300000000031800ff011f0001020000000000052000000020020000010014000200000001010000000000010000000000132400a9001200010500000000000515000000010000000200000003000000e9030000";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal")).collect()
    }

    #[test]
    fn a_descriptor_is_stored_as_samba_packs_it() {
        assert_eq!(ntacl(&bytes(DESCRIPTOR)), Ok(bytes(NTACL)));
    }

    #[test]
    fn a_descriptor_that_is_cut_or_points_outside_is_refused() {
        let whole = bytes(DESCRIPTOR);
        for size in 0..80 {
            assert!(ntacl(&whole[..size]).is_err(), "{size}");
        }
        for at in OFFSETS {
            for offset in [1, 19, whole.len() as u32 - 7, u32::MAX - 4] {
                let mut wrong = whole.clone();
                wrong[at..at + 4].copy_from_slice(&offset.to_le_bytes());
                assert!(ntacl(&wrong).is_err(), "{offset} at {at}");
            }
        }
        let mut none = whole;
        none[16..20].fill(0);
        assert_eq!(ntacl(&none).expect("no list is a list, too")[24..28], [0; 4]);
    }

    #[test]
    fn attributes_are_stored_as_samba_packs_them() {
        // By `ndr_pack` of an `xattr.DOSATTRIB` of version 5.
        let packed = bytes("00000500050000001100000022000000ffeeddccbbaad901");
        assert_eq!(dosattrib(0x22, 0x01d9_aabb_ccdd_eeff), packed);
        assert_eq!(dosattrib(0x8000_0a22, 0x01d9_aabb_ccdd_eeff), packed, "what Samba does not store is left out");
    }
}

//! The control block: one sector that says which generation may be appended to, and from where the log is needed.

use ishigaki_base::{Fields, Generation, LogId, Lsn, crc32c};

use crate::{Error, Result, Start};

/// Bytes of the block that are used; the rest of its sector is zero.
pub(crate) const CONTROL_BYTES: usize = 68;

/// The same in version 2, which had one copy and no sequence number.
const BYTES_OF_2: usize = 60;

const MAGIC: [u8; 4] = *b"ISGC";

/// The version of the block. It has its own, since logs of version 2 differ in nothing else and are taken over.
pub(crate) const CONTROL_VERSION: u8 = 3;

/// The version before.
pub(crate) const OLD_VERSION: u8 = 2;

/// A copy of the control block, as it lies on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlCopy {
    /// The largest one counts; 0 in version 2.
    pub(crate) sequence: u64,
    pub(crate) control: Control,
}

/// What the control block says. It lies in one sector, which the medium writes whole; so it is overwritten in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// The log's identity.
    pub(crate) log: LogId,
    /// The newest generation.
    pub(crate) generation: Generation,
    /// Its first LSN.
    pub(crate) base: Lsn,
    /// After a clean close the last LSN of the log: everything up to it must be found again.
    pub(crate) clean: Option<Lsn>,
    /// From where the log is needed: segments that hold nothing from there on may be gone.
    pub(crate) start: Start,
}

impl Control {
    /// Whether the log can be needed from there: its newest generation was there when somebody said so, or came later.
    pub(crate) fn check_reached(&self, start: Start) -> Result<()> {
        let Self { generation, base, .. } = *self;
        let what = if start.generation > generation {
            format!("it ends in generation {generation}, and is needed from {start}")
        } else if start.generation == generation && start.lsn < base {
            format!("it is needed from {start}, and its generation {generation} begins at {base}")
        } else {
            return Ok(());
        };
        Err(Error::Corrupt { stream: None, what })
    }
}

impl ControlCopy {
    /// The copy's sector.
    pub(crate) fn encode(&self, sector: &mut [u8]) {
        let Self { sequence, control } = self;
        sector.fill(0);
        sector[0..4].copy_from_slice(&MAGIC);
        sector[4] = CONTROL_VERSION;
        sector[5] = u8::from(control.clean.is_some());
        sector[8..16].copy_from_slice(&control.log.0.to_le_bytes());
        sector[16..24].copy_from_slice(&control.generation.0.to_le_bytes());
        sector[24..32].copy_from_slice(&control.base.0.to_le_bytes());
        sector[32..40].copy_from_slice(&control.clean.unwrap_or_default().0.to_le_bytes());
        sector[40..48].copy_from_slice(&control.start.generation.0.to_le_bytes());
        sector[48..56].copy_from_slice(&control.start.lsn.0.to_le_bytes());
        sector[56..64].copy_from_slice(&sequence.to_le_bytes());
        let crc = crc32c(&sector[..CONTROL_BYTES - 4]);
        sector[CONTROL_BYTES - 4..CONTROL_BYTES].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a copy of this version or of the one before.
    pub(crate) fn decode(sector: &[u8]) -> Result<Self> {
        let damaged =
            || Error::Corrupt { stream: None, what: "its control block does not fit its checksum".to_owned() };
        let is_old = sector.get(4) == Some(&OLD_VERSION);
        let length = if is_old { BYTES_OF_2 } else { CONTROL_BYTES };
        let bytes = sector.get(..length).ok_or_else(damaged)?;
        let fields = Fields(bytes);
        if bytes[0..4] != MAGIC || fields.u32(length - 4) != crc32c(&bytes[..length - 4]) {
            return Err(damaged());
        }
        if bytes[4] != CONTROL_VERSION && !is_old {
            return Err(Error::Version { found: bytes[4], known: CONTROL_VERSION });
        }
        let clean = match bytes[5] {
            0 => None,
            1 => Some(Lsn(fields.u64(32))),
            other => {
                let what = format!("its control block says {other} where there is 0 or 1");
                return Err(Error::Corrupt { stream: None, what });
            }
        };
        let generation = Generation(fields.u64(16));
        let start = Start { generation: Generation(fields.u64(40)), lsn: Lsn(fields.u64(48)) };
        let control = Control { log: LogId(fields.u64(8)), generation, base: Lsn(fields.u64(24)), clean, start };
        let is_new = generation == Generation(0);
        if start.lsn < Lsn::FIRST || is_new && (start, control.base) != (Start::default(), Lsn::FIRST) {
            let base = control.base;
            let what =
                format!("its control block needs it from {start}, and has generation {generation} begin at {base}");
            return Err(Error::Corrupt { stream: None, what });
        }
        control.check_reached(start)?;
        Ok(Self { sequence: if is_old { 0 } else { fields.u64(56) }, control })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(control: Control, sector: &mut [u8]) {
        ControlCopy { sequence: 7, control }.encode(sector);
    }

    fn decode(sector: &[u8]) -> Result<Control> {
        ControlCopy::decode(sector).map(|copy| copy.control)
    }

    #[test]
    fn a_control_block_of_the_version_before_is_read() {
        let mut sector = [0; 512];
        encode(CONTROL, &mut sector);
        sector[4] = OLD_VERSION;
        sector[BYTES_OF_2 - 4..CONTROL_BYTES].fill(0);
        let crc = crc32c(&sector[..BYTES_OF_2 - 4]);
        sector[BYTES_OF_2 - 4..BYTES_OF_2].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(ControlCopy::decode(&sector).unwrap(), ControlCopy { sequence: 0, control: CONTROL });
    }

    const CONTROL: Control = Control {
        log: LogId(9),
        generation: Generation(3),
        base: Lsn(40),
        clean: Some(Lsn(41)),
        start: Start { generation: Generation(2), lsn: Lsn(30) },
    };

    #[test]
    fn a_control_block_reads_back() {
        let mut sector = [0xaa; 512];
        for control in [CONTROL, Control { clean: None, ..CONTROL }] {
            encode(control, &mut sector);
            assert_eq!(decode(&sector).unwrap(), control);
        }
    }

    #[test]
    fn what_is_neither_closed_nor_open_is_refused() {
        let mut sector = [0; 512];
        encode(CONTROL, &mut sector);
        sector[5] = 2;
        let crc = crc32c(&sector[..CONTROL_BYTES - 4]);
        sector[CONTROL_BYTES - 4..CONTROL_BYTES].copy_from_slice(&crc.to_le_bytes());
        assert!(matches!(decode(&sector), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn a_start_that_the_log_can_not_have_is_refused() {
        let mut sector = [0; 512];
        for start in [(0, 0), (3, 0), (3, 39), (4, 1)] {
            let start = Start { generation: Generation(start.0), lsn: Lsn(start.1) };
            encode(Control { start, ..CONTROL }, &mut sector);
            assert!(matches!(decode(&sector), Err(Error::Corrupt { .. })), "{start}");
        }
    }

    #[test]
    fn a_log_that_was_never_opened_begins_at_the_first_lsn() {
        let new = Control { generation: Generation(0), base: Lsn::FIRST, start: Start::default(), ..CONTROL };
        let behind = Start { lsn: Lsn(2), ..new.start };
        let mut sector = [0; 512];
        encode(new, &mut sector);
        assert_eq!(decode(&sector).unwrap(), new);
        for control in [Control { base: Lsn(2), ..new }, Control { start: behind, ..new }] {
            encode(control, &mut sector);
            assert!(matches!(decode(&sector), Err(Error::Corrupt { .. })), "{control:?}");
        }
    }

    #[test]
    fn a_flipped_bit_is_found() {
        for bit in 0..CONTROL_BYTES * 8 {
            let mut sector = [0; 512];
            encode(CONTROL, &mut sector);
            sector[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&sector).is_err(), "bit {bit}");
        }
    }
}

//! What goes over a stream of bytes: frames, each a header and what it announces.
//!
//! Pictured in `docs/format/fabric.md`. Decoding never looks past what it was given and never believes a length beyond
//! [`MAX_MESSAGE`] or [`MAX_WRITE`].

use ishigaki_base::Fields;

use crate::region::{RegionKey, Target};

/// The longest message, in bytes.
pub const MAX_MESSAGE: usize = 1 << 20;

/// The longest one-sided write, in bytes.
pub const MAX_WRITE: usize = 1 << 20;

/// The bytes that every frame begins with.
pub(crate) const HEADER: usize = 16;

/// The bytes that say where a write goes, behind the header.
pub(crate) const TARGET: usize = 24;

/// In the flags of a write: it answers the request of its number.
const COMPLETES: u8 = 1;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message that wants one answer.
    Request,
    /// A message that is the answer.
    Reply,
    /// Bytes for a region; also the answer, if it says so.
    Write {
        /// Where they go.
        target: Target,
        /// It answers the request of its number.
        completes: bool,
    },
}

/// A frame's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    /// The number of the request, chosen by whoever asks.
    pub(crate) id: u32,
    /// How many more requests the receiver of this frame may send.
    pub(crate) credits: u16,
    /// Bytes that follow.
    pub(crate) length: u32,
}

/// What a decoder made of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// A beginning, and how many bytes it took.
    Head(Head, usize),
    /// More bytes are needed.
    Short,
    /// No frame begins like this.
    Wrong(&'static str),
}

impl Head {
    /// Puts it behind what is there.
    pub(crate) fn encode(self, to: &mut Vec<u8>) {
        let (kind, flags, target) = match self.kind {
            Kind::Request => (1, 0, None),
            Kind::Reply => (2, 0, None),
            Kind::Write { target, completes } => (3, u8::from(completes) * COMPLETES, Some(target)),
        };
        to.extend_from_slice(&[kind, flags]);
        to.extend_from_slice(&self.credits.to_le_bytes());
        to.extend_from_slice(&self.length.to_le_bytes());
        to.extend_from_slice(&self.id.to_le_bytes());
        to.extend_from_slice(&[0; 4]);
        if let Some(target) = target {
            to.extend_from_slice(&target.key.0);
            to.extend_from_slice(&target.offset.to_le_bytes());
        }
    }

    /// Reads one from the front.
    pub(crate) fn decode(bytes: &[u8]) -> Decoded {
        let Some(header) = bytes.get(..HEADER) else { return Decoded::Short };
        let fields = Fields(header);
        let [kind, flags, low, high] = fields.array(0);
        let (length, id) = (fields.u32(4), fields.u32(8));
        if fields.u32(12) != 0 || flags & !COMPLETES != 0 {
            return Decoded::Wrong("a frame with bits that mean nothing");
        }
        let credits = u16::from_le_bytes([low, high]);
        let completes = flags & COMPLETES != 0;
        match (kind, completes) {
            (1 | 2, true) => Decoded::Wrong("a message that completes"),
            (1 | 2, false) if length as usize > MAX_MESSAGE => Decoded::Wrong("a message that is too long"),
            (1, false) if credits != 0 => Decoded::Wrong("a request with credits"),
            (1, false) => Decoded::Head(Head { kind: Kind::Request, id, credits, length }, HEADER),
            (2, false) => Decoded::Head(Head { kind: Kind::Reply, id, credits, length }, HEADER),
            (3, _) if length as usize > MAX_WRITE => Decoded::Wrong("a write that is too long"),
            (3, false) if credits != 0 => Decoded::Wrong("a write with credits that completes nothing"),
            (3, _) => {
                if bytes.len() < HEADER + TARGET {
                    return Decoded::Short;
                }
                let fields = Fields(bytes);
                let target = Target { key: RegionKey(fields.array(HEADER)), offset: fields.u64(HEADER + 16) };
                let kind = Kind::Write { target, completes };
                Decoded::Head(Head { kind, id, credits, length }, HEADER + TARGET)
            }
            _ => Decoded::Wrong("a frame of an unknown kind"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads() -> [Head; 4] {
        let target = Target { key: RegionKey([9; 16]), offset: 1 << 40 };
        let head = |kind, credits, length| Head { kind, id: 0xdead_beef, credits, length };
        [
            head(Kind::Request, 0, 17),
            head(Kind::Reply, 3, MAX_MESSAGE as u32),
            head(Kind::Write { target, completes: true }, 1, MAX_WRITE as u32),
            head(Kind::Write { target, completes: false }, 0, 0),
        ]
    }

    #[test]
    fn every_frame_reads_back_and_none_before_it_is_there_whole() {
        for head in heads() {
            let mut bytes = Vec::new();
            head.encode(&mut bytes);
            assert_eq!(Head::decode(&bytes), Decoded::Head(head, bytes.len()));
            for short in 0..bytes.len() {
                assert_eq!(Head::decode(&bytes[..short]), Decoded::Short);
            }
        }
    }

    #[test]
    fn what_no_one_may_send_is_refused_by_its_header() {
        let changed = |head: Head, at: usize, byte: u8| {
            let mut bytes = Vec::new();
            head.encode(&mut bytes);
            bytes[at] = byte;
            matches!(Head::decode(&bytes), Decoded::Wrong(_))
        };
        let [request, reply, write, silent] = heads();
        assert!(changed(request, 0, 0) && changed(request, 0, 4), "an unknown kind");
        assert!(changed(request, 1, 1) && changed(reply, 1, 1) && changed(write, 1, 2), "unknown flags");
        assert!(changed(request, 2, 1) && changed(silent, 3, 1), "credits where there are none");
        assert!(changed(request, 6, 0x20) && changed(write, 7, 1) && changed(reply, 4, 1), "a length beyond the limit");
        assert!(changed(request, 12, 1) && changed(write, 15, 0x80), "bytes that must be zero");
    }
}

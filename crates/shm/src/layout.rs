//! Where everything is in the region, and what the server says first: see `docs/format/ring.md`.

use ishigaki_base::Fields;

/// What region and greeting begin with.
pub(crate) const MAGIC: [u8; 8] = *b"ISHIRING";

/// Of the format of both.
pub(crate) const VERSION: u32 = 1;

/// Requests that can be under way at a time.
pub const SLOTS: usize = 16;

/// Bytes that a request can carry, either way.
pub const PAYLOAD: usize = 256 << 10;

/// Bytes before the payloads.
pub(crate) const HEAD: usize = 4096;

/// Bytes of the region.
pub(crate) const SIZE: usize = HEAD + SLOTS * PAYLOAD;

/// A bit for each slot with a request that nobody has taken.
pub(crate) const POSTED: usize = 64;

/// 1 when the server wants the bell to be rung for the next request.
pub(crate) const ARMED: usize = 128;

/// Bytes of a request, and of an answer without what they carry.
pub(crate) const MESSAGE: usize = 32;

/// The first slot's words.
const FIRST_SLOT: usize = 256;

/// From one slot's words to the next one's. State, request and answer have a cache line each.
const SLOT: usize = 192;

/// Where a slot's state is.
pub(crate) const fn state(slot: usize) -> usize {
    FIRST_SLOT + slot * SLOT
}

/// Where its request is.
pub(crate) const fn request(slot: usize) -> usize {
    state(slot) + 64
}

/// Where its answer is.
pub(crate) const fn answer(slot: usize) -> usize {
    state(slot) + 128
}

/// Where the bytes of both are.
pub(crate) const fn payload(slot: usize) -> usize {
    HEAD + slot * PAYLOAD
}

const _: () = assert!(answer(SLOTS - 1) + MESSAGE <= HEAD && SLOTS <= 64);

/// A slot's state.
pub(crate) mod states {
    /// A request that was not answered.
    pub(crate) const ASKED: u32 = 1;
    /// The same, and who has asked sleeps on this word.
    pub(crate) const AWAITED: u32 = 2;
    /// An answer.
    pub(crate) const ANSWERED: u32 = 3;
    /// Written by the client itself: there will be none.
    pub(crate) const GONE: u32 = 4;
}

/// The region's first bytes.
pub(crate) fn head() -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(SLOTS as u32).to_le_bytes());
    bytes[16..20].copy_from_slice(&(PAYLOAD as u32).to_le_bytes());
    bytes
}

/// What the server says to somebody who connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// The region and the bell come with it.
    Welcome,
    /// Another client is there, if that is known the process of that number.
    Busy(Option<u32>),
    /// Nobody can be served, and why.
    Refused(String),
}

impl Greeting {
    /// Bytes of the longest.
    pub(crate) const LONGEST: usize = 1024;
    const FIXED: usize = 24;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (verdict, number, text) = match self {
            Self::Welcome => (0_u32, SIZE as u64, ""),
            Self::Busy(holder) => (1, holder.unwrap_or(0).into(), ""),
            Self::Refused(reason) => (2, 0, reason.as_str()),
        };
        let mut bytes = Vec::with_capacity(Self::FIXED + text.len());
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(verdict.to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend(&text.as_bytes()[..text.floor_char_boundary(Self::LONGEST - Self::FIXED)]);
        bytes
    }

    /// What a greeting says, or what is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() < Self::FIXED || bytes[..8] != MAGIC {
            return Err("who listens there serves no ring".to_owned());
        }
        let fields = Fields(bytes);
        if fields.u32(8) != VERSION {
            let found = fields.u32(8);
            return Err(format!(
                "its ring has version {found}, and this program knows {VERSION}; run the same release"
            ));
        }
        match (fields.u32(12), fields.u64(16)) {
            (0, size) if size == SIZE as u64 => Ok(Self::Welcome),
            (1, holder) => Ok(Self::Busy(u32::try_from(holder).ok().filter(|&holder| holder > 0))),
            (2, _) => Ok(Self::Refused(String::from_utf8_lossy(&bytes[Self::FIXED..]).into_owned())),
            (verdict, number) => Err(format!("its greeting says {verdict} and {number}, which means nothing")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_read_as_it_is_written_and_others_are_refused() {
        let long = "ä".repeat(Greeting::LONGEST);
        for greeting in
            [Greeting::Welcome, Greeting::Busy(Some(7)), Greeting::Busy(None), Greeting::Refused("no".into())]
        {
            assert_eq!(Greeting::decode(&greeting.encode()), Ok(greeting));
        }
        assert!(Greeting::Refused(long).encode().len() <= Greeting::LONGEST);
        let welcome = Greeting::Welcome.encode();
        let with = |at: usize, byte: u8| {
            let mut bytes = welcome.clone();
            bytes[at] = byte;
            Greeting::decode(&bytes).unwrap_err()
        };
        assert!(with(0, b'X').contains("serves no ring") && Greeting::decode(&welcome[..23]).is_err());
        assert!(with(8, 2).contains("version 2") && with(12, 9).contains("says 9") && with(16, 1).contains("says 0"));
    }
}

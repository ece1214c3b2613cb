//! A part of a stream in memory: where its chunks are checked and its records parsed.
//!
//! A chunk lies in one [`Stretch`] of memory, so that nobody has to join its bytes. What the end of a stretch holds of
//! a chunk is copied before the next one's beginning, rather than read twice. A stretch may have been read ahead by
//! somebody else; if it was not, or is of no use, it is read here.

use std::ops::Deref;
use std::sync::Arc;

use ishigaki_device::{AlignedBuffer, Device, MAX_BLOCK_SIZE};
use parking_lot::Mutex;

use super::segments::Segments;
use super::tail::Place;
use crate::Result;
use crate::format::longest_chunk;

/// Bytes read from the medium at once.
pub(crate) const WINDOW: usize = 1 << 20;

/// Memory of stretches that nobody uses any more: to give it back to the system each time would cost more than reading
/// it.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<AlignedBuffer>>);

/// Buffers kept in a pool.
const POOLED: usize = 16;

impl Pool {
    fn take(&self, length: usize) -> AlignedBuffer {
        let mut pooled = self.0.lock();
        if let Some(place) = pooled.iter().rposition(|buffer| buffer.len() >= length) {
            return pooled.swap_remove(place);
        }
        // One that is too small makes room for one that is not.
        pooled.pop();
        drop(pooled);
        AlignedBuffer::zeroed(length)
    }

    fn give_back(&self, memory: AlignedBuffer) {
        let mut pooled = self.0.lock();
        if pooled.len() < POOLED {
            pooled.push(memory);
        }
    }
}

/// Some bytes of a segment. Its memory comes from a pool, and goes back there.
#[derive(Debug)]
pub(crate) struct Stretch {
    /// `None` when it has gone back.
    memory: Option<AlignedBuffer>,
    begin: usize,
    end: usize,
    pool: Arc<Pool>,
}

impl Stretch {
    /// Reads what a reader that stands at `offset` will want next.
    pub(crate) fn read(device: &dyn Device, offset: u64, pool: &Arc<Pool>) -> Result<Self> {
        // Room for what the stretch before this one leaves over: less than one chunk.
        let headroom = longest_chunk(device.len()).next_multiple_of(MAX_BLOCK_SIZE as u64) as usize;
        Self::read_with(device, offset, WINDOW as u64, headroom, pool)
    }

    fn read_with(device: &dyn Device, offset: u64, length: u64, headroom: usize, pool: &Arc<Pool>) -> Result<Self> {
        let length = length.min(device.len() - offset) as usize;
        let mut memory = pool.take(headroom + length);
        device.read_at(offset, &mut memory[headroom..headroom + length])?;
        Ok(Self { memory: Some(memory), begin: headroom, end: headroom + length, pool: pool.clone() })
    }

    /// Puts `bytes` before the beginning, where there is room for them.
    fn prepend(&mut self, bytes: &[u8]) {
        let end = self.begin;
        self.begin -= bytes.len();
        if let Some(memory) = &mut self.memory {
            memory[self.begin..end].copy_from_slice(bytes);
        }
    }
}

impl Deref for Stretch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory[self.begin..self.end])
    }
}

impl Drop for Stretch {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.give_back(memory);
        }
    }
}

/// The stretch in which a reader stands.
#[derive(Debug)]
pub(crate) struct Window {
    /// Shared with whoever still works on its records when the reader has gone on.
    stretch: Option<Arc<Stretch>>,
    /// Where it begins; meaningless without one.
    at: Place,
    /// A stretch that was read ahead, and where it begins.
    ahead: Option<(Place, Stretch)>,
    pool: Arc<Pool>,
}

impl Window {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self { stretch: None, at: Place { segment: 0, offset: 0 }, ahead: None, pool }
    }

    /// The bytes that are there; nothing before the first load.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.stretch.as_deref().map_or(&[], |stretch| stretch)
    }

    /// The same, to be kept while the window goes on.
    pub(crate) fn share(&self) -> Option<Arc<Stretch>> {
        self.stretch.clone()
    }

    /// Takes a stretch that was read ahead.
    pub(crate) fn supply(&mut self, place: Place, stretch: Stretch) {
        self.ahead = Some((place, stretch));
    }

    /// The bytes that are there from `place` on; `None` if that is somewhere else.
    pub(crate) fn from(&self, place: Place) -> Option<&[u8]> {
        let skip = place.offset.checked_sub(self.at.offset).filter(|_| place.segment == self.at.segment)?;
        self.bytes().get(usize::try_from(skip).ok()?..)
    }

    /// Where the bytes end that are there.
    pub(crate) fn end(&self) -> Place {
        Place { segment: self.at.segment, offset: self.at.offset + self.bytes().len() as u64 }
    }

    /// Makes `length` bytes from `place` available and says where in [`bytes`](Self::bytes) they begin. The segment is
    /// long enough for them.
    pub(crate) fn load(&mut self, segments: &mut Segments<'_>, place: Place, length: usize) -> Result<usize> {
        if self.from(place).is_some_and(|bytes| bytes.len() >= length) {
            return Ok((place.offset - self.at.offset) as usize);
        }
        let before = self.stretch.take();
        let over = before.as_deref().filter(|_| place.segment == self.at.segment && place.offset >= self.at.offset);
        let over = over.and_then(|bytes| bytes.get((place.offset - self.at.offset) as usize..)).unwrap_or_default();
        let block = MAX_BLOCK_SIZE as u64;
        // Stretches end at whole blocks, or at the segment's end.
        let from = if over.is_empty() { place.offset / block * block } else { place.offset + over.len() as u64 };
        let wanted = place.offset + length as u64 - from;
        let begin = Place { segment: place.segment, offset: from };
        let ahead = self.ahead.take().filter(|(place, _)| *place == begin).map(|(_, ahead)| ahead);
        let fits = |ahead: &Stretch| ahead.begin >= over.len() && ahead.len() as u64 >= wanted;
        let mut stretch = if let Some(ahead) = ahead.filter(fits) {
            ahead
        } else {
            let device = segments.device(place.segment)?;
            let length = wanted.max(WINDOW as u64).next_multiple_of(block);
            let headroom = over.len().next_multiple_of(MAX_BLOCK_SIZE);
            Stretch::read_with(device.as_ref(), from, length, headroom, &self.pool)?
        };
        stretch.prepend(over);
        let at = from - over.len() as u64;
        self.at = Place { segment: place.segment, offset: at };
        self.stretch = Some(Arc::new(stretch));
        Ok((place.offset - at) as usize)
    }
}

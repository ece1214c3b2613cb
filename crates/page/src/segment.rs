//! A segment of a page file: pages that were appended together, and their zone maps behind them. It never changes.

use std::sync::{Arc, OnceLock};

use arrow_array::UInt32Array;
use bytes::Bytes;
use ishigaki_device::{Device, Directory};

use crate::blocks;
use crate::error::{Refusal, Result};
use crate::manifest::Segment;
use crate::name;
use crate::page::Layout;
use crate::sheet::{Header, Identity, Place, header_len};
use crate::zones::{self, Zones};

/// What is wrong with a part that a file should have behind its end.
const CUT_OFF: Refusal = "behind the end of the file, which was cut short";

/// Opens what it reads when it is first asked for, and keeps it.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) entry: Segment,
    directory: Arc<dyn Directory>,
    /// It is read around its damages: what is there counts, also of a file of another length.
    remains: bool,
    device: OnceLock<Arc<dyn Device>>,
    /// Why its file is none that can be opened, of one whose remains are read.
    fault: OnceLock<String>,
    /// Where the chunks of the zone maps are.
    places: OnceLock<Vec<Place>>,
    rows: OnceLock<UInt32Array>,
    zones: Vec<OnceLock<Arc<Zones>>>,
}

impl OpenSegment {
    pub(crate) fn new(directory: &Arc<dyn Directory>, entry: Segment, columns: usize) -> Self {
        Self {
            entry,
            directory: Arc::clone(directory),
            remains: false,
            device: OnceLock::new(),
            fault: OnceLock::new(),
            places: OnceLock::new(),
            rows: OnceLock::new(),
            zones: (0..columns).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The same, for who wants of it what is there.
    pub(crate) fn remains(directory: &Arc<dyn Directory>, entry: Segment, columns: usize) -> Self {
        Self { remains: true, ..Self::new(directory, entry, columns) }
    }

    /// The device, which is as long as it should be; of remains, at least up to that end.
    fn device(&self, layout: &Layout, end: u64) -> Result<&Arc<dyn Device>> {
        let device = self.opened(layout)?;
        if device.len() < end { Err(self.damaged(layout, CUT_OFF)) } else { Ok(device) }
    }

    fn opened(&self, layout: &Layout) -> Result<&Arc<dyn Device>> {
        if let Some(device) = self.device.get() {
            return Ok(device);
        }
        let name = name::segment(&layout.file, self.entry.number);
        let opened = match self.directory.open(&name) {
            Err(ishigaki_device::Error::Damaged { reason, .. }) if self.remains => {
                self.fault.get_or_init(|| reason);
                self.directory.open_remains(&name)
            }
            opened => opened,
        };
        let device = opened.map_err(|error| match error {
            ishigaki_device::Error::NotFound { .. } => self.damaged(layout, "it is missing"),
            error if error.is_damage() => self.damaged(layout, "it has another length than it was made with"),
            other => other.into(),
        })?;
        let needed = self.zones_offset(layout) + u64::from(self.entry.zones);
        if device.len() < needed && !self.remains {
            return Err(self.damaged(layout, "it is shorter than the manifest says"));
        }
        Ok(self.device.get_or_init(|| device))
    }

    fn zones_offset(&self, layout: &Layout) -> u64 {
        u64::from(self.entry.pages) * layout.page_size as u64
    }

    /// What is wrong with its file as a whole, as far as it was asked for.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// Reads and checks all of its zone maps.
    pub(crate) fn check_zones(&self, layout: &Layout) -> Result<()> {
        self.rows(layout)?;
        (0..layout.columns()).try_for_each(|column| self.zones(layout, column).map(drop))
    }

    /// The bytes of some pages.
    pub(crate) fn read_pages(&self, layout: &Layout, first: u32, count: u32) -> Result<Bytes> {
        let (offset, length) = (u64::from(first) * layout.page_size as u64, count as usize * layout.page_size);
        blocks::read(self.device(layout, offset + length as u64)?.as_ref(), offset, length)
    }

    /// The numbers of rows of its pages.
    pub(crate) fn rows(&self, layout: &Layout) -> Result<&UInt32Array> {
        if let Some(rows) = self.rows.get() {
            return Ok(rows);
        }
        let [chunk] = self.chunks(layout, zones::ROWS)?;
        let rows = zones::decode_counts(&chunk, self.entry.pages as usize);
        let rows = rows.map_err(|reason| self.damaged(layout, reason))?;
        if rows.values().iter().map(|&rows| u64::from(rows)).sum::<u64>() != self.entry.rows
            || rows.values().contains(&0)
        {
            return Err(self.damaged(layout, "its pages have more or fewer rows than the manifest says"));
        }
        Ok(self.rows.get_or_init(|| rows))
    }

    /// What is in a column of each of its pages.
    pub(crate) fn zones(&self, layout: &Layout, column: usize) -> Result<&Arc<Zones>> {
        if let Some(zones) = self.zones[column].get() {
            return Ok(zones);
        }
        let chunks: [Bytes; 3] = self.chunks(layout, zones::first_chunk(column))?;
        let data_type = layout.schema.field(column).data_type();
        let zones = zones::decode(data_type, chunks.each_ref().map(AsRef::as_ref), self.rows(layout)?);
        let zones = zones.map_err(|reason| self.damaged(layout, reason))?;
        Ok(self.zones[column].get_or_init(|| Arc::new(zones)))
    }

    /// Some chunks of the zone maps that follow each other, checked.
    fn chunks<const N: usize>(&self, layout: &Layout, first: usize) -> Result<[Bytes; N]> {
        let places = &self.places(layout)?[first..first + N];
        let (start, end) = (places[0].start, places[N - 1].end);
        let offset = self.zones_offset(layout);
        let device = self.device(layout, offset + end as u64)?;
        let bytes = blocks::read(device.as_ref(), offset + start as u64, end - start)?;
        let mut chunks = [const { Bytes::new() }; N];
        for (chunk, place) in chunks.iter_mut().zip(places) {
            *chunk = bytes.slice(place.start - start..place.end - start);
            place.check(chunk).map_err(|reason| self.damaged(layout, reason))?;
        }
        Ok(chunks)
    }

    fn places(&self, layout: &Layout) -> Result<&Vec<Place>> {
        if let Some(places) = self.places.get() {
            return Ok(places);
        }
        let (chunks, length) = (zones::chunks(layout.columns()), self.entry.zones as usize);
        let (offset, read) = (self.zones_offset(layout), header_len(chunks).min(length));
        let header = blocks::read(self.device(layout, offset + read as u64)?.as_ref(), offset, read)?;
        let places = places_of(layout, self.entry, &header, length).map_err(|reason| self.damaged(layout, reason))?;
        Ok(self.places.get_or_init(|| places))
    }

    fn damaged(&self, layout: &Layout, reason: Refusal) -> crate::Error {
        layout.damaged(format!("segment {}", self.entry.number), reason)
    }
}

/// Where the chunks of a segment's zone maps are.
pub(crate) fn places_of(layout: &Layout, entry: Segment, bytes: &[u8], length: usize) -> Result<Vec<Place>, Refusal> {
    let identity =
        Identity { magic: zones::MAGIC, file: layout.identity, segment: entry.identity, number: entry.pages };
    let chunks = zones::chunks(layout.columns());
    let header = Header::parse(bytes, length, identity, chunks)?;
    if header.rows != entry.pages || header.end != length {
        return Err("its zone maps are of more or fewer pages than the manifest says");
    }
    Ok((0..chunks).map(|index| header.place(index)).collect())
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, RecordBatch};
    use ishigaki_base::random::Seed;
    use ishigaki_base::{ByteSize, ErrorKind};
    use ishigaki_device::MemoryDirectory;

    use super::*;
    use crate::reader::read_manifest;
    use crate::{Reader, Settings, Writer};

    /// Why a file is refused whose manifest says something else of its segment than what that has.
    fn refusal(change: impl FnOnce(&mut Segment)) -> String {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let numbers = Int64Array::from_iter_values(0..10_000);
        let batch = RecordBatch::try_from_iter([("n", Arc::new(numbers) as _)]).expect("one column");
        let settings = Settings { page_size: ByteSize::kib(4), segment: ByteSize::mib(1), seed: Seed(1) };
        let mut writer = Writer::create(directory.clone(), "t", batch.schema(), settings).expect("a new one");
        writer.append_all([&batch]).expect("memory never fails");
        let mut manifest = read_manifest(directory.as_ref(), "t").expect("whole");
        change(&mut manifest.segments[0]);
        directory.remove(&name::manifest("t")).expect("it is there");
        blocks::write_new(directory.as_ref(), &name::manifest("t"), &[&manifest.encode()]).expect("memory never fails");
        let reader = Reader::open(directory, "t").expect("the manifest is sound");
        let read = reader.zones(0).map(drop).and_then(|()| reader.page(0).map(drop));
        let error = read.expect_err("it must be refused");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        error.to_string()
    }

    #[test]
    fn a_segment_that_is_not_as_the_manifest_says_is_refused() {
        assert!(refusal(|segment| segment.rows += 1).contains("more or fewer rows"));
        assert!(refusal(|segment| segment.identity += 1).contains("another file or another place"));
        assert!(refusal(|segment| segment.pages += 1).contains("shorter than the manifest says"));
        assert!(refusal(|segment| segment.pages -= 1).contains("does not begin as it should"));
        assert!(refusal(|segment| segment.zones -= 1).contains("not where they can be"));
        assert!(refusal(|segment| segment.zones += 1).contains("more or fewer pages"));
    }
}

//! Reading a whole page file around its damages, and copying one.
//!
//! A [`Reader`] is asked for what a query needs, and refuses the first damage that it meets. [`survey`] reads everything,
//! goes on behind each damage and says which pages and how many rows it costs. [`copy`] makes another page file of the same
//! bytes while the file is appended to: segments never change, and a manifest names all that it needs.

use std::sync::Arc;

use arrow_array::RecordBatch;
use ishigaki_device::{AlignedBuffer, Directory, ReadFault};

use crate::blocks;
use crate::error::{Error, Result};
use crate::manifest::{Manifest, Segment};
use crate::name;
use crate::reader::{Reader, read_manifest};
use crate::state::State;

/// Bytes copied at once.
const PIECE: usize = 4 << 20;

/// What a page file holds, and where it is damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Pages that are whole.
    pub pages: u64,
    /// Rows in them.
    pub rows: u64,
    /// Rows that there should be, as the manifest says.
    pub expected_rows: u64,
    /// Every damage that was found.
    pub damages: Vec<FileDamage>,
}

/// A damaged part of a page file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDamage {
    /// The device in the file's directory.
    pub device: String,
    /// Where in it the damaged page begins, in bytes; `None` where a page is not meant.
    pub offset: Option<u64>,
    /// The first and the last page that can not be read; `None` if the damage costs none.
    pub pages: Option<(u64, u64)>,
    /// What is wrong.
    pub what: String,
    /// Nothing is known of the bytes: the medium failed to read them.
    pub is_unread: bool,
}

/// Reads every page of a file, and its zone maps. `give` gets the rows of each page that is whole, also of a segment that was cut
/// short or made longer, and of one without zone maps. A manifest that is older than the state that is `known` of the file is
/// a damage, and the pages that it names are read. A page with something behind its columns is a damage that costs no row: each
/// column has its checksum.
///
/// # Errors
///
/// [`Error::Damaged`] or [`Error::NotFound`] if the manifest can not be read, for without it no page can be found;
/// [`Error::Foreign`] if it is another file's; [`Error::Device`] if this process may not read a part of it; and what `give` fails with.
pub fn survey(
    directory: &Arc<dyn Directory>,
    file: &str,
    known: Option<State>,
    mut give: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<Survey> {
    let (reader, fault) = Reader::remains(directory, file)?;
    let mut found = Survey { expected_rows: reader.rows(), ..Survey::default() };
    let outdated = match known.map_or(Ok(()), |known| reader.state().check(file, known)) {
        Err(Error::Outdated { found, known, .. }) => {
            Some(format!("it is an older copy: it has {found} of at least {known} appends"))
        }
        checked => checked.map(|()| None)?,
    };
    let columns: Vec<usize> = (0..reader.schema().fields().len()).collect();
    let mut decoder = reader.decoder(&columns)?;
    for number in 0..reader.pages() {
        let address = reader.address(number)?;
        let page = reader.page(number).and_then(|page| {
            decoder.push(&page)?;
            Ok((decoder.finish()?, page.check_rest()))
        });
        match page {
            Ok((batch, rest)) => {
                found.pages += 1;
                found.rows += batch.num_rows() as u64;
                give(batch)?;
                if let Err(error) = rest {
                    let what = format!("page {number}: {}; its rows fit their checksums", reason(&error));
                    let (device, offset) = (address.device, Some(address.offset));
                    found.damages.push(FileDamage { device, offset, pages: None, what, is_unread: false });
                }
            }
            Err(error) => {
                let is_unread = is_unread(&error);
                found.lose(number, (address.device, address.offset), reason(&passed(error)?), is_unread);
            }
        }
    }
    let mut damage = |device: &str, what: String, is_unread| {
        found.damages.push(FileDamage { device: device.to_owned(), offset: None, pages: None, what, is_unread });
    };
    for fault in fault.into_iter().chain(outdated) {
        damage(&name::manifest(file), fault, false);
    }
    for (device, fault, zones) in reader.faults() {
        if let Some(fault) = fault {
            damage(&device, fault.to_owned(), false);
        }
        if let Some(error) = zones {
            let is_unread = is_unread(&error);
            damage(&device, format!("its zone maps: {}", reason(&passed(error)?)), is_unread);
        }
    }
    if found.damages.is_empty() && found.rows != found.expected_rows {
        let what = format!("it says {} rows, and its pages have {}", found.expected_rows, found.rows);
        let device = name::manifest(file);
        found.damages.push(FileDamage { device, offset: None, pages: None, what, is_unread: false });
    }
    Ok(found)
}

impl Survey {
    /// Whether all is as it was written.
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }

    /// Notes a page that can not be read; several in a row for the same reason are one damage.
    fn lose(&mut self, page: u64, (device, offset): (String, u64), what: String, is_unread: bool) {
        match self.damages.last_mut() {
            Some(FileDamage { device: same, pages: Some((_, last)), what: known, .. })
                if *last + 1 == page && *same == device && *known == what =>
            {
                *last = page;
            }
            _ => {
                let (offset, pages) = (Some(offset), Some((page, page)));
                self.damages.push(FileDamage { device, offset, pages, what, is_unread });
            }
        }
    }
}

/// Whether the medium failed to read.
fn is_unread(error: &Error) -> bool {
    matches!(error, Error::Device(error) if error.read_fault() == ReadFault::Medium)
}

/// The error, if it is one that reading goes on behind: none by which the operating system refuses to read.
fn passed(error: Error) -> Result<Error> {
    match error {
        Error::Device(error) if error.read_fault() == ReadFault::Refusal => Err(Error::Device(error)),
        error => Ok(error),
    }
}

/// An error's words without what it names and advises.
fn reason(error: &Error) -> String {
    match error {
        Error::Damaged { reason, .. } => (*reason).to_owned(),
        Error::Device(ishigaki_device::Error::Io { operation, source, .. }) => format!("{operation} failed: {source}"),
        other => other.to_string(),
    }
}

/// Copies a page file into another directory, as it is at one moment. Segments that an earlier copy has left there are not
/// copied again. Says how many appends it has seen, so that the caller can tell whether more came.
///
/// # Errors
///
/// [`Error::Damaged`] if a page or the manifest is not what was written.
pub fn copy(from: &dyn Directory, to: &Arc<dyn Directory>, file: &str) -> Result<u64> {
    let manifest = read_manifest(from, file)?;
    let there = to.list()?;
    for segment in &manifest.segments {
        let name = name::segment(file, segment.number);
        if !there.contains(&name) {
            copy_segment(from, (to.as_ref(), &there), &name, &manifest, segment)?;
        }
    }
    let unborn = name::new_manifest(file);
    if there.contains(&unborn) {
        to.remove(&unborn)?;
    }
    blocks::write_new(to.as_ref(), &unborn, &[&manifest.encode()])?;
    to.sync()?;
    to.rename(&unborn, &name::manifest(file))?;
    to.sync()?;
    let copied = survey(to, file, None, |_| Ok(()))?;
    match copied.damages.first() {
        None => Ok(manifest.appends),
        Some(damage) => {
            let part = match damage.pages {
                Some((first, last)) if first < last => format!("pages {first} to {last}"),
                Some((page, _)) => format!("page {page}"),
                None if damage.offset.is_some() => "a page, behind its columns".to_owned(),
                None => "the manifest or a zone map".to_owned(),
            };
            Err(Error::Damaged { file: file.to_owned(), part, reason: "it does not fit its checksum or its place" })
        }
    }
}

fn copy_segment(
    from: &dyn Directory,
    (to, there): (&dyn Directory, &[String]),
    name: &str,
    manifest: &Manifest,
    segment: &Segment,
) -> Result<()> {
    let needed = u64::from(segment.pages) * manifest.page_size as u64 + u64::from(segment.zones);
    let device = from.open(name)?;
    if device.len() < needed {
        let (part, reason) = (format!("segment {}", segment.number), "it is shorter than the manifest says");
        return Err(Error::Damaged { file: name.to_owned(), part, reason });
    }
    // A name that is there stands for a segment that was copied whole.
    let unborn = format!("{name}.copy");
    if there.contains(&unborn) {
        to.remove(&unborn)?;
    }
    let copy = to.create(&unborn, needed)?;
    let mut buffer = AlignedBuffer::zeroed(PIECE);
    let mut at = 0;
    while at < copy.len() {
        let length = (copy.len() - at).min(PIECE as u64) as usize;
        let readable = (device.len() - at).min(length as u64) as usize;
        buffer[..length].fill(0);
        device.read_at(at, &mut buffer[..readable])?;
        copy.write_at(at, &buffer[..length])?;
        at += length as u64;
    }
    copy.sync()?;
    Ok(to.rename(&unborn, name)?)
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use ishigaki_base::ByteSize;
    use ishigaki_base::random::Seed;
    use ishigaki_device::MemoryDirectory;

    use super::*;
    use crate::{Settings, Writer};

    fn file(directory: &Arc<dyn Directory>, appends: i64) -> Writer {
        let settings = Settings { page_size: ByteSize::kib(4), segment: ByteSize::mib(1), seed: Seed(1) };
        let batch = |append: i64| {
            let numbers = Int64Array::from_iter_values((0..5_000).map(|number| (number * 7919 + append) % 100_003));
            RecordBatch::try_from_iter([("n", Arc::new(numbers) as _)]).expect("one column")
        };
        let mut writer = Writer::create(directory.clone(), "t", batch(0).schema(), settings).expect("a new one");
        for append in 0..appends {
            writer.append_all([&batch(append)]).expect("memory never fails");
        }
        writer
    }

    #[test]
    fn a_flipped_bit_costs_its_own_page_and_no_other_row() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        drop(file(&directory, 3));
        let whole = survey(&directory, "t", None, |_| Ok(())).expect("a file");
        assert!(whole.is_sound() && whole.rows == 15_000 && whole.pages > 6, "{whole:?}");
        let reader = Reader::open(directory.clone(), "t").expect("a file");
        let rows = reader.page_rows().expect("sound");
        for page in [0, 4, whole.pages - 1] {
            let address = reader.address(page).expect("a page");
            let device = directory.open(&address.device).expect("it is there");
            let mut bytes = AlignedBuffer::zeroed(4096);
            device.read_at(address.offset, &mut bytes).expect("readable");
            bytes[200] ^= 16;
            device.write_durable(address.offset, &bytes).expect("writable");
            let mut given = 0;
            let found = survey(&directory, "t", None, |batch| {
                given += batch.num_rows() as u64;
                Ok(())
            });
            let found = found.expect("the manifest is sound");
            assert_eq!(found.rows, 15_000 - u64::from(rows.value(page as usize)), "{found:?}");
            assert_eq!((given, found.damages.len()), (found.rows, 1));
            assert_eq!(found.damages[0].pages, Some((page, page)));
            assert_eq!(found.damages[0].offset, Some(address.offset));
            copy(directory.as_ref(), &(Arc::new(MemoryDirectory::new()) as _), "t").expect_err("damaged");
            bytes[200] ^= 16;
            device.write_durable(address.offset, &bytes).expect("writable");
        }
    }

    #[test]
    fn an_older_manifest_is_a_damage_and_another_files_is_refused() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let state = file(&directory, 3).state();
        let found = |known: State| survey(&directory, "t", Some(known), |_| Ok(()));
        for appends in [0, 3] {
            assert!(found(State { appends, ..state }).expect("a file").is_sound());
        }
        let older = found(State { appends: 4, ..state }).expect("a file");
        assert_eq!((older.rows, older.damages.len()), (15_000, 1), "{older:?}");
        assert!(older.damages[0].what.contains("3 of at least 4 appends"), "{older:?}");
        let mut given = 0;
        let other = State { identity: state.identity ^ 1, ..state };
        let refused = survey(&directory, "t", Some(other), |batch| {
            given += batch.num_rows();
            Ok(())
        });
        assert!(matches!(refused, Err(Error::Foreign { .. })) && given == 0, "{refused:?}");
    }

    #[test]
    fn a_flipped_bit_behind_the_columns_of_a_page_is_named_and_costs_no_row() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        drop(file(&directory, 3));
        let reader = Reader::open(directory.clone(), "t").expect("a file");
        // The last page of an append is not full.
        for page in [reader.pages() / 3 - 1, reader.pages() - 1] {
            let address = reader.address(page).expect("it is there");
            let device = directory.open(&address.device).expect("it is there");
            let mut bytes = AlignedBuffer::zeroed(4096);
            device.read_at(address.offset, &mut bytes).expect("readable");
            assert!(bytes[3840..].iter().all(|&byte| byte == 0), "columns reach up to there");
            bytes[4095] ^= 1;
            device.write_durable(address.offset, &bytes).expect("writable");
            let mut given = 0;
            let found = survey(&directory, "t", None, |batch| {
                given += batch.num_rows();
                Ok(())
            });
            let found = found.expect("the manifest is sound");
            assert_eq!((given, found.rows, found.damages.len()), (15_000, 15_000, 1), "{found:?}");
            let damage = &found.damages[0];
            assert_eq!((damage.pages, damage.offset), (None, Some(address.offset)));
            assert!(damage.what.contains(&format!("page {page}: there is something behind its columns")), "{damage:?}");
            bytes[4095] ^= 1;
            device.write_durable(address.offset, &bytes).expect("writable");
        }
    }

    #[test]
    fn a_missing_segment_is_one_damage() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        drop(file(&directory, 3));
        directory.remove(&name::segment("t", 1)).expect("it is there");
        let found = survey(&directory, "t", None, |_| Ok(())).expect("the manifest is sound");
        assert_eq!(found.rows, 10_000);
        assert_eq!(found.damages.iter().filter(|damage| damage.pages.is_some()).count(), 1, "{found:?}");
    }

    #[test]
    fn of_a_segment_that_was_cut_short_every_whole_page_is_given() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        drop(file(&directory, 3));
        let reader = Reader::open(directory.clone(), "t").expect("a file");
        let (name, rows) = (name::segment("t", 1), reader.page_rows().expect("sound"));
        let in_segment = (0..reader.pages()).filter(|&page| reader.address(page).expect("a page").device == name);
        let in_segment: Vec<u64> = in_segment.collect();
        let whole = directory.open(&name).expect("it is there");
        let mut bytes = AlignedBuffer::zeroed(whole.len() as usize);
        whole.read_at(0, &mut bytes).expect("readable");
        let end = in_segment.len() * 4096;
        for length in [0, 512, 4096, end / 2, end - 512, end, bytes.len() + 4096] {
            directory.remove(&name).expect("it is there");
            let cut = directory.create(&name, length as u64).expect("memory never fails");
            let kept = length.min(bytes.len());
            cut.write_durable(0, &bytes[..kept]).expect("memory never fails");
            let lost = &in_segment[in_segment.len().min(length / 4096)..];
            let mut given = 0;
            let found = survey(&directory, "t", None, |batch| {
                given += batch.num_rows() as u64;
                Ok(())
            });
            let found = found.expect("the manifest is sound");
            let missing: u64 = lost.iter().map(|&page| u64::from(rows.value(page as usize))).sum();
            assert_eq!((found.rows, given), (15_000 - missing, 15_000 - missing), "{length}: {found:?}");
            let pages: Vec<_> = found.damages.iter().filter_map(|damage| damage.pages).collect();
            assert_eq!(pages, Vec::from_iter(lost.first().copied().zip(lost.last().copied())), "{length}: {found:?}");
            assert_eq!(found.is_sound(), length > bytes.len(), "{length}: {found:?}");
            if !found.is_sound() {
                let again = Reader::open(directory.clone(), "t").expect("the manifest is sound");
                let refused = again.page(in_segment[0]).expect_err("a reader of the file refuses it").to_string();
                assert!(refused.contains("ishigaki salvage DIR --to DIR2"), "{refused}");
            }
        }
    }

    #[test]
    fn a_copy_has_the_rows_of_one_moment_and_takes_later_appends_in() {
        let (from, to): (Arc<dyn Directory>, Arc<dyn Directory>) =
            (Arc::new(MemoryDirectory::new()), Arc::new(MemoryDirectory::new()));
        let mut writer = file(&from, 2);
        assert_eq!(copy(from.as_ref(), &to, "t").expect("sound"), 2);
        let batch = Reader::open(to.clone(), "t").expect("a file").page(0).expect("a page").rows();
        assert!(batch > 0);
        let numbers = Int64Array::from_iter_values(0..10);
        let more = RecordBatch::try_from_iter([("n", Arc::new(numbers) as _)]).expect("one column");
        writer.append_all([&more]).expect("memory never fails");
        assert_eq!(Reader::open(to.clone(), "t").expect("a file").rows(), 10_000);
        assert_eq!(copy(from.as_ref(), &to, "t").expect("sound"), 3);
        assert_eq!(Reader::open(to.clone(), "t").expect("a file").rows(), 10_010);
        let state = |directory: &Arc<dyn Directory>| crate::state(directory.as_ref(), "t").expect("a file");
        assert_eq!(state(&from), state(&to));
        // The copy is a file of its own.
        Writer::open(to, "t", Settings::default()).expect("a file").append_all([&more]).expect("memory never fails");
        assert_eq!(Reader::open(from, "t").expect("a file").rows(), 10_010);
    }
}

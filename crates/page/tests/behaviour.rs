//! What one sees who reads and writes page files.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{AlignedBuffer, Directory, MemoryDirectory, SimDirectory};
use ishigaki_page::{Comparison, Error, Predicate, Reader, Settings, Writer, page_files, remove};

mod rows;
#[path = "behaviour/writers.rs"]
mod writers;

use rows::{assert_equal, batch, read_all, schema_of, small, types};

fn memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

fn numbers(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("n", numbers)]).expect("one column")
}

fn texts(values: &[String]) -> RecordBatch {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(values));
    RecordBatch::try_from_iter([("t", texts)]).expect("one column")
}

fn settings() -> Settings {
    small(4096, 64 << 10, Seed(1))
}

#[test]
fn a_new_file_is_empty_and_says_what_it_is() {
    let directory = memory();
    let schema = schema_of(&types());
    Writer::create(directory.clone(), "t", schema.clone(), settings()).expect("a new one");
    let reader = Reader::open(directory, "t").expect("it is there");
    assert_eq!((reader.rows(), reader.pages(), reader.appends()), (0, 0, 0));
    assert_eq!((reader.schema(), reader.page_size()), (&schema, ByteSize::kib(4)));
    assert_eq!(read_all(&reader).expect("nothing to read").num_rows(), 0);
    assert!(reader.zones(0).expect("there is such a column").is_none());
    assert!(reader.statistics(3).min.is_null(0));
}

#[test]
fn a_batch_with_its_nulls_lies_there_as_it_was() {
    let directory = memory();
    let schema = schema_of(&types());
    let batch = batch(&schema, 5000, &mut Seed(3).generator());
    let mut writer = Writer::create(directory.clone(), "t", schema, settings()).expect("a new one");
    let appended = writer.append_all([&batch]).expect("memory never fails");
    let reader = Reader::open(directory, "t").expect("it is there");
    assert_eq!((appended.rows, appended.pages), (5000, reader.pages()));
    assert_equal(&read_all(&reader).expect("sound"), &batch, "all");
}

#[test]
fn a_reader_sees_the_file_as_it_was_when_it_was_opened() {
    let directory = memory();
    let first = numbers(0..1000);
    let mut writer = Writer::create(directory.clone(), "t", first.schema(), settings()).expect("a new one");
    writer.append_all([&first]).expect("memory never fails");
    let before = Reader::open(directory, "t").expect("it is there");
    let mut append = writer.append().expect("open");
    append.write(&numbers(1000..9000)).expect("it fits");
    assert_eq!(before.refreshed().expect("it is there").rows(), 1000, "nothing shows before the commit");
    append.commit().expect("memory never fails");
    assert_eq!(before.rows(), 1000);
    assert_equal(&read_all(&before).expect("sound"), &first, "before");
    let after = before.refreshed().expect("it is there");
    assert_eq!((after.rows(), after.appends()), (9000, 2));
}

#[test]
fn a_row_that_does_not_fit_into_a_page_is_refused_and_the_file_stays() {
    let directory = memory();
    let mut writer = Writer::create(directory.clone(), "t", texts(&[]).schema(), settings()).expect("a new one");
    writer.append_all([&texts(&["x".repeat(4000)])]).expect("it just fits");
    let mut rows = vec!["short".to_owned(); 500];
    rows.push("x".repeat(4096));
    let error = writer.append_all([&texts(&rows)]).expect_err("it does not fit");
    assert!(matches!(&error, Error::RowTooLarge { row: 500, .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("larger pages"), "{error}");
    assert_eq!(Reader::open(directory, "t").expect("it is there").rows(), 1);
    writer.append_all([&texts(&["again".to_owned()])]).expect("the writer goes on");
}

#[test]
fn batches_that_do_not_fit_the_file_are_refused_by_the_column() {
    let fields = vec![Field::new("a", DataType::Int64, false), Field::new("b", DataType::Int64, true)];
    let mut writer = Writer::create(memory(), "t", Arc::new(Schema::new(fields)), settings()).expect("a new one");
    let column = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let (one, null) = (column(vec![Some(1)]), column(vec![None]));
    let mut said = |columns: &[(&str, ArrayRef)]| {
        let columns = columns.iter().map(|(name, array)| (*name, array.clone()));
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
            .expect("a batch");
        writer.append_all([&batch]).map(|appended| appended.rows).map_err(|error| error.to_string())
    };
    assert!(said(&[("a", one.clone())]).expect_err("too few").contains("2 columns"));
    assert!(
        said(&[("a", one.clone()), ("b", narrow)]).expect_err("another type").contains("column b is Int64, not Int32")
    );
    assert!(said(&[("a", null.clone()), ("b", one.clone())]).expect_err("a null").contains("column a has no nulls"));
    assert_eq!(said(&[("x", one), ("y", null)]), Ok(1), "names do not matter");
}

#[test]
fn what_can_not_be_a_page_file_is_refused_when_it_is_made() {
    let schema = numbers([]).schema();
    let refused = |file: &str, settings: Settings| {
        Writer::create(memory(), file, schema.clone(), settings).expect_err("refused").to_string()
    };
    assert!(refused("a/b", settings()).contains("name"));
    for page_size in [2048, 5000, 2 << 20] {
        assert!(refused("t", small(page_size, 1 << 30, Seed(1))).contains("power of two from 4KiB to 1MiB"));
    }
    assert!(refused("t", small(8192, 4096, Seed(1))).contains("segment"));
    let wide = schema_of(&vec![DataType::Int8; 300]);
    let error = Writer::create(memory(), "t", wide.clone(), settings()).expect_err("too wide").to_string();
    assert!(error.contains("choose larger pages"), "{error}");
    Writer::create(memory(), "t", wide, small(8192, 8192, Seed(1))).expect("these are large enough");
    let directory = memory();
    Writer::create(directory.clone(), "t", schema.clone(), settings()).expect("a new one");
    assert!(matches!(Writer::create(directory, "t", schema, settings()), Err(Error::AlreadyExists { .. })));
}

#[test]
fn a_file_that_is_not_there_is_not_found() {
    let directory = memory();
    assert!(matches!(Reader::open(directory.clone(), "t"), Err(Error::NotFound { .. })));
    assert!(matches!(Writer::open(directory.clone(), "t", settings()), Err(Error::NotFound { .. })));
    assert!(matches!(remove(directory.as_ref(), "t"), Err(Error::NotFound { .. })));
}

#[test]
fn files_of_one_directory_do_not_touch_each_other() {
    let directory = memory();
    for (index, file) in ["t", "t-1", "t.pages"].into_iter().enumerate() {
        let batch = numbers(0..1000 * (index as i64 + 1));
        let mut writer = Writer::create(directory.clone(), file, batch.schema(), settings()).expect("a new one");
        writer.append_all([&batch]).expect("memory never fails");
    }
    assert_eq!(page_files(directory.as_ref()).expect("memory"), ["t", "t-1", "t.pages"]);
    remove(directory.as_ref(), "t").expect("it is there");
    assert_eq!(page_files(directory.as_ref()).expect("memory"), ["t-1", "t.pages"]);
    let devices = directory.list().expect("memory");
    assert!(!devices.iter().any(|name| name.starts_with("t-0") || name == "t.pages.lock"), "{devices:?}");
    Writer::open(directory.clone(), "t-1", settings()).expect("it is there");
    for (file, rows) in [("t-1", 2000), ("t.pages", 3000)] {
        assert_eq!(
            read_all(&Reader::open(directory.clone(), file).expect("it is there")).expect("whole").num_rows(),
            rows
        );
    }
}

#[test]
fn statistics_and_zone_maps_are_there_without_a_page_read() {
    let directory = SimDirectory::with_seed(Seed(1));
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let settings = small(4096, 1 << 20, Seed(1));
    let mut writer = Writer::create(shared.clone(), "t", numbers([]).schema(), settings).expect("a new one");
    for part in 0..3 {
        writer.append_all([&numbers(part * 50_000..(part + 1) * 50_000)]).expect("nothing fails");
    }
    let reader = Reader::open(shared, "t").expect("it is there");
    let before = directory.reads();
    assert_eq!(reader.statistics(0).min.as_primitive::<Int64Type>().value(0), 0);
    assert_eq!(reader.statistics(0).max.as_primitive::<Int64Type>().value(0), 149_999);
    assert_eq!(directory.reads(), before, "statistics are in the manifest");
    let literal = |value| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let pages = |comparison, value| {
        let predicate = Predicate::compare(0, comparison, literal(value));
        reader.pages_that_may_match(&[predicate]).expect("one type").count_set_bits()
    };
    assert_eq!(pages(Comparison::Equal, 75_000), 1);
    assert_eq!(pages(Comparison::Less, 1), 1);
    assert_eq!(pages(Comparison::Greater, 149_999), 0);
    assert_eq!(pages(Comparison::GreaterOrEqual, 0) as u64, reader.pages());
    // For each of three segments: places, numbers of rows, bounds.
    assert_eq!(directory.reads() - before, 9, "zone maps are read once");
}

#[test]
fn a_decoder_reads_only_the_columns_that_are_wanted() {
    let directory = SimDirectory::with_seed(Seed(1));
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let schema = schema_of(&[DataType::Int64, DataType::Utf8, DataType::Decimal128(15, 2)]);
    let batch = batch(&schema, 30, &mut Seed(5).generator());
    let mut writer = Writer::create(shared.clone(), "t", schema, settings()).expect("a new one");
    writer.append_all([&batch]).expect("nothing fails");
    let reader = Reader::open(shared, "t").expect("it is there");
    // The last byte of the last column.
    let page = reader.page(0).expect("sound");
    let last = page.bytes().iter().rposition(|&byte| byte != 0).expect("it is not empty") as u64;
    directory.flip_bit(&reader.address(0).expect("there is one").device, last, 0).expect("there is such a bit");
    let damaged = reader.page(0).expect("the header is sound");
    let decode = |projection: &[usize]| {
        let mut decoder = reader.decoder(projection)?;
        decoder.push(&damaged)?;
        decoder.finish()
    };
    assert_equal(&decode(&[1, 0]).expect("these are sound"), &batch.project(&[1, 0]).expect("columns"), "two columns");
    let error = decode(&[2]).expect_err("this one is damaged");
    assert!(error.to_string().contains("t, page 0 is damaged") && error.kind() == ErrorKind::Corrupt, "{error}");
    assert_eq!(decode(&[]).expect("nothing is decoded").num_rows(), 30);
}

#[test]
fn pages_from_elsewhere_are_taken_at_their_own_place_only() {
    let directory = memory();
    let mut writer = Writer::create(directory.clone(), "t", numbers([]).schema(), settings()).expect("a new one");
    writer.append_all([&numbers(0..10_000)]).expect("memory never fails");
    let reader = Reader::open(directory.clone(), "t").expect("it is there");
    let address = reader.address(1).expect("there is one");
    let mut buffer = AlignedBuffer::zeroed(4096);
    directory.open(&address.device).expect("it is there").read_at(address.offset, &mut buffer).expect("it is there");
    // At an address that is aligned to nothing.
    let bytes = Bytes::from([&[0], &buffer[..]].concat()).slice(1..);
    let mut decoder = reader.decoder(&[0]).expect("a column");
    decoder.push(&reader.page_of(1, bytes.clone()).expect("it is this one")).expect("sound");
    assert_eq!(decoder.finish().expect("sound").num_rows() as u32, reader.page_rows().expect("sound").value(1));
    assert!(matches!(reader.page_of(2, bytes.clone()), Err(Error::Damaged { .. })));
    assert!(matches!(reader.page_of(1, bytes.slice(..4095)), Err(Error::Damaged { .. })));
    assert!(matches!(reader.page_of(reader.pages(), bytes), Err(Error::Invalid { .. })));
}

#[test]
fn after_an_error_a_decoder_begins_anew() {
    let directory = memory();
    let mut writer = Writer::create(directory.clone(), "t", numbers([]).schema(), settings()).expect("a new one");
    writer.append_all([&numbers(0..10_000)]).expect("memory never fails");
    let reader = Reader::open(directory, "t").expect("it is there");
    let page = reader.page(0).expect("sound");
    let mut bytes = page.bytes().to_vec();
    bytes[100] ^= 1;
    let damaged = reader.page_of(0, bytes.into()).expect("the header is sound");
    let mut decoder = reader.decoder(&[0, 0]).expect("a column, twice");
    decoder.push(&page).expect("sound");
    decoder.push(&damaged).expect_err("damaged");
    assert_eq!(decoder.finish().expect("empty").num_rows(), 0);
    decoder.push_rows(&page, &[3, 2]).expect_err("they must ascend");
    decoder.push_rows(&page, &[page.rows() as u32]).expect_err("there is no such row");
    decoder.push_rows(&page, &[0, 5]).expect("there are such rows");
    assert_eq!(decoder.finish().expect("sound").column(1).as_primitive::<Int64Type>().values(), &[0, 5]);
}

#[test]
fn many_small_batches_fill_pages_as_one_large_one_does() {
    let mut rng = Seed(2).generator();
    let schema = schema_of(&[DataType::Int32, DataType::Utf8]);
    let whole = batch(&schema, 20_000, &mut rng);
    let pages = |rows: usize| {
        let directory = memory();
        let mut writer = Writer::create(directory.clone(), "t", schema.clone(), settings()).expect("a new one");
        let mut append = writer.append().expect("open");
        for start in (0..whole.num_rows()).step_by(rows) {
            append.write(&whole.slice(start, rows.min(whole.num_rows() - start))).expect("it fits");
        }
        append.commit().expect("memory never fails");
        let reader = Reader::open(directory, "t").expect("it is there");
        assert_equal(&read_all(&reader).expect("sound"), &whole, "all");
        reader.pages()
    };
    let (at_once, one_by_one) = (pages(20_000), pages(1));
    assert!(one_by_one <= at_once + at_once / 20 + 1, "{one_by_one} pages instead of {at_once}");
}

#[test]
fn a_column_of_one_value_takes_hardly_any_room_and_reads_back() {
    let directory = memory();
    let same = texts(&vec!["the same text in every row of the table".to_owned(); 100_000]);
    let mut writer = Writer::create(directory.clone(), "t", same.schema(), settings()).expect("a new one");
    writer.append_all([&same]).expect("memory never fails");
    let reader = Reader::open(directory, "t").expect("it is there");
    // What the strings of a page may spread out to bounds it, not what they take.
    assert!(reader.pages() < 100, "{}", reader.pages());
    assert_equal(&read_all(&reader).expect("sound"), &same, "all");
}

#[test]
fn every_single_flipped_bit_of_a_page_is_found() {
    let directory = memory();
    let schema = schema_of(&types());
    let batch = batch(&schema, 8, &mut Seed(6).generator());
    let mut writer = Writer::create(directory.clone(), "t", schema, settings()).expect("a new one");
    writer.append_all([&batch]).expect("memory never fails");
    let reader = Reader::open(directory, "t").expect("it is there");
    let mut bytes = reader.page(0).expect("sound").bytes().to_vec();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let found = reader.page_of(0, Bytes::copy_from_slice(&bytes)).and_then(|page| page.verify());
        assert!(matches!(found, Err(Error::Damaged { .. })), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    reader.page_of(0, bytes.into()).and_then(|page| page.verify()).expect("as it was");
}

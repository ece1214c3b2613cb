//! Whatever is written is read back: random batches of all types, in random pages and portions, against what was
//! written.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_ord::cmp;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use ishigaki_base::random::Seed;
use ishigaki_device::{Directory, MemoryDirectory, MemorySettings};
use ishigaki_page::{Comparison, Interval, Predicate, Reader, Test, Writer};
use ishigaki_testkit::{chosen_seed, seeded_runs};

mod rows;

use rows::{assert_equal, batch, read_all, schema_of, small, types};

/// A file with some appends of random rows of some random types, and these rows.
fn random_file(seed: Seed) -> (Reader, RecordBatch) {
    let mut rng = seed.generator();
    let mut all = types();
    rng.shuffle(&mut all);
    let schema = schema_of(&all[..rng.usize(1..=all.len().min(12))]);
    let page_size = 4096 << rng.u32(0..4);
    let block_size = *rng.choice(&[512, 4096]).expect("there are some");
    let settings = small(page_size, page_size * rng.u64(1..10), seed);
    let directory: Arc<dyn Directory> =
        Arc::new(MemoryDirectory::with(MemorySettings { block_size, ..MemorySettings::default() }));
    let mut writer = Writer::create(directory.clone(), "random", schema.clone(), settings).expect("a new one");
    let mut written = Vec::new();
    for _ in 0..rng.usize(1..4) {
        let mut append = writer.append().expect("open");
        for _ in 0..rng.usize(..6) {
            let most = *rng.choice(&[1, 100, 3000]).expect("there are some");
            let batch = batch(&schema, rng.usize(..=most), &mut rng);
            append.write(&batch).expect("it fits");
            written.push(batch);
        }
        append.commit().expect("memory never fails");
    }
    let reader = Reader::open(directory, "random").expect("it was written");
    (reader, concat_batches(&schema, &written).expect("they have one schema"))
}

#[test]
fn whatever_is_written_is_read_back() {
    seeded_runs("whatever_is_written_is_read_back", 150, |seed| {
        let (reader, written) = random_file(seed);
        assert_eq!(reader.rows(), written.num_rows() as u64);
        assert_eq!(
            reader.page_rows().expect("sound").values().iter().map(|&rows| u64::from(rows)).sum::<u64>(),
            reader.rows()
        );
        assert_equal(&read_all(&reader).expect("sound"), &written, "all columns");
    });
}

#[test]
fn chosen_rows_of_chosen_columns_are_read_alone() {
    seeded_runs("chosen_rows_of_chosen_columns_are_read_alone", 100, |seed| {
        let (reader, written) = random_file(seed);
        let mut rng = seed.derive(1).generator();
        let columns = reader.schema().fields().len();
        let projection: Vec<usize> = (0..rng.usize(1..4)).map(|_| rng.usize(..columns)).collect();
        let mut decoder = reader.decoder(&projection).expect("columns of the file");
        let (mut chosen, mut first) = (Vec::new(), 0);
        for page in reader.page_run(0..reader.pages()).expect("sound") {
            let density = rng.f64().powi(3);
            let rows: Vec<u32> = (0..page.rows() as u32).filter(|_| rng.f64() < density).collect();
            decoder.push_rows(&page, &rows).expect("sound");
            chosen.extend(rows.iter().map(|row| first + row));
            first += page.rows() as u32;
        }
        let written = written.project(&projection).expect("columns of the file");
        let expected = take_record_batch(&written, &UInt32Array::from(chosen)).expect("rows of the file");
        assert_equal(&decoder.finish().expect("sound"), &expected, "chosen");
    });
}

#[test]
fn statistics_and_zones_say_what_is_in_the_rows() {
    seeded_runs("statistics_and_zones_say_what_is_in_the_rows", 100, |seed| {
        let (reader, written) = random_file(seed);
        for (index, column) in written.columns().iter().enumerate() {
            let statistics = reader.statistics(index);
            assert_eq!(statistics.nulls, column.null_count() as u64);
            let sorted = arrow_ord::sort::sort(column, None).expect("these can be sorted");
            let values = sorted.slice(column.null_count(), column.len() - column.null_count());
            assert_eq!(statistics.min.is_null(0), values.is_empty());
            if !values.is_empty() {
                let equal = |one: &dyn Array, other: &dyn Array| {
                    cmp::eq(
                        &arrow_select::concat::concat(&[one]).unwrap(),
                        &arrow_select::concat::concat(&[other]).unwrap(),
                    )
                    .unwrap()
                    .value(0)
                };
                assert!(equal(&statistics.min, &values.slice(0, 1)), "the smallest of column {index}");
                assert!(equal(&statistics.max, &values.slice(values.len() - 1, 1)), "the largest of column {index}");
            }
            let Some(zones) = reader.zones(index).expect("sound") else { continue };
            let mut first = 0;
            for page in 0..zones.rows.len() {
                let rows = zones.rows.value(page) as usize;
                let these = column.slice(first, rows);
                first += rows;
                assert_eq!(zones.nulls.value(page) as usize, these.null_count());
                let bounds = [zones.min.slice(page, 1), zones.max.slice(page, 1)];
                if bounds[0].is_valid(0) {
                    let least = arrow_array::Scalar::new(bounds[0].clone());
                    assert_eq!(
                        cmp::lt(&these, &least).expect("one type").true_count(),
                        0,
                        "column {index}, page {page}"
                    );
                }
                if bounds[1].is_valid(0) {
                    let most = arrow_array::Scalar::new(bounds[1].clone());
                    assert_eq!(
                        cmp::gt(&these, &most).expect("one type").true_count(),
                        0,
                        "column {index}, page {page}"
                    );
                }
            }
        }
    });
}

/// What Arrow says of each value.
fn compared(column: &ArrayRef, comparison: Comparison, literal: &ArrayRef) -> BooleanArray {
    let scalar = arrow_array::Scalar::new(Arc::clone(literal));
    let compared = match comparison {
        Comparison::Equal => cmp::eq(column, &scalar),
        Comparison::NotEqual => cmp::neq(column, &scalar),
        Comparison::Less => cmp::lt(column, &scalar),
        Comparison::LessOrEqual => cmp::lt_eq(column, &scalar),
        Comparison::Greater => cmp::gt(column, &scalar),
        Comparison::GreaterOrEqual => cmp::gt_eq(column, &scalar),
    };
    compared.expect("one type")
}

/// The rows of which it is true.
fn trues(answers: &BooleanArray) -> Vec<usize> {
    answers.iter().enumerate().filter(|(_, answer)| *answer == Some(true)).map(|(row, _)| row).collect()
}

#[test]
fn rows_within_an_interval_are_those_of_which_its_comparisons_are_true() {
    let (mut some, mut all, mut none) = (0, 0, 0);
    seeded_runs("rows_within_an_interval_are_those_of_which_its_comparisons_are_true", 150, |seed| {
        let (reader, written) = random_file(seed);
        let mut rng = seed.derive(3).generator();
        if written.num_rows() == 0 {
            return;
        }
        let pages = reader.page_run(0..reader.pages()).expect("sound");
        for (index, column) in written.columns().iter().enumerate() {
            let mut pick = || {
                let comparison = rng.choice(Comparison::ALL).expect("there are some");
                (comparison, column.slice(rng.usize(..column.len()), 1))
            };
            let ((one, this), (other, that)) = (pick(), pick());
            let [Some(first), Some(second)] = [Interval::of(one, &this), Interval::of(other, &that)] else {
                let of = column.data_type();
                let ordered = (of.is_numeric() && !of.is_floating()) || of.is_temporal();
                assert!(!ordered || [one, other].contains(&Comparison::NotEqual), "{one:?} and {other:?} of {of}");
                continue;
            };
            let (first_true, second_true) = (compared(column, one, &this), compared(column, other, &that));
            let mut begin = 0;
            for page in &pages {
                let rows = page.rows();
                let [this, that] = [&first_true, &second_true].map(|matches| trues(&matches.slice(begin, rows)));
                begin += rows;
                let both: Vec<usize> = this.iter().copied().filter(|row| that.binary_search(row).is_ok()).collect();
                let intersection = first.clone().intersection(&second);
                for (interval, expected) in [(&first, &this), (&second, &that), (&intersection, &both)] {
                    let within = page.within(index, interval).expect("sound");
                    assert_eq!(within.len(), rows);
                    let found: Vec<usize> = within.set_indices().collect();
                    assert_eq!(found, *expected, "page {} of column {index}: {interval:?}", page.number());
                    match found.len() {
                        0 => none += 1,
                        len if len == rows => all += 1,
                        _ => some += 1,
                    }
                }
            }
        }
    });
    assert!(chosen_seed().is_some() || [some, all, none].iter().all(|&pages| pages > 100), "{some}, {all}, {none}");
}

#[test]
fn no_page_with_a_matching_row_is_skipped() {
    let mut skipped = 0;
    seeded_runs("no_page_with_a_matching_row_is_skipped", 100, |seed| {
        let (reader, written) = random_file(seed);
        let mut rng = seed.derive(2).generator();
        if written.num_rows() == 0 {
            return;
        }
        let page_rows = reader.page_rows().expect("sound");
        for (index, column) in written.columns().iter().enumerate() {
            let literal = column.slice(rng.usize(..column.len()), 1);
            let comparison = rng.choice(Comparison::ALL).expect("there are some");
            let matches = compared(column, comparison, &literal);
            let may = |predicate| reader.pages_that_may_match(&[predicate]).expect("one type");
            let may_match = may(Predicate::compare(index, comparison, literal));
            let null = may(Predicate { column: index, test: Test::IsNull });
            let not_null = may(Predicate { column: index, test: Test::IsNotNull });
            let mut first = 0;
            for (page, &rows) in page_rows.values().iter().enumerate() {
                let (rows, here) = (rows as usize, column.slice(first, rows as usize));
                let some = matches.slice(first, rows).true_count() > 0;
                first += rows;
                assert!(may_match.value(page) || !some, "page {page}: {comparison:?} of column {index}");
                assert_eq!(null.value(page), here.null_count() > 0);
                assert_eq!(not_null.value(page), here.null_count() < rows);
                skipped += usize::from(!may_match.value(page));
            }
        }
    });
    // One seed alone may have none.
    assert!(skipped > 0 || chosen_seed().is_some(), "some pages can be skipped");
}

/// A number as an integer of its own, if it is one that pages give as such.
fn as_integer(column: &ArrayRef, row: usize) -> Option<i128> {
    use arrow_schema::DataType;
    match column.data_type() {
        DataType::Decimal128(..) => Some(column.as_primitive::<Decimal128Type>().value(row)),
        DataType::Boolean => None,
        data_type if data_type.is_floating() || !data_type.is_primitive() => None,
        // Dates and times have no text of an integer; what is in their memory is one.
        data_type => {
            let data = column.to_data();
            let values = &data.buffers()[0].as_slice()[(data.offset() + row) * data_type.primitive_width()?..];
            let mut wide = [0; 8];
            let width = data_type.primitive_width()?;
            wide[..width].copy_from_slice(&values[..width]);
            let (bits, unused) = (i64::from_le_bytes(wide), 64 - 8 * width as u32);
            let is_signed = !data_type.is_unsigned_integer();
            Some(if is_signed { (bits << unused >> unused).into() } else { i128::from(bits as u64) })
        }
    }
}

#[test]
fn integers_and_entries_are_those_of_the_rows() {
    let (mut given, mut of_strings) = (0, 0);
    seeded_runs("integers_and_entries_are_those_of_the_rows", 100, |seed| {
        let (reader, written) = random_file(seed);
        let mut rng = seed.derive(1).generator();
        let (mut integers, mut entries, mut first) = (Vec::new(), Vec::new(), 0);
        for page in reader.page_run(0..reader.pages()).expect("sound") {
            let density = rng.f64().powi(3);
            let some: Vec<u32> = (0..page.rows() as u32).filter(|_| rng.f64() < density).collect();
            let all: Vec<u32> = (0..page.rows() as u32).collect();
            for (at, column) in written.columns().iter().enumerate() {
                let of_page = column.slice(first, page.rows());
                let has_nulls = of_page.null_count() > 0;
                for (rows, asked) in [(&all, None), (&some, Some(some.as_slice()))] {
                    if let Some(bounds) = page.integers(at, asked, &mut integers).expect("sound") {
                        assert!(!has_nulls, "column {at}");
                        let expected = rows.iter().map(|&row| as_integer(&of_page, row as usize).expect("an integer"));
                        assert!(expected.eq(integers.iter().map(|&integer| integer.into())), "column {at}");
                        assert!(integers.iter().all(|integer| bounds.contains(integer)), "column {at}");
                        given += 1;
                    }
                    if let Some(strings) = page.entries(at, asked, &mut entries).expect("sound") {
                        assert!(!has_nulls, "column {at}");
                        let picked = entries.iter().map(|&entry| Some(strings[entry as usize]));
                        let picked: ArrayRef = Arc::new(picked.collect::<arrow_array::BinaryArray>());
                        let rows = UInt32Array::from(rows.clone());
                        let expected = arrow_select::take::take(&of_page, &rows, None).expect("rows of the page");
                        assert_eq!(bytes_of(&picked), bytes_of(&expected), "column {at}");
                        of_strings += 1;
                    }
                }
            }
            first += page.rows();
        }
    });
    assert!(given > 100 && of_strings > 20, "{given} columns of integers and {of_strings} of strings were given");
}

/// Strings, whatever their layout.
fn bytes_of(column: &ArrayRef) -> Vec<Vec<u8>> {
    use arrow_schema::DataType;
    let all = 0..column.len();
    match column.data_type() {
        DataType::Utf8 => all.map(|row| column.as_string::<i32>().value(row).into()).collect(),
        DataType::LargeUtf8 => all.map(|row| column.as_string::<i64>().value(row).into()).collect(),
        DataType::Utf8View => all.map(|row| column.as_string_view().value(row).into()).collect(),
        DataType::Binary => all.map(|row| column.as_binary::<i32>().value(row).into()).collect(),
        DataType::LargeBinary => all.map(|row| column.as_binary::<i64>().value(row).into()).collect(),
        _ => all.map(|row| column.as_binary_view().value(row).into()).collect(),
    }
}

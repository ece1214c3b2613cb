//! How fast pages are written and read, and how small they are: rows like those of TPC-H's `lineitem`, at four page
//! sizes.
//!
//! `cargo run --release -p ishigaki-page --example page_speed -- [ROWS] [ROUNDS]`
//!
//! Speeds are of the Arrow columns that go in or come out, medians over the rounds, beside a copy of as many bytes in
//! this process (`memcpy`) and the checksum of what is read. Everything lies in memory; what was read is checked.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::builder::StringBuilder;
use arrow_array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    StringViewArray,
};
use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, crc32c};
use ishigaki_device::{Directory, MemoryDirectory};
use ishigaki_page::{Page, Reader, Settings, Writer};

const GIB: f64 = (1_u64 << 30) as f64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let rows = arguments.next().transpose()?.unwrap_or(20_000);
    let rounds = arguments.next().transpose()?.unwrap_or(3);
    let batch = lineitem(rows, Seed(1));
    let raw: usize = batch.columns().iter().map(bytes_of).sum();
    println!("{rows} rows, {:.1} bytes each in Arrow", raw as f64 / rows as f64);
    println!("memcpy of as many bytes: {:.2} GiB/s", copy(raw, rounds));
    for page_size in [4, 16, 128, 1024].map(ByteSize::kib) {
        run(&batch, page_size, raw, rounds)?;
    }
    Ok(())
}

fn run(batch: &RecordBatch, page_size: ByteSize, raw: usize, rounds: usize) -> Result<(), Box<dyn Error>> {
    let settings = Settings { page_size, segment: ByteSize::mib(64), seed: Seed(2) };
    let mut times = Vec::new();
    let mut directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    for _ in 0..rounds {
        directory = Arc::new(MemoryDirectory::new());
        let mut writer = Writer::create(directory.clone(), "lineitem", batch.schema(), settings)?;
        let begin = Instant::now();
        writer.append_all([batch])?;
        times.push(begin.elapsed().as_secs_f64());
    }
    let reader = Reader::open(directory, "lineitem")?;
    let stored = (reader.pages() * page_size.as_u64()) as f64;
    println!(
        "\npages of {page_size}: {:.1} bytes a row, {:.3} of Arrow's, {:.0} rows a page; written with {:.2} GiB/s",
        stored / batch.num_rows() as f64,
        stored / raw as f64,
        batch.num_rows() as f64 / reader.pages() as f64,
        raw as f64 / GIB / median(&mut times)
    );
    let pages = reader.page_run(0..reader.pages())?;
    let checksums = time(rounds, || pages.iter().fold(0, |sum, page| sum ^ crc32c(page.bytes())));
    println!("{:<34} {:>8} {:>8.2} GiB/s", "checksums of whole pages", "", stored / GIB / checksums);
    let columns = (0..batch.num_columns()).map(|column| (batch.schema().field(column).name().clone(), vec![column]));
    let q6 = ("Q6's four columns".to_owned(), vec![4, 5, 6, 10]);
    let all = ("all columns".to_owned(), (0..16).collect());
    println!("{:<34} {:>8} {:>14} {:>14} {:>10}", "column", "type", "first time", "again", "memcpy");
    for (name, projection) in columns.chain([q6, all]) {
        decode(&reader, &pages, batch, (&name, &projection), rounds)?;
    }
    Ok(())
}

/// Decodes some columns of all pages, in batches of 8192 rows or one page; with checksums, and again without.
fn decode(
    reader: &Reader,
    pages: &[Page],
    batch: &RecordBatch,
    (name, projection): (&str, &[usize]),
    rounds: usize,
) -> Result<(), Box<dyn Error>> {
    let expected = batch.project(projection)?;
    let size: usize = expected.columns().iter().map(bytes_of).sum();
    let mut decoder = reader.decoder(projection)?;
    let mut pass = |pages: &[Page], check: bool| -> ishigaki_page::Result<f64> {
        let (mut begin, mut spent, mut row) = (Instant::now(), 0.0, 0);
        for (index, page) in pages.iter().enumerate() {
            decoder.push(page)?;
            if decoder.rows() >= 8192 || index + 1 == pages.len() {
                let rows = std::hint::black_box(decoder.finish()?);
                spent += begin.elapsed().as_secs_f64();
                let as_written = !check || rows == expected.slice(row, rows.num_rows());
                assert!(as_written, "rows from {row} on are not as written");
                row += rows.num_rows();
                begin = Instant::now();
            }
        }
        Ok(spent)
    };
    pass(pages, true)?;
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        // The same bytes, not checked yet.
        let fresh = pages.iter().map(|page| reader.page_of(page.number(), page.bytes().clone()));
        let fresh = fresh.collect::<ishigaki_page::Result<Vec<_>>>()?;
        first.push(pass(&fresh, false)?);
        again.push(pass(&fresh, false)?);
    }
    let speed = |times: &mut [f64]| size as f64 / GIB / median(times);
    let data_type =
        if let [column] = projection { batch.column(*column).data_type().to_string() } else { String::new() };
    let (first, again) = (speed(&mut first), speed(&mut again));
    // A batch's columns at a time, as they are decoded.
    let memcpy = copy(size * 8192 / batch.num_rows().max(8192), rounds.max(9));
    println!("{name:<24} {data_type:>18} {first:>8.2} GiB/s {again:>8.2} GiB/s {memcpy:>10.2}");
    Ok(())
}

/// The median speed of copying that many bytes into new memory, in GiB/s.
fn copy(bytes: usize, rounds: usize) -> f64 {
    let source = vec![1_u8; bytes];
    bytes as f64 / GIB / time(rounds, || source.clone())
}

/// The median time of something, in seconds.
fn time<T>(rounds: usize, mut work: impl FnMut() -> T) -> f64 {
    let mut times: Vec<_> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            std::hint::black_box(work());
            begin.elapsed().as_secs_f64()
        })
        .collect();
    median(&mut times)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// How many bytes an array takes, its spare room left out.
fn bytes_of(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or(0)
}

/// Rows with the types and about the distributions of TPC-H's `lineitem` (its specification, clause 4.2.3), in the
/// order of orders; and in the place of its line status what it has not, a floating-point number.
fn lineitem(rows: usize, seed: Seed) -> RecordBatch {
    let mut rng = seed.generator();
    let rng = &mut rng;
    let (mut order, mut line) = (1_i64, 0);
    let lines: Vec<(i64, i32, i32)> = (0..rows)
        .map(|_| {
            line += 1;
            if line > 7 || rng.u32(..4) == 0 {
                // The first eight of 32 order keys are used.
                order += if order % 8 == 0 { 25 } else { 1 };
                line = 1;
            }
            (order, line, rng.i32(8036..10_561))
        })
        .collect();
    let quantities: Vec<i64> = (0..rows).map(|_| rng.i64(1..=50)).collect();
    let price = |quantity: &i64| i128::from(*quantity) * rng.i128(90_000..=209_900);
    let prices: Vec<i128> = quantities.iter().map(price).collect();
    let mut column = |values: &mut dyn FnMut(&mut fastrand::Rng, usize) -> i128| -> Vec<i128> {
        (0..rows).map(|row| values(rng, row)).collect()
    };
    let part = column(&mut |rng, _| rng.i128(1..=200_000));
    let supplier = column(&mut |rng, _| rng.i128(1..=10_000));
    let discount = column(&mut |rng, _| rng.i128(0..=10));
    let tax = column(&mut |rng, _| rng.i128(0..=8));
    let shipped = column(&mut |rng, row| i128::from(lines[row].2) + rng.i128(1..=121));
    let due = column(&mut |rng, row| i128::from(lines[row].2) + rng.i128(30..=90));
    let received = column(&mut |rng, row| shipped[row] + rng.i128(1..=30));
    let mut texts = |of: &[&str], words: std::ops::RangeInclusive<usize>| -> StringArray {
        let mut builder = StringBuilder::new();
        for _ in 0..rows {
            let count = rng.usize(words.clone());
            let text: Vec<&str> = (0..count).map(|_| of[rng.usize(..of.len())]).collect();
            builder.append_value(text.join(" "));
        }
        builder.finish()
    };
    let flags = texts(&["A", "N", "R"], 1..=1);
    let instructions = texts(&["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"], 1..=1);
    let modes = texts(&["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"], 1..=1);
    let comments = texts(&WORDS, 2..=6);
    let big = |values: Vec<i128>| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values.into_iter().map(|v| v as i64)))
    };
    // As DataFusion has text; one column is left as it is, for comparison.
    let view = |texts: &StringArray| -> ArrayRef { Arc::new(StringViewArray::from(texts)) };
    let days = |values: Vec<i128>| -> ArrayRef {
        Arc::new(Date32Array::from_iter_values(values.into_iter().map(|v| v as i32)))
    };
    let money = |values: Vec<i128>| -> ArrayRef {
        let array = Decimal128Array::from(values).with_precision_and_scale(15, 2);
        Arc::new(array.expect("fifteen digits and two"))
    };
    let ratios = Float64Array::from_iter_values(prices.iter().map(|&price| price as f64 / 3.0));
    let quantities = quantities.into_iter().map(|quantity| i128::from(quantity) * 100).collect();
    let columns: [(&str, ArrayRef); 16] = [
        ("l_orderkey", Arc::new(Int64Array::from_iter_values(lines.iter().map(|line| line.0)))),
        ("l_partkey", big(part)),
        ("l_suppkey", big(supplier)),
        ("l_linenumber", Arc::new(Int32Array::from_iter_values(lines.iter().map(|line| line.1)))),
        ("l_quantity", money(quantities)),
        ("l_extendedprice", money(prices)),
        ("l_discount", money(discount)),
        ("l_tax", money(tax)),
        ("l_returnflag", view(&flags)),
        ("a ratio", Arc::new(ratios)),
        ("l_shipdate", days(shipped)),
        ("l_commitdate", days(due)),
        ("l_receiptdate", days(received)),
        ("l_shipinstruct", Arc::new(instructions)),
        ("l_shipmode", view(&modes)),
        ("l_comment", view(&comments)),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

/// What comments are made of.
const WORDS: [&str; 24] = [
    "carefully",
    "quickly",
    "furiously",
    "slyly",
    "final",
    "regular",
    "express",
    "pending",
    "deposits",
    "requests",
    "accounts",
    "packages",
    "ideas",
    "theodolites",
    "sleep",
    "haggle",
    "wake",
    "nag",
    "above",
    "against",
    "the",
    "even",
    "bold",
    "silent",
];

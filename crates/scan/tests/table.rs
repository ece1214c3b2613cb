//! Paged tables, queried through DataFusion.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::stats::Precision;
use datafusion::execution::context::SessionContext;
use datafusion::functions::string::expr_fn::uuid;
use datafusion::logical_expr::{TableProviderFilterPushDown, col, lit};
use datafusion::prelude::SessionConfig;
use ishigaki_base::ByteSize;
use ishigaki_device::{Directory, MemoryDirectory};
use ishigaki_page::{Reader, Settings, Writer};
use ishigaki_scan::{PageCache, PagedTable, Part};

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("word", DataType::Utf8View, true)]))
}

/// Rows `from` to `to`; every tenth word is null.
fn batch(from: i64, to: i64) -> RecordBatch {
    let words = (from..to).map(|n| (n % 10 != 0).then(|| format!("word {n}")));
    let columns: Vec<Arc<dyn datafusion::arrow::array::Array>> =
        vec![Arc::new(Int64Array::from_iter_values(from..to)), Arc::new(words.collect::<StringViewArray>())];
    RecordBatch::try_new(schema(), columns).expect("a batch")
}

fn part(from: i64, to: i64) -> Part {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let settings = Settings { page_size: ByteSize::kib(4), ..Settings::default() };
    let mut writer = Writer::create(Arc::clone(&directory), "t", schema(), settings).expect("made");
    writer.append_all([&batch(from, to)]).expect("appended");
    Part::here(Arc::new(Reader::open(directory, "t").expect("opens")))
}

fn table(parts: Vec<Part>, memory: ByteSize) -> Arc<PagedTable> {
    Arc::new(PagedTable::new("t", &schema(), parts, Arc::new(PageCache::new(memory))).expect("fits"))
}

fn context(table: &Arc<PagedTable>, threads: usize) -> SessionContext {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads));
    context.register_table("t", Arc::clone(table) as _).expect("registered");
    context
}

async fn numbers(context: &SessionContext, sql: &str) -> Vec<i64> {
    let batches = context.sql(sql).await.expect(sql).collect().await.expect(sql);
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// The value of a counter in EXPLAIN ANALYZE.
async fn counted(context: &SessionContext, sql: &str, counter: &str) -> u64 {
    let explained = context.sql(&format!("EXPLAIN ANALYZE {sql}")).await.expect(sql).collect().await.expect(sql);
    let text = datafusion::arrow::util::pretty::pretty_format_batches(&explained).expect("text").to_string();
    let line = text.lines().find(|line| line.contains("IshigakiPageScan")).expect("a scan");
    let value = line.split_once(&format!("{counter}=")).map(|(_, rest)| rest).expect(line);
    value.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect(line)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_comes_out_once_whatever_the_parts_threads_and_cache() {
    for parts in [vec![], vec![part(0, 20_000)], vec![part(0, 7), part(7, 12_000), part(12_000, 20_000)]] {
        let rows = parts.iter().map(|part| part.reader.rows() as i64).sum::<i64>();
        for memory in [ByteSize(0), ByteSize::mib(64)] {
            let table = table(parts.clone(), memory);
            for threads in [1, 2, 5] {
                let context = context(&table, threads);
                for round in 0..2 {
                    let mut all = numbers(&context, "SELECT n FROM t").await;
                    all.sort_unstable();
                    assert_eq!(all, (0..rows).collect::<Vec<_>>(), "{threads} threads, {memory}, round {round}");
                }
                let odd = numbers(&context, "SELECT n FROM t WHERE n % 2 = 1 AND word IS NOT NULL ORDER BY n").await;
                assert_eq!(odd, (0..rows).filter(|n| n % 2 == 1).collect::<Vec<_>>());
                assert_eq!(numbers(&context, "SELECT count(*) FROM t WHERE word IS NULL").await, [(rows + 9) / 10]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_can_not_match_are_not_read_and_kept_ones_not_again() {
    let table = table(vec![part(0, 20_000)], ByteSize::mib(64));
    let context = context(&table, 2);
    let few = "SELECT word FROM t WHERE n BETWEEN 700 AND 710";
    assert!(counted(&context, few, "pages_read").await <= 2);
    assert_eq!(counted(&context, few, "pages_read").await, 0);
    assert!(counted(&context, few, "pages_from_cache").await >= 1);
    assert!(counted(&context, few, "pages_skipped").await >= table.pages() - 2);
    assert_eq!(counted(&context, "SELECT word FROM t", "pages_skipped").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_join_or_a_top_k_learns_skips_pages_while_it_runs() {
    let table = table(vec![part(0, 50_000)], ByteSize(0));
    let context = context(&table, 1);
    let join = "SELECT t.word FROM (VALUES (40001), (40005)) AS few (n) JOIN t ON t.n = few.n";
    assert!(counted(&context, join, "pages_skipped").await >= table.pages() - 2, "of {}", table.pages());
    let words = context.sql(join).await.expect("plans").collect().await.expect("runs");
    assert_eq!(words.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    let top = "SELECT n FROM t ORDER BY n LIMIT 3";
    assert_eq!(numbers(&context, top).await, [0, 1, 2]);
    assert!(counted(&context, top, "pages_skipped").await > table.pages() / 2, "of {}", table.pages());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_are_exact_and_filters_honest() {
    let table = table(vec![part(0, 5_000), part(5_000, 6_000)], ByteSize(0));
    let statistics = table.statistics().expect("known");
    assert_eq!(statistics.num_rows, Precision::Exact(6_000));
    assert_eq!(statistics.column_statistics[0].max_value, Precision::Exact(5_999_i64.into()));
    assert_eq!(statistics.column_statistics[1].null_count, Precision::Exact(600));
    let (exact, random) = (col("n").gt(lit(1_i64)), uuid().gt(lit("8")));
    let support = table.supports_filters_pushdown(&[&exact, &random]).expect("answers");
    assert_eq!(support, [TableProviderFilterPushDown::Exact, TableProviderFilterPushDown::Unsupported]);
}

/// Whether a condition is true of the row with that number.
type Passes = fn(i64) -> bool;

/// What compares a column to a constant is judged in one way, everything else in another, and a row must pass both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_pass_all_of_a_condition_whatever_it_is_made_of() {
    let context = context(&table(vec![part(0, 2_000), part(2_000, 3_000)], ByteSize::mib(1)), 2);
    let cases: [(&str, Passes); 9] = [
        ("n >= 100 AND n < 1500", |n| (100..1500).contains(&n)),
        ("1500 > n AND 100 <= n", |n| (100..1500).contains(&n)),
        ("n % 7 = 3", |n| n % 7 == 3),
        ("n > 250 AND n % 7 = 3 AND n <= 2900", |n| n > 250 && n % 7 == 3 && n <= 2900),
        ("n > 250 AND word LIKE '%1' AND n <> 271", |n| n > 250 && n % 10 == 1 && n != 271),
        ("n = 2500 AND n % 2 = 0", |n| n == 2500),
        ("n = 2500 AND n % 2 = 1", |_| false),
        ("n > 10 AND n < 5", |_| false),
        ("word IS NULL AND n < 2050", |n| n % 10 == 0 && n < 2050),
    ];
    for (condition, passes) in cases {
        let mut found = numbers(&context, &format!("SELECT n FROM t WHERE {condition}")).await;
        found.sort_unstable();
        assert_eq!(found, (0..3_000).filter(|&n| passes(n)).collect::<Vec<_>>(), "{condition}");
    }
}

#[test]
fn a_file_of_other_columns_is_refused() {
    let other = Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("word", DataType::Int64, true)]);
    let cache = Arc::new(PageCache::new(ByteSize(0)));
    let error = PagedTable::new("t", &other, vec![part(0, 1)], cache).expect_err("other columns").to_string();
    assert!(error.contains("word Utf8View") && error.contains("word Int64"), "{error}");
}

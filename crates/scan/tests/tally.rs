//! Aggregates that are taken from pages answer as DataFusion's own operators do.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionContext;
use datafusion::prelude::SessionConfig;
use ishigaki_base::ByteSize;
use ishigaki_device::{Directory, MemoryDirectory};
use ishigaki_page::{Reader, Settings, Writer};
use ishigaki_scan::exact::ExactNumbers;
use ishigaki_scan::{PageCache, PagedTable, Part, TallyPages};
use ishigaki_testkit::seeded_runs;

fn schema() -> SchemaRef {
    let decimal = |name: &str, precision, scale| Field::new(name, DataType::Decimal128(precision, scale), true);
    Arc::new(Schema::new(vec![
        Field::new("flag", DataType::Utf8View, true),
        Field::new("status", DataType::Utf8, true),
        Field::new("day", DataType::Date32, true),
        Field::new("supplier", DataType::Int64, true),
        Field::new("line", DataType::Int32, true),
        decimal("price", 15, 2),
        decimal("discount", 15, 2),
        decimal("rate", 12, 4),
        Field::new("n", DataType::Int64, true),
    ]))
}

/// What a table's rows are like.
#[derive(Clone, Copy, Debug)]
struct Kind {
    rows: usize,
    /// Different words.
    words: u64,
    suppliers: i64,
    /// One value of so many is null; none if it is 0.
    nulls: u64,
    /// The largest price.
    price: i128,
}

fn batch(kind: Kind, random: &mut fastrand::Rng) -> RecordBatch {
    let Kind { rows, words, suppliers, nulls, price } = kind;
    let mut is_null = {
        let mut random = random.fork();
        move || nulls > 0 && random.u64(..nulls) == 0
    };
    let mut text = |prefix: &str| (0..rows).map(|_| format!("{prefix}{}", random.u64(..words))).collect::<Vec<_>>();
    let (flags, statuses) = (text("f"), text("status of the line "));
    let flags: StringViewArray = flags.iter().map(|flag| (!is_null()).then_some(flag.as_str())).collect();
    let status: StringArray = statuses.iter().map(|status| (!is_null()).then_some(status.as_str())).collect();
    let day: Date32Array = (0..rows).map(|_| (!is_null()).then(|| 9000 + random.i32(0..30))).collect();
    let supplier: Int64Array = (0..rows).map(|_| (!is_null()).then(|| random.i64(0..suppliers) - 3)).collect();
    let line: Int32Array = (0..rows).map(|_| (!is_null()).then(|| random.i32(1..8))).collect();
    let mut decimals = |least: i128, most: i128, precision, scale| -> ArrayRef {
        let values = (0..rows).map(|_| (!is_null()).then(|| random.i128(least..=most)));
        let array: Decimal128Array = values.collect();
        Arc::new(array.with_precision_and_scale(precision, scale).expect("fits"))
    };
    let columns = [decimals(-7, price, 15, 2), decimals(0, 10, 15, 2), decimals(-90_000, 90_000, 12, 4)];
    let n: Int64Array = (0..rows).map(|_| (!is_null()).then(|| random.i64(-1000..1000))).collect();
    let mut all: Vec<ArrayRef> =
        vec![Arc::new(flags), Arc::new(status), Arc::new(day), Arc::new(supplier), Arc::new(line)];
    all.extend(columns);
    all.push(Arc::new(n));
    RecordBatch::try_new(schema(), all).expect("a batch")
}

fn table(batches: &[RecordBatch]) -> Arc<PagedTable> {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let settings = Settings { page_size: ByteSize::kib(16), ..Settings::default() };
    let mut writer = Writer::create(Arc::clone(&directory), "t", schema(), settings).expect("made");
    writer.append_all(batches).expect("appended");
    let parts = vec![Part::here(Arc::new(Reader::open(directory, "t").expect("opens")))];
    Arc::new(PagedTable::new("t", &schema(), parts, Arc::new(PageCache::new(ByteSize::mib(64)))).expect("fits"))
}

/// With tallies or without.
fn context(table: &Arc<PagedTable>, threads: usize, tallies: bool) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(threads);
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    let state = SessionStateBuilder::new().with_config(config).with_default_features();
    let state = state.with_analyzer_rule(Arc::new(ExactNumbers));
    let state = if tallies { state.with_physical_optimizer_rule(Arc::new(TallyPages)) } else { state };
    let context = SessionContext::new_with_state(state.build());
    context.register_table("t", Arc::clone(table) as _).expect("registered");
    context
}

async fn answer(context: &SessionContext, sql: &str) -> String {
    let answer = match context.sql(sql).await.expect(sql).collect().await {
        Ok(batches) => pretty_format_batches(&batches).expect("text").to_string(),
        Err(error) => return format!("error: {}", error.find_root().message()),
    };
    let mut lines: Vec<&str> = answer.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

async fn explained(context: &SessionContext, sql: &str) -> String {
    answer(context, &format!("EXPLAIN ANALYZE {sql}")).await
}

/// The sum of a counter over all partitions, of the operator.
fn counter(explained: &str, operator: &str, name: &str) -> usize {
    let line = explained.lines().find(|line| line.contains(operator)).unwrap_or_default();
    let value = line.split_once(&format!("{name}=")).map(|(_, rest)| rest).unwrap_or_default();
    value.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

/// Each of these can be counted on pages.
const QUERIES: [&str; 11] = [
    "SELECT flag, status, sum(price), sum(price * (1 - discount)), sum(price * (1 - discount) * (1 + rate)), \
     avg(price), avg(discount), count(*) FROM t WHERE day <= DATE '1994-09-10' GROUP BY flag, status",
    "SELECT sum(price * discount) FROM t WHERE day >= DATE '1994-09-01' AND discount BETWEEN 0.05 AND 0.07",
    "SELECT supplier, sum(price * (1 - discount)) FROM t WHERE day < DATE '1994-08-26' GROUP BY supplier",
    "SELECT supplier, line, count(*), sum(n), sum(n * 3 - n + 7) FROM t GROUP BY supplier, line",
    "SELECT day, count(n), avg(price - rate), sum(discount + 1) FROM t GROUP BY day",
    "SELECT count(*), sum(price), sum(line) FROM t",
    "SELECT flag, sum(-1 * price), sum(price - 2.5), sum(0.125 - rate) FROM t WHERE flag <> 'f1' GROUP BY flag",
    "SELECT status, flag, day, sum(rate) FROM t WHERE n % 2 = 0 GROUP BY day, status, flag",
    "SELECT sum(price) FROM t WHERE n + n = 10000",
    "SELECT flag, count(*) FROM t WHERE n + n = 10000 GROUP BY flag",
    "SELECT line, sum(x) FROM (SELECT line, price + discount AS x, n FROM t) WHERE n > 0 GROUP BY line",
];

#[test]
fn tallies_answer_as_rows_do() {
    let kinds = [
        Kind { rows: 20_000, words: 3, suppliers: 1000, nulls: 0, price: 10_000_000 },
        // More words than there is room for at first, and pages of few rows.
        Kind { rows: 9_000, words: 60, suppliers: 10, nulls: 0, price: 900 },
        // Numbers that need more than 64 bits, in their products or by themselves.
        Kind { rows: 3_000, words: 2, suppliers: 5, nulls: 0, price: 999_999_999_999_999 },
        Kind { rows: 3_000, words: 2, suppliers: 5, nulls: 1000, price: 5_000_000 },
        // Too many groups for slots, or none that are alike.
        Kind { rows: 5_000, words: 1_000_000, suppliers: 1 << 40, nulls: 0, price: 5_000 },
        Kind { rows: 0, words: 1, suppliers: 1, nulls: 0, price: 1 },
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    seeded_runs("tallies_answer_as_rows_do", 12, |seed| {
        let mut random = seed.generator();
        let first = kinds[random.usize(..kinds.len())];
        let second = kinds[random.usize(..kinds.len())];
        let table = table(&[batch(first, &mut random), batch(second, &mut random)]);
        runtime.block_on(async {
            for threads in [1, 3] {
                let (with, without) = (context(&table, threads, true), context(&table, threads, false));
                for query in QUERIES {
                    let (counted, by_rows) = (answer(&with, query).await, answer(&without, query).await);
                    assert_eq!(counted, by_rows, "{query} of {first:?} and {second:?}");
                }
            }
        });
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_counted_until_one_is_not_made_for_it() {
    let mut random = fastrand::Rng::with_seed(1);
    let usual = Kind { rows: 20_000, words: 3, suppliers: 100, nulls: 0, price: 1_000_000 };
    let batches = [batch(usual, &mut random), batch(Kind { rows: 5_000, nulls: 2, ..usual }, &mut random)];
    let whole = table(&batches[..1]);
    for (query, threads) in QUERIES.into_iter().flat_map(|query| [(query, 1), (query, 2)]) {
        let context = context(&whole, threads, true);
        let explained = explained(&context, query).await;
        assert!(explained.contains("IshigakiTally"), "{query}, {threads} threads: {explained}");
        assert!(counter(&explained, "IshigakiTally", "pages_counted") > 0, "{query}: {explained}");
    }
    let query = QUERIES[5];
    let all = counter(&explained(&context(&whole, 1, true), query).await, "IshigakiTally", "pages_counted");
    let (then_nulls, from_nulls) = (table(&batches), table(&[batches[1].clone(), batches[0].clone()]));
    let counted = |explained: String| counter(&explained, "IshigakiTally", "pages_counted");
    let until = counted(explained(&context(&then_nulls, 1, true), query).await);
    assert!(all <= until + 1 && until <= all + 1, "{until} of {all} pages without nulls");
    assert_eq!(counted(explained(&context(&from_nulls, 1, true), query).await), 0);
    for table in [then_nulls, from_nulls] {
        let by_rows = answer(&context(&table, 1, false), query).await;
        assert_eq!(answer(&context(&table, 1, true), query).await, by_rows);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_counted_on_pages_is_left_to_rows() {
    let mut random = fastrand::Rng::with_seed(2);
    let kind = Kind { rows: 2_000, words: 3, suppliers: 100, nulls: 0, price: 1_000_000 };
    let table = table(&[batch(kind, &mut random)]);
    let context = context(&table, 2, true);
    for query in [
        "SELECT flag, sum(DISTINCT n), count(DISTINCT day) FROM t GROUP BY flag",
        "SELECT flag, min(price) FROM t GROUP BY flag",
        "SELECT n + 1, count(*) FROM t GROUP BY n + 1",
        "SELECT flag, sum(price) FILTER (WHERE n > 3) FROM t GROUP BY flag",
        "SELECT sum(price / discount) FROM t WHERE discount > 0",
        "SELECT avg(n) FROM t",
        "SELECT flag, count(*) FROM (SELECT flag FROM t LIMIT 100) GROUP BY flag",
    ] {
        assert!(!explained(&context, query).await.contains("IshigakiTally"), "{query}");
    }
}

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use ishigaki_base::ByteSize;
use ishigaki_device::{Directory, MemoryDirectory};
use ishigaki_page::{Reader, Settings, Writer};
use ishigaki_testkit::seeded_runs;

use super::expression::Expression;
use super::*;
use crate::PageCache;

fn decimal(value: i128) -> Expression {
    Expression::Constant(ScalarValue::Decimal128(Some(value), 15, 2))
}

fn binary(left: Expression, operator: Operator, right: Expression) -> Expression {
    Expression::Binary {
        operator,
        checked: crate::exact::arithmetic(operator).is_some(),
        left: Box::new(left),
        right: Box::new(right),
    }
}

fn runs(runs: Vec<Run>) -> Runs {
    Runs::checked(runs).expect("they ascend")
}

/// One with something of everything.
fn fragment() -> Fragment {
    let fields = vec![
        Field::new("price", DataType::Decimal128(15, 2), false),
        Field::new("word", DataType::Utf8View, true),
        Field::new("day", DataType::Date32, true),
    ];
    let text = |text: &str| Expression::Constant(ScalarValue::Utf8View(Some(text.to_owned())));
    let (price, word) = (|| Expression::Column(0), || Box::new(Expression::Column(1)));
    let like =
        Expression::Like { negated: true, case_insensitive: false, value: word(), pattern: Box::new(text("a%")) };
    let number = |number| Box::new(Expression::Constant(ScalarValue::Int64(Some(number))));
    let part = |length| Expression::Substring { value: word(), from: number(2), length };
    let listed =
        Expression::In { negated: false, value: Box::new(part(Some(number(3)))), list: vec![text("x"), part(None)] };
    let cast = Expression::Cast { value: Box::new(price()), to: DataType::Float64 };
    let choice = Expression::Case {
        value: None,
        branches: vec![(Expression::IsNull(word()), Expression::Negative(Box::new(cast.clone())))],
        otherwise: Some(Box::new(cast)),
    };
    let filter =
        binary(binary(price(), Operator::Lt, decimal(2_400)), Operator::And, Expression::Not(Box::new(listed)));
    Fragment {
        directory: "a/b".to_owned(),
        file: "t".to_owned(),
        columns: Arc::new(Schema::new(fields)),
        runs: runs(vec![Run { pages: 3..9, segments: (7, u64::MAX) }, Run { pages: 12..13, segments: (8, 8) }]),
        filter: Some(binary(filter, Operator::Or, like)),
        projection: vec![2, 0],
        limit: Some(17),
        steps: vec![Step::Project(vec![(choice, "value".to_owned()), (Expression::Column(1), "price".to_owned())])],
    }
}

#[test]
fn what_travels_arrives_as_it_was() {
    let sent = fragment();
    let bytes = sent.encode().expect("travels");
    let arrived = Fragment::decode(&bytes).expect("arrives");
    assert_eq!((&arrived.directory, &arrived.file), (&sent.directory, &sent.file));
    assert_eq!((&arrived.columns, &arrived.runs), (&sent.columns, &sent.runs));
    assert_eq!((&arrived.filter, &arrived.steps), (&sent.filter, &sent.steps));
    assert_eq!((arrived.projection, arrived.limit), (sent.projection, sent.limit));
    let filter = arrived.filter.expect("a filter").over(&sent.columns).expect("types fit");
    assert!(Expression::of(&filter).expect("known") == fragment().filter.expect("a filter"), "{filter}");
}

#[test]
fn what_is_cut_off_or_changed_is_refused_or_decoded_and_never_more() {
    let bytes = fragment().encode().expect("travels");
    for length in 0..bytes.len() {
        assert!(Fragment::decode(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(Fragment::decode(&longer).expect_err("too long").0.contains("behind its end"));
    seeded_runs("what_is_cut_off_or_changed_is_refused_or_decoded_and_never_more", 2000, |seed| {
        let mut random = seed.generator();
        let mut changed = bytes.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..changed.len());
            changed[at] = random.u8(..);
        }
        // An answer of either kind, and no panic.
        if let Ok(fragment) = Fragment::decode(&changed)
            && let Some(filter) = fragment.filter
        {
            drop(filter.over(&fragment.columns));
        }
    });
}

#[test]
fn a_fragment_that_names_a_page_twice_is_refused_when_it_arrives() {
    let bytes = fragment().encode().expect("travels");
    // The second run begins at page 12, written once: it becomes a page of the first run.
    let twelve: Vec<usize> = (0..bytes.len() - 8).filter(|&at| bytes[at..at + 8] == 12_u64.to_le_bytes()).collect();
    let [at] = twelve[..] else { panic!("page 12 is at {twelve:?}") };
    let mut changed = bytes;
    changed[at] = 8;
    assert!(Fragment::decode(&changed).expect_err("overlaps").0.contains("out of order"));
}

#[test]
fn another_engine_and_another_format_are_refused_with_the_remedy() {
    let bytes = fragment().encode().expect("travels");
    let mut other = bytes.clone();
    other[7] = b'3';
    assert!(Fragment::decode(&other).expect_err("another format").0.contains("version"));
    let mut other = bytes;
    // The first digit of the engine's version, behind the magic and the text's length.
    other[12] ^= 1;
    assert!(Fragment::decode(&other).expect_err("another engine").0.contains("placement = 'fetch'"));
}

#[test]
fn an_expression_that_is_too_deep_or_of_no_type_is_refused() {
    let nested = |depth: usize| (0..depth).fold(Expression::Column(0), |inner, _| Expression::Not(Box::new(inner)));
    let with = |filter: Expression| Fragment { filter: Some(filter), ..fragment() };
    assert!(Fragment::decode(&with(nested(100)).encode().expect("travels")).is_ok());
    let deep = with(nested(300)).encode().expect("travels");
    assert!(Fragment::decode(&deep).expect_err("too deep").0.contains("too deeply"));
    let columns = fragment().columns;
    for odd in [
        Expression::Column(3),
        binary(Expression::Column(0), Operator::Plus, Expression::Column(1)),
        binary(Expression::Column(1), Operator::And, Expression::Column(2)),
        Expression::Substring {
            value: Box::new(Expression::Column(1)),
            from: Box::new(Expression::Column(1)),
            length: None,
        },
    ] {
        assert!(odd.over(&columns).is_err(), "{odd:?}");
    }
}

#[test]
fn a_short_fragment_does_not_become_a_long_one() {
    let long = Expression::Constant(ScalarValue::Utf8View(Some("x".repeat(64 << 10))));
    let filter = |times: usize| {
        let list = vec![long.clone(); times];
        let listed = Expression::In { negated: false, value: Box::new(Expression::Column(1)), list };
        Fragment { filter: Some(listed), ..fragment() }.encode().expect("travels")
    };
    assert!(Fragment::decode(&filter(200)).is_ok());
    let short = filter(1000);
    assert!(short.len() < 100_000);
    assert!(Fragment::decode(&short).expect_err("too long").0.contains("used too often"));
}

#[test]
fn a_fragment_that_does_not_fit_to_its_file_is_refused() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let numbers: Arc<dyn datafusion::arrow::array::Array> = Arc::new(Int64Array::from_iter_values(0..100_000));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).expect("a batch");
    let settings = Settings { page_size: ByteSize::kib(4), ..Settings::default() };
    let made = Writer::create(Arc::clone(&directory), "t", batch.schema(), settings);
    made.expect("made").append_all([&batch]).expect("appended");
    let reader = Arc::new(Reader::open(directory, "t").expect("opens"));
    let segment = reader.address(0).expect("a page").segment;
    let sound = Fragment {
        directory: String::new(),
        file: "t".to_owned(),
        columns: batch.schema(),
        runs: runs(vec![Run { pages: 0..2, segments: (segment, segment) }]),
        filter: None,
        projection: vec![0],
        limit: None,
        steps: Vec::new(),
    };
    let pages = reader.pages();
    let site = Site { reader, cache: Arc::new(PageCache::new(ByteSize(0))), threads: 2 };
    sound.plan(&site).expect("it fits");
    let refused = |fragment: Fragment, words: &str| {
        let error = fragment.plan(&site).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    };
    let run = |pages, segments| Fragment { runs: runs(vec![Run { pages, segments }]), ..sound.clone() };
    refused(run(0..pages + 1, (segment, segment)), "there are no pages");
    refused(run(3..3, (segment, segment)), "there are no pages");
    refused(run(u64::MAX - 1..u64::MAX, (segment, segment)), "there are no pages");
    refused(run(0..2, (segment, segment ^ 1)), "another file of this name");
    refused(Fragment { projection: vec![1], ..sound.clone() }, "no column 1");
    refused(Fragment { filter: Some(Expression::Column(0)), ..sound.clone() }, "condition");
    let step = Step::Project(vec![(Expression::Column(7), "x".to_owned())]);
    refused(Fragment { steps: vec![step], ..sound.clone() }, "no column 7");
    let columns = Schema::new(vec![Field::new("n", DataType::Utf8View, true)]);
    refused(Fragment { columns: Arc::new(columns), ..sound.clone() }, "it has the columns");
}

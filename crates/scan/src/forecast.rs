//! What a scan of one part of a table is about to take: figures for the cost model, from zone maps and guesses.
//!
//! How much work a row is was measured once on an idle core of a present-day server; what is wrong about it is wrong for
//! both placements alike, unless one side is busy or slow. How many rows pass is guessed as the planner does, how many
//! groups there are from the number of columns that they are made of.

use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use ishigaki_base::ByteSize;

use crate::cost::{Scan, Side, Surroundings};
use crate::fragment::step::{Aggregate, Step};
use crate::node_side::NodeSide;
use crate::table::PageScan;

/// To decode a value, in nanoseconds.
const DECODE: f64 = 1.0;
/// To judge one on its page.
const JUDGE: f64 = 1.2;
/// To compute one.
const COMPUTE: f64 = 1.0;
/// To aggregate one on its page, and by rows.
const TALLY: f64 = 0.6;
const AGGREGATE: f64 = 8.0;
/// To take a byte of results in, in nanoseconds.
const TAKE_IN: f64 = 0.5;
/// How many groups a column makes; several make more, up to the number of rows.
const GROUPS: f64 = 100.0;
/// How many pages are looked for in the cache.
const SAMPLE: u64 = 64;

/// Figures for the cost model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    pub(crate) scan: Scan,
    pub(crate) around: Surroundings,
}

impl Forecast {
    /// Of the pages of one part, and of the steps behind the scan.
    pub(crate) fn of(scan: &PageScan, part: usize, steps: &[Step], around: Surroundings) -> Self {
        let threads = around.client.cores;
        let reader = &scan.table.parts()[part].reader;
        let units = scan.units.runs.iter().filter(|unit| unit.part == part);
        let pages: u64 = units.clone().map(|unit| unit.pages.end - unit.pages.start).sum();
        let rows = (scan.units.rows * pages).checked_div(scan.units.pages).unwrap_or(0) as f64;
        let passing = match scan.rows() {
            Precision::Exact(all) | Precision::Inexact(all) if scan.units.pages > 0 => {
                all as f64 * pages as f64 / scan.units.pages as f64
            }
            _ => rows,
        };
        let judged = scan.filter.as_ref().map_or(0, |filter| filter.columns().len()) as f64;
        let shown = scan.projection.len() as f64;
        let mut work = rows * judged * JUDGE + passing * shown * DECODE;
        let (mut rows_out, mut width) = (passing, row_width(&scan.schema));
        for step in steps {
            match step {
                Step::Project(columns) => {
                    work += rows_out * columns.len() as f64 * COMPUTE;
                    width = 12.0 * columns.len() as f64;
                }
                Step::Aggregate { groups, aggregates } => {
                    let columns = (groups.len() + aggregates.len()) as f64;
                    let on_pages = aggregates.iter().all(Aggregate::is_of_numbers);
                    work += rows_out * columns * if on_pages { TALLY } else { AGGREGATE };
                    let most = GROUPS.powf(groups.len().min(4) as f64) * threads;
                    rows_out = rows_out.min(most);
                    width = 20.0 * columns;
                }
                Step::Top { rows, .. } => {
                    work += rows_out * COMPUTE;
                    rows_out = rows_out.min(*rows as f64 * threads);
                }
            }
        }
        let results = rows_out * width;
        let sample = pages.div_ceil(SAMPLE).max(1);
        let looked = units.flat_map(|unit| unit.pages.clone()).step_by(sample as usize);
        let (mut seen, mut found) = (0_u32, 0_u32);
        for page in looked {
            seen += 1;
            found += u32::from(scan.table.keeps(part, page));
        }
        let nanos = |nanos: f64| Duration::from_nanos(nanos as u64);
        Self {
            scan: Scan {
                pages,
                page_size: reader.page_size(),
                cached: f64::from(found) / f64::from(seen.max(1)),
                work: nanos(work),
                results: ByteSize(results as u64),
                results_work: nanos(results * TAKE_IN),
            },
            around,
        }
    }
}

/// What is around a scan of pages at a node, as it is known now.
pub(crate) fn surroundings(node: &NodeSide, threads: usize) -> Surroundings {
    let (link, at_node) = node.known();
    Surroundings { link, node: at_node, client: this_machine(threads) }
}

/// This machine: others are what its load says beyond nothing at all.
fn this_machine(threads: usize) -> Side {
    let others = f64::from(u32::try_from(rustix::system::sysinfo().loads[0] >> 8).unwrap_or(u32::MAX)) / 256.0;
    Side { cores: threads as f64, others, speed: 1.0, storage: f64::INFINITY }
}

/// What a row of these columns takes in Arrow's stream, about.
fn row_width(schema: &SchemaRef) -> f64 {
    let width = |data_type: &DataType| match data_type.primitive_width() {
        Some(bytes) => bytes as f64,
        None if *data_type == DataType::Boolean => 0.125,
        None => 32.0,
    };
    schema.fields().iter().map(|field| width(field.data_type())).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, RecordBatch};
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
    use ishigaki_device::{Directory, MemoryDirectory};
    use ishigaki_page::{Reader, Settings, Writer};

    use super::*;
    use crate::cost::{Link, choose};
    use crate::table::{Filter, PageCache, PagedTable, Part, Units};
    use crate::{Estimate, Placement};

    /// A million numbers, of which one column is shown; with a condition or without.
    fn scan(filtered: bool) -> PageScan {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let numbers = Int64Array::from_iter_values((0..1_000_000).map(|n: i64| n.wrapping_mul(0x1E37_79B9_7F4A_7C15)));
        let batch = RecordBatch::try_from_iter([("n", Arc::new(numbers) as _)]).expect("a batch");
        let made = Writer::create(Arc::clone(&directory), "t", batch.schema(), Settings::default());
        made.expect("made").append_all([&batch]).expect("appended");
        let part = Part::here(Arc::new(Reader::open(directory, "t").expect("opens")));
        let cache = Arc::new(PageCache::new(ByteSize::mib(64)));
        let table = PagedTable::new("t", &batch.schema(), vec![part], cache).expect("fits");
        let literal = Arc::new(Literal::new(ScalarValue::Int64(Some(5))));
        let condition = BinaryExpr::new(Arc::new(Column::new("n", 0)), Operator::Eq, literal);
        let filter = filtered.then(|| Arc::new(Filter::new(Arc::new(condition), table.columns()).expect("a filter")));
        let units = Units::plan(&table, None, 2).expect("units");
        PageScan::new(Arc::new(table), vec![0], filter, None, units).expect("a scan")
    }

    fn around(bandwidth: f64, busy: f64) -> Surroundings {
        let side = |others| Side { cores: 2.0, others, speed: 1.0, storage: f64::INFINITY };
        let link = Link { bandwidth, latency: Duration::from_micros(100), in_flight: 8 };
        Surroundings { link, node: side(busy), client: side(0.0) }
    }

    fn chosen(scan: &PageScan, steps: &[Step], around: Surroundings) -> Estimate {
        let forecast = Forecast::of(scan, 0, steps, around);
        choose(&forecast.scan, &forecast.around)
    }

    #[test]
    fn few_rows_over_a_slow_link_are_chosen_where_they_lie() {
        let best = chosen(&scan(true), &[], around(12.5e6, 0.0));
        assert_eq!(best.placement, Placement::Push, "{best}");
        assert!(best.network.as_u64() < 1 << 20, "{best}");
    }

    #[test]
    fn all_rows_over_a_fast_link_are_worked_on_here_when_the_node_is_busy() {
        let best = chosen(&scan(false), &[], around(10e9, 8.0));
        assert_eq!(best.placement, Placement::Fetch, "{best}");
    }

    #[test]
    fn an_aggregate_makes_so_little_of_all_rows_that_it_is_pushed() {
        let scan = scan(false);
        let aggregate = Step::Aggregate { groups: Vec::new(), aggregates: Vec::new() };
        let [rows, sums] =
            [&[][..], &[aggregate][..]].map(|steps| Forecast::of(&scan, 0, steps, around(125e6, 0.0)).scan);
        assert_eq!(rows.results.as_u64(), 8_000_000);
        assert!(sums.results.as_u64() < 1000, "{sums:?}");
        let aggregate = Step::Aggregate { groups: Vec::new(), aggregates: Vec::new() };
        assert_eq!(chosen(&scan, &[aggregate], around(125e6, 0.0)).placement, Placement::Push);
    }

    #[test]
    fn what_is_in_memory_need_not_travel() {
        let scan = scan(false);
        let reader = &scan.table.parts()[0].reader;
        let before = Forecast::of(&scan, 0, &[], around(125e6, 0.0)).scan.cached;
        for page in reader.page_run(0..reader.pages()).expect("pages") {
            scan.table.keep(0, page);
        }
        let after = Forecast::of(&scan, 0, &[], around(125e6, 0.0)).scan.cached;
        assert!(before == 0.0 && (after - 1.0).abs() < 1e-9, "{before}, then {after}");
        assert_eq!(chosen(&scan, &[], around(125e6, 0.0)).placement, Placement::Fetch);
    }
}

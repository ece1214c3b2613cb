//! The eight tables, and where their rows come from.

use ishigaki_sql::arrow::record_batch::RecordBatch;
use tpchgen::generators as rows;

/// A table of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// About 6,000,000 rows at scale 1.
    LineItem,
    /// 1,500,000 rows at scale 1.
    Orders,
    /// 800,000 rows at scale 1.
    PartSupp,
    /// 200,000 rows at scale 1.
    Part,
    /// 150,000 rows at scale 1.
    Customer,
    /// 10,000 rows at scale 1.
    Supplier,
    /// 25 rows.
    Nation,
    /// 5 rows.
    Region,
}

/// Rows as they are made.
pub(crate) type Batches = Box<dyn Iterator<Item = RecordBatch> + Send>;

impl Table {
    /// All of them, the largest first.
    pub const ALL: [Self; 8] = [
        Self::LineItem,
        Self::Orders,
        Self::PartSupp,
        Self::Part,
        Self::Customer,
        Self::Supplier,
        Self::Nation,
        Self::Region,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::LineItem => "lineitem",
            Self::Orders => "orders",
            Self::PartSupp => "partsupp",
            Self::Part => "part",
            Self::Customer => "customer",
            Self::Supplier => "supplier",
            Self::Nation => "nation",
            Self::Region => "region",
        }
    }

    /// Its columns, as they stand in CREATE TABLE.
    pub fn columns(self) -> &'static str {
        match self {
            Self::LineItem => {
                "l_orderkey BIGINT NOT NULL, l_partkey BIGINT NOT NULL, l_suppkey BIGINT NOT NULL, \
                 l_linenumber INTEGER NOT NULL, l_quantity DECIMAL(15, 2) NOT NULL, \
                 l_extendedprice DECIMAL(15, 2) NOT NULL, l_discount DECIMAL(15, 2) NOT NULL, \
                 l_tax DECIMAL(15, 2) NOT NULL, l_returnflag TEXT NOT NULL, l_linestatus TEXT NOT NULL, \
                 l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL, \
                 l_shipinstruct TEXT NOT NULL, l_shipmode TEXT NOT NULL, l_comment TEXT NOT NULL"
            }
            Self::Orders => {
                "o_orderkey BIGINT NOT NULL, o_custkey BIGINT NOT NULL, o_orderstatus TEXT NOT NULL, \
                 o_totalprice DECIMAL(15, 2) NOT NULL, o_orderdate DATE NOT NULL, o_orderpriority TEXT NOT NULL, \
                 o_clerk TEXT NOT NULL, o_shippriority INTEGER NOT NULL, o_comment TEXT NOT NULL"
            }
            Self::PartSupp => {
                "ps_partkey BIGINT NOT NULL, ps_suppkey BIGINT NOT NULL, ps_availqty INTEGER NOT NULL, \
                 ps_supplycost DECIMAL(15, 2) NOT NULL, ps_comment TEXT NOT NULL"
            }
            Self::Part => {
                "p_partkey BIGINT NOT NULL, p_name TEXT NOT NULL, p_mfgr TEXT NOT NULL, p_brand TEXT NOT NULL, \
                 p_type TEXT NOT NULL, p_size INTEGER NOT NULL, p_container TEXT NOT NULL, \
                 p_retailprice DECIMAL(15, 2) NOT NULL, p_comment TEXT NOT NULL"
            }
            Self::Customer => {
                "c_custkey BIGINT NOT NULL, c_name TEXT NOT NULL, c_address TEXT NOT NULL, \
                 c_nationkey BIGINT NOT NULL, c_phone TEXT NOT NULL, c_acctbal DECIMAL(15, 2) NOT NULL, \
                 c_mktsegment TEXT NOT NULL, c_comment TEXT NOT NULL"
            }
            Self::Supplier => {
                "s_suppkey BIGINT NOT NULL, s_name TEXT NOT NULL, s_address TEXT NOT NULL, \
                 s_nationkey BIGINT NOT NULL, s_phone TEXT NOT NULL, s_acctbal DECIMAL(15, 2) NOT NULL, \
                 s_comment TEXT NOT NULL"
            }
            Self::Nation => {
                "n_nationkey BIGINT NOT NULL, n_name TEXT NOT NULL, n_regionkey BIGINT NOT NULL, n_comment TEXT NOT NULL"
            }
            Self::Region => "r_regionkey BIGINT NOT NULL, r_name TEXT NOT NULL, r_comment TEXT NOT NULL",
        }
    }

    /// How many rows it has at a scale; of lineitem about as many.
    pub fn rows(self, scale: f64) -> u64 {
        let of_one = match self {
            Self::LineItem => 6_000_000.0,
            Self::Orders => 1_500_000.0,
            Self::PartSupp => 800_000.0,
            Self::Part => 200_000.0,
            Self::Customer => 150_000.0,
            Self::Supplier => 10_000.0,
            Self::Nation => return 25,
            Self::Region => return 5,
        };
        (of_one * scale) as u64
    }

    /// Its rows, in the order of its key.
    pub(crate) fn generate(self, scale: f64) -> Batches {
        match self {
            Self::LineItem => Box::new(tpchgen_arrow::LineItemArrow::new(rows::LineItemGenerator::new(scale, 1, 1))),
            Self::Orders => Box::new(tpchgen_arrow::OrderArrow::new(rows::OrderGenerator::new(scale, 1, 1))),
            Self::PartSupp => Box::new(tpchgen_arrow::PartSuppArrow::new(rows::PartSuppGenerator::new(scale, 1, 1))),
            Self::Part => Box::new(tpchgen_arrow::PartArrow::new(rows::PartGenerator::new(scale, 1, 1))),
            Self::Customer => Box::new(tpchgen_arrow::CustomerArrow::new(rows::CustomerGenerator::new(scale, 1, 1))),
            Self::Supplier => Box::new(tpchgen_arrow::SupplierArrow::new(rows::SupplierGenerator::new(scale, 1, 1))),
            Self::Nation => Box::new(tpchgen_arrow::NationArrow::new(rows::NationGenerator::new(scale, 1, 1))),
            Self::Region => Box::new(tpchgen_arrow::RegionArrow::new(rows::RegionGenerator::new(scale, 1, 1))),
        }
    }
}

//! Queries 2 and 20 of TPC-H with the parameters of its validation, except that a part's colour is one that small tables have.

use ishigaki_servers::Kind;

/// What figures call them.
pub(super) const NAMES: [&str; 2] = ["q2", "q20"];

/// Each on one line.
pub(super) fn texts(kind: Kind) -> [String; 2] {
    let year_later = match kind {
        Kind::MariaDb => "date '1994-01-01' + interval 1 year",
        Kind::PostgreSql => "date '1994-01-01' + interval '1 year'",
    };
    let cheapest = "select min(ps_supplycost) from partsupp, supplier, nation, region where p_partkey = ps_partkey and \
                    s_suppkey = ps_suppkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'EUROPE'";
    let minimum_cost = format!(
        "select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment from part, supplier, partsupp, \
         nation, region where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size = 15 and p_type like '%BRASS' and \
         s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'EUROPE' and ps_supplycost = ({cheapest}) \
         order by s_acctbal desc, n_name, s_name, p_partkey limit 100;\n"
    );
    let shipped = format!(
        "select 0.5 * sum(l_quantity) from lineitem where l_partkey = ps_partkey and l_suppkey = ps_suppkey and l_shipdate >= \
         date '1994-01-01' and l_shipdate < {year_later}"
    );
    let promotion = format!(
        "select s_name, s_address from supplier, nation where s_suppkey in (select ps_suppkey from partsupp where ps_partkey in \
         (select p_partkey from part where p_name like 'forest%') and ps_availqty > ({shipped})) and s_nationkey = n_nationkey \
         and n_name = 'CANADA' order by s_name;\n"
    );
    [minimum_cost, promotion]
}

//! TPC-H's tables as statements, of the generator's rows, and a table for those who write.

use std::fmt::{Display, Write as _};

use ishigaki_servers::Kind;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

/// Rows of one statement.
const ROWS: usize = 500;

/// What the tables are, with the indexes that the two queries need.
const SCHEMA: &str = "\
create table region (r_regionkey int primary key, r_name varchar(25), r_comment varchar(152));
create table nation (n_nationkey int primary key, n_name varchar(25), n_regionkey int, n_comment varchar(152));
create table supplier (s_suppkey int primary key, s_name varchar(25), s_address varchar(40), s_nationkey int, s_phone varchar(15), s_acctbal decimal(15,2), s_comment varchar(101));
create table part (p_partkey int primary key, p_name varchar(55), p_mfgr varchar(25), p_brand varchar(10), p_type varchar(25), p_size int, p_container varchar(10), p_retailprice decimal(15,2), p_comment varchar(23));
create table partsupp (ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost decimal(15,2), ps_comment varchar(199), primary key (ps_partkey, ps_suppkey));
create index partsupp_by_supplier on partsupp (ps_suppkey);
create table customer (c_custkey int primary key, c_name varchar(25), c_address varchar(40), c_nationkey int, c_phone varchar(15), c_acctbal decimal(15,2), c_mktsegment varchar(10), c_comment varchar(117));
create table orders (o_orderkey bigint primary key, o_custkey int, o_orderstatus varchar(1), o_totalprice decimal(15,2), o_orderdate date, o_orderpriority varchar(15), o_clerk varchar(15), o_shippriority int, o_comment varchar(79));
create table lineitem (l_orderkey bigint, l_partkey int, l_suppkey int, l_linenumber int, l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag varchar(1), l_linestatus varchar(1), l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct varchar(25), l_shipmode varchar(10), l_comment varchar(44), primary key (l_orderkey, l_linenumber));
create index lineitem_by_part on lineitem (l_partkey, l_suppkey);
create table written (number int not null primary key, filler int not null);
";

/// What makes all tables, fills them, and has the server look at what is in them: without that, `MariaDB` plans query 20 so that it
/// takes minutes.
pub(super) fn statements(scale: f64, kind: Kind) -> String {
    let mut text = SCHEMA.to_owned() + "begin;\n";
    insert(&mut text, "region", RegionGenerator::default().iter());
    insert(&mut text, "nation", NationGenerator::default().iter());
    insert(&mut text, "supplier", SupplierGenerator::new(scale, 1, 1).iter());
    insert(&mut text, "part", PartGenerator::new(scale, 1, 1).iter());
    insert(&mut text, "partsupp", PartSuppGenerator::new(scale, 1, 1).iter());
    insert(&mut text, "customer", CustomerGenerator::new(scale, 1, 1).iter());
    insert(&mut text, "orders", OrderGenerator::new(scale, 1, 1).iter());
    insert(&mut text, "lineitem", LineItemGenerator::new(scale, 1, 1).iter());
    text.push_str("commit;\n");
    text.push_str(match kind {
        Kind::MariaDb => "analyze table region, nation, supplier, part, partsupp, customer, orders, lineitem;\n",
        Kind::PostgreSql => "analyze;\n",
    });
    text
}

/// Inserts rows that are written as the generator writes them: fields, each with a line behind it.
fn insert(text: &mut String, table: &str, rows: impl Iterator<Item: Display>) {
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        let values: Vec<String> = rows.by_ref().take(ROWS).map(|row| values(&row.to_string())).collect();
        let _ = writeln!(text, "insert into {table} values {};", values.join(", "));
    }
}

fn values(row: &str) -> String {
    let fields: Vec<String> = row.trim_end_matches('|').split('|').map(|field| field.replace('\'', "''")).collect();
    format!("('{}')", fields.join("', '"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_generator_are_values() {
        assert_eq!(values("1|it's|2.50|"), "('1', 'it''s', '2.50')");
        let mut text = String::new();
        insert(&mut text, "region", RegionGenerator::default().iter());
        assert!(text.starts_with("insert into region values ('0', 'AFRICA', '") && text.ends_with("');\n"), "{text}");
        assert_eq!(text.matches("('").count(), 5, "{text}");
    }
}

use std::collections::HashSet;

use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_txn::{Database, Settings};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::row::sample::{check, table_and_rows};
use crate::table::{Location, Paged};
use crate::types::SqlType;
use crate::view::{Base, ViewDefinition};

fn open(directory: &TempDir) -> (Database, Catalog) {
    let database = Database::open(directory.path(), Settings::default()).expect("a directory of our own");
    let catalog = Catalog::open(&database.session()).expect("a sound catalog");
    (database, catalog)
}

fn column(name: &str, sql_type: SqlType) -> Column {
    Column { name: name.to_owned(), sql_type, nullable: true, default: None }
}

fn create(catalog: &Catalog, txn: &mut Transaction, name: &str) -> Result<Arc<TableDefinition>> {
    let mut amount = column("amount", SqlType::Decimal { precision: 12, scale: 2 });
    amount.default = Some("0.00".to_owned());
    let name_column = column("name", SqlType::Text { max_length: Some(20) });
    catalog.create(txn, name, vec![column("id", SqlType::BigInt), name_column, amount], vec![0])
}

#[test]
fn a_table_is_found_as_it_was_made() {
    let directory = TempDir::new().unwrap();
    let (database, catalog) = open(&directory);
    let mut txn = database.session().begin().unwrap();
    let made = create(&catalog, &mut txn, "orders").unwrap();
    assert!(!made.columns()[0].nullable, "a key column became NOT NULL");
    txn.commit().unwrap().wait().unwrap();

    let mut txn = database.session().begin().unwrap();
    assert_eq!(catalog.require(&mut txn, "orders").unwrap(), made);
    assert_eq!(catalog.get(&mut txn, "Orders").unwrap(), None);
    assert!(matches!(create(&catalog, &mut txn, "orders"), Err(Error::TableExists { .. })));
    let other = create(&catalog, &mut txn, "customers").unwrap();
    assert_ne!(other.id(), made.id());
    assert_eq!(catalog.list(&mut txn).unwrap(), [other, made.clone()]);
    assert_eq!(made.position("amount").unwrap(), 2);
    assert_eq!(made.position("nothing").unwrap_err().to_string(), "table orders has no column nothing");
}

#[test]
fn a_rolled_back_table_was_never_there() {
    let directory = TempDir::new().unwrap();
    let (database, catalog) = open(&directory);
    let mut txn = database.session().begin().unwrap();
    create(&catalog, &mut txn, "orders").unwrap();
    txn.rollback();
    let mut txn = database.session().begin().unwrap();
    assert!(catalog.list(&mut txn).unwrap().is_empty());
    create(&catalog, &mut txn, "orders").unwrap();
}

#[test]
fn a_dropped_table_takes_its_rows_with_it() {
    let directory = TempDir::new().unwrap();
    let (database, catalog) = open(&directory);
    let mut txn = database.session().begin().unwrap();
    let table = create(&catalog, &mut txn, "orders").unwrap();
    txn.put(table.id(), b"key", b"value").unwrap();
    catalog.drop(&mut txn, "orders").unwrap();
    assert!(matches!(catalog.drop(&mut txn, "orders"), Err(Error::NoSuchTable { .. })));
    let table = create(&catalog, &mut txn, "orders").unwrap();
    assert_eq!(txn.get(table.id(), b"key").unwrap(), None);
}

#[test]
fn a_definition_that_makes_no_sense_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let (database, catalog) = open(&directory);
    let mut txn = database.session().begin().unwrap();
    let twice = vec![column("a", SqlType::Integer), column("a", SqlType::Integer)];
    for (columns, key, complaint) in [
        (twice, vec![], "column a is defined twice"),
        (vec![], vec![], "a table has 1 to"),
        (vec![column("a", SqlType::Integer)], vec![0, 0], "column a is in the primary key twice"),
        (vec![column("a", SqlType::Integer)], vec![1], "which is not there"),
        (vec![column("", SqlType::Integer)], vec![], "a column's name has 1 to"),
        (vec![column("a", SqlType::Decimal { precision: 39, scale: 0 })], vec![], "column a cannot be"),
    ] {
        let error = catalog.create(&mut txn, "t", columns, key).expect_err("must be refused").to_string();
        assert!(error.contains(complaint), "{error}");
    }
    assert!(catalog.list(&mut txn).unwrap().is_empty());
    create(&catalog, &mut txn, "t").unwrap();
}

#[test]
fn row_ids_never_repeat_between_threads_nor_after_reopening() {
    let directory = TempDir::new().unwrap();
    let mut seen = HashSet::new();
    for _ in 0..3 {
        let (database, catalog) = open(&directory);
        let taken: Vec<_> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (1..50).map(|count| catalog.row_ids(count).unwrap()).collect::<Vec<_>>()))
                .collect();
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        for id in taken.into_iter().flatten() {
            assert!(seen.insert(id), "row id {id} was given out twice");
        }
        drop(catalog);
        drop(database);
    }
    assert_eq!(seen.len(), 3 * 4 * (1..50).sum::<usize>());
}

#[test]
fn row_ids_cross_the_end_of_a_block() {
    let directory = TempDir::new().unwrap();
    let (_database, catalog) = open(&directory);
    let first = catalog.row_ids(1 << 32).unwrap();
    let second = catalog.row_ids(1).unwrap();
    let third = catalog.row_ids(2).unwrap();
    let counts = [&first, &second, &third].map(|ids| ids.end - ids.start);
    assert_eq!(counts, [1 << 32, 1, 2]);
    assert!(second.start >= first.end && third.start >= second.end);
    assert_eq!(catalog.row_ids((1 << 32) + 1).unwrap_err().kind(), ErrorKind::Invalid);
}

/// The example of `docs/format/catalog.md`.
#[test]
fn a_definition_has_the_bytes_that_the_format_says() {
    let mut price = column("p", SqlType::Decimal { precision: 10, scale: 2 });
    price.default = Some("0".to_owned());
    let columns = vec![column("id", SqlType::Integer), price];
    let table = TableDefinition::new(TableId(9), "t".to_owned(), columns, vec![0]).unwrap();
    let expected: &[u8] = &[
        1, // version
        9, 0, 0, 0, // engine table
        2, 0, // columns
        2, 0, 2, 0, b'i', b'd', // INTEGER, NOT NULL, "id"
        6, 10, 2, 3, 1, 0, b'p', 1, 0, b'0', // DECIMAL(10, 2), nullable with default, "p", "0"
        1, 0, 0, 0, // key of one column: position 0
    ];
    assert_eq!(format::encode(&table).unwrap(), expected);
}

#[test]
fn definitions_read_back_and_damaged_ones_are_refused_or_read_but_never_panic() {
    let strategy = (table_and_rows(), any::<prop::sample::Index>(), any::<u8>());
    check("definitions_read_back", strategy, |((table, _), at, byte)| {
        let mut bytes = format::encode(&table).unwrap();
        prop_assert_eq!(&format::decode("t", &bytes).unwrap(), table.as_ref());
        bytes.push(0);
        prop_assert_eq!(format::decode("t", &bytes).unwrap_err().kind(), ErrorKind::Corrupt, "longer");
        bytes.pop();
        let at = at.index(bytes.len());
        prop_assert_eq!(format::decode("t", &bytes[..at]).unwrap_err().kind(), ErrorKind::Corrupt);
        bytes[at] = byte;
        if let Err(error) = format::decode("t", &bytes) {
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        Ok(())
    });
}

/// As `docs/format/catalog.md` says it, too.
#[test]
fn a_definition_of_a_paged_table_has_its_page_size_and_its_locations() {
    let locations = ["/a", "/b"].map(|place| Location { place: place.to_owned(), existing: place == "/b" });
    let paged = Paged { page_size: ByteSize::kib(128), locations: locations.to_vec() };
    let table = TableDefinition::paged("t".to_owned(), vec![column("id", SqlType::Integer)], paged.clone()).unwrap();
    assert_eq!((table.pages(), table.has_row_id()), (Some(&paged), false));
    let expected: &[u8] = &[
        2, // version
        0, 0, 2, 0, // page size
        2, 0, // locations
        0, 2, 0, b'/', b'a', // made for the table
        1, 2, 0, b'/', b'b', // was there before
        1, 0, // columns
        2, 1, 2, 0, b'i', b'd', // INTEGER, "id"
        0, 0, // no key
    ];
    assert_eq!(format::encode(&table).unwrap(), expected);
    assert_eq!(format::decode("t", expected).unwrap(), table);
    let refused = |at: usize, byte: u8| {
        let mut bytes = expected.to_vec();
        bytes[at] = byte;
        assert_eq!(format::decode("t", &bytes).unwrap_err().kind(), ErrorKind::Corrupt, "byte {at} = {byte}");
    };
    // Another version, an unknown flag, the same place twice, a key.
    for (at, byte) in [(0, 3), (7, 2), (16, b'a'), (expected.len() - 2, 1)] {
        refused(at, byte);
    }
    for length in 0..expected.len() {
        assert_eq!(format::decode("t", &expected[..length]).unwrap_err().kind(), ErrorKind::Corrupt, "{length} bytes");
    }
    // None at all.
    let none: &[u8] = &[2, 0, 0, 2, 0, 0, 0, 1, 0, 2, 1, 2, 0, b'i', b'd', 0, 0];
    assert_eq!(format::decode("t", none).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// The example of `docs/format/catalog.md`.
fn example_view() -> (ViewDefinition, &'static [u8]) {
    let base = Base { name: "t".to_owned(), columns: vec![("id".to_owned(), SqlType::Integer)] };
    let query = r#"SELECT "t"."id" FROM t"#.to_owned();
    let columns = vec![("n".to_owned(), SqlType::Integer)];
    let view = ViewDefinition::new("v", columns, vec![base], query).unwrap();
    let expected = b"\x01\
        \x01\x00\x02\x01\x00n\
        \x01\x00\x01\x00t\x01\x00\x02\x02\x00id\
        \x16\x00\x00\x00SELECT \"t\".\"id\" FROM t";
    (view, expected)
}

#[test]
fn a_view_has_the_bytes_that_the_format_says() {
    let (view, expected) = example_view();
    assert_eq!(views::encode(&view), expected);
    assert_eq!(views::decode(b"v", expected).unwrap(), view);
    for length in 0..expected.len() {
        assert_eq!(views::decode(b"v", &expected[..length]).unwrap_err().kind(), ErrorKind::Corrupt, "{length} bytes");
    }
    let longer = [expected, b"x"].concat();
    assert_eq!(views::decode(b"v", &longer).unwrap_err().kind(), ErrorKind::Corrupt);
    // Another version, no columns, an unknown type, no name of a base, a text that is not UTF-8; and a view of its own name.
    for (at, byte) in [(0, 2), (1, 0), (3, 99), (9, 0), (expected.len() - 1, 0xff)] {
        let mut bytes = expected.to_vec();
        bytes[at] = byte;
        assert_eq!(views::decode(b"v", &bytes).unwrap_err().kind(), ErrorKind::Corrupt, "byte {at} = {byte}");
    }
    for name in [&b"t"[..], b"", b"\xff"] {
        assert_eq!(views::decode(name, expected).unwrap_err().kind(), ErrorKind::Corrupt, "{name:?}");
    }
}

#[test]
fn damaged_views_are_refused_or_read_but_never_panic() {
    let strategy = (any::<prop::sample::Index>(), any::<u8>());
    check("damaged_views", strategy, |(at, byte)| {
        let mut bytes = example_view().1.to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Err(error) = views::decode(b"v", &bytes) {
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        Ok(())
    });
}

#[test]
fn a_name_is_a_tables_or_a_views() {
    let directory = TempDir::new().unwrap();
    let (database, catalog) = open(&directory);
    let mut txn = database.session().begin().unwrap();
    let (view, _) = example_view();
    catalog.put_view(&mut txn, &view).unwrap();
    let error = create(&catalog, &mut txn, "v").unwrap_err();
    assert!(matches!(error, Error::ViewExists { .. }), "{error}");
    assert_eq!(catalog.find(&mut txn, "v").unwrap(), Some(Relation::View(Arc::new(view))));
    assert!(catalog.list(&mut txn).unwrap().is_empty() && catalog.views(&mut txn).unwrap().len() == 1);
    catalog.drop_view(&mut txn, "v").unwrap();
    let table = create(&catalog, &mut txn, "v").unwrap();
    assert_eq!(catalog.find(&mut txn, "v").unwrap(), Some(Relation::Table(table)));
}

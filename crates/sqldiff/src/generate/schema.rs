//! Tables and the rows that they begin with.

use fastrand::Rng;

use super::Column;
use crate::kind::Type;
use crate::tree::{Part, Sort, Tree, Where, tree};

/// A table of the schema, or a view.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "any combination occurs")]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// It has `id`, and `id` is its key.
    pub(crate) keyed: bool,
    /// Its rows are in page files: they can only be appended to.
    pub(crate) paged: bool,
    /// Which columns take no NULL.
    pub(crate) required: Vec<bool>,
    /// It is a view, which shows rows and takes none.
    pub(crate) view: bool,
    /// It shows what each side computes to as many digits as it likes.
    pub(crate) inexact: bool,
}

/// A few tables, and the statements that make and fill them.
pub(crate) fn draw(random: &mut Rng) -> (Vec<Table>, Vec<Tree>) {
    let (mut tables, mut statements) = (Vec::new(), Vec::new());
    for number in 0..random.usize(2..=4) {
        let table = table(number, random);
        statements.push(create(&table, random));
        // Each append to a paged table makes pages of its own.
        let inserts = if table.paged { random.usize(..6) } else { random.usize(..3) };
        for _ in 0..inserts {
            let rows = random.usize(1..9);
            statements.push(insert(&table, rows, random));
        }
        tables.push(table);
    }
    (tables, statements)
}

fn table(number: usize, random: &mut Rng) -> Table {
    let paged = random.u8(..4) == 0;
    let mut columns = vec![Column {
        name: "id".to_owned(),
        family: Type::Integer.family(),
        kind: Some([Type::Integer, Type::BigInt][random.usize(..2)]),
        tame: true,
    }];
    // The same names in all tables, so that names alone are often ambiguous and NATURAL finds something to join by.
    for name in ["a", "b", "c", "d", "e", "f"].into_iter().take(random.usize(2..=6)) {
        // Of one name in all tables the types are akin, so that it can be joined by.
        let kind = match name {
            "a" => [Type::Integer, Type::SmallInt, Type::BigInt][random.usize(..3)],
            "b" => [Type::Text, Type::Varchar(3)][random.usize(..2)],
            _ => Type::any(random),
        };
        columns.push(Column {
            name: name.to_owned(),
            family: kind.family(),
            kind: Some(kind),
            tame: random.u8(..3) > 0,
        });
    }
    let required = columns.iter().map(|_| random.u8(..8) == 0).collect();
    Table {
        name: format!("t{number}"),
        columns,
        keyed: !paged && random.u8(..3) > 0,
        paged,
        required,
        view: false,
        inexact: false,
    }
}

fn create(table: &Table, random: &mut Rng) -> Tree {
    let column = |(column, required): (&Column, &bool)| {
        let kind = column.kind.map(|kind| kind.to_string()).unwrap_or_default();
        let key = if table.keyed && column.name == "id" { " PRIMARY KEY" } else { "" };
        let not_null = if *required && key.is_empty() { Part::Maybe(Tree::words(" NOT NULL")) } else { "".into() };
        tree!(Sort::Words; format!("{} {kind}{key}", column.name), not_null)
    };
    let items = table.columns.iter().zip(&table.required).map(column).collect();
    let columns = Part::List { separator: ", ", items, least: 1 };
    let mut made = tree!(Sort::Words; format!("CREATE TABLE {} (", table.name), columns, ")");
    if table.paged {
        let at = [Where::Here, Where::Here, Where::AtTheNode, Where::Both][random.usize(..4)];
        let ours = |text: &str| Part::Differs { ours: text.to_owned(), theirs: String::new() };
        let place = tree!(Sort::Words; ours(" WITH (storage = 'paged', page_size = '4KiB', location = '"), Part::Place(at), ours("')"));
        made.parts.push(Part::Maybe(place));
    }
    made
}

/// An INSERT of several rows.
pub(super) fn insert(table: &Table, rows: usize, random: &mut Rng) -> Tree {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let head = format!("INSERT INTO {} ({}) VALUES ", table.name, names.join(", "));
    let items = (0..rows).map(|_| row(table, random)).collect();
    tree!(Sort::Words; head, Part::List { separator: ", ", items, least: 1 })
}

/// The values of a row, in parentheses.
fn row(table: &Table, random: &mut Rng) -> Tree {
    let items = table.columns.iter().zip(&table.required).map(|(column, &required)| {
        let kind = column.kind.unwrap_or(Type::Text);
        if column.name == "id" {
            // Of few, so that some are taken, or of many.
            let key = if random.u8(..4) == 0 { random.u32(..20) } else { random.u32(..1_000_000) };
            return Tree::value(column.family, key.to_string());
        }
        if random.u8(..5) == 0 && (!required || random.u8(..20) == 0) {
            return Tree::words("NULL");
        }
        let tame = column.tame || random.u8(..2) == 0;
        Tree::value(column.family, kind.literal(tame, random))
    });
    let items = Part::List { separator: ", ", items: items.collect(), least: table.columns.len() };
    tree!(Sort::Words; "(", items, ")")
}

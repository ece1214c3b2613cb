//! The bytes of a table's definition, as `docs/format/catalog.md` describes them.

use ishigaki_base::ByteSize;
use ishigaki_txn::TableId;

use crate::table::{Column, Location, Paged, TableDefinition};
use crate::types::SqlType;
use crate::{Error, Result};

/// The first byte of the definition of a table whose rows are in a table of the engine.
const ROWS: u8 = 1;
/// The same where they are in page files.
const PAGED: u8 = 2;

/// Bits of a column's flags.
const NULLABLE: u8 = 1;
const HAS_DEFAULT: u8 = 2;

/// A bit of a location's flags.
const EXISTING: u8 = 1;

/// What is wrong with stored bytes.
pub(super) type Flaw = &'static str;

/// The bytes of a definition; the name is not among them, it is the key.
pub(super) fn encode(table: &TableDefinition) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    match table.pages() {
        None => {
            out.push(ROWS);
            out.extend_from_slice(&table.id().0.to_le_bytes());
        }
        Some(paged) => {
            out.push(PAGED);
            put_paged(paged, &mut out);
        }
    }
    out.extend_from_slice(&(table.columns().len() as u16).to_le_bytes());
    for column in table.columns() {
        put_type(column.sql_type, &mut out);
        let default = if column.default.is_some() { HAS_DEFAULT } else { 0 };
        out.push(if column.nullable { NULLABLE } else { 0 } | default);
        put_text(&column.name, &mut out);
        if let Some(default) = &column.default {
            if default.len() > usize::from(u16::MAX) {
                return Err(Error::Definition {
                    table: table.name().to_owned(),
                    reason: format!("the default of column {} is longer than {} bytes", column.name, u16::MAX),
                });
            }
            put_text(default, &mut out);
        }
    }
    out.extend_from_slice(&(table.primary_key().len() as u16).to_le_bytes());
    for &position in table.primary_key() {
        out.extend_from_slice(&(position as u16).to_le_bytes());
    }
    Ok(out)
}

/// Reads a definition back.
pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<TableDefinition> {
    let corrupt = |reason: &str| Error::corrupt(format!("the definition of table {name} in the catalog: {reason}"));
    let mut rest = bytes;
    let (place, columns, primary_key) = read(&mut rest).map_err(corrupt)?;
    if !rest.is_empty() {
        return Err(corrupt("it goes on behind its end"));
    }
    match place {
        Place::Table(id) => TableDefinition::new(id, name.to_owned(), columns, primary_key),
        Place::Pages(_) if !primary_key.is_empty() => return Err(corrupt("a paged table with a primary key")),
        Place::Pages(paged) => TableDefinition::paged(name.to_owned(), columns, paged),
    }
    .map_err(|error| corrupt(&error.to_string()))
}

/// Where the rows are.
enum Place {
    Table(TableId),
    Pages(Paged),
}

fn read(rest: &mut &[u8]) -> Result<(Place, Vec<Column>, Vec<usize>), Flaw> {
    let place = match take(rest)? {
        [ROWS] => Place::Table(TableId(u32::from_le_bytes(take(rest)?))),
        [PAGED] => Place::Pages(read_paged(rest)?),
        _ => return Err("a version that this program does not know"),
    };
    let columns = (0..u16::from_le_bytes(take(rest)?)).map(|_| read_column(rest)).collect::<Result<_, _>>()?;
    let primary_key = (0..u16::from_le_bytes(take(rest)?))
        .map(|_| take(rest).map(|position| usize::from(u16::from_le_bytes(position))))
        .collect::<Result<_, _>>()?;
    Ok((place, columns, primary_key))
}

fn put_paged(paged: &Paged, out: &mut Vec<u8>) {
    out.extend_from_slice(&(paged.page_size.as_u64() as u32).to_le_bytes());
    out.extend_from_slice(&(paged.locations.len() as u16).to_le_bytes());
    for location in &paged.locations {
        out.push(if location.existing { EXISTING } else { 0 });
        put_text(&location.place, out);
    }
}

fn read_paged(rest: &mut &[u8]) -> Result<Paged, Flaw> {
    let page_size = ByteSize(u64::from(u32::from_le_bytes(take(rest)?)));
    let locations = (0..u16::from_le_bytes(take(rest)?)).map(|_| {
        let [flags] = take(rest)?;
        if flags & !EXISTING != 0 {
            return Err("a location with a flag that this program does not know");
        }
        Ok(Location { place: read_text(rest)?, existing: flags & EXISTING != 0 })
    });
    Ok(Paged { page_size, locations: locations.collect::<Result<_, _>>()? })
}

fn read_column(rest: &mut &[u8]) -> Result<Column, Flaw> {
    let sql_type = read_type(rest)?;
    let [flags] = take(rest)?;
    if flags & !(NULLABLE | HAS_DEFAULT) != 0 {
        return Err("a column with a flag that this program does not know");
    }
    let name = read_text(rest)?;
    let default = if flags & HAS_DEFAULT == 0 { None } else { Some(read_text(rest)?) };
    Ok(Column { name, sql_type, nullable: flags & NULLABLE != 0, default })
}

pub(super) fn put_type(sql_type: SqlType, out: &mut Vec<u8>) {
    out.push(sql_type.tag());
    match sql_type {
        SqlType::Decimal { precision, scale } => out.extend_from_slice(&[precision, scale]),
        SqlType::Text { max_length } => out.extend_from_slice(&max_length.unwrap_or(0).to_le_bytes()),
        _ => {}
    }
}

pub(super) fn read_type(rest: &mut &[u8]) -> Result<SqlType, Flaw> {
    let [tag] = take(rest)?;
    Ok(match tag {
        1 => SqlType::SmallInt,
        2 => SqlType::Integer,
        3 => SqlType::BigInt,
        4 => SqlType::Real,
        5 => SqlType::Double,
        6 => {
            let [precision, scale] = take(rest)?;
            SqlType::Decimal { precision, scale }
        }
        7 => SqlType::Boolean,
        8 => {
            let limit = u32::from_le_bytes(take(rest)?);
            SqlType::Text { max_length: (limit > 0).then_some(limit) }
        }
        9 => SqlType::Bytea,
        10 => SqlType::Date,
        11 => SqlType::Timestamp,
        _ => return Err("a column of a type that this program does not know"),
    })
}

pub(super) fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn read_text(rest: &mut &[u8]) -> Result<String, Flaw> {
    let length = usize::from(u16::from_le_bytes(take(rest)?));
    let bytes = rest.split_off(..length).ok_or("it ends too early")?;
    String::from_utf8(bytes.to_vec()).map_err(|_| "a name, default or location that is not UTF-8")
}

pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Flaw> {
    let (bytes, after) = rest.split_first_chunk().ok_or("it ends too early")?;
    *rest = after;
    Ok(*bytes)
}

//! `.schema`: the definitions of tables and views, as statements that make them again, in an order in which they can be run.
//!
//! They are put together from what SHOW TABLES, SHOW VIEWS and SHOW COLUMNS answer, in the transaction that is open, so they show
//! what a statement of this session would see.

use std::fmt::Write;

use ishigaki_sql::arrow::array::{Array, AsArray, RecordBatch};
use ishigaki_sql::arrow::datatypes::UInt32Type;
use ishigaki_sql::{Session, Statement};

use crate::failure::Failure;

/// The definition of one table or view, or of all.
pub(super) async fn definitions(session: &Session, name: Option<&str>) -> Result<String, Failure> {
    let shown = query(session, "SHOW TABLES").await?;
    let names = texts(&shown, "table_name")?.into_iter().map(Option::unwrap_or_default);
    let all: Vec<(String, Option<String>)> = names.zip(texts(&shown, "storage")?).collect();
    let shown = query(session, "SHOW VIEWS").await?;
    let names = texts(&shown, "view_name")?.into_iter().map(Option::unwrap_or_default);
    let queries = texts(&shown, "query")?.into_iter().map(Option::unwrap_or_default);
    let views: Vec<(String, String)> =
        names.zip(queries).filter(|(view, _)| name.is_none_or(|name| view == name)).collect();
    let tables = match name {
        Some(_) if !views.is_empty() => Vec::new(),
        Some(table) => {
            let storage = all.into_iter().find(|(name, _)| name == table).and_then(|(_, storage)| storage);
            vec![(table.to_owned(), storage)]
        }
        None => all,
    };
    let mut text = String::new();
    for (table, storage) in tables {
        let columns = query(session, &format!("SHOW COLUMNS FROM {}", quoted(&table))).await?;
        text.push_str(&definition(&table, &columns, storage.as_deref())?);
    }
    for (view, query_text) in views {
        let columns = query(session, &format!("SHOW COLUMNS FROM {}", quoted(&view))).await?;
        let columns: Vec<String> =
            texts(&columns, "column_name")?.into_iter().flatten().map(|it| quoted(&it)).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "CREATE VIEW {} ({}) AS\n{query_text};", quoted(&view), columns.join(", "));
    }
    Ok(text)
}

/// The rows of a statement that answers with few.
async fn query(session: &Session, sql: &str) -> Result<Vec<RecordBatch>, Failure> {
    let mut batches = Vec::new();
    for statement in Statement::parse(sql)? {
        if let Some(rows) = session.run(&statement).await?.into_rows() {
            batches.extend(rows.collect().await?);
        }
    }
    Ok(batches)
}

/// A `CREATE TABLE` for what SHOW COLUMNS says of a table.
fn definition(table: &str, columns: &[RecordBatch], storage: Option<&str>) -> Result<String, Failure> {
    let (names, types, defaults) =
        (texts(columns, "column_name")?, texts(columns, "type")?, texts(columns, "default")?);
    let (nullable, places) = (flags(columns, "nullable")?, places(columns, "primary_key")?);
    let mut lines = Vec::new();
    let mut key = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let name = quoted(name.as_deref().unwrap_or_default());
        let mut line = format!("    {name} {}", types[index].as_deref().unwrap_or_default());
        if let Some(default) = &defaults[index] {
            // Writing to a string does not fail.
            let _ = write!(line, " DEFAULT {default}");
        }
        match places[index] {
            // A column of the primary key is never NULL.
            Some(place) => key.push((place, name)),
            None if !nullable[index] => line.push_str(" NOT NULL"),
            None => {}
        }
        lines.push(line);
    }
    key.sort();
    if !key.is_empty() {
        let names: Vec<String> = key.into_iter().map(|(_, name)| name).collect();
        lines.push(format!("    PRIMARY KEY ({})", names.join(", ")));
    }
    let storage = storage.map(|storage| format!(" WITH ({storage})")).unwrap_or_default();
    Ok(format!("CREATE TABLE {} (\n{}\n){storage};\n", quoted(table), lines.join(",\n")))
}

fn texts(batches: &[RecordBatch], column: &str) -> Result<Vec<Option<String>>, Failure> {
    gather(batches, column, |array| {
        Some(array.as_string_opt::<i32>()?.iter().map(|text| text.map(str::to_owned)).collect())
    })
}

fn flags(batches: &[RecordBatch], column: &str) -> Result<Vec<bool>, Failure> {
    gather(batches, column, |array| Some(array.as_boolean_opt()?.iter().map(|flag| flag == Some(true)).collect()))
}

fn places(batches: &[RecordBatch], column: &str) -> Result<Vec<Option<u32>>, Failure> {
    gather(batches, column, |array| Some(array.as_primitive_opt::<UInt32Type>()?.iter().collect()))
}

/// The values of one column of an answer.
fn gather<T>(
    batches: &[RecordBatch],
    column: &str,
    read: impl Fn(&dyn Array) -> Option<Vec<T>>,
) -> Result<Vec<T>, Failure> {
    let parts = batches.iter().map(|batch| batch.column_by_name(column).and_then(|array| read(array)));
    let parts: Option<Vec<Vec<T>>> = parts.collect();
    let parts = parts.ok_or_else(|| Failure::invalid(format!("the database answers without a column {column}")))?;
    Ok(parts.into_iter().flatten().collect())
}

/// A name as SQL must have it: in quotes, unless it is a plain word in small letters.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_sql_would_read_another() {
        assert_eq!(quoted("stone_2"), "stone_2");
        assert_eq!(quoted("Stone"), "\"Stone\"");
        assert_eq!(quoted("a \"b\""), "\"a \"\"b\"\"\"");
        assert_eq!(quoted("2nd"), "\"2nd\"");
    }
}

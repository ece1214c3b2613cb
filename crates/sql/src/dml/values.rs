//! The rows of INSERT … VALUES, before they are planned.
//!
//! DataFusion gives each column of VALUES one type, and a value of another is cast to it, or refused, before the table's
//! column has a say: 1e300 beside 2.5 would have to be a decimal. So rows whose values are of different types are planned
//! apart, and each value meets the type of its column as it was written.

use datafusion::sql::sqlparser::ast::{Expr, Parens, Query, SetExpr, UnaryOperator, Value, Values};

use crate::Result;
use crate::table::TableDefinition;

use super::defaults;
use super::insert::wrong_count;

/// A row of VALUES.
type Row = Parens<Vec<Expr>>;

/// What can be told of a value's type from its text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Goes with every type.
    Null,
    Integer,
    /// At most 19 digits on each side of the point: such decimals have a type in common.
    Decimal,
    Text,
    Bytes,
    Boolean,
    /// Of a type that is named.
    Typed(String),
    /// Whatever an expression yields; equal ones yield the same.
    Expression(String),
}

/// The source of an INSERT in parts that can be planned, with the word DEFAULT replaced by what it stands for. Anything
/// but plain VALUES is one part as it is.
pub(super) fn split(definition: &TableDefinition, positions: &[usize], source: &Query) -> Result<Vec<Query>> {
    let mut source = source.clone();
    let alone =
        source.with.is_none() && source.order_by.is_none() && source.limit_clause.is_none() && source.fetch.is_none();
    let SetExpr::Values(values) = source.body.as_mut() else { return Ok(vec![source]) };
    for row in &mut values.rows {
        let row = &mut row.content;
        if row.len() != positions.len() {
            return Err(wrong_count(definition, row.len(), positions.len()));
        }
        for (value, &position) in row.iter_mut().zip(positions) {
            if defaults::is_default(value) {
                *value = defaults::ast(&definition.columns()[position])?;
            }
        }
    }
    if !alone {
        return Ok(vec![source]);
    }
    let mut groups: Vec<(Vec<Kind>, Vec<Row>)> = Vec::new();
    for row in std::mem::take(&mut values.rows) {
        let kinds: Vec<Kind> = row.content.iter().map(kind).collect();
        match groups.iter_mut().find(|(group, _)| goes_with(group, &kinds)) {
            Some((group, rows)) => {
                for (kind, new) in group.iter_mut().zip(kinds) {
                    if *kind == Kind::Null {
                        *kind = new;
                    }
                }
                rows.push(row);
            }
            None => groups.push((kinds, vec![row])),
        }
    }
    let template = Values { rows: Vec::new(), ..values.clone() };
    let part = |rows| {
        let mut part = source.clone();
        part.body = Box::new(SetExpr::Values(Values { rows, ..template.clone() }));
        part
    };
    Ok(groups.into_iter().map(|(_, rows)| part(rows)).collect())
}

/// How many values the first row of plain VALUES has.
pub(super) fn width(source: &Query) -> Option<usize> {
    match source.body.as_ref() {
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

fn goes_with(group: &[Kind], row: &[Kind]) -> bool {
    group.iter().zip(row).all(|(group, new)| group == new || *group == Kind::Null || *new == Kind::Null)
}

fn kind(value: &Expr) -> Kind {
    match value {
        Expr::Nested(inner) => kind(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => match kind(expr) {
            number @ (Kind::Integer | Kind::Decimal) => number,
            _ => Kind::Expression(value.to_string()),
        },
        Expr::Value(literal) => match &literal.value {
            Value::Null => Kind::Null,
            Value::Boolean(_) => Kind::Boolean,
            Value::SingleQuotedString(_) | Value::DollarQuotedString(_) | Value::EscapedStringLiteral(_) => Kind::Text,
            Value::HexStringLiteral(_) => Kind::Bytes,
            Value::Number(digits, _) => number(digits),
            other => Kind::Expression(other.to_string()),
        },
        Expr::Cast { data_type, .. } => Kind::Typed(data_type.to_string()),
        Expr::TypedString(typed) => Kind::Typed(typed.data_type.to_string()),
        other => Kind::Expression(other.to_string()),
    }
}

fn number(digits: &str) -> Kind {
    if digits.parse::<i64>().is_ok() {
        return Kind::Integer;
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() <= 19 && fraction.len() <= 19 && digits.contains('.') {
        Kind::Decimal
    } else {
        Kind::Typed(format!("{}.{}", whole.len(), fraction.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Statement;
    use datafusion::sql::sqlparser::ast::Statement as Ast;

    fn kinds(values: &str) -> Vec<Kind> {
        let statement = Statement::parse(&format!("VALUES ({values})")).expect("parses").remove(0);
        let Ast::Query(query) = statement.ast() else { panic!("a query") };
        let SetExpr::Values(values) = query.body.as_ref() else { panic!("values") };
        values.rows[0].content.iter().map(kind).collect()
    }

    #[test]
    fn numbers_of_one_column_go_together_only_where_they_have_an_exact_type_in_common() {
        let row = kinds("1, -2.5, 1e300, 123456789012345678901234567890.5");
        for (left, right) in [(0, 1), (0, 2), (1, 2), (1, 3)] {
            assert!(!goes_with(&row[left..=left], &row[right..=right]), "{:?} and {:?}", row[left], row[right]);
        }
        assert!(goes_with(&kinds("-1, 'a', NULL, now()"), &kinds("7, NULL, true, now()")));
        assert!(!goes_with(&kinds("X'00'"), &kinds("'a'")));
    }
}

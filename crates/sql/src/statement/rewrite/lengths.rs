//! `CAST(x AS VARCHAR(n))` cuts a text off, as in `PostgreSQL`; types have no lengths in DataFusion.

use datafusion::sql::sqlparser::ast::{CharacterLength, DataType, Expr, Ident, Select, SelectItem, Value};

use super::called;

/// `left(CAST(x AS VARCHAR), n)` in the place of `CAST(x AS VARCHAR(n))`.
pub(super) fn cut(expression: &mut Expr) {
    let Expr::Cast { data_type, .. } = expression else { return };
    let Some(length) = length(data_type) else { return };
    *data_type = DataType::Varchar(None);
    let length = Expr::Value(Value::Number(length.to_string(), false).into());
    *expression = called(Ident::new("left"), [expression.clone(), length]);
}

/// A column that is only cast keeps its name.
pub(super) fn keep_names(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expression) = item
            && let Some(name) = name(expression, false)
        {
            *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias: name };
        }
    }
}

/// The name of a column below casts, of which one has a length.
fn name(expression: &Expr, has_length: bool) -> Option<Ident> {
    match expression {
        Expr::Cast { expr, data_type, .. } => name(expr, has_length || length(data_type).is_some()),
        Expr::Nested(expr) => name(expr, has_length),
        Expr::Identifier(name) if has_length => Some(name.clone()),
        Expr::CompoundIdentifier(names) if has_length => names.last().cloned(),
        _ => None,
    }
}

/// The length of a type of text that has one which the planner would drop.
fn length(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::Character(None) | DataType::Char(None) => Some(1),
        DataType::Character(Some(CharacterLength::IntegerLength { length, unit: _ }))
        | DataType::Char(Some(CharacterLength::IntegerLength { length, unit: _ }))
        | DataType::CharacterVarying(Some(CharacterLength::IntegerLength { length, unit: _ }))
        | DataType::CharVarying(Some(CharacterLength::IntegerLength { length, unit: _ }))
        | DataType::Varchar(Some(CharacterLength::IntegerLength { length, unit: _ }))
        | DataType::Nvarchar(Some(CharacterLength::IntegerLength { length, unit: _ }))
            if (1..=u64::from(u32::MAX)).contains(length) =>
        {
            Some(*length)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::Statement;

    #[test]
    fn a_cast_to_a_text_of_some_length_cuts_it_off() {
        for (sql, rewritten) in [
            ("SELECT 'hello'::VARCHAR(3)", "SELECT left('hello'::VARCHAR, 3)"),
            ("SELECT CAST(t.x AS CHAR) FROM t", "SELECT left(CAST(t.x AS VARCHAR), 1) AS x FROM t"),
            ("SELECT (x::INT)::CHAR(2) FROM t", "SELECT left((x::INT)::VARCHAR, 2) AS x FROM t"),
            ("SELECT x::VARCHAR, y::TEXT FROM t", "SELECT x::VARCHAR, y::TEXT FROM t"),
        ] {
            assert_eq!(Statement::parse(sql).expect("parses")[0].to_string(), rewritten);
        }
    }
}

//! Other spellings of what DataFusion knows: clauses and functions that `PostgreSQL` and the SQL standard have, said in
//! DataFusion's words. A spelling that does not go over exactly stays as it is, and is refused when it is planned.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Fetch, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, GroupByExpr, Ident, LimitClause, ObjectName, OrderByKind, Query, SelectItem, SetExpr,
    UnaryOperator, Value,
};

use super::marked;
use crate::duplicates::drop_duplicates;

/// `FETCH FIRST n ROWS ONLY` is `LIMIT n`.
pub(super) fn limit(query: &mut Query) {
    let Some(Fetch { with_ties: false, percent: false, quantity }) = &query.fetch else { return };
    let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
    let quantity = quantity.clone().unwrap_or_else(one);
    match &mut query.limit_clause {
        None => {
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(quantity), offset: None, limit_by: Vec::new() });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(quantity),
        // Both at once: for the planner to refuse.
        Some(_) => return,
    }
    query.fetch = None;
}

/// `ORDER BY` the position of a constant orders nothing. In a query with groups, DataFusion would look for the constant among them, and for any other
/// expression as well: there the position becomes the name of the item.
pub(super) fn order(query: &mut Query) {
    let (SetExpr::Select(select), Some(order_by)) = (query.body.as_mut(), &mut query.order_by) else { return };
    let OrderByKind::Expressions(expressions) = &mut order_by.kind else { return };
    if matches!(select.distinct, Some(Distinct::On(_))) {
        return;
    }
    expressions.retain(|order| !position(&order.expr).is_some_and(|at| is_constant(&select.projection, at)));
    if matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if !groups.is_empty()) {
        // Behind the numbers that tell columns of one name apart.
        let first = select.projection.len() + 1;
        for order in expressions.iter_mut() {
            if let Some(at) = item_at(&select.projection, &order.expr)
                && let item = &mut select.projection[at]
                && let SelectItem::UnnamedExpr(expr) = item
                && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            {
                let alias = Ident::with_quote('"', marked(&expr.to_string(), first + at));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: alias.clone() };
                order.expr = Expr::Identifier(alias);
            }
        }
    }
    if expressions.is_empty() {
        query.order_by = None;
    }
}

/// Which item of a select list a position names, where that is known: behind a `*` it is not.
pub(super) fn item_at(items: &[SelectItem], expression: &Expr) -> Option<usize> {
    let is_one = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    position(expression).filter(|&at| items.get(..=at).is_some_and(|items| items.iter().all(is_one)))
}

/// The position that an expression of `ORDER BY` names, from zero.
fn position(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the item at a position is a literal, perhaps with a sign or a cast.
fn is_constant(items: &[SelectItem], at: usize) -> bool {
    fn literal(expression: &Expr) -> bool {
        match expression {
            Expr::Value(_) => true,
            Expr::Cast { expr, .. }
            | Expr::Nested(expr)
            | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => literal(expr),
            _ => false,
        }
    }
    let several = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    match items.get(at) {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
            literal(expr) && !items[..at].iter().any(several)
        }
        _ => false,
    }
}

/// `LIKE 'a!%' ESCAPE '!'` is `LIKE 'a\%'`.
pub(super) fn escape(expression: &mut Expr) {
    let (Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. }) = expression else {
        return;
    };
    let Some(Value::SingleQuotedString(escape)) = escape_char.as_ref().map(|escape| &escape.value) else { return };
    if let Expr::Value(value) = pattern.as_mut()
        && let Value::SingleQuotedString(text) = &mut value.value
        && let Some(plain) = with_backslashes(text, escape)
    {
        *text = plain;
        *escape_char = None;
    }
}

/// `IS UNKNOWN` is `IS NULL`. DataFusion plans its own as if it could be NULL itself.
pub(super) fn unknown(expression: &mut Expr) {
    match expression {
        Expr::IsUnknown(inner) => *expression = Expr::IsNull(inner.clone()),
        Expr::IsNotUnknown(inner) => *expression = Expr::IsNotNull(inner.clone()),
        _ => {}
    }
}

/// A pattern whose escapes are backslashes instead of another character, or of none where it is empty.
fn with_backslashes(pattern: &str, escape: &str) -> Option<String> {
    let mut letters = escape.chars();
    let (escape, None) = (letters.next(), letters.next()) else { return None };
    let mut plain = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(letter) = rest.next() {
        if Some(letter) == escape {
            // A pattern that ends with it is an error.
            let literal = rest.next()?;
            if matches!(literal, '%' | '_' | '\\') {
                plain.push('\\');
            }
            plain.push(literal);
        } else {
            if letter == '\\' {
                plain.push('\\');
            }
            plain.push(letter);
        }
    }
    Some(plain)
}

/// Functions that have another name in DataFusion, and `mod(a, b)`, which is an operator there.
pub(super) fn call(expression: &mut Expr) {
    let Expr::Function(function) = expression else { return };
    let Some(name) = single_name(&function.name) else { return };
    let other = match name.as_str() {
        "every" => "bool_and",
        "variance" => "var_samp",
        "sign" => "signum",
        "gen_random_uuid" => "uuid",
        "mod" => {
            if let Some((dividend, divisor)) = two(function) {
                let operand = |expression: &Expr| Box::new(Expr::Nested(Box::new(expression.clone())));
                let remainder =
                    Expr::BinaryOp { left: operand(dividend), op: BinaryOperator::Modulo, right: operand(divisor) };
                *expression = Expr::Nested(Box::new(remainder));
            }
            return;
        }
        "round" | "trunc" => return digits(function),
        _ => return,
    };
    function.name = ObjectName::from(vec![Ident::new(other)]);
}

/// `round(a, b)` of a number of digits that is not written down gets a third argument, which says that: the result's type has all
/// digits that the first one's has.
fn digits(function: &mut Function) {
    let is_written = |number: &Expr| match number {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => matches!(expr.as_ref(), Expr::Value(_)),
        other => matches!(other, Expr::Value(_)),
    };
    let Some((_, number)) = two(function) else { return };
    if !is_written(number)
        && let FunctionArguments::List(list) = &mut function.args
    {
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::value(Value::Boolean(true)))));
    }
}

/// `coalesce(coalesce(a, b), c)` is `coalesce(a, b, c)`. DataFusion would have the inner one twice in its plan, and what is inside
/// of that four times.
pub(super) fn coalesce(expression: &mut Expr) {
    let Some(arguments) = coalesced_mut(expression) else { return };
    if !arguments.iter().any(|argument| inner(argument).is_some()) {
        return;
    }
    *arguments = std::mem::take(arguments)
        .into_iter()
        .flat_map(|argument| inner(&argument).map_or_else(|| vec![argument.clone()], <[_]>::to_vec))
        .collect();
}

/// The arguments of an argument that is a `coalesce` itself.
fn inner(argument: &FunctionArg) -> Option<&[FunctionArg]> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) = argument else { return None };
    let mut expression = expression;
    while let Expr::Nested(nested) = expression {
        expression = nested;
    }
    let Expr::Function(function) = expression else { return None };
    match &function.args {
        FunctionArguments::List(list) if is_coalesce(function) => Some(&list.args),
        _ => None,
    }
}

fn coalesced_mut(expression: &mut Expr) -> Option<&mut Vec<FunctionArg>> {
    let Expr::Function(function) = expression else { return None };
    if !is_coalesce(function) {
        return None;
    }
    match &mut function.args {
        FunctionArguments::List(list) => Some(&mut list.args),
        _ => None,
    }
}

fn is_coalesce(function: &Function) -> bool {
    single_name(&function.name).is_some_and(|name| name == "coalesce")
        && function.filter.is_none()
        && function.over.is_none()
        && matches!(&function.args, FunctionArguments::List(list) if list.duplicate_treatment.is_none() && list.clauses.is_empty())
}

/// A name without a schema, in lower case unless it was quoted.
fn single_name(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(super::identifier),
        _ => None,
    }
}

/// The arguments of a call that has nothing but arguments.
pub(super) fn plain_arguments(function: &Function) -> Option<&[FunctionArg]> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
        && function.filter.is_none()
        && function.over.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty();
    plain.then_some(list.args.as_slice())
}

/// The arguments of a plain call with two of them.
fn two(function: &Function) -> Option<(&Expr, &Expr)> {
    match plain_arguments(function)? {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(first)), FunctionArg::Unnamed(FunctionArgExpr::Expr(second))] => {
            Some((first, second))
        }
        _ => None,
    }
}

/// `string_agg(a, ',' ORDER BY b, b)` orders by `b` once: DataFusion keeps a column for each expression.
pub(super) fn order_of_aggregate(expression: &mut Expr) {
    let Expr::Function(function) = expression else { return };
    let FunctionArguments::List(list) = &mut function.args else { return };
    for clause in &mut list.clauses {
        if let FunctionArgumentClause::OrderBy(orders) = clause {
            drop_duplicates(orders, |order| &order.expr);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::rewritten;

    #[test]
    fn patterns_get_backslashes_for_their_escapes() {
        assert_eq!(with_backslashes("a!%b!!c!_", "!").as_deref(), Some("a\\%b!c\\_"));
        assert_eq!(with_backslashes("a\\%", "").as_deref(), Some("a\\\\%"));
        assert_eq!(with_backslashes("a\\%!\\", "!").as_deref(), Some("a\\\\%\\\\"));
        assert_eq!(with_backslashes("a\\%", "\\").as_deref(), Some("a\\%"));
        assert_eq!(with_backslashes("a!", "!"), None);
        assert_eq!(with_backslashes("a", "!!"), None);
    }

    #[test]
    fn coalesce_within_coalesce_becomes_one() {
        assert_eq!(
            rewritten("SELECT coalesce(coalesce(a, (coalesce(b, c))), coalesce(d), e + coalesce(f, g))"),
            "SELECT coalesce(a, b, c, d, e + coalesce(f, g))"
        );
    }

    #[test]
    fn what_has_another_word_in_datafusion_gets_it() {
        assert_eq!(rewritten("SELECT a FROM t FETCH FIRST ROW ONLY"), "SELECT a FROM t LIMIT 1");
        assert_eq!(rewritten("SELECT a FROM t OFFSET 2 FETCH NEXT 3 ROWS ONLY"), "SELECT a FROM t LIMIT 3 OFFSET 2");
        assert_eq!(
            rewritten("SELECT -5, max(a) FROM t GROUP BY b ORDER BY 1, 2"),
            "SELECT CAST(-5 AS INT), max(a) AS \"max(a)\u{2063}:4\" FROM t GROUP BY b, \"end_of_groups ;\"() ORDER BY \"max(a)\u{2063}:4\""
        );
        assert_eq!(rewritten("SELECT *, 5 FROM t ORDER BY 2"), "SELECT *, CAST(5 AS INT) FROM t ORDER BY 2");
        assert_eq!(rewritten("SELECT mod(a + 1, b), every(c)"), "SELECT ((a + 1) % (b)), bool_and(c)");
        assert_eq!(rewritten("SELECT a LIKE 'x!%' ESCAPE '!'"), "SELECT a LIKE 'x\\%'");
        assert!(rewritten("SELECT a FROM t FETCH FIRST 2 ROWS WITH TIES").contains("WITH TIES"));
    }
}

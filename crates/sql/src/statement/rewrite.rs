//! What is changed in a syntax tree before it is planned, because DataFusion takes some plain SQL amiss.

pub(super) mod alike;
mod ctes;
mod defaults;
pub(super) mod distinct;
mod groups;
mod known_types;
mod lengths;
mod literals;
pub(super) mod nameless;
mod parts;
mod powers;
mod quantified;
mod recursion;
mod regexes;
mod rows;
mod similar;
mod spans;
pub(super) mod tables;
mod windows;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Query, Select, Statement, TableFactor, Value, VisitMut, VisitorMut,
};

use ishigaki_scan::exact;

use super::plain;
use crate::row::unhex;

/// Applies all changes.
pub(super) fn rewrite(statement: &mut Statement) {
    // Its query is kept as it is written, and comes this way whenever it is read.
    if matches!(statement, Statement::CreateView(_)) {
        return;
    }
    let is_insert = matches!(statement, Statement::Insert(_));
    let _: ControlFlow<()> = statement.visit(&mut Rewrite { is_insert, ..Rewrite::default() });
}

#[derive(Default)]
struct Rewrite {
    /// Whether the outermost query is of rows that are inserted.
    is_insert: bool,
    windows: windows::Scopes,
    ctes: ctes::Names,
    /// The queries around the place: whether each is a table of FROM, and how many of its CTEs are still to come.
    queries: Vec<(bool, usize)>,
    /// Whether the next one is.
    is_next_derived: bool,
}

impl VisitorMut for Rewrite {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        tables::without_parentheses(query);
        tables::flatten_unions(&mut query.body);
        if !self.is_insert || !self.queries.is_empty() {
            tables::values_of_columns(&mut query.body);
            literals::of_values(&mut query.body);
        }
        plain::limit(query);
        plain::order(query);
        alike::in_right_sides(&mut query.body);
        recursion::mark_casts(query);
        let mut is_derived = std::mem::take(&mut self.is_next_derived);
        if let Some((_, ctes)) = self.queries.last_mut()
            && *ctes > 0
        {
            *ctes -= 1;
            is_derived = true;
        }
        self.queries.push((is_derived, query.with.as_ref().map_or(0, |with| with.cte_tables.len())));
        self.windows.enter_query(query);
        self.ctes.enter_query(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.queries.pop();
        self.windows.leave_query(query);
        self.ctes.leave_query();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.windows.enter_select(select);
        distinct::on_columns(select);
        rows::in_group_by(select);
        tables::group_of_all(select);
        groups::spell_sets_out(select);
        groups::mark_end(select);
        lengths::keep_names(select);
        literals::without_plus(select);
        alike::tell_apart(&mut select.projection, self.queries.last().is_some_and(|(is_derived, _)| *is_derived));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        literals::of_table_function(table);
        tables::alias_of_join(table);
        self.ctes.resolve(table);
        self.is_next_derived = matches!(table, TableFactor::Derived { .. });
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.windows.leave_select();
        literals::selected(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        // As it is written, before its parts are spelled in another way.
        known_types::name(expression);
        literals::least(expression);
        tables::column_of_existence(expression);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        powers::take_signs(expression);
        keep_digits(expression);
        read_bytes(expression);
        plain::escape(expression);
        plain::unknown(expression);
        plain::call(expression);
        plain::order_of_aggregate(expression);
        plain::coalesce(expression);
        known_types::until_today(expression);
        parts::of_time(expression);
        lengths::cut(expression);
        literals::within(expression);
        defaults::with_common_type(expression);
        tables::values_of_in(expression);
        spans::spell_out(expression);
        self.windows.resolve(expression);
        windows::with_sign(expression);
        rows::compare(expression);
        quantified::to_memberships(expression);
        quantified::to_existence(expression);
        regexes::match_as_postgresql(expression);
        similar::to_regex(expression);
        ControlFlow::Continue(())
    }
}

/// A cast of an expression.
fn cast(expression: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expression), data_type, array: false, format: None }
}

/// The arguments of a call that have no names.
fn arguments(function: &mut Function) -> impl Iterator<Item = &mut Expr> {
    let list = match &mut function.args {
        FunctionArguments::List(list) => list.args.as_mut_slice(),
        _ => &mut [],
    };
    list.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    })
}

/// A plain call of a function.
pub(crate) fn called(function: Ident, arguments: impl IntoIterator<Item = Expr>) -> Expr {
    let args = arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![function]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Numbers are exact decimals here, as in `PostgreSQL`, those with an exponent, too, and whole ones beyond BIGINT, of which DataFusion takes some for unsigned. Those that
/// lie beyond every decimal (`1e308`) are made doubles.
fn keep_digits(expression: &mut Expr) {
    if let Expr::Value(value) = expression
        && let Value::Number(digits, _) = &value.value
        && (digits.contains(['e', 'E']) || digits.parse::<u64>().is_ok_and(|number| i64::try_from(number).is_err()))
    {
        let (digits, data_type) = match exact::written(digits) {
            Some((digits, all, behind)) => {
                let info = ExactNumberInfo::PrecisionAndScale(all.into(), behind.into());
                (digits, DataType::Decimal(info))
            }
            None => (digits.clone(), DataType::Double(ExactNumberInfo::None)),
        };
        let text = Value::SingleQuotedString(digits).with_span(value.span);
        *expression = cast(Expr::Value(text), data_type);
    }
}

/// `'\x00ff'::BYTEA` is two bytes, not the bytes of six characters.
fn read_bytes(expression: &mut Expr) {
    if let Expr::Cast { expr, data_type: DataType::Bytea, .. } = expression
        && let Expr::Value(value) = expr.as_mut()
        && let Value::SingleQuotedString(text) = &value.value
        && let Some(digits) = text.strip_prefix("\\x")
        && unhex(digits).is_some()
    {
        // The cast stays: the literal's own type is not the one that columns of bytes have, and VALUES, COALESCE and CASE mix them.
        value.value = Value::HexStringLiteral(digits.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use crate::statement::rewritten;

    #[test]
    fn a_number_with_an_exponent_or_beyond_bigint_becomes_a_decimal_or_a_double() {
        assert_eq!(
            rewritten("SELECT 1e300, 1.5, 1.5e3, 25E-3"),
            "SELECT CAST('1e300' AS DOUBLE), 1.5, CAST('1500' AS DECIMAL(4,0)), CAST('0.025' AS DECIMAL(3,3))"
        );
        assert_eq!(
            rewritten("SELECT a + 9223372036854775807, 9223372036854775808 - a, -9223372036854775808 + a"),
            "SELECT a + 9223372036854775807, CAST('9223372036854775808' AS DECIMAL(19,0)) - a, -9223372036854775808 + a"
        );
    }

    #[test]
    fn bytes_written_as_text_become_bytes() {
        assert_eq!(
            rewritten(r"SELECT '\x00fF'::BYTEA, '\x0'::BYTEA, 'x00'::BYTEA"),
            r"SELECT X'00fF'::BYTEA, '\x0'::BYTEA, 'x00'::BYTEA"
        );
    }
}

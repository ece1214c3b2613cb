//! The dialect that statements are written in: `PostgreSQL`'s, but for six things.
//!
//! `a IS DISTINCT FROM b AND c` is `(a IS DISTINCT FROM b) AND c`. `sqlparser` reads `a IS DISTINCT FROM (b AND c)`.
//!
//! `a BETWEEN SYMMETRIC b AND c` is a BETWEEN with the bounds in either order, which `sqlparser` does not know.
//!
//! `trim(LEADING FROM a)` and `trim(BOTH a, 'x')` are trims, of which `sqlparser` knows some forms alone.
//!
//! `NOT EXISTS (…) = b` is `NOT (EXISTS (…) = b)`, as every other NOT. `sqlparser` reads `(NOT EXISTS (…)) = b`.
//!
//! `a>-3` compares with a number, as no operator ends in a sign. `sqlparser` reads an operator `>-`.
//!
//! And `sqlparser` lets the name of a function's argument be an expression there (`f(a + b => 1)`), reads every argument for such a
//! name first, and once more when it was none. Calls within calls are then read 2^depth times: half a minute at a depth of
//! twenty. `PostgreSQL` itself takes a plain name.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, TrimWhereField, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

#[derive(Debug)]
pub(super) struct Postgres(PostgreSqlDialect);

pub(super) const POSTGRES: Postgres = Postgres(PostgreSqlDialect {});

macro_rules! as_postgresql {
    ($($name:ident)*) => {
        $(fn $name(&self) -> bool {
            self.0.$name()
        })*
    };
}

impl Dialect for Postgres {
    /// What the parser asks of a dialect by its type.
    fn dialect(&self) -> TypeId {
        self.0.dialect()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        not_exists(parser, self.prec_value(Precedence::UnaryNot)).or_else(|| trim(parser)).or_else(|| digits(parser))
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        if let Some(between) = symmetric(parser, left) {
            return Some(between);
        }
        let negated = if parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]) {
            true
        } else if parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
            false
        } else {
            return self.0.parse_infix(parser, left, precedence);
        };
        let left = Box::new(left.clone());
        Some(parser.parse_subexpr(self.prec_value(Precedence::Is)).map(|right| {
            if negated {
                Expr::IsNotDistinctFrom(left, Box::new(right))
            } else {
                Expr::IsDistinctFrom(left, Box::new(right))
            }
        }))
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.0.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        self.0.is_delimited_identifier_start(letter)
    }

    fn is_identifier_start(&self, letter: char) -> bool {
        self.0.is_identifier_start(letter)
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        self.0.is_identifier_part(letter)
    }

    fn is_reserved_for_identifier(&self, word: Keyword) -> bool {
        self.0.is_reserved_for_identifier(word)
    }

    fn is_custom_operator_part(&self, letter: char) -> bool {
        !matches!(letter, '+' | '-') && self.0.is_custom_operator_part(letter)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        self.0.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        self.0.prec_value(precedence)
    }

    as_postgresql! {
        supports_unicode_string_literal
        supports_filter_during_aggregation
        supports_group_by_expr
        allow_extract_custom
        allow_extract_single_quotes
        supports_create_index_with_clause
        supports_explain_with_utility_options
        supports_listen_notify
        supports_factorial_operator
        supports_bitwise_shift_operators
        supports_comment_on
        supports_load_extension
        supports_named_fn_args_with_colon_operator
        supports_empty_projections
        supports_nested_comments
        supports_string_escape_constant
        supports_numeric_literal_underscores
        supports_array_typedef_with_brackets
        supports_geometric_types
        supports_set_names
        supports_alter_column_type_using
        supports_notnull_operator
        supports_interval_options
        supports_insert_table_alias
        supports_create_table_like_parenthesized
        supports_select_wildcard_with_alias
        supports_comma_separated_trim
        supports_xml_expressions
        supports_comment_optimizer_hint
    }
}

/// `a BETWEEN SYMMETRIC b AND c`, which is `(a BETWEEN b AND c OR a BETWEEN c AND b)`.
fn symmetric(parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    let negated = if parser.parse_keywords(&[Keyword::NOT, Keyword::BETWEEN, Keyword::SYMMETRIC]) {
        true
    } else if parser.parse_keywords(&[Keyword::BETWEEN, Keyword::SYMMETRIC]) {
        false
    } else {
        return None;
    };
    let either = |between: Expr| {
        let Expr::Between { expr, negated, low, high } = between else { return between };
        let turned = Expr::Between { expr: expr.clone(), negated, low: high.clone(), high: low.clone() };
        let between = Expr::Between { expr, negated, low, high };
        let op = if negated { BinaryOperator::And } else { BinaryOperator::Or };
        Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(between), op, right: Box::new(turned) }))
    };
    Some(parser.parse_between(left.clone(), negated).map(either))
}

/// `NOT EXISTS (…)` and what binds closer than its NOT, which has this precedence.
fn not_exists(parser: &mut Parser<'_>, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let is = |token: &Token, keyword| matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none());
    let found =
        is(&parser.peek_token_ref().token, Keyword::NOT) && is(&parser.peek_nth_token_ref(1).token, Keyword::EXISTS);
    found.then(|| {
        parser.advance_token();
        Ok(match parser.parse_subexpr(precedence)? {
            Expr::Exists { subquery, negated } => Expr::Exists { subquery, negated: !negated },
            other => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(other) },
        })
    })
}

/// Refuses the digits of an `INTERVAL(n) '…'`, which the parser passes over.
fn digits(parser: &Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let is_interval = matches!(&parser.peek_token_ref().token, Token::Word(word) if word.keyword == Keyword::INTERVAL);
    if !is_interval {
        return None;
    }
    let [open, number, close, text] = [1, 2, 3, 4].map(|at| parser.peek_nth_token(at).token);
    match (open, number, close, text) {
        (Token::LParen, Token::Number(number, _), Token::RParen, Token::SingleQuotedString(_)) if number != "6" => {
            let reason =
                "an INTERVAL of other than six digits behind the seconds is not supported: leave the number out";
            Some(Err(ParserError::ParserError(reason.to_owned())))
        }
        _ => None,
    }
}

/// `trim(LEADING 'x' FROM a)`, with or without any of its parts; `trim(LEADING a, 'x')` means the same.
fn trim(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let is_trim = matches!(&parser.peek_token_ref().token, Token::Word(word) if word.keyword == Keyword::TRIM && word.quote_style.is_none())
        && parser.peek_nth_token_ref(1).token == Token::LParen;
    is_trim.then(|| {
        parser.advance_token();
        trimmed(parser)
    })
}

fn trimmed(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let side = parser.parse_one_of_keywords(&[Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING]);
    let trim_where = side.map(|side| match side {
        Keyword::LEADING => TrimWhereField::Leading,
        Keyword::TRAILING => TrimWhereField::Trailing,
        _ => TrimWhereField::Both,
    });
    let (mut what, mut of) = (None, None);
    if !parser.parse_keyword(Keyword::FROM) {
        let first = parser.parse_expr()?;
        if parser.parse_keyword(Keyword::FROM) { what = Some(first) } else { of = Some(first) }
    }
    let expr = match of {
        Some(of) => of,
        None => parser.parse_expr()?,
    };
    if what.is_none() && parser.consume_token(&Token::Comma) {
        what = Some(parser.parse_expr()?);
    }
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Trim { expr: Box::new(expr), trim_where, trim_what: what.map(Box::new), trim_characters: None })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
    use datafusion::sql::sqlparser::parser::Parser;

    use super::POSTGRES;

    fn parsed(expression: &str) -> Expr {
        let parser = Parser::new(&POSTGRES).try_with_sql(expression).expect("tokens");
        { parser }.parse_expr().expect("an expression")
    }

    #[test]
    fn a_trim_is_read_with_or_without_any_of_its_parts() {
        for (written, meant) in [
            ("trim(a)", "TRIM(a)"),
            ("trim(FROM a)", "TRIM(a)"),
            ("trim(LEADING FROM a)", "TRIM(LEADING a)"),
            ("trim(trailing a)", "TRIM(TRAILING a)"),
            ("trim(BOTH 'x' FROM a || b)", "TRIM(BOTH 'x' FROM a || b)"),
            ("trim(LEADING a, 'x')", "TRIM(LEADING 'x' FROM a)"),
            ("trim('x' FROM a)", "TRIM('x' FROM a)"),
            ("trim(a, 'x')", "TRIM('x' FROM a)"),
        ] {
            assert_eq!(parsed(written).to_string(), meant, "{written}");
        }
    }

    #[test]
    fn not_exists_binds_as_every_not() {
        for (written, meant) in [
            ("NOT EXISTS (SELECT 1)", "NOT EXISTS (SELECT 1)"),
            ("NOT EXISTS (SELECT 1) = a", "NOT EXISTS (SELECT 1) = a"),
            ("NOT EXISTS (SELECT 1) BETWEEN a AND b AND c", "NOT EXISTS (SELECT 1) BETWEEN a AND b AND c"),
        ] {
            assert_eq!(parsed(written).to_string(), meant);
        }
        let is_not = |expression: &Expr| matches!(expression, Expr::UnaryOp { op: UnaryOperator::Not, .. });
        assert!(matches!(parsed("NOT EXISTS (SELECT 1)"), Expr::Exists { negated: true, .. }));
        assert!(matches!(parsed("NOT NOT EXISTS (SELECT 1) OR a"), Expr::BinaryOp { left, .. } if is_not(&left)));
        for written in
            ["= a", "IS NULL", "IN (true, a)", "BETWEEN a AND b", "BETWEEN SYMMETRIC a AND b", "::TEXT = 'x'"]
        {
            assert!(is_not(&parsed(&format!("NOT EXISTS (SELECT 1) {written}"))), "{written}");
        }
    }

    #[test]
    fn is_distinct_from_binds_closer_than_and_and_or() {
        for expression in
            ["a IS DISTINCT FROM b OR c", "x AND a IS NOT DISTINCT FROM b OR c", "a IS DISTINCT FROM b = d OR c"]
        {
            let Expr::BinaryOp { op, right, .. } = parsed(expression) else { panic!("{expression}") };
            assert_eq!((op, right.to_string().as_str()), (BinaryOperator::Or, "c"), "{expression}");
        }
        assert!(matches!(parsed("a IS DISTINCT FROM b = c"), Expr::IsDistinctFrom(..)));
    }
}

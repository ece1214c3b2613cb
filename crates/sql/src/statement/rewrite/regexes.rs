//! Regular expressions: a point matches a line break, as in `PostgreSQL`, and what takes the place of a match has `\1` and `\&` for its
//! parts, and no other signs of its own.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, Value};

use super::plain::plain_arguments;
use super::{arguments, called};
use crate::statement::function_name;

/// What has a point match every character.
const POINT_IS_ANY: &str = "(?s)";

/// Functions whose second argument is a regular expression.
const FUNCTIONS: [&str; 5] = ["regexp_like", "regexp_match", "regexp_replace", "regexp_count", "regexp_instr"];

pub(super) fn match_as_postgresql(expression: &mut Expr) {
    use BinaryOperator::{PGRegexIMatch, PGRegexMatch, PGRegexNotIMatch, PGRegexNotMatch};
    match expression {
        Expr::BinaryOp { op: PGRegexMatch | PGRegexIMatch | PGRegexNotMatch | PGRegexNotIMatch, right, .. } => {
            any_point(right);
        }
        Expr::Function(function) if plain_arguments(function).is_some() => {
            let name = function_name(function).unwrap_or_default();
            if !FUNCTIONS.contains(&name.as_str()) {
                return;
            }
            if let Some(pattern) = arguments(function).nth(1) {
                any_point(pattern);
            }
            if name == "regexp_replace"
                && let Some(replacement) = arguments(function).nth(2)
            {
                plain_signs(replacement);
            }
        }
        _ => {}
    }
}

fn any_point(pattern: &mut Expr) {
    if let Some(text) = text_of(pattern) {
        text.insert_str(0, POINT_IS_ANY);
        return;
    }
    let prefix = Expr::value(Value::SingleQuotedString(POINT_IS_ANY.to_owned()));
    *pattern = joined(prefix, pattern.clone());
}

/// `$` stands for itself, and `\&` for the match.
fn plain_signs(replacement: &mut Expr) {
    const SIGNS: [(&str, &str); 2] = [("$", "$$"), ("\\&", "\\0")];
    if let Some(text) = text_of(replacement) {
        *text = SIGNS.iter().fold(text.clone(), |text, (sign, other)| text.replace(sign, other));
        return;
    }
    let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    *replacement = SIGNS.iter().fold(replacement.clone(), |replaced, (sign, other)| {
        called(Ident::new("replace"), [replaced, text(sign), text(other)])
    });
}

/// A text that is written down.
fn text_of(expression: &mut Expr) -> Option<&mut String> {
    match expression {
        Expr::Nested(inner) => text_of(inner),
        Expr::Value(value) => match &mut value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn joined(left: Expr, right: Expr) -> Expr {
    let right = Box::new(Expr::Nested(Box::new(right)));
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::StringConcat, right }))
}

#[cfg(test)]
mod tests {
    use crate::statement::rewritten;

    #[test]
    fn a_point_matches_a_line_break() {
        assert_eq!(
            rewritten("SELECT a ~ 'x.y', a !~* b, regexp_like(a, 'x', 'i'), regexp_match(a, b)"),
            "SELECT a ~ '(?s)x.y', a !~* ('(?s)' || (b)), regexp_like(a, '(?s)x', 'i'), regexp_match(a, ('(?s)' || (b)))"
        );
    }

    #[test]
    fn a_replacement_has_no_signs_but_backslashes() {
        assert_eq!(
            rewritten(r"SELECT regexp_replace(a, 'x', '$1\1\&', 'g'), regexp_replace(a, 'x', b)"),
            r"SELECT regexp_replace(a, '(?s)x', '$$1\1\0', 'g'), regexp_replace(a, '(?s)x', replace(replace(b, '$', '$$'), '\&', '\0'))"
        );
    }
}

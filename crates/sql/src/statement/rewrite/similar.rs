//! `SIMILAR TO`, by the regular expression that means the same. DataFusion takes the pattern itself for one, and lets it match
//! anywhere.

use std::str::Chars;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value};

/// How often something may be repeated.
const MOST_TIMES: u16 = 255;

/// Rewrites a match of a literal pattern. Others stay, to be refused.
pub(super) fn to_regex(expression: &mut Expr) {
    let Expr::SimilarTo { negated, expr, pattern, escape_char } = expression else { return };
    let Expr::Value(pattern) = pattern.as_ref() else { return };
    let Value::SingleQuotedString(text) = &pattern.value else { return };
    let escape = match escape_char.as_ref().map(|value| &value.value) {
        None => Some('\\'),
        Some(Value::SingleQuotedString(text)) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (escape, None) => escape,
                _ => return,
            }
        }
        Some(_) => return,
    };
    let Some(regex) = translated(text, escape) else { return };
    let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
    let right = Value::SingleQuotedString(regex).with_span(pattern.span);
    *expression = Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(Expr::Nested(expr.clone())),
        op,
        right: Box::new(Expr::Value(right)),
    }));
}

/// The regular expression of a pattern; nothing for what has no clear meaning.
fn translated(pattern: &str, escape: Option<char>) -> Option<String> {
    let mut regex = String::from("(?s)^(?:");
    let mut chars = pattern.chars();
    let mut in_class = false;
    while let Some(char) = chars.next() {
        if Some(char) == escape {
            // Behind an escape, letters have meanings of their own in a regular expression, and none here.
            literal(chars.next()?, &mut regex);
            continue;
        }
        match char {
            '[' if in_class => return None,
            '[' => {
                in_class = true;
                regex.push(char);
            }
            ']' if in_class => {
                in_class = false;
                regex.push(char);
            }
            '^' | '-' | ':' if in_class => regex.push(char),
            _ if in_class => literal(char, &mut regex),
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '|' | '*' | '+' | '?' | '(' | ')' => regex.push(char),
            '{' => regex.push_str(&repetition(&mut chars)?),
            '}' => return None,
            other => literal(other, &mut regex),
        }
    }
    regex.push_str(")$");
    (!in_class).then_some(regex)
}

/// The rest of `{2}`, `{2,}` or `{2,3}`, and all of it. Nothing if it is none of these.
fn repetition(chars: &mut Chars<'_>) -> Option<String> {
    let (bounds, rest) = chars.as_str().split_once('}')?;
    let times = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|times| digits && *times <= MOST_TIMES)
    };
    let is_valid = match bounds.split_once(',') {
        None => times(bounds).is_some(),
        Some((least, "")) => times(least).is_some(),
        Some((least, most)) => times(least)? <= times(most)?,
    };
    *chars = rest.chars();
    is_valid.then(|| format!("{{{bounds}}}"))
}

/// A character that stands for itself.
fn literal(char: char, regex: &mut String) {
    if char.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(char);
}

#[cfg(test)]
mod tests {
    use super::translated;

    #[test]
    fn a_pattern_becomes_an_anchored_regular_expression() {
        let regex = |pattern| translated(pattern, Some('\\'));
        assert_eq!(regex("a%_").as_deref(), Some("(?s)^(?:a.*.)$"));
        assert_eq!(regex("(a|b)+.^$").as_deref(), Some(r"(?s)^(?:(a|b)+\.\^\$)$"));
        assert_eq!(regex(r"\%[^a-z%]\_").as_deref(), Some(r"(?s)^(?:\%[^a-z\%]\_)$"));
        assert_eq!(regex("a{2,3}b{2}(c|d){1,}").as_deref(), Some("(?s)^(?:a{2,3}b{2}(c|d){1,})$"));
        for unclear in ["a{,3}", "a{3,2}", "a{256}", "a{2", "a}", "a{x}", "a{+2}", "a{2,3,4}", "a{}"] {
            assert_eq!(regex(unclear), None, "{unclear}");
        }
        assert_eq!(regex(r"\{2\}").as_deref(), Some(r"(?s)^(?:\{2\})$"));
        assert_eq!(regex("[a"), None);
        assert_eq!(regex(r"a\"), None);
        assert_eq!(translated(r"a\%", None).as_deref(), Some(r"(?s)^(?:a\\.*)$"));
    }
}

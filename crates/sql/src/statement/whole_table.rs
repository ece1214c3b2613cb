//! `TABLE t`, which is `SELECT * FROM t`. The parser loses the words behind it, so it gets the longer form.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Writes `SELECT * FROM` in the place of the word where a query may begin with it.
pub(super) fn admit(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| keyword(&token.token) == Some(Keyword::TABLE)) {
        return tokens;
    }
    let told: Vec<usize> =
        (0..tokens.len()).filter(|place| !matches!(tokens[*place].token, Token::Whitespace(_))).collect();
    let (mut places, mut first) = (Vec::new(), None);
    for (at, &place) in told.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &tokens[told[at]].token);
        if matches!(before, None | Some(Token::SemiColon)) {
            first = keyword(&tokens[place].token);
        }
        let names = matches!(told.get(at + 1).map(|next| &tokens[*next].token), Some(Token::Word(_)));
        if keyword(&tokens[place].token) == Some(Keyword::TABLE) && names && begins(before, first) {
            places.push(place);
        }
    }
    let mut admitted = Vec::with_capacity(tokens.len() + 2 * places.len());
    for (place, token) in tokens.into_iter().enumerate() {
        if places.contains(&place) {
            let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            admitted.extend(words.map(|word| TokenWithSpan::new(word, token.span)));
        } else {
            admitted.push(token);
        }
    }
    admitted
}

/// Whether a query may begin behind a token, in a statement with this first word.
fn begins(before: Option<&Token>, first: Option<Keyword>) -> bool {
    match before {
        None | Some(Token::SemiColon) => true,
        Some(Token::LParen) => first != Some(Keyword::CREATE),
        Some(token) => match keyword(token) {
            Some(Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::ALL) => true,
            Some(Keyword::AS) => first == Some(Keyword::CREATE),
            Some(Keyword::EXPLAIN | Keyword::ANALYZE | Keyword::VERBOSE) => first == Some(Keyword::EXPLAIN),
            _ => false,
        },
    }
}

/// The keyword that a token is.
fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::statement::rewritten;

    #[test]
    fn table_is_a_query_of_all_columns_where_a_query_may_begin() {
        for (sql, expected) in [
            ("TABLE t ORDER BY a LIMIT 1", "SELECT * FROM t ORDER BY a LIMIT 1"),
            ("(TABLE t) UNION TABLE u", "(SELECT * FROM t) UNION SELECT * FROM u"),
            ("SELECT a AS table FROM t", "SELECT a AS table FROM t"),
            ("DROP TABLE t", "DROP TABLE t"),
            ("CREATE TABLE u AS TABLE t", "CREATE TABLE u AS SELECT * FROM t"),
            ("SELECT a FROM (TABLE \"T\") AS s", "SELECT a FROM (SELECT * FROM \"T\") AS s"),
        ] {
            assert_eq!(rewritten(sql), expected);
        }
    }
}

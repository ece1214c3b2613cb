//! What `PostgreSQL` knows of views and the parser does not, refused by name.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::{Error, Result};

/// Refuses `CREATE RECURSIVE VIEW`, `WITH CHECK OPTION` and `ALTER VIEW`.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    tokens.split(|token| token.token == Token::SemiColon).try_for_each(check_one)
}

fn check_one(statement: &[TokenWithSpan]) -> Result<()> {
    let mut words = Vec::new();
    for token in statement {
        match &token.token {
            Token::Whitespace(_) | Token::EOF => {}
            Token::Word(word) if word.quote_style.is_none() => words.push(word.value.to_ascii_uppercase()),
            _ => words.push(String::new()),
        }
        // Most statements are something else, and may be long.
        if words.first().is_some_and(|first| first != "CREATE" && first != "ALTER") {
            return Ok(());
        }
    }
    if words.len() > 1 && words[..2] == ["ALTER", "VIEW"] {
        return Err(Error::unsupported("ALTER VIEW", "DROP VIEW and CREATE it again"));
    }
    let Some(at) = words.iter().take(6).position(|word| word == "VIEW") else { return Ok(()) };
    if words[..at].iter().any(|word| word == "RECURSIVE") {
        return Err(Error::unsupported("CREATE RECURSIVE VIEW", "write CREATE VIEW v AS WITH RECURSIVE …"));
    }
    let end = |last: &[&str]| words.len() > at + last.len() && words[words.len() - last.len()..] == *last;
    if end(&["CHECK", "OPTION"]) {
        return Err(Error::unsupported(
            "WITH CHECK OPTION of a view",
            "leave it out: rows can not be changed through a view",
        ));
    }
    Ok(())
}

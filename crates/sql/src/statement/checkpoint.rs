//! `CHECKPOINT`: a statement that the parser does not know.
//!
//! It goes through the parser as the call of a procedure that no one else can mean.

use datafusion::sql::sqlparser::ast::{Function, ObjectNamePart};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The procedure's name.
const NAME: &str = "CHECKPOINT ;";

/// Makes every statement that is `CHECKPOINT` one that the parser knows.
pub(super) fn admit(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    if places.is_empty() {
        return tokens;
    }
    let mut admitted = Vec::with_capacity(tokens.len() + 3 * places.len());
    for (place, token) in tokens.into_iter().enumerate() {
        if places.contains(&place) {
            let call = [Token::make_keyword("CALL"), Token::make_word(NAME, Some('"')), Token::LParen, Token::RParen];
            admitted.extend(call.map(|call| TokenWithSpan::new(call, token.span)));
        } else {
            admitted.push(token);
        }
    }
    admitted
}

/// Whether that call stands for the statement.
pub(super) fn is_meant(function: &Function) -> bool {
    matches!(&function.name.0[..], [ObjectNamePart::Identifier(name)] if name.value == NAME)
}

/// Where the word stands alone between semicolons.
fn places(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let told = || tokens.iter().enumerate().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    let is_border = |token: Option<&Token>| matches!(token, None | Some(Token::SemiColon | Token::EOF));
    let after = told().skip(1).map(|(_, token)| Some(&token.token)).chain([None]);
    let mut before = None;
    let mut places = Vec::new();
    for ((place, token), after) in told().zip(after) {
        if let Token::Word(word) = &token.token
            && word.quote_style.is_none()
            && word.value.eq_ignore_ascii_case("CHECKPOINT")
            && is_border(before)
            && is_border(after)
        {
            places.push(place);
        }
        before = Some(&token.token);
    }
    places
}

#[cfg(test)]
mod tests {
    use crate::Statement;
    use crate::statement::Command;

    fn checkpoints(sql: &str) -> Vec<bool> {
        let statements = Statement::parse(sql).expect("parses");
        statements.iter().map(|statement| matches!(Command::of(statement.ast()), Ok(Command::Checkpoint))).collect()
    }

    #[test]
    fn the_word_alone_is_a_statement_and_elsewhere_a_name() {
        assert_eq!(checkpoints("CHECKPOINT"), [true]);
        assert_eq!(
            checkpoints("SELECT checkpoint FROM checkpoint; checkpoint ; -- now\n Checkpoint"),
            [false, true, true]
        );
        assert!(Statement::parse("CHECKPOINT now").is_err());
        assert_eq!(checkpoints("CALL checkpoint()"), [false]);
    }
}

//! Syntax trees of any depth without stack overflows.
//!
//! A chain of operators, such as a condition of a thousand ORs, is a tree as deep as the chain is long. Plain code walks,
//! copies and frees it recursively. So the depth is limited, threads that run statements have a stack for that depth, and
//! what must happen on the caller's thread is done on one with such a stack when the tree is deep.

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::{Error, Result};

/// Stack of a thread that works on statements. Address space that is not used costs nothing.
pub(crate) const STACK: usize = 256 << 20;

/// The deepest tree that there may be.
pub(super) const MAX_DEPTH: usize = 4000;

/// Trees of this depth are handled on the caller's own stack.
const SHALLOW: usize = 50;

/// A syntax tree that is freed where there is room for it.
#[derive(Debug)]
pub(super) struct Tree {
    /// There until it is dropped.
    ast: Option<Statement>,
    depth: usize,
}

impl Tree {
    pub(super) fn new(ast: Statement, depth: usize) -> Self {
        Self { ast: Some(ast), depth }
    }

    pub(super) fn ast(&self) -> &Statement {
        self.ast.as_ref().expect("taken only by drop")
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(ast) = self.ast.take() {
            // Should there be no thread to be had, the closure and the tree in it are freed right here.
            let _ = with_room(self.depth, move || drop(ast));
        }
    }
}

/// Works on a tree of some depth, on a thread with a larger stack when it is deep.
pub(super) fn with_room<T: Send>(depth: usize, work: impl FnOnce() -> T + Send) -> Result<T> {
    if depth <= SHALLOW {
        return Ok(work());
    }
    if depth > MAX_DEPTH {
        return Err(Error::Syntax {
            message: format!(
                "nested too deeply: {depth} operators and parentheses within one another, {MAX_DEPTH} may be"
            ),
        });
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| Error::from(datafusion::error::DataFusionError::IoError(error)))?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// A bound on the depth of the trees that some tokens can make: the operators between two commas, with those of the expressions
/// around them, and the parentheses that are open.
pub(super) fn depth(tokens: &[TokenWithSpan]) -> usize {
    let mut levels = vec![0_usize];
    let (mut depth, mut deepest) = (0, 0);
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                levels.push(0);
                depth += 1;
                deepest = deepest.max(depth);
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                depth -= levels.pop().unwrap_or_default();
                if levels.is_empty() {
                    levels.push(0);
                } else {
                    depth -= 1;
                }
            }
            Token::Comma => {
                if let Some(level) = levels.last_mut() {
                    depth -= std::mem::take(level);
                }
            }
            Token::SemiColon => {
                levels = vec![0];
                depth = 0;
            }
            other if makes_deeper(other) => {
                if let Some(level) = levels.last_mut() {
                    *level += 1;
                }
                depth += 1;
                deepest = deepest.max(depth);
            }
            _ => {}
        }
    }
    deepest
}

fn makes_deeper(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::BETWEEN
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::JOIN
                | Keyword::CASE
                | Keyword::EXPLAIN
        ),
        Token::Whitespace(_)
        | Token::Number(..)
        | Token::Char(_)
        | Token::SingleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::HexStringLiteral(_)
        | Token::NationalStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::Period
        | Token::Placeholder(_)
        | Token::EOF => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn depth_of(sql: &str) -> usize {
        depth(&Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().expect("tokens"))
    }

    #[test]
    fn depth_counts_operators_in_a_row_and_around() {
        assert_eq!(depth_of("SELECT 1, 'a + b', x.y"), 0);
        assert_eq!(depth_of("SELECT 1 + 2 + 3, 4 + 5"), 2);
        assert_eq!(depth_of("SELECT 1 + (2 * (3 - 4)) + f(1 + 2, 3)"), 5);
        assert_eq!(depth_of("INSERT INTO t VALUES (1 + 1, 2), (3, 4)"), 2);
        assert_eq!(depth_of("SELECT f(1, 2) + f(1, 2) + f(1, 2)"), 3);
        assert_eq!(depth_of("SELECT ((1)), (2)"), 2);
        assert_eq!(depth_of("SELECT 1) + ((2"), 3);
        assert_eq!(depth_of("SELECT 1 WHERE a = 1 OR b = 2; SELECT 1 UNION SELECT 2"), 3);
    }
}

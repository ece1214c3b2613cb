//! The generator: from a seed to schemas, rows and statements.
//!
//! Expressions are typed by [`Family`], and names are taken from scopes as SQL has them, so most statements are valid on both
//! sides. What is drawn stays within what `docs/sql.md` lists. Two manners:
//!
//! - *Tame*: any shape, nested, but arithmetic only on small values, so that the order in which the two sides evaluate can not make
//!   one of them fail. Values from the edges of their types are compared, grouped, joined and sorted all the same.
//! - *Strict* ([`strict`]): one operation on values from the edges, evaluated for every row. An error on one side only counts.

mod aggregate;
mod change;
mod condition;
mod expression;
mod from;
mod query;
pub(crate) mod schema;
mod strict;
mod transaction;
pub(crate) mod view;
mod window;

use fastrand::Rng;

use crate::compare::Terms;
use crate::kind::{Family, Type};
use crate::tree::{Sort, Tree, tree};
use schema::Table;

/// What a name in a scope means.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) family: Family,
    /// The column's own type, where it is a table's.
    pub(crate) kind: Option<Type>,
    /// Its values are small.
    pub(crate) tame: bool,
}

/// A table, or what stands in for one, in a FROM.
#[derive(Clone, Debug)]
struct Source {
    name: String,
    /// The table that it is, or nothing of the kind.
    of: String,
    columns: Vec<Column>,
}

/// The sources of one SELECT, and what of them needs care.
#[derive(Clone, Debug, Default)]
struct Scope {
    sources: Vec<Source>,
    /// Columns that USING or NATURAL has merged: known without a table's name.
    merged: Vec<Column>,
}

/// A statement with what its answers must agree in.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) tree: Tree,
    pub(crate) terms: Terms,
    /// The tables that it changes, whose rows are compared afterwards.
    pub(crate) changes: Vec<String>,
    /// It begins, divides or ends a transaction.
    pub(crate) controls: bool,
    /// It looks at what a change has made of a table.
    pub(crate) is_look: bool,
}

/// Draws statements over some tables.
#[derive(Debug)]
pub(crate) struct Generator<'a> {
    random: &'a mut Rng,
    tables: &'a [Table],
    scopes: Vec<Scope>,
    /// Set by what each side computes to as many digits as it likes.
    inexact: bool,
    /// For names that no table has.
    names: usize,
    /// The savepoints of the transaction, if one is open.
    open: Option<Vec<String>>,
}

impl<'a> Generator<'a> {
    pub(crate) fn new(random: &'a mut Rng, tables: &'a [Table]) -> Self {
        Self { random, tables, scopes: Vec::new(), inexact: false, names: 0, open: None }
    }

    /// The next statement.
    pub(crate) fn statement(&mut self) -> Drawn {
        self.scopes.clear();
        self.inexact = false;
        match self.random.u8(..100) {
            0..=51 => {
                let (tree, ordered) = self.top_query();
                let terms = Terms { ordered, inexact: self.inexact, strict: false };
                Drawn { tree, terms, changes: Vec::new(), controls: false, is_look: false }
            }
            52..=71 => self.strict(),
            72..=79 => self.control(),
            _ => self.change(),
        }
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.random.usize(..from.len())]
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// A column that is in sight and of a family; of this SELECT's own tables, or now and then of one around it.
    fn reference(&mut self, family: Family, tame: bool) -> Option<Tree> {
        let depth = self.scopes.len();
        let outer = depth > 1 && self.chance(25);
        let levels: Vec<usize> = if outer { (0..depth).rev().collect() } else { (0..depth).rev().take(1).collect() };
        let mut found = Vec::new();
        for &level in &levels {
            let hidden: Vec<&Scope> = self.scopes[level + 1..].iter().collect();
            for source in &self.scopes[level].sources {
                if hidden.iter().any(|scope| scope.sources.iter().any(|inner| inner.name == source.name)) {
                    continue;
                }
                for column in source.columns.iter().filter(|column| column.family == family && (column.tame || !tame)) {
                    found.push((level, source.name.clone(), column.name.clone()));
                }
            }
        }
        let own: Vec<String> = self
            .scopes
            .last()?
            .merged
            .iter()
            .filter(|column| column.family == family && (column.tame || !tame))
            .map(|column| column.name.clone())
            .collect();
        if !own.is_empty() && self.chance(50) {
            return Some(Tree::value(family, own[self.random.usize(..own.len())].clone()));
        }
        if found.is_empty() {
            return None;
        }
        let (level, source, column) = found.swap_remove(self.random.usize(..found.len()));
        let plain = self.is_plain(level, &column) && self.chance(30);
        Some(Tree::value(family, if plain { column } else { format!("{source}.{column}") }))
    }

    /// Whether a column's name alone means the one of that level.
    fn is_plain(&self, level: usize, column: &str) -> bool {
        let count = |scope: &Scope| {
            let all = scope.sources.iter().flat_map(|source| &source.columns);
            all.filter(|other| other.name == column).count()
        };
        count(&self.scopes[level]) == 1 && self.scopes[level + 1..].iter().all(|scope| count(scope) == 0)
    }

    /// A value of a family without a name in it.
    fn constant(&mut self, family: Family, tame: bool) -> Tree {
        if self.chance(12) {
            return Tree::value(family, format!("NULL::{}", family.name()));
        }
        self.present(family, tame)
    }

    /// A constant that is not NULL.
    fn present(&mut self, family: Family, tame: bool) -> Tree {
        let kind = match family {
            Family::Integer => [Type::SmallInt, Type::Integer, Type::BigInt][self.random.usize(..3)],
            Family::Decimal => Type::Decimal(5, 2),
            Family::Float => Type::Double,
            Family::Text => Type::Text,
            Family::Boolean => Type::Boolean,
            Family::Date => Type::Date,
            Family::Timestamp => Type::Timestamp,
            Family::Bytes => Type::Bytea,
        };
        let text = kind.literal(tame || kind == Type::SmallInt, self.random);
        Tree::value(family, if text.starts_with('-') { format!("({text})") } else { text })
    }

    /// A column, or else a constant.
    fn leaf(&mut self, family: Family, tame: bool) -> Tree {
        if self.chance(80)
            && let Some(column) = self.reference(family, tame)
        {
            return column;
        }
        self.constant(family, tame)
    }
}

/// A value in parentheses.
fn nested(family: Family, inner: Tree) -> Tree {
    tree!(Sort::Value(family); "(", inner, ")")
}

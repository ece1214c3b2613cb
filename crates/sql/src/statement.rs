//! From SQL text to statements that this database does.
//!
//! Text is parsed as `PostgreSQL` writes it. [`Command::of`] then sorts a statement into the few kinds that there are and
//! refuses everything else by name, so that nothing which is written is ever quietly left out.

mod check;
mod checkpoint;
mod dialect;
mod plain;
mod rewrite;
mod tree;
mod views;
mod whole_table;

use std::fmt;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    CascadeOption, ContextModifier, CopyLegacyOption, CopyOption, CopySource, CopyTarget, CreateTable, CreateView,
    Delete, DescribeAlias, Expr, Function, Ident, Insert, ObjectName, ObjectType, Set, Statement as Ast, TableObject,
    TransactionAccessMode, TransactionMode, Truncate, TruncateTableTarget, Update, Value,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use ishigaki_scan::Wish;

use crate::{Error, Result, setting, show};

pub(crate) use rewrite::alike::{marked, shown, tell_apart, without_marks};
pub(crate) use rewrite::called;
pub(crate) use rewrite::nameless::name_all;
pub(crate) use rewrite::tables::wrap;
pub(crate) use tree::STACK;
use tree::Tree;

/// One parsed SQL statement. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Statement {
    tree: Arc<Tree>,
}

impl Statement {
    /// Parses a text of statements that semicolons separate. All of it must be SQL, or nothing is returned.
    pub fn parse(sql: &str) -> Result<Vec<Self>> {
        let tokens = Tokenizer::new(&dialect::POSTGRES, sql)
            .tokenize_with_location()
            .map_err(|error| Error::Syntax { message: error.to_string() })?;
        check_numbers(&tokens)?;
        views::check(&tokens)?;
        let tokens = whole_table::admit(checkpoint::admit(tokens));
        let depth = tree::depth(&tokens);
        let trees = tree::with_room(depth, || {
            // How deep the tree may be is known already; several calls of the parser may be one level of it.
            let parser = Parser::new(&dialect::POSTGRES).with_recursion_limit(8 * tree::MAX_DEPTH);
            let mut statements = parser.with_tokens_with_locations(tokens).parse_statements()?;
            statements.iter_mut().for_each(rewrite::rewrite);
            Ok::<_, Error>(statements.into_iter().map(|ast| Tree::new(ast, depth)).collect::<Vec<_>>())
        })??;
        Ok(trees.into_iter().map(|tree| Self { tree: Arc::new(tree) }).collect())
    }

    /// The syntax tree, copied.
    pub(crate) fn to_ast(&self) -> Ast {
        self.ast().clone()
    }

    /// The syntax tree.
    pub(crate) fn ast(&self) -> &Ast {
        self.tree.ast()
    }
}

/// Refuses letters right behind a number: `0b11` and `123abc` would be numbers with a name.
fn check_numbers(tokens: &[TokenWithSpan]) -> Result<()> {
    for pair in tokens.windows(2) {
        if let [Token::Number(number, _), Token::Word(word)] = [&pair[0].token, &pair[1].token]
            && word.quote_style.is_none()
        {
            let message = format!("trailing junk after numeric literal: {number}{}", word.value);
            return Err(Error::Syntax { message });
        }
    }
    Ok(())
}

/// A text's first statement, as it is planned.
#[cfg(test)]
fn rewritten(sql: &str) -> String {
    Statement::parse(sql).expect("parses")[0].to_string()
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ast().fmt(f)
    }
}

/// A statement, sorted.
#[derive(Debug)]
pub(crate) enum Command<'a> {
    Begin,
    Commit,
    Rollback,
    /// `SAVEPOINT name`
    Savepoint(&'a Ident),
    /// `ROLLBACK TO name`
    RollbackTo(&'a Ident),
    /// `RELEASE name`
    Release(&'a Ident),
    Checkpoint,
    /// `SELECT`, `VALUES`, `DESCRIBE` of a query: whatever DataFusion answers by itself.
    Query(&'a Ast),
    ShowTables,
    ShowViews,
    /// `SET ishigaki.placement`
    Set(Wish),
    ShowSetting,
    /// `SHOW COLUMNS FROM t` and `DESCRIBE t`.
    ShowColumns(&'a ObjectName),
    Explain {
        ast: &'a Ast,
        statement: &'a Ast,
    },
    CreateTable(&'a CreateTable),
    /// Its query is not rewritten: the text of it is kept, and read again.
    CreateView(&'a CreateView),
    Drop(Drop<'a>),
    /// `TRUNCATE` of one or several tables.
    Truncate(&'a [TruncateTableTarget]),
    Insert(&'a Insert),
    Update(&'a Update),
    Delete(&'a Delete),
    Copy(Copy<'a>),
}

/// What a `DROP` is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    Table,
    View,
}

impl Dropped {
    /// The statement.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Table => "DROP TABLE",
            Self::View => "DROP VIEW",
        }
    }
}

/// `DROP TABLE` and `DROP VIEW`.
#[derive(Debug)]
pub(crate) struct Drop<'a> {
    pub(crate) kind: Dropped,
    pub(crate) names: &'a [ObjectName],
    pub(crate) if_exists: bool,
    /// Whether the views go that read them.
    pub(crate) cascade: bool,
}

/// A `COPY`, both ways.
#[derive(Debug)]
pub(crate) struct Copy<'a> {
    pub(crate) source: &'a CopySource,
    pub(crate) to: bool,
    pub(crate) file: &'a str,
    pub(crate) options: &'a [CopyOption],
    pub(crate) legacy_options: &'a [CopyLegacyOption],
}

impl<'a> Command<'a> {
    /// True if it changes nothing of the database.
    pub(crate) fn only_reads(&self) -> bool {
        match self {
            Self::Query(_)
            | Self::ShowTables
            | Self::ShowViews
            | Self::ShowColumns(_)
            | Self::ShowSetting
            | Self::Explain { .. } => true,
            Self::Copy(copy) => copy.to,
            _ => false,
        }
    }

    /// The table that it puts new rows into.
    pub(crate) fn grows(&self) -> Option<&'a ObjectName> {
        match self {
            Self::Insert(Insert { table: TableObject::TableName(name), .. }) => Some(name),
            Self::Copy(Copy { source: CopySource::Table { table_name, .. }, to: false, .. }) => Some(table_name),
            _ => None,
        }
    }

    /// Sorts a statement, or says that there is no such thing here.
    pub(crate) fn of(ast: &'a Ast) -> Result<Self> {
        // The query of a view is checked when it is read again.
        if !matches!(ast, Ast::CreateView(_)) {
            check::check(ast)?;
        }
        Ok(match ast {
            Ast::Query(_) => Self::Query(ast),
            Ast::ShowTables {
                terse: false,
                history: false,
                extended: false,
                full: false,
                external: false,
                show_options,
            } => match show::plain(show_options, "SHOW TABLES")? {
                None => Self::ShowTables,
                Some(_) => {
                    return Err(Error::unsupported("SHOW TABLES of a schema", "all tables are in one: SHOW TABLES"));
                }
            },
            Ast::ShowViews { terse: false, materialized: false, show_options } => {
                match show::plain(show_options, "SHOW VIEWS")? {
                    None => Self::ShowViews,
                    Some(_) => {
                        return Err(Error::unsupported("SHOW VIEWS of a schema", "all views are in one: SHOW VIEWS"));
                    }
                }
            }
            Ast::ShowColumns { extended: false, full: false, show_options } => {
                match show::plain(show_options, "SHOW COLUMNS")? {
                    Some(name) => Self::ShowColumns(name),
                    None => return Err(Error::unsupported("SHOW COLUMNS of nothing", "write SHOW COLUMNS FROM t")),
                }
            }
            Ast::ExplainTable { describe_alias: DescribeAlias::Describe | DescribeAlias::Desc, table_name, .. } => {
                Self::ShowColumns(table_name)
            }
            Ast::Explain { describe_alias, statement, analyze, .. } => {
                explain(ast, *describe_alias, statement, *analyze)?
            }
            Ast::Set(Set::SingleAssignment {
                scope: None | Some(ContextModifier::Session),
                hivevar: false,
                variable,
                values,
            }) => Self::Set(setting::wish(variable, values)?),
            Ast::ShowVariable { variable } => {
                setting::check_shown(variable)?;
                Self::ShowSetting
            }
            Ast::Insert(insert) => Self::Insert(insert),
            Ast::Update(update) => Self::Update(update),
            Ast::Delete(delete) => Self::Delete(delete),
            Ast::CreateTable(create) => Self::CreateTable(create),
            Ast::CreateView(create) => Self::CreateView(create),
            Ast::Drop {
                object_type: object_type @ (ObjectType::Table | ObjectType::View),
                if_exists,
                names,
                cascade,
                purge,
                temporary,
                table,
                restrict: _,
            } => {
                if *purge || *temporary || table.is_some() {
                    return Err(unsupported(ast));
                }
                let kind = if *object_type == ObjectType::View { Dropped::View } else { Dropped::Table };
                Self::Drop(Drop { kind, names, if_exists: *if_exists, cascade: *cascade })
            }
            Ast::Truncate(truncate) => Self::Truncate(truncated(ast, truncate)?),
            Ast::Copy { source, to, target, options, legacy_options, values: _ } => match target {
                CopyTarget::File { filename } => {
                    Self::Copy(Copy { source, to: *to, file: filename, options, legacy_options })
                }
                other => {
                    return Err(Error::unsupported(format!("COPY with {other}"), "name a file in quotes"));
                }
            },
            Ast::StartTransaction { modes, modifier, statements, exception, .. } => {
                if modifier.is_some() || !statements.is_empty() || exception.is_some() {
                    return Err(Error::unsupported("BEGIN with more than a transaction in it", "write BEGIN;"));
                }
                check_modes(modes)?;
                Self::Begin
            }
            Ast::Commit { chain: false, modifier: None, .. } => Self::Commit,
            Ast::Call(function) if checkpoint::is_meant(function) => Self::Checkpoint,
            Ast::Rollback { chain: false, savepoint: None } => Self::Rollback,
            Ast::Rollback { chain: false, savepoint: Some(name) } => Self::RollbackTo(name),
            Ast::Savepoint { name } => Self::Savepoint(name),
            Ast::ReleaseSavepoint { name } => Self::Release(name),
            other => return Err(unsupported(other)),
        })
    }
}

/// The tables of a `TRUNCATE` that asks for nothing beyond them.
fn truncated<'a>(ast: &Ast, truncate: &'a Truncate) -> Result<&'a [TruncateTableTarget]> {
    let Truncate { table_names, partitions: None, table: _, if_exists: false, identity, cascade, on_cluster: None } =
        truncate
    else {
        return Err(unsupported(ast));
    };
    if identity.is_some() || *cascade == Some(CascadeOption::Cascade) || table_names.iter().any(|t| t.has_asterisk) {
        return Err(Error::unsupported(
            "an option of TRUNCATE",
            "leave it out: tables have no identity columns, and no rows depend on theirs",
        ));
    }
    Ok(table_names)
}

fn explain<'a>(ast: &'a Ast, alias: DescribeAlias, statement: &'a Ast, analyze: bool) -> Result<Command<'a>> {
    let command = Command::of(statement)?;
    if let Ast::Explain { query_plan: true, .. }
    | Ast::Explain { estimate: true, .. }
    | Ast::Explain { options: Some(_), .. } = ast
    {
        return Err(Error::unsupported("EXPLAIN with options", "write EXPLAIN, EXPLAIN VERBOSE or EXPLAIN ANALYZE"));
    }
    match command {
        Command::Query(_) if alias != DescribeAlias::Explain => Ok(Command::Query(ast)),
        Command::Insert(_) | Command::Update(_) | Command::Delete(_) if analyze => Err(Error::unsupported(
            format!("EXPLAIN ANALYZE of {}", words(statement)),
            "it would change the table; EXPLAIN shows the plan without running it",
        )),
        Command::Query(_) | Command::Insert(_) | Command::Update(_) | Command::Delete(_) => {
            Ok(Command::Explain { ast, statement })
        }
        _ => Err(Error::unsupported(
            format!("EXPLAIN of {}", words(statement)),
            "only SELECT, INSERT, UPDATE and DELETE have a plan",
        )),
    }
}

fn check_modes(modes: &[TransactionMode]) -> Result<()> {
    for mode in modes {
        // Every isolation level is fine: what is given is SERIALIZABLE, and the standard allows to give more than asked.
        if let TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) = mode {
            return Err(Error::unsupported(
                "READ ONLY",
                "write BEGIN; a transaction that only reads costs nothing more",
            ));
        }
    }
    Ok(())
}

/// The first words of a statement, which name it: `ALTER TABLE`, `CREATE UNIQUE INDEX`.
fn words(ast: &Ast) -> String {
    let text = ast.to_string();
    let words: Vec<&str> = text
        .split_whitespace()
        .take(3)
        .take_while(|word| word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'))
        .collect();
    if words.is_empty() { "this statement".to_owned() } else { words.join(" ") }
}

fn unsupported(ast: &Ast) -> Error {
    let remedy = match ast {
        Ast::AlterTable(_) => {
            "CREATE a new TABLE, INSERT INTO it … SELECT, and DROP the old one, all in one transaction"
        }
        Ast::CreateIndex(_) => "the PRIMARY KEY is the only index; put the columns that you search by first in it",
        Ast::Truncate(_) => "write TRUNCATE t",
        Ast::Merge(_) => "use UPDATE and INSERT in one transaction",
        Ast::Prepare { .. } | Ast::Execute { .. } | Ast::Deallocate { .. } => "send the statement itself",
        Ast::Set(_) => "SET ishigaki.placement is; other settings are given when the database is opened",
        _ => {
            "SELECT, INSERT, UPDATE, DELETE, CREATE TABLE, DROP TABLE, CREATE VIEW, DROP VIEW, COPY, BEGIN, COMMIT, ROLLBACK, CHECKPOINT, EXPLAIN, \
             SHOW TABLES, SHOW VIEWS and DESCRIBE are"
        }
    };
    Error::unsupported(words(ast), remedy)
}

/// Whether `PostgreSQL` knows no type of an expression before it stands somewhere: of NULL, and of a text in quotes.
fn has_no_type(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => has_no_type(inner),
        Expr::Value(value) => matches!(
            value.value,
            Value::Null | Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) | Value::DollarQuotedString(_)
        ),
        _ => false,
    }
}

/// The name of a function that is called, without its schema.
fn function_name(function: &Function) -> Option<String> {
    function.name.0.last().and_then(|part| part.as_ident()).map(identifier)
}

/// The name in an identifier by `PostgreSQL`'s rules: lower case unless it was quoted.
pub(crate) fn identifier(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The table that a name means; only the schema `public` holds tables that can be changed.
pub(crate) fn table_name(name: &ObjectName) -> Result<String> {
    let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(identifier)).collect();
    match parts.as_deref() {
        Some([table]) => Ok(table.clone()),
        Some([schema, table]) if schema == SCHEMA => Ok(table.clone()),
        Some([catalog, schema, table]) if catalog == CATALOG && schema == SCHEMA => Ok(table.clone()),
        _ => Err(Error::NoSuchTable { table: name.to_string() }),
    }
}

/// The one catalog there is.
pub(crate) const CATALOG: &str = "ishigaki";

/// The schema of the tables.
pub(crate) const SCHEMA: &str = "public";

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(sql: &str) -> String {
        let statements = Statement::parse(sql).expect("parses");
        Command::of(statements[0].ast()).expect_err("is refused").to_string()
    }

    #[test]
    fn a_statement_that_is_not_supported_is_refused_by_its_name() {
        assert!(refused("ALTER TABLE t ADD COLUMN x INT").starts_with("ALTER TABLE is not supported"));
        assert!(refused("CREATE INDEX i ON t (a)").starts_with("CREATE INDEX is not supported"));
        assert!(refused("DROP MATERIALIZED VIEW v").starts_with("DROP MATERIALIZED VIEW is not supported"));
        assert!(refused("SELECT 1 INTO t").starts_with("SELECT INTO"));
        assert!(refused("SELECT * FROM t FOR UPDATE").contains("FOR UPDATE"));
        assert!(refused("EXPLAIN ANALYZE DELETE FROM t").contains("EXPLAIN ANALYZE of DELETE FROM"));
        assert!(refused("COPY t FROM STDIN").contains("STDIN"));
    }

    #[test]
    fn names_fold_to_lower_case_unless_quoted() {
        assert_eq!(identifier(&Ident::new("Name")), "name");
        assert_eq!(identifier(&Ident::with_quote('"', "Name")), "Name");
    }
}

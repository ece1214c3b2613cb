//! What stands in `CREATE TABLE … WITH (…)`.

use std::path::Path;

use datafusion::sql::sqlparser::ast::{CreateTableOptions, Expr, SqlOption, UnaryOperator, Value};
use ishigaki_base::ByteSize;
use ishigaki_remote::Credentials;

use crate::statement::identifier;
use crate::table::{Location, Paged};
use crate::{Error, Result};

/// What a table is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Rows in a table of the engine.
    Rows,
    /// Rows in page files.
    Paged(Paged),
}

/// What there is to be said.
const REMEDY: &str = "storage = 'paged' or 'rows' is, and for paged location = 'DIR, node://HOST:PORT/DIR, …', page_size = '128KiB', existing = true";

/// Reads the options of a table.
pub(crate) fn of(table: &str, options: &CreateTableOptions) -> Result<Wish> {
    let options = match options {
        CreateTableOptions::None => return Ok(Wish::Rows),
        CreateTableOptions::With(options) => options,
        other => return Err(Error::unsupported(format!("{other} of a table"), format!("WITH ({REMEDY})"))),
    };
    let mut given = Given::default();
    options.iter().try_for_each(|option| given.take(option))?;
    given.finish(table)
}

/// Options as they come in, each at most once.
#[derive(Default)]
struct Given {
    storage: Option<String>,
    location: Option<String>,
    page_size: Option<String>,
    existing: Option<String>,
}

impl Given {
    fn take(&mut self, option: &SqlOption) -> Result<()> {
        let SqlOption::KeyValue { key, value } = option else { return Err(unknown(&option.to_string())) };
        let name = identifier(key);
        let place = match name.as_str() {
            "storage" => &mut self.storage,
            "location" => &mut self.location,
            "page_size" => &mut self.page_size,
            "existing" => &mut self.existing,
            _ => return Err(unknown(&name)),
        };
        let Some(value) = text(value) else { return Err(unknown(&option.to_string())) };
        match place.replace(value) {
            None => Ok(()),
            Some(_) => Err(Error::unsupported(format!("{name} twice in one WITH"), "say it once")),
        }
    }

    fn finish(self, table: &str) -> Result<Wish> {
        let wrong = |reason: String| Error::Definition { table: table.to_owned(), reason };
        match self.storage.map(|storage| storage.to_lowercase()).as_deref() {
            Some("paged") => {}
            Some("rows") if self.location.is_none() && self.page_size.is_none() && self.existing.is_none() => {
                return Ok(Wish::Rows);
            }
            Some("rows") => {
                return Err(wrong(
                    "only a table WITH (storage = 'paged') has a location, page_size or existing".to_owned(),
                ));
            }
            Some(other) => return Err(Error::unsupported(format!("storage = '{other}'"), "'paged' and 'rows' are")),
            None => return Err(wrong("WITH needs storage = 'paged'".to_owned())),
        }
        let page_size = match self.page_size {
            None => ishigaki_page::Settings::default().page_size,
            Some(text) => text.parse::<ByteSize>().map_err(|error| wrong(format!("page_size: {error}")))?,
        };
        let existing = match self.existing.map(|existing| existing.to_lowercase()).as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(wrong("existing is true or false".to_owned())),
        };
        let places = self.location.unwrap_or_default();
        let places: Vec<&str> = places.split(',').map(str::trim).filter(|place| !place.is_empty()).collect();
        if places.is_empty() {
            return Err(wrong("a paged table has a location: WITH (storage = 'paged', location = 'DIR')".to_owned()));
        }
        let locations = places.into_iter().map(|place| Ok(Location { place: absolute(table, place)?, existing }));
        Ok(Wish::Paged(Paged { page_size, locations: locations.collect::<Result<_>>()? }))
    }
}

/// The text of a word, string, number or truth value.
fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => Some(text.clone()),
            Value::Number(digits, _) => Some(digits.clone()),
            Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        Expr::Identifier(ident) => Some(identifier(ident)),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => text(expr),
        _ => None,
    }
}

/// A place as the catalog keeps it: what it means must not hang on where a program was started.
fn absolute(table: &str, place: &str) -> Result<String> {
    if place.starts_with("node:") {
        let wrong = |error: ishigaki_remote::Error| Error::Definition {
            table: table.to_owned(),
            reason: format!("location {error}"),
        };
        let mut node: ishigaki_remote::Location = place.parse().map_err(wrong)?;
        node.credentials = match node.credentials {
            Credentials::None => Credentials::None,
            Credentials::Token(path) => Credentials::Token(absolute_path(&path)?.into()),
            Credentials::Tls { authorities, certificate, key } => Credentials::Tls {
                authorities: absolute_path(&authorities)?.into(),
                certificate: absolute_path(&certificate)?.into(),
                key: absolute_path(&key)?.into(),
            },
        };
        return Ok(node.to_string());
    }
    if place.contains("://") {
        let remedy = "name a directory of this machine, or one of a storage node: node://HOST:PORT/DIR";
        return Err(Error::unsupported(format!("location {place}"), remedy));
    }
    absolute_path(Path::new(place))
}

fn absolute_path(path: &Path) -> Result<String> {
    let path = std::path::absolute(path).map_err(|error| Error::file(path, error))?;
    // It came from text, and so did the working directory in front of it, most likely.
    path.into_os_string().into_string().map_err(|path| Error::File {
        path: path.into(),
        reason: "the path is not UTF-8, which a catalog can not hold; name another directory".to_owned(),
        source: None,
    })
}

fn unknown(option: &str) -> Error {
    Error::unsupported(format!("the option {option} of CREATE TABLE"), REMEDY)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement as Ast;

    use super::*;
    use crate::Statement;

    fn wish(options: &str) -> Result<Wish> {
        let statement =
            Statement::parse(&format!("CREATE TABLE t (a INT) WITH ({options})")).expect("parses").remove(0);
        let Ast::CreateTable(create) = statement.to_ast() else { panic!("a table") };
        of("t", &create.table_options)
    }

    #[test]
    fn a_paged_table_has_locations_and_a_page_size() {
        let Wish::Paged(paged) = wish("STORAGE = 'paged', location = '/a, /b ,', page_size = '64KiB'").expect("sound")
        else {
            panic!("paged")
        };
        let places: Vec<&str> = paged.locations.iter().map(|location| location.place.as_str()).collect();
        assert_eq!((paged.page_size, places), (ByteSize::kib(64), vec!["/a", "/b"]));
        assert!(paged.locations.iter().all(|location| !location.existing));
        let again = wish(&paged.to_string()).expect("what is shown reads back");
        assert_eq!(again, Wish::Paged(paged));
        assert_eq!(wish("storage = rows").expect("sound"), Wish::Rows);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_the_choice() {
        let refused = |options: &str| wish(options).expect_err(options).to_string();
        assert!(refused("fillfactor = 70").contains("location = 'DIR, "));
        assert!(refused("storage = 'paged'").contains("location"));
        assert!(refused("storage = 'rows', page_size = '4KiB'").contains("only a table WITH (storage = 'paged')"));
        assert!(refused("storage = 'columns'").contains("'paged' and 'rows'"));
        assert!(refused("storage = 'paged', location = '/a', location = '/b'").contains("twice"));
        assert!(refused("storage = 'paged', location = '/a', page_size = 'much'").contains("page_size"));
        assert!(refused("storage = 'paged', location = 's3://bucket/a'").contains("a directory of this machine"));
        assert!(refused("storage = 'paged', location = 'node://host/a'").contains("node://localhost:7117/dir"));
    }

    #[test]
    fn a_nodes_directory_is_a_location_whose_files_of_credentials_are_absolute() {
        let place = "node://host:1/a/b?token-file=token&connections=2";
        let Wish::Paged(paged) = wish(&format!("storage = 'paged', location = '{place}, /here'")).expect("sound")
        else {
            panic!("paged")
        };
        let token = std::path::absolute("token").expect("a path");
        let expected = format!("node://host:1/a/b?token-file={}&connections=2", token.display());
        assert_eq!(paged.locations[0].place, expected);
        assert_eq!(wish(&paged.to_string()).expect("what is shown reads back"), Wish::Paged(paged));
    }
}

//! What is known of database servers: the names of their tables, by files, and how they tell what they get done. Nothing in them is changed for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A database server, which is asked by its own client program, as the user of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// By `psql`.
    PostgreSql,
    /// With `InnoDB`, by `mariadb`.
    MariaDb,
}

/// The files of a database's tables and indexes, from the server's own folder on.
const TABLES: &str = "SELECT pg_relation_filepath(oid), current_database() || '.' || relname FROM pg_class WHERE pg_relation_filepath(oid) IS NOT NULL";
const DATABASES: &str = "SELECT datname FROM pg_database WHERE datallowconn";

/// How files of tables end. A partition's name follows its table's behind `#P#`.
const ENDS: [&str; 5] = ["ibd", "MAD", "MAI", "MYD", "MYI"];

impl Server {
    /// The command that prints what it has committed and rolled back since it was started or set up: for [`Rate`](crate::Rate).
    pub fn work(self) -> &'static str {
        match self {
            Self::PostgreSql => {
                "psql -AtX -d postgres -c 'SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database'"
            }
            Self::MariaDb => {
                "mariadb -NBe \"SELECT CAST(SUM(variable_value) AS UNSIGNED) FROM information_schema.global_status \
                 WHERE variable_name IN ('HANDLER_COMMIT', 'HANDLER_ROLLBACK')\""
            }
        }
    }

    /// Its tables and indexes, by their files below its data directory; what is not told goes without names.
    pub fn names(self, data: &Path) -> BTreeMap<PathBuf, String> {
        match self {
            Self::PostgreSql => of_postgresql(),
            Self::MariaDb => of_mariadb(data),
        }
    }
}

fn of_postgresql() -> BTreeMap<PathBuf, String> {
    let ask = |database: &str, query: &str| {
        let output = Command::new("psql").args(["-AtX", "-F", "\t", "-d", database, "-c", query]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let databases = ask("postgres", DATABASES).unwrap_or_default();
    let answers = databases.lines().filter_map(|database| ask(database, TABLES));
    let mut names = BTreeMap::new();
    for answer in answers {
        for (path, name) in answer.lines().filter_map(|line| line.split_once('\t')) {
            names.insert(PathBuf::from(path), name.to_owned());
        }
    }
    names
}

/// The files have their tables' names, a folder for each database.
fn of_mariadb(data: &Path) -> BTreeMap<PathBuf, String> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut names = BTreeMap::new();
    for path in entries(data).filter(|path| path.is_dir()).flat_map(|folder| entries(&folder)) {
        let ending = path.extension().and_then(|end| end.to_str());
        if !ending.is_some_and(|end| ENDS.contains(&end)) {
            continue;
        }
        let Ok(below) = path.strip_prefix(data) else { continue };
        let table = below.file_stem().and_then(|stem| stem.to_str());
        if let Some((database, table)) = below.parent().and_then(Path::to_str).zip(table) {
            names.insert(below.to_owned(), format!("{}.{}", decoded(database), decoded(table)));
        }
    }
    names
}

/// A name as it was given: in that of a file, most of what is no letter of ASCII, digit or `_` is `@` and four hexadecimal digits. Letters of other alphabets are `@` and
/// two characters, by tables of the server's; these stay.
fn decoded(name: &str) -> String {
    let mut units = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let digits = rest.strip_prefix('@').and_then(|rest| rest.get(..4));
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if let Some(unit) = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
            units.push(unit);
            rest = &rest[5..];
        } else {
            units.extend(first.encode_utf16(&mut [0; 2]).iter());
            rest = &rest[first.len_utf8()..];
        }
    }
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_they_were_given() {
        for (file, name) in [
            ("orders", "orders"),
            ("a@0020b@002dc", "a b-c"),
            ("@0040", "@"),
            ("stra@1je@0020@m0@0020@0024x@0020@65e5@672c", "stra@1je @m0 $x 日本"),
            ("@d83d@de00", "😀"),
            ("@12", "@12"),
            ("@zzzz", "@zzzz"),
            ("@00é", "@00é"),
            ("@+123", "@+123"),
            ("t#P#p0", "t#P#p0"),
        ] {
            assert_eq!(decoded(file), name, "{file}");
        }
    }

    #[test]
    fn tables_of_mariadb_are_found_by_their_files() {
        let data = tempfile::tempdir().unwrap();
        for folder in ["shop", "a@002db", "empty"] {
            fs::create_dir(data.path().join(folder)).unwrap();
        }
        for file in ["shop/orders.ibd", "shop/orders.frm", "shop/old.MYD", "a@002db/t.ibd", "shop/db.opt", "ibdata1"] {
            fs::write(data.path().join(file), b"x").unwrap();
        }
        let names = Server::MariaDb.names(data.path());
        let expected = [("a@002db/t.ibd", "a-b.t"), ("shop/old.MYD", "shop.old"), ("shop/orders.ibd", "shop.orders")];
        let expected = expected.map(|(path, name)| (PathBuf::from(path), name.to_owned()));
        assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
        assert!(Server::MariaDb.names(Path::new("/nowhere")).is_empty());
    }
}

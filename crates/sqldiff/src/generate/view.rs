//! Views over generated queries, read in the place of tables afterwards, and how they end.

use fastrand::Rng;

use super::schema::Table;
use super::{Column, Drawn, Generator};
use crate::compare::Terms;
use crate::kind::Family;
use crate::tree::{Sort, Tree, tree};

impl Generator<'_> {
    /// A view, and what it is in the place of a table.
    pub(crate) fn view(&mut self, name: &str) -> (Drawn, Table) {
        self.scopes.clear();
        self.inexact = false;
        if self.chance(30) {
            return self.whole_table(name);
        }
        let families: Vec<Family> = (0..self.random.usize(1..4)).map(|_| Family::any(self.random)).collect();
        let query = self.query(&families, 2);
        let column = |(number, &family): (usize, &Family)| Column {
            name: format!("c{}", number + 1),
            family,
            kind: None,
            tame: false,
        };
        let columns: Vec<Column> = families.iter().enumerate().map(column).collect();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let tree = tree!(Sort::Words; format!("CREATE VIEW {name} ({}) AS ", names.join(", ")), query);
        let inexact = self.inexact;
        (Drawn::plain(tree, Vec::new()), self::table(name, columns, inexact))
    }

    /// `SELECT *` of a table or another view, perhaps of some of its rows.
    fn whole_table(&mut self, name: &str) -> (Drawn, Table) {
        let (from, scope) = self.one_table();
        let columns = scope.sources.iter().flat_map(|source| source.columns.clone()).collect();
        self.scopes.push(scope);
        let filter = self.where_clause(3);
        self.scopes.pop();
        let tree = tree!(Sort::Words; format!("CREATE VIEW {name} AS SELECT * FROM "), from, filter);
        let inexact = self.inexact;
        (Drawn::plain(tree, Vec::new()), self::table(name, columns, inexact))
    }
}

fn table(name: &str, columns: Vec<Column>, inexact: bool) -> Table {
    Table { name: name.to_owned(), columns, view: true, inexact, ..Table::default() }
}

/// What becomes of tables and their views in the end: some are dropped, and what is left is looked at.
pub(crate) fn ends(tables: &[Table], random: &mut Rng) -> Vec<Drawn> {
    let mut ends = vec![Tree::words("ROLLBACK")];
    for _ in 0..3 {
        let table = &tables[random.usize(..tables.len())];
        let kind = if table.view { "VIEW" } else { "TABLE" };
        let how = ["", "", " RESTRICT", " CASCADE"][random.usize(..4)];
        let sure = ["", "IF EXISTS "][random.usize(..2)];
        ends.push(Tree::words(format!("DROP {kind} {sure}{}{how}", table.name)));
    }
    let drop = |tree| Drawn { controls: true, ..Drawn::plain(tree, Vec::new()) };
    // Whether all of a view is computed when its rows are counted is left open.
    let look = |view: &Table| {
        let tree = Tree::words(format!("SELECT count(*) FROM {}", view.name));
        Drawn { terms: Terms::default(), ..drop(tree) }
    };
    ends.into_iter().map(drop).chain(tables.iter().filter(|table| table.view).map(look)).collect()
}

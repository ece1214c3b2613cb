//! Transactions, their savepoints and their ends.

use super::{Drawn, Generator};
use crate::compare::Terms;
use crate::tester::names;
use crate::tree::{Part, Sort, Tree};

impl Generator<'_> {
    /// The next step of a transaction. After one that may take rows back, all tables are compared.
    pub(super) fn control(&mut self) -> Drawn {
        if self.chance(25) {
            return self.placement();
        }
        let (sql, takes_back) = match self.open.take() {
            None => {
                self.open = Some(Vec::new());
                ("BEGIN".to_owned(), false)
            }
            Some(mut points) => match self.random.u8(..10) {
                0..=3 => {
                    let name = self.pick(&["p", "q", "r"]).to_owned();
                    points.push(name.clone());
                    self.open = Some(points);
                    (format!("SAVEPOINT {name}"), false)
                }
                4..=6 if !points.is_empty() => {
                    let name = points[self.random.usize(..points.len())].clone();
                    let last = points.iter().rposition(|point| *point == name).unwrap_or(0);
                    points.truncate(last + 1);
                    self.open = Some(points);
                    (format!("ROLLBACK TO {name}"), true)
                }
                7 if !points.is_empty() => {
                    let name = points[self.random.usize(..points.len())].clone();
                    let last = points.iter().rposition(|point| *point == name).unwrap_or(0);
                    points.truncate(last);
                    self.open = Some(points);
                    (format!("RELEASE {name}"), false)
                }
                4..=7 => ("ROLLBACK".to_owned(), true),
                _ => (self.pick(&["COMMIT", "ROLLBACK"]).to_owned(), true),
            },
        };
        let changes = if takes_back { names(self.tables) } else { Vec::new() };
        Drawn { tree: Tree::words(sql), terms: Terms::default(), changes, controls: true, is_look: false }
    }

    /// Where the work of scans is done from now on; there is no such thing on the other side.
    fn placement(&mut self) -> Drawn {
        let wish = self.pick(&["fetch", "push", "auto", "local"]);
        let tree = Tree {
            sort: Sort::Words,
            parts: vec![Part::Differs {
                ours: format!("SET ishigaki.placement = '{wish}'"),
                theirs: "SET search_path = public".to_owned(),
            }],
        };
        Drawn { tree, terms: Terms::default(), changes: Vec::new(), controls: true, is_look: false }
    }
}

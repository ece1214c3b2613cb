//! Whether two answers are the same.

use std::cmp::Ordering;

use crate::value::{Answer, Class, Row, Value};

/// How closely the answers to a statement must agree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// The rows have an order that leaves nothing open.
    pub(crate) ordered: bool,
    /// It divides decimals or averages: how many digits there are is each side's own choice.
    pub(crate) inexact: bool,
    /// An error on one side alone can not come from another order of evaluation.
    pub(crate) strict: bool,
}

/// What comes of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    /// Ours has no such thing.
    Refused,
    /// One side evaluated something that the other did not need to, which SQL leaves open.
    Doubtful,
    /// A difference of this kind.
    Different(&'static str),
}

/// Compares ours with theirs.
pub(crate) fn compare(ours: &Answer, theirs: &Answer, terms: Terms) -> Verdict {
    match (ours, theirs) {
        (Answer::Refused(_), _) => Verdict::Refused,
        (Answer::Failed(ours, _), Answer::Failed(theirs, _)) => {
            if ours == theirs || !terms.strict && ours.is_of_evaluation() && theirs.is_of_evaluation() {
                Verdict::Same
            } else {
                Verdict::Different("errors of different classes")
            }
        }
        // The rival has nothing to compare with.
        (_, Answer::Failed(Class::Time, _)) => Verdict::Doubtful,
        (Answer::Failed(class, _), _) if class.is_of_evaluation() && !terms.strict => Verdict::Doubtful,
        // Where nothing comes of a statement, its subqueries need not be looked at.
        (Answer::Rows(none), Answer::Failed(Class::Cardinality, _)) if none.is_empty() && !terms.strict => {
            Verdict::Doubtful
        }
        // Several rows where there may be one are told by the one side that looks.
        (_, Answer::Failed(Class::Cardinality, _)) => Verdict::Different("an answer here, an error there"),
        (_, Answer::Failed(class, _)) if class.is_of_evaluation() && !terms.strict => Verdict::Doubtful,
        (Answer::Failed(..), _) => Verdict::Different("an error here, an answer there"),
        (_, Answer::Failed(..)) => Verdict::Different("an answer here, an error there"),
        (Answer::Rows(ours), Answer::Rows(theirs)) => {
            let same =
                if terms.ordered { same_lists(ours, theirs, terms) } else { same_multisets(ours, theirs, terms) };
            if same { Verdict::Same } else { Verdict::Different("rows differ") }
        }
        (Answer::Changed(Some(ours)), Answer::Changed(Some(theirs))) if ours != theirs => {
            Verdict::Different("numbers of changed rows differ")
        }
        (Answer::Changed(_), Answer::Changed(_)) => Verdict::Same,
        _ => Verdict::Different("rows here or there alone"),
    }
}

fn same_lists(ours: &[Row], theirs: &[Row], terms: Terms) -> bool {
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same_rows(ours, theirs, terms))
}

/// Rows in any order, each as often as on the other side.
pub(crate) fn same_multisets(ours: &[Row], theirs: &[Row], terms: Terms) -> bool {
    if ours.len() != theirs.len() {
        return false;
    }
    let (ours, mut theirs) = (sorted(ours), sorted(theirs));
    if ours.iter().zip(&theirs).all(|(ours, theirs)| same_rows(ours, theirs, terms)) {
        return true;
    }
    // Numbers that are equal within the tolerance may have sorted rows differently.
    ours.into_iter().all(|row| {
        let found = theirs.iter().position(|other| same_rows(row, other, terms));
        found.map(|at| theirs.swap_remove(at)).is_some()
    })
}

fn sorted(rows: &[Row]) -> Vec<&Row> {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| {
        let places = a.iter().zip(b.iter()).map(|(a, b)| {
            let (a, b) = (a.rank(), b.rank());
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(b.2))
        });
        places.fold(Ordering::Equal, Ordering::then)
    });
    rows
}

fn same_rows(ours: &Row, theirs: &Row, terms: Terms) -> bool {
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs, terms))
}

fn same(ours: &Value, theirs: &Value, terms: Terms) -> bool {
    match (ours, theirs) {
        (Value::Float(ours, short), Value::Float(theirs, also_short)) => {
            near(*ours, *theirs, if *short || *also_short { 1e-5 } else { 1e-9 })
        }
        (Value::Exact(ours), Value::Exact(theirs)) if ours != theirs => {
            terms.inexact && near(as_float(ours), as_float(theirs), if terms.strict { 1e-12 } else { 1e-4 })
        }
        (Value::Float(float, _), Value::Exact(exact)) | (Value::Exact(exact), Value::Float(float, _)) => {
            terms.inexact && near(*float, as_float(exact), 1e-9)
        }
        _ => ours == theirs,
    }
}

fn as_float(digits: &str) -> f64 {
    digits.parse().unwrap_or(f64::NAN)
}

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    if a.is_finite() && b.is_finite() {
        (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0)
    } else {
        a.is_nan() && b.is_nan() || a.total_cmp(&b).is_eq()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(numbers: &[&str]) -> Answer {
        Answer::Rows(numbers.iter().map(|digits| vec![Value::exact(digits)]).collect())
    }

    fn differ(ours: &Answer, theirs: &Answer, terms: Terms) -> bool {
        matches!(compare(ours, theirs, terms), Verdict::Different(_))
    }

    #[test]
    fn rows_are_compared_as_multisets_or_as_lists() {
        let (unordered, ordered) = (Terms::default(), Terms { ordered: true, ..Terms::default() });
        assert!(!differ(&rows(&["1", "2.50"]), &rows(&["2.5", "1.0"]), unordered));
        assert!(differ(&rows(&["1", "2"]), &rows(&["2", "1"]), ordered));
        assert!(differ(&rows(&["1", "1", "2"]), &rows(&["1", "2", "2"]), unordered));
        assert!(differ(&rows(&["1"]), &rows(&["1", "1"]), unordered));
        assert!(differ(&rows(&["0.33"]), &rows(&["0.333333"]), unordered));
        assert!(differ(&Answer::Rows(vec![vec![Value::Null]]), &rows(&["0"]), unordered));
        assert!(differ(&Answer::Rows(vec![vec![Value::Whole("2".to_owned())]]), &rows(&["2"]), unordered));
    }

    #[test]
    fn floating_point_numbers_agree_within_a_tolerance() {
        let float = |value| Answer::Rows(vec![vec![Value::Float(value, false)]]);
        assert!(!differ(&float(0.1 + 0.2), &float(0.3), Terms::default()));
        assert!(!differ(&float(f64::NAN), &float(f64::NAN), Terms::default()));
        assert!(differ(&float(0.3001), &float(0.3), Terms::default()));
        assert!(differ(&float(f64::INFINITY), &float(f64::MAX), Terms::default()));
    }

    #[test]
    fn an_error_on_one_side_counts_where_the_statement_is_strict() {
        let failed = |class| Answer::Failed(class, String::new());
        let strict = Terms { strict: true, ..Terms::default() };
        assert!(differ(&rows(&["-2"]), &failed(Class::Overflow), strict));
        assert_eq!(compare(&rows(&["1"]), &failed(Class::DivisionByZero), Terms::default()), Verdict::Doubtful);
        assert_eq!(compare(&rows(&[]), &failed(Class::Cardinality), Terms::default()), Verdict::Doubtful);
        assert!(differ(&rows(&["1"]), &failed(Class::Cardinality), Terms::default()));
        assert!(differ(&failed(Class::Other), &rows(&["1"]), Terms::default()));
        assert_eq!(compare(&rows(&["1"]), &failed(Class::Time), strict), Verdict::Doubtful);
        assert!(differ(&failed(Class::Time), &rows(&["1"]), strict));
        assert!(differ(&failed(Class::Overflow), &failed(Class::DivisionByZero), strict));
        assert!(!differ(&failed(Class::Overflow), &failed(Class::DivisionByZero), Terms::default()));
    }
}

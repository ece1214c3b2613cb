//! What a caller reads of errors of DataFusion's own and of the parser's.

use std::borrow::Cow;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

use crate::Error;
use crate::statement::without_marks;

/// The message of the innermost error, without DataFusion's headings and backtraces.
pub(super) fn text_of(error: &DataFusionError) -> String {
    match Error::inside(error) {
        Some(own) => own.to_string(),
        None => match (error, error.find_root()) {
            (DataFusionError::Collection(errors), _) => errors.iter().map(text_of).collect::<Vec<_>>().join("; "),
            (_, DataFusionError::NotImplemented(what) | DataFusionError::Internal(what)) => unplanned(what).to_string(),
            (_, root) => {
                let text = root.message();
                let text = no_group(&text).map_or(text, Cow::Owned);
                without_marks(text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(&text)).into_owned()
            }
        },
    }
}

/// The text of an error about a column that is no group, without a list of those that are: DataFusion has added some.
fn no_group(text: &str) -> Option<String> {
    const NO_GROUP: &str = "\" must appear in the GROUP BY clause";
    let (before, _) = text.split_once(NO_GROUP)?;
    let (_, column) = before.rsplit_once("column \"")?;
    Some(format!("column \"{column}{NO_GROUP} or be used in an aggregate function"))
}

/// The longest part of a planner's own words that is shown.
const LONGEST_WORDS: usize = 160;

/// Whether `a.b` was read as a part of a column `a`; no type here has such parts.
pub(super) fn takes_column_for_table(text: &str) -> bool {
    text.starts_with("Cannot access field at argument") || text.contains("Nested identifiers are not yet supported")
}

/// What the planner or one of its operators can not do, or thinks a defect of itself, is a part of SQL that is not supported.
pub(super) fn unplanned(text: &str) -> Error {
    let subquery = ["Exists(", "InSubquery(", "ScalarSubquery(", "OuterReferenceColumn(", "outer_ref("];
    if subquery.iter().any(|word| text.contains(word)) {
        return Error::unsupported(
            "a subquery in this place",
            "write it as a join, or compute it in a subquery of FROM",
        );
    }
    if takes_column_for_table(text) {
        return Error::unsupported(
            "a name of two parts whose first one is a table, and a column in a query within that one's",
            "give that table another alias",
        );
    }
    if let Some((_, function)) = text.split_once("Function '")
        && let Some((function, _)) = function.split_once("' failed to match any signature")
    {
        return Error::unsupported(
            format!("{function} of arguments of these types"),
            "CAST the arguments to types that it takes, if there is such a function",
        );
    }
    let text = text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(text);
    let text = without_marks(text.trim_start_matches("Internal error: "));
    let words: String = text.lines().next().unwrap_or_default().chars().take(LONGEST_WORDS).collect();
    Error::unsupported(
        format!("a part of this statement (\"{}\")", words.trim_end_matches(['.', ':', ' '])),
        "write it another way, or in smaller parts",
    )
}

/// The text of an error about columns of other types than were planned.
pub(super) fn mismatched(error: &ArrowError) -> Option<&str> {
    match error {
        ArrowError::SchemaError(text) | ArrowError::NotYetImplemented(text) => Some(text),
        ArrowError::InvalidArgumentError(text) if text.contains("must match schema") => Some(text),
        _ => None,
    }
}

/// The parser's message without its heading.
pub(super) fn text_of_parser(error: &ParserError) -> String {
    match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => without_marks(message).into_owned(),
        ParserError::RecursionLimitExceeded => "nested too deeply".to_owned(),
    }
}

//! `SET ishigaki.placement = …` and `SHOW ishigaki.placement`: where a session's scans of page files at storage nodes are
//! done. It is the session's alone and no part of any transaction. All other settings are given when a database is opened.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Value};
use ishigaki_scan::{ScanOptions, Wish};

use crate::outcome::Rows;
use crate::statement::identifier;
use crate::{Error, Outcome, Result};

/// The one setting that there is.
const PLACEMENT: [&str; 2] = ["ishigaki", "placement"];

/// What can be said.
const REMEDY: &str = "SET ishigaki.placement = 'auto', 'local', 'fetch' or 'push' is";

/// What `SET variable = values` wishes.
pub(crate) fn wish(variable: &ObjectName, values: &[Expr]) -> Result<Wish> {
    let name: Option<Vec<String>> = variable.0.iter().map(|part| part.as_ident().map(identifier)).collect();
    if name.is_none_or(|name| name != PLACEMENT) {
        return Err(unknown(&format!("SET {variable}")));
    }
    let word = match values {
        [Expr::Value(value)] => match &value.value {
            Value::SingleQuotedString(word) | Value::DoubleQuotedString(word) => word.clone(),
            other => other.to_string(),
        },
        [Expr::Identifier(word)] => word.value.clone(),
        // As another database says it.
        other => other.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    word.parse().map_err(|error: ishigaki_scan::UnknownPlacement| Error::unsupported(error.to_string(), REMEDY))
}

/// Refuses `SHOW` of anything else.
pub(crate) fn check_shown(variable: &[Ident]) -> Result<()> {
    let name: Vec<String> =
        variable.iter().flat_map(|part| part.value.split('.').map(str::to_lowercase).collect::<Vec<_>>()).collect();
    if name == PLACEMENT { Ok(()) } else { Err(unknown(&format!("SHOW {}", name.join(".")))) }
}

fn unknown(what: &str) -> Error {
    Error::unsupported(
        what,
        format!(
            "{REMEDY}; so are SHOW TABLES and SHOW COLUMNS FROM t; other settings are given when the database is opened"
        ),
    )
}

/// From now on, this session's scans are placed so.
pub(crate) fn set(state: &mut SessionState, wish: Wish) -> Outcome {
    let extensions = &mut state.config_mut().options_mut().extensions;
    if let Some(options) = extensions.get_mut::<ScanOptions>() {
        options.placement = wish.to_string();
    }
    Outcome::Done { tag: "SET" }
}

/// What is wished.
pub(crate) fn show(state: &SessionState) -> Result<Outcome> {
    let word: ArrayRef = Arc::new(StringArray::from(vec![ScanOptions::wish(state.config_options()).to_string()]));
    let batch = RecordBatch::try_from_iter([("ishigaki.placement", word)])?;
    Ok(Outcome::Rows(Rows::complete(batch.schema(), vec![batch])))
}

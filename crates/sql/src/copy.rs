//! COPY between tables and files.
//!
//! ```text
//! COPY t FROM file:  file ── csv::Reader or Parquet's reader ── batches ── Inserter ── one transaction
//! COPY … TO file:    query ── batches ── csv::Writer or Parquet's writer ── temporary file ── rename
//! ```
//!
//! Both stream, so a file may be larger than memory (the table it goes into may not). A COPY that fails loads nothing,
//! and leaves a file that was there before as it was.

mod csv;
mod from;
mod options;
mod to;

use std::path::Path;

use crate::statement::Copy;
use crate::worker::Context;
use crate::{Outcome, Result};

use options::Options;

/// Runs a COPY.
pub(crate) async fn run(context: &Context<'_>, copy: &Copy<'_>) -> Result<Outcome> {
    let path = Path::new(copy.file);
    let options = Options::new(path, copy)?;
    let rows = if copy.to {
        to::run(context, copy.source, path, &options).await?
    } else {
        from::run(context, copy.source, path, &options).await?
    };
    Ok(Outcome::Affected { tag: "COPY", rows })
}

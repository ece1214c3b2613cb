//! What the floors below say of their workings, on stderr.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// Begins to show events of the given level or filter, of `RUST_LOG`, or warnings.
pub(crate) fn start(level: Option<String>) -> Result<(), Failure> {
    let (origin, filter) = match level {
        Some(level) => ("--log-level", level),
        None => ("RUST_LOG", std::env::var("RUST_LOG").unwrap_or_else(|_| "warn".to_owned())),
    };
    let filter =
        EnvFilter::try_new(&filter).map_err(|error| Failure::usage(format!("{origin} `{filter}`: {error}")))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
    Ok(())
}

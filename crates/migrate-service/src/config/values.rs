//! Settings from the text that a person writes, in a file or on a command line.

use std::net::ToSocketAddrs;
use std::path::{Component, Path};
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_migrate::engine::{Depth, Passes};

use super::MOST_PARALLEL;
use crate::{Error, Result};

/// `30s`, `10m`, `2h`, `1d`.
///
/// # Errors
///
/// [`Error::Setting`] for any other text.
pub fn duration(field: &'static str, text: &str) -> Result<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        _ => None,
    };
    let time = seconds.zip(number.parse::<u64>().ok()).and_then(|(unit, number)| number.checked_mul(unit));
    time.map(Duration::from_secs)
        .ok_or_else(|| Error::setting(field, format!("`{text}` is no time"), "write it as 30s, 10m, 2h or 1d"))
}

/// Bytes a second: `50MiB`.
///
/// # Errors
///
/// [`Error::Setting`] for what is no size, or none at all.
pub fn bandwidth(text: &str) -> Result<u64> {
    match text.parse::<ByteSize>() {
        Ok(ByteSize(bytes)) if bytes > 0 => Ok(bytes),
        _ => Err(Error::setting(
            "bandwidth",
            format!("`{text}` is no number of bytes above 0"),
            "write the bytes of a second as 50MiB, or leave it out",
        )),
    }
}

/// `breadth-first` or `depth-first`.
///
/// # Errors
///
/// [`Error::Setting`] for any other text.
pub fn depth(text: &str) -> Result<Depth> {
    match text {
        "breadth-first" => Ok(Depth::BreadthFirst),
        "depth-first" => Ok(Depth::DepthFirst),
        _ => Err(Error::setting("depth", format!("there is no order `{text}`"), "write breadth-first or depth-first")),
    }
}

/// `metadata-first` or `bulk`.
///
/// # Errors
///
/// [`Error::Setting`] for any other text.
pub fn passes(text: &str) -> Result<Passes> {
    match text {
        "metadata-first" => Ok(Passes::MetadataFirst),
        "bulk" => Ok(Passes::Bulk),
        _ => Err(Error::setting("passes", format!("there is no way `{text}`"), "write metadata-first or bulk")),
    }
}

/// Requests under way at a time.
///
/// # Errors
///
/// [`Error::Setting`] for none, or too many.
pub fn parallel(number: i64) -> Result<usize> {
    let number = usize::try_from(number).unwrap_or(0);
    check_parallel(number)?;
    Ok(number)
}

/// Refuses a path that the crawler can not take first.
pub(crate) fn check_first(path: &Path) -> Result<()> {
    if !path.as_os_str().is_empty() && path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(());
    }
    let reason = format!("`{}` is no path below the destination", path.display());
    Err(Error::setting("first", reason, "write it without `..` and without the destination's own path"))
}

/// Where Prometheus finds figures: `HOST:PORT`, or a port alone for this host alone.
///
/// # Errors
///
/// [`Error::Setting`] for any other text.
pub fn metrics(text: &str) -> Result<String> {
    let is_port = text.parse::<u16>().is_ok();
    let address = if is_port { format!("127.0.0.1:{text}") } else { text.to_owned() };
    check_metrics(&address)?;
    Ok(address)
}

pub(super) fn check_metrics(address: &str) -> Result<()> {
    let wrong = |cause| {
        let reason = format!("`{address}` is no address: {cause}");
        Error::setting("metrics", reason, "write it as 127.0.0.1:9187, or a port alone for this host alone")
    };
    address.to_socket_addrs().map(drop).map_err(wrong)
}

pub(super) fn check_parallel(number: usize) -> Result<()> {
    if (1..=MOST_PARALLEL).contains(&number) {
        return Ok(());
    }
    Err(Error::setting("parallel", "that many requests can not be under way", "give a number from 1 to 256"))
}

//! `ishigaki log set`: other limits for a member of a running service.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_logpool_service::{Limits, LimitsSet, Reply, Request, ask};

use super::refused;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::Count;

const EXAMPLES: &str = "\
Examples:
  ishigaki log set orders home=4GiB --data /srv/pool                for a server that gets `No space left on device`
  ishigaki log set orders home=4GiB share=64MiB files=2048 --data /srv/pool";

/// Give a member of a running service other limits, at once and for good
///
/// A server that was refused goes on with its next request. A larger home is reserved on its disk first. Limits are lowered to what the member has, and not below.
/// The pool keeps them, and they count from then on, whatever the configuration says; `members.toml` is changed as well, a configuration is not.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,

    /// share=SIZE (of the log, until it is home), home=SIZE (for all its files), files=NUMBER
    #[arg(value_name = "LIMIT=VALUE", required = true)]
    limits: Vec<String>,

    /// The data directory of the service
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { name, limits: words, data, json } = arguments;
    let mut limits = Limits::of(name);
    words.iter().try_for_each(|word| limits.say(word)).map_err(Failure::usage)?;
    let reply = ask(&data, &Request::Set(limits)).map_err(|error| refused(&error, &data))?;
    let Reply::Set(set) = reply else {
        return Err(Failure::invalid("the service has answered another question"));
    };
    let text = if json {
        serde_json::to_string(&set).map_err(|error| Failure::invalid(error.to_string()))?
    } else {
        text(&set)
    };
    Ok(writeln!(io::stdout(), "{text}")?)
}

fn text(set: &LimitsSet) -> String {
    let LimitsSet { name, before, now, noted_in, remark } = set;
    let size = |bytes| ByteSize(bytes).display().iec().to_string();
    let limits = [
        ("share", size(before.share_bytes), size(now.share_bytes)),
        ("home", size(before.home_bytes), size(now.home_bytes)),
        ("files", Count(before.files).to_string(), Count(now.files).to_string()),
    ];
    let changed = limits.iter().filter(|(_, before, now)| before != now);
    let mut changed: Vec<String> =
        changed.map(|(limit, before, now)| format!("{name}: {limit} is {now}, and was {before}.")).collect();
    if changed.is_empty() {
        changed.push(format!("{name}: its limits are as they were."));
    }
    changed.extend(noted_in.iter().map(|file| format!("Noted in {}.", file.display())));
    changed.extend(remark.clone());
    changed.join("\n")
}

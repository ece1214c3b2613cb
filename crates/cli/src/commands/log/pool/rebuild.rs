//! `ishigaki log rebuild`: a member's files as plain ones, from what a pool has.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_logpool::{Error, Folder, Result as PoolResult, Sink, rebuild};
use ishigaki_logpool_service::{Error as ServiceError, RebuiltFiles, Reply, Request, ask};

use super::{Offline, absolute, failed, mend, refused};
use crate::failure::{EXIT_CODES, Failure};
use crate::human::counted;

const EXAMPLES: &str = "\
Examples:
  ishigaki log rebuild --data /srv/pool --member orders --to /srv/pg_wal
  chown -R postgres: /srv/pg_wal                 the files are of whoever rebuilds them, and for nobody else";

/// Write a member's files into an empty folder, as they are after all that its pool has
///
/// Nothing of the pool is changed. All is durable when the command ends. While a service runs it does so for a member that is
/// quarantined; the files are then of the user that runs the service.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// The data directory of the pool
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Whose files
    #[arg(long, value_name = "NAME")]
    member: String,

    /// Where to: a folder that is empty, or not there yet
    #[arg(long, value_name = "DIR")]
    to: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { data, member, to, json } = arguments;
    if let Some(rebuilt) = by_service(data, member, to)? {
        return mend::print(serde_json::to_string(&rebuilt), *json, || text(&rebuilt));
    }
    let pool = Offline::open(data)?;
    let was_there = to.exists();
    let folder = Folder::new(to).map_err(|error| failed(&error))?;
    let mut sink = Shown { folder, bar: ProgressBar::no_length(), before: 0, length: 0 };
    sink.bar.set_style(
        ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let outcome = rebuild(pool.directory.as_ref(), &pool.homes, member, &mut sink);
    sink.bar.finish_and_clear();
    let files = outcome.map_err(|error| {
        // Gone if nothing was written; what was stays to be seen, and is said.
        let is_left = was_there || fs::remove_dir(to).is_err();
        let failure = failed(&error);
        match error {
            Error::NotFound { .. } => {
                failure.with_hint(format!("`ishigaki log verify --data {}` names its members", data.display()))
            }
            error if error.kind() == ErrorKind::Corrupt => {
                failure.with_hint(format!("`ishigaki log verify --data {}` says what is damaged", data.display()))
            }
            _ if is_left => failure.with_hint(format!("what is in {} is not whole", to.display())),
            _ => failure,
        }
    })?;
    let bytes = sink.before + sink.length;
    let rebuilt = RebuiltFiles { member: member.clone(), to: to.clone(), files, bytes };
    mend::print(serde_json::to_string(&rebuilt), *json, || text(&rebuilt))
}

fn text(rebuilt: &RebuiltFiles) -> String {
    let RebuiltFiles { member, to, files, bytes } = rebuilt;
    let (files, size) = (counted(*files, "file"), ByteSize(*bytes).display().iec());
    format!("Rebuilt {files}, {size}, of {member} in {}.", to.display())
}

/// Has a service do it, if one runs.
fn by_service(data: &Path, member: &str, to: &Path) -> Result<Option<RebuiltFiles>, Failure> {
    let request = Request::Rebuild { name: member.to_owned(), to: absolute(to)? };
    match ask(data, &request) {
        Ok(Reply::Rebuilt(rebuilt)) => Ok(Some(rebuilt)),
        Ok(_) => Err(mend::another()),
        Err(ServiceError::NotServed { .. }) => Ok(None),
        Err(error) => Err(refused(&error, data)),
    }
}

/// A folder that shows how far it has come.
struct Shown {
    folder: Folder,
    bar: ProgressBar,
    /// Bytes of the files before this one.
    before: u64,
    /// Of this one.
    length: u64,
}

impl Sink for Shown {
    fn begin(&mut self, _: u64, bytes: u64) -> PoolResult<()> {
        self.bar.set_length(bytes);
        Ok(())
    }

    fn directory(&mut self, path: &str) -> PoolResult<()> {
        self.folder.directory(path)
    }

    fn file(&mut self, path: &str, length: u64) -> PoolResult<()> {
        (self.before, self.length) = (self.before + self.length, length);
        self.bar.set_position(self.before);
        self.bar.set_message(path.to_owned());
        self.folder.file(path, length)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> PoolResult<()> {
        self.folder.write(offset, bytes)?;
        self.bar.set_position(self.before + offset + bytes.len() as u64);
        Ok(())
    }

    fn finish(&mut self) -> PoolResult<()> {
        self.folder.finish()
    }
}

//! `ishigaki sql`: opens a database and runs statements from the command line, a file, a pipe or a person.

use std::fs;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_device::{Directory, Place};
use ishigaki_remote::Anywhere;
use ishigaki_sql::{Database, Settings};
use ishigaki_txn::{LogPlace, ProtocolKind, Release};

use super::database::check_apart;
use super::log_arguments::LogArguments;
use super::progress::watched;
use crate::failure::{EXIT_CODES, Failure};
use crate::human;
use crate::output::Format;
use crate::shell::{Shell, interactive};

const EXAMPLES: &str = "\
Examples:
  ishigaki sql                                             a shell on ./ishigaki-data
  ishigaki sql --data /srv/shop schema.sql                 the statements of a file
  ishigaki sql -c 'SELECT 1' -c 'SELECT 2'                 statements, one after the other
  ishigaki sql -c \"COPY t FROM 'rows.csv'\"                 load a file
  ishigaki sql --format json -c 'SELECT * FROM t' | jq .   rows for programs
  ishigaki sql --data /srv/shop --log-at pool:/srv/shop.ring   with its log in a log pool
  generate | ishigaki sql --data /srv/shop                 statements from a pipe";

/// Run SQL: a shell, a file, a pipe, or statements given here
///
/// The first error ends a run of statements, except in the interactive shell, which goes on. A transaction that is open at
/// the end is rolled back.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// Where the database is: a directory, made if it is not there; ring:DIR to write to it by `io_uring`; raw:PATH for a
    /// block device that `ishigaki media format` has prepared; node://HOST:PORT/DIR for a storage node's
    #[arg(long, value_name = "PLACE", default_value = "ishigaki-data")]
    data: Anywhere,

    /// Where its log is, if not beside its tables: pool:PATH for a member of a log pool that runs (`ishigaki log add --ring`), or
    /// any place that --data can be. Given when the database is made, and then always
    #[arg(long, value_name = "PLACE")]
    log_at: Option<Anywhere>,

    /// Run these statements and leave; may be given several times
    #[arg(short, long = "command", value_name = "SQL", conflicts_with = "file")]
    command: Vec<String>,

    /// Run the statements of this file and leave; `-` is the standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// How to write the rows of queries
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// The most memory for all tables, as in 8GiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,

    /// The most memory for running statements (sorting, grouping, joining), as in 2GiB; what needs more spills to disk
    #[arg(long, value_name = "SIZE")]
    query_memory: Option<ByteSize>,

    /// The most that running statements may spill to disk, as in 100GiB; 0 lets a statement fail instead
    #[arg(long, value_name = "SIZE")]
    spill_limit: Option<ByteSize>,

    /// Where they spill to; the folder `spill` in the database's directory if it is not given, or the system's folder for
    /// temporary files if the database is not in a directory of this host
    #[arg(long, value_name = "DIR")]
    spill_directory: Option<PathBuf>,

    /// Threads that run statements, 1024 at most; all cores if it is not given
    #[arg(long, value_name = "NUMBER")]
    threads: Option<NonZeroUsize>,

    /// How transactions are kept apart: locking (who comes second waits or gives way at once) or tictoc (nobody waits, and
    /// COMMIT may have to be answered with a conflict)
    #[arg(long, value_name = "NAME", default_value = "locking")]
    protocol: ProtocolKind,

    /// When transactions let go of what they wrote: early (others see it before it is durable, and are answered only after
    /// it) or normal (when it is durable)
    #[arg(long, value_name = "WHEN", default_value = "early")]
    release: Release,

    /// Have queries over tables at storage nodes run by the nodes together: the scheduler that they have joined
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "HOST:PORT")]
    cluster: Option<String>,

    #[command(flatten)]
    log: LogArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // Read before the database is opened: a wrong name should leave nothing behind.
    let source = Source::of(arguments)?;
    if let Some(log) = &arguments.log_at {
        check_apart(&arguments.data, log)?;
    }
    let settings = settings(arguments)?;
    let directory = arguments.data.open().map_err(|error| Failure::of(error.kind(), error))?;
    let is_new = directory.list().is_ok_and(|names| names.is_empty());
    let database = open(directory, arguments, &settings)?;
    let mut shell = Shell::new(&database, arguments.format, matches!(source, Source::Person))?;
    let outcome = match source {
        Source::Commands(texts) => texts.iter().try_for_each(|text| shell.script("", text.as_bytes())),
        Source::Lines { name, mut lines } => shell.script(&name, &mut lines),
        Source::Person => {
            greet(&database, &arguments.data, is_new)?;
            interactive::run(&mut shell, history().as_deref())
        }
    };
    shell.leave();
    outcome
}

/// Where statements come from.
enum Source {
    /// The command line.
    Commands(Vec<String>),
    /// A file or a pipe.
    Lines { name: String, lines: Box<dyn BufRead> },
    /// A terminal.
    Person,
}

impl Source {
    fn of(arguments: &Arguments) -> Result<Self, Failure> {
        if !arguments.command.is_empty() {
            return Ok(Self::Commands(arguments.command.clone()));
        }
        match &arguments.file {
            Some(path) if path.as_os_str() != "-" => {
                let file = fs::File::open(path).map_err(|error| Failure::file(path.display(), &error))?;
                Ok(Self::Lines { name: path.display().to_string(), lines: Box::new(BufReader::new(file)) })
            }
            None if io::stdin().is_terminal() => Ok(Self::Person),
            _ => Ok(Self::Lines { name: "stdin".to_owned(), lines: Box::new(io::stdin().lock()) }),
        }
    }
}

/// The settings that were given. Values that can not be are an error of the command line.
fn settings(arguments: &Arguments) -> Result<Settings, Failure> {
    let mut settings = Settings { threads: arguments.threads, ..Settings::default() };
    if let Some(memory) = arguments.memory {
        settings.txn.memory = memory;
    }
    if let Some(memory) = arguments.query_memory {
        settings.query_memory = memory;
    }
    if let Some(limit) = arguments.spill_limit {
        settings.spill_limit = limit;
    }
    let beside = || match &arguments.data {
        Anywhere::Here(Place::File(path) | Place::Ring(path)) => path.join("spill"),
        _ => std::env::temp_dir().join(format!("ishigaki-spill-{}", user_id())),
    };
    settings.spill_directory = Some(arguments.spill_directory.clone().unwrap_or_else(beside));
    #[cfg(feature = "cluster")]
    if let Some(scheduler) = &arguments.cluster {
        settings.distribute = Some(Arc::new(ishigaki_cluster::Distribute::new(scheduler)));
    }
    settings.txn.log = arguments.log.settings()?;
    (settings.txn.protocol, settings.txn.release) = (arguments.protocol, arguments.release);
    settings.validate().map_err(|error| Failure::usage(error.to_string()))?;
    Ok(settings)
}

/// Opens the database; a long recovery shows that it is at work.
fn open(directory: Arc<dyn Directory>, arguments: &Arguments, settings: &Settings) -> Result<Database, Failure> {
    let of_log = arguments.log_at.as_ref().map(log_place).transpose()?;
    let database = watched("opening the database", |progress| match &of_log {
        None => Database::open_in(directory, settings, progress),
        Some(log) => ishigaki_txn::Database::open_apart(directory, log, settings.txn.clone(), progress)
            .map_err(ishigaki_sql::Error::from)
            .and_then(|engine| Database::over(engine, settings)),
    });
    Ok(database?)
}

/// Of this process: what it keeps in a folder of all users has a name of its own for each.
fn user_id() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").map_or(0, |process| process.uid())
}

/// The place of a log that is not beside its tables.
fn log_place(place: &Anywhere) -> Result<LogPlace, Failure> {
    let directory = place.open().map_err(|error| Failure::of(error.kind(), error))?;
    // The database remembers it, and may be opened from elsewhere.
    let name = match place {
        Anywhere::Pool(path) => {
            let path = std::path::absolute(path).map_err(|error| Failure::file(path.display(), &error))?;
            Anywhere::Pool(path).to_string()
        }
        other => other.to_string(),
    };
    Ok(LogPlace { directory, name })
}

fn greet(database: &Database, data: &Anywhere, is_new: bool) -> Result<(), Failure> {
    use std::io::Write;
    let mut out = io::stdout().lock();
    writeln!(out, "Ishigaki {}", env!("CARGO_PKG_VERSION"))?;
    if is_new {
        writeln!(out, "A new database in {}.", name(data))?;
    } else {
        let recovery = database.engine().recovery();
        let records = human::Count(recovery.log.records);
        writeln!(out, "Opened {} ({records} log records, {}).", name(data), human::duration(recovery.elapsed))?;
        if let Some(what) = &recovery.repaired {
            writeln!(out, "Its checkpoint was damaged: {what}.")?;
            writeln!(out, "It was opened from the checkpoint before and the log since then: nothing is missing.")?;
        }
    }
    writeln!(out, "A semicolon ends a statement; .help shows what else there is, Ctrl-D leaves.")?;
    Ok(())
}

/// A place as people say it: a directory has no prefix.
fn name(place: &Anywhere) -> String {
    match place {
        Anywhere::Here(Place::File(path)) => path.display().to_string(),
        other => other.to_string(),
    }
}

/// Where the history of the shell belongs: the XDG base directory for state.
fn history() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("ishigaki").join("history"))
}

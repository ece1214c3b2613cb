//! What `ishigaki sql` runs statements with.
//!
//! [`script`] cuts text into statements and the shell's own [`command`]s; [`Shell`] runs them one after the other on one
//! session and writes what comes back; [`watch`] keeps an eye on a running statement for progress and Ctrl-C;
//! [`interactive`] is the conversation with a person. What a statement means is the database's affair.

mod command;
pub(crate) mod interactive;
mod schema;
mod script;
mod watch;

use std::io::{self, BufRead, BufWriter, Write};
use std::time::{Duration, Instant};

use ishigaki_sql::{Database, Outcome, Rows, Session, Statement, TransactionStatus};
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;
use crate::human;
use crate::output::{self, Format};
use command::Next;
use script::{Item, Script};
use watch::Watch;

/// One session and how its results are shown.
pub(crate) struct Shell {
    database: Database,
    session: Session,
    /// Drives the waiting of this thread; statements run on the database's own threads.
    runtime: Runtime,
    out: BufWriter<io::Stdout>,
    format: Format,
    timing: bool,
    is_interactive: bool,
}

impl Shell {
    pub(crate) fn new(database: &Database, format: Format, is_interactive: bool) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::invalid(format!("the operating system gives no timer: {error}")))?;
        let out = BufWriter::new(io::stdout());
        let database = database.clone();
        Ok(Self { session: database.session(), database, runtime, out, format, timing: true, is_interactive })
    }

    /// Runs the statements of a text as it comes in, up to the first that fails. `name` is where it comes from, for
    /// messages; nothing for the command line itself.
    pub(crate) fn script(&mut self, name: &str, lines: impl BufRead) -> Result<(), Failure> {
        self.items(name, lines).map(|_| ())
    }

    /// [`Shell::script`], and whether it asked to leave.
    fn items(&mut self, name: &str, lines: impl BufRead) -> Result<Next, Failure> {
        let mut script = Script::default();
        // A carriage return before the end of a line may stand in a literal.
        for (line, number) in lines.split(b'\n').zip(0..) {
            let text =
                |line| String::from_utf8(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
            let line = line.and_then(text);
            let line = line.map_err(|error| Failure::file(if name.is_empty() { "the input" } else { name }, &error))?;
            // Some editors begin a file with a mark of its byte order, which is no SQL.
            let line = if number == 0 { line.trim_start_matches('\u{feff}') } else { &line };
            for item in script.line(line) {
                if self.item(name, &item)? == Next::Leave {
                    return Ok(Next::Leave);
                }
            }
        }
        match script.finish() {
            Some(item) => self.item(name, &item),
            None => Ok(Next::Continue),
        }
    }

    /// Runs one statement or command.
    fn item(&mut self, name: &str, item: &Item) -> Result<Next, Failure> {
        let (outcome, line) = match item {
            Item::Statement { text, line } => (self.statement(text).map(|()| Next::Continue), *line),
            Item::Command { text, line } => (command::run(self, text), *line),
        };
        outcome.map_err(|failure| if name.is_empty() { failure } else { failure.at(name, line) })
    }

    /// Runs one statement and writes its result.
    fn statement(&mut self, sql: &str) -> Result<(), Failure> {
        let start = Instant::now();
        let Self { database, session, runtime, out, format, .. } = self;
        let told = runtime.block_on(async {
            let mut told = Vec::new();
            for statement in Statement::parse(sql)? {
                let mut watch = Watch::new(database, session, sql, self.is_interactive)?;
                let outcome = watch.until(session.run(&statement)).await;
                told.push(match outcome? {
                    Outcome::Rows(rows) => human::counted(show(rows, &mut watch, *format, out).await?, "row"),
                    Outcome::Affected { tag, rows } => format!("{tag} {}", human::Count(rows)),
                    Outcome::Done { tag } => tag.to_owned(),
                });
            }
            Ok::<_, Failure>(told)
        })?;
        for what in told {
            self.tell(&what, start.elapsed())?;
        }
        Ok(self.out.flush()?)
    }

    /// Says what a statement did: under the table it belongs to, but never among rows for programs.
    fn tell(&mut self, what: &str, time: Duration) -> Result<(), Failure> {
        let line = if self.timing { format!("{what} ({})", human::duration(time)) } else { what.to_owned() };
        match self.format {
            Format::Table => writeln!(self.out, "{line}")?,
            Format::Csv | Format::Json if self.is_interactive => {
                self.out.flush()?;
                let _ = writeln!(io::stderr(), "{line}");
            }
            Format::Csv | Format::Json => {}
        }
        Ok(())
    }

    /// The end: says so when a transaction was left open.
    pub(crate) fn leave(mut self) {
        // A reader of our output who has gone was noticed before.
        let _ = self.out.flush();
        if self.session.transaction_status() != TransactionStatus::None {
            let _ = writeln!(io::stderr(), "the open transaction is rolled back");
        }
    }
}

/// Writes the rows of a query as they come, and counts them.
async fn show(mut rows: Rows, watch: &mut Watch, format: Format, out: &mut dyn Write) -> Result<u64, Failure> {
    let schema = rows.schema().clone();
    let mut writer = output::writer(format, &schema, out)?;
    let mut count = 0;
    while let Some(batch) = watch.until(rows.next()).await {
        let batch = batch?;
        watch.rows_come();
        count += batch.num_rows() as u64;
        writer.batch(&batch)?;
    }
    writer.finish()?;
    Ok(count)
}

//! A server: its data in one folder, its log in another.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::error::failed;
use crate::running::{PATIENCE, TOLD, told};
use crate::user::run;
use crate::{Client, Error, Kind, Result, Running, User, mariadb, postgresql};

/// A server that is somewhere; whether it runs is another question.
#[derive(Clone, Debug)]
pub struct Server {
    kind: Kind,
    user: User,
    data: PathBuf,
    log: PathBuf,
    arguments: Vec<String>,
}

impl Server {
    /// One that has its log in that folder and everything else in the other; both are its user's.
    pub fn new(kind: Kind, user: User, data: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self { kind, user, data: data.into(), log: log.into(), arguments: Vec::new() }
    }

    /// It is started with more arguments, as its manual has them.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Its data.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Makes an empty database.
    pub fn make(&self) -> Result<()> {
        let command = |program: &str| self.user.command(program, &self.data);
        let mut made = match self.kind {
            Kind::MariaDb => mariadb::make(command, &self.data, &self.log),
            Kind::PostgreSql => postgresql::make(command, &self.data, &self.log),
        };
        run(&mut made).map(drop)
    }

    /// Makes the database that another one is, which does not run: each byte of its log is written, holes as well, so that
    /// the first commit does not find itself a place.
    pub fn copy(&self, other: &Self) -> Result<()> {
        copy_folder(&other.data.join("db"), &self.data.join("db"), self.user)?;
        if self.kind == Kind::PostgreSql {
            let link = self.data.join("db").join(postgresql::LOG);
            symlink(&self.log, &link).map_err(failed(&link, "linking the log"))?;
        }
        copy_content(&other.log, &self.log, self.user)
    }

    /// Starts it; it may still be recovering.
    pub fn start(&self) -> Result<Running> {
        let path = self.data.join(TOLD);
        let told = fs::File::create(&path).map_err(failed(&path, "making a file for the server's words"))?;
        let command = |program: &str| self.user.command(program, &self.data);
        let mut started = match self.kind {
            Kind::MariaDb => mariadb::start(command, &self.data, &self.log),
            Kind::PostgreSql => postgresql::start(command, &self.data),
        };
        started.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(told);
        let child = started.spawn().map_err(failed(self.kind.program(), "starting it"))?;
        Ok(Running::new(self.kind, child, &self.data))
    }

    /// A client of it.
    pub fn client(&self) -> Result<Client> {
        Client::new(self.client_command(), &self.data)
    }

    fn client_command(&self) -> std::process::Command {
        let mut command = match self.kind {
            Kind::MariaDb => mariadb::client(&self.data),
            Kind::PostgreSql => postgresql::client(&self.data),
        };
        command.process_group(0);
        command
    }

    /// Runs statements, as soon as somebody answers; gives what the client prints. `stop` is asked now and then whether to
    /// give up.
    pub fn run_when_up(&self, statements: &str, stop: &dyn Fn() -> bool) -> Result<String> {
        let began = Instant::now();
        loop {
            if let Some(printed) = self.try_run(statements)? {
                return Ok(printed);
            }
            if stop() {
                return Err(Error::Stopped);
            }
            if began.elapsed() > PATIENCE {
                let what = format!("the server of {} does not answer", self.data.display());
                return Err(Error::Patience { what, seconds: PATIENCE.as_secs(), said: told(&self.data) });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// `None` if nobody answers, or a statement fails.
    fn try_run(&self, statements: &str) -> Result<Option<String>> {
        let mut command = self.client_command();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(failed(&self.data, "starting a client"))?;
        if let Some(mut input) = child.stdin.take() {
            // It may have gone already, because nobody listens.
            let _ = input.write_all(statements.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed(&self.data, "hearing a client"))?;
        Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}

/// Makes a folder with what is in another one, links left out.
fn copy_folder(from: &Path, to: &Path, user: User) -> Result<()> {
    fs::create_dir(to).map_err(failed(to, "making a folder"))?;
    let mode = fs::metadata(from).map_err(failed(from, "looking at it"))?.permissions();
    fs::set_permissions(to, mode).map_err(failed(to, "setting who may do what"))?;
    user.give(to)?;
    copy_content(from, to, user)
}

fn copy_content(from: &Path, to: &Path, user: User) -> Result<()> {
    for entry in fs::read_dir(from).map_err(failed(from, "reading the folder"))? {
        let entry = entry.map_err(failed(from, "reading the folder"))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(failed(&path, "looking at it"))?;
        if kind.is_dir() {
            copy_folder(&path, &target, user)?;
        } else if kind.is_file() {
            copy_file(&path, &target, user)?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path, user: User) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let bytes = fs::read(from).map_err(failed(from, "reading it"))?;
    let opened = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to);
    let mut file = opened.map_err(failed(to, "making a file"))?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed(to, "writing it"))?;
    user.give(to)
}

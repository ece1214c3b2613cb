//! A server's own client, on pipes.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::error::failed;
use crate::{Error, Result};

/// A client that is connected, or will be by its first statement. Killed when dropped.
#[derive(Debug)]
pub struct Client {
    data: PathBuf,
    child: Child,
    statements: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Client {
    pub(crate) fn new(mut command: Command, data: &Path) -> Result<Self> {
        let program = command.get_program().to_owned();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(failed(program.as_ref(), "starting a client"))?;
        let gone = || Error::Gone { data: data.to_owned() };
        let statements = child.stdin.take().ok_or_else(gone)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(gone)?).lines();
        Ok(Self { data: data.to_owned(), child, statements, answers })
    }

    /// Sends a statement, on one line and with its semicolon, that gives one row; waits for the row.
    pub fn ask(&mut self, statement: &str) -> Result<String> {
        let gone = || Error::Gone { data: self.data.clone() };
        // In one piece, so that the client wakes up once.
        let sent = self.statements.write_all(format!("{statement}\n").as_bytes());
        sent.and_then(|()| self.statements.flush()).map_err(|_| gone())?;
        self.answers.next().and_then(std::result::Result::ok).ok_or_else(gone)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have gone with its server.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

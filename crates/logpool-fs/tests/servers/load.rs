//! Clients that insert rows, one after the other, and note what they are told.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use super::Server;
use super::service::until;

/// A client's number and a row's.
pub(crate) type Row = (u32, u32);

/// Some clients at work.
pub(crate) struct Load(Vec<JoinHandle<Vec<Row>>>);

impl Load {
    pub(crate) fn start<S: Server>(data: &Path, turn: u32, clients: u32) -> Self {
        let numbers = turn * clients..(turn + 1) * clients;
        Self(numbers.map(|number| client(S::client(data), number, S::insert)).collect())
    }

    /// All rows that were acknowledged; their server is gone.
    pub(crate) fn end(self) -> Vec<Row> {
        self.0.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}

fn client(mut command: Command, number: u32, insert: fn(Row) -> String) -> JoinHandle<Vec<Row>> {
    let mut process =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a client");
    let mut statements = process.stdin.take().expect("it is a pipe");
    let mut answers = BufReader::new(process.stdout.take().expect("it is a pipe")).lines();
    std::thread::spawn(move || {
        let mut acknowledged = Vec::new();
        for row in (0..).map(|row| (number, row)) {
            if writeln!(statements, "{}", insert(row)).and_then(|()| statements.flush()).is_err() {
                break;
            }
            match answers.next() {
                Some(Ok(answer)) if answer == "ok" => acknowledged.push(row),
                _ => break,
            }
        }
        drop(statements);
        let _ = process.kill();
        let _ = process.wait();
        acknowledged
    })
}

/// Runs a statement, as soon as somebody answers; gives what it prints.
pub(crate) fn run_when_up<S: Server>(data: &Path, statement: &str) -> String {
    let mut printed = String::new();
    until("the server does not come up", data, || {
        let mut client =
            S::client(data).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // It may have gone already, because nobody listens.
        let _ = client.stdin.take().expect("it is a pipe").write_all(statement.as_bytes());
        let output = client.wait_with_output().unwrap();
        printed = String::from_utf8(output.stdout).unwrap();
        output.status.success()
    });
    printed
}

/// All rows that are there.
pub(crate) fn rows<S: Server>(data: &Path) -> HashSet<Row> {
    let printed = run_when_up::<S>(data, "select concat(client, ' ', number) from told;\n");
    let row = |line: &str| {
        let (client, number) = line.split_once(' ').expect("two numbers");
        (client.parse().unwrap(), number.parse().unwrap())
    };
    printed.lines().map(row).collect()
}

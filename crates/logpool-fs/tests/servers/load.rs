//! Clients that insert rows, one after the other, and note what they are told.

use std::collections::HashSet;
use std::thread::JoinHandle;

use ishigaki_servers::{Client, Server};

/// A client's number and a row's.
pub(crate) type Row = (u32, u32);

/// Makes the table for them.
pub(crate) const TABLE: &str = "create table told (client int not null, number int not null);\n";

/// Some clients at work.
pub(crate) struct Load(Vec<JoinHandle<Vec<Row>>>);

impl Load {
    pub(crate) fn start(server: &Server, turn: u32, clients: u32) -> Self {
        let numbers = turn * clients..(turn + 1) * clients;
        let start = |number| {
            let client = server.client().unwrap();
            std::thread::spawn(move || insert(client, number))
        };
        Self(numbers.map(start).collect())
    }

    /// All rows that were acknowledged; their server is gone.
    pub(crate) fn end(self) -> Vec<Row> {
        self.0.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}

/// Until the server is gone.
fn insert(mut client: Client, number: u32) -> Vec<Row> {
    let mut acknowledged = Vec::new();
    for row in (0..).map(|row| (number, row)) {
        let statement = format!("insert into told values ({}, {}) returning 'ok';", row.0, row.1);
        if client.ask(&statement).is_ok_and(|answer| answer == "ok") {
            acknowledged.push(row);
        } else {
            break;
        }
    }
    acknowledged
}

/// All rows that are there.
pub(crate) fn rows(server: &Server) -> HashSet<Row> {
    let printed = server.run_when_up("select concat(client, ' ', number) from told;\n", &|| false).unwrap();
    let row = |line: &str| {
        let (client, number) = line.split_once(' ').expect("two numbers");
        (client.parse().unwrap(), number.parse().unwrap())
    };
    printed.lines().map(row).collect()
}

//! Clients that insert rows, one after the other, and note what they are told and how long they waited for it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ishigaki_servers::{Client, Server};

/// A client's number and a row's.
pub(crate) type Row = (u32, u32);

/// Makes the table for them.
pub(crate) const TABLE: &str = "create table told (client int not null, number int not null);\n";

/// What a client was told.
pub(crate) struct Told {
    /// Which of the servers it has asked.
    pub(crate) server: usize,
    pub(crate) rows: Vec<Row>,
    /// The longest that it has waited for an answer, its first one apart: it connects then.
    pub(crate) longest: Duration,
    /// What ended it, if it was not the test.
    pub(crate) error: Option<String>,
}

/// Some clients at work.
pub(crate) struct Clients {
    is_over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Told>>,
}

impl Clients {
    /// So many of each server.
    pub(crate) fn start(servers: &[Server], each: u32) -> Self {
        Self::numbered(servers, 0, each)
    }

    /// More of them, whose rows are others.
    pub(crate) fn again(server: &Server, each: u32) -> Self {
        Self::numbered(std::slice::from_ref(server), 1000, each)
    }

    fn numbered(servers: &[Server], from: u32, each: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for (server, at) in servers.iter().enumerate() {
            for number in (0..each).map(|number| from + number) {
                let (client, is_over) = (at.client().unwrap(), is_over.clone());
                clients.push(std::thread::spawn(move || insert(client, server, number, &is_over)));
            }
        }
        Self { is_over, clients }
    }

    /// Ends them, and gives what they were told.
    pub(crate) fn end(self) -> Vec<Told> {
        self.is_over.store(true, Ordering::SeqCst);
        self.clients.into_iter().map(|client| client.join().unwrap()).collect()
    }
}

fn insert(mut client: Client, server: usize, number: u32, is_over: &AtomicBool) -> Told {
    let mut told = Told { server, rows: Vec::new(), longest: Duration::ZERO, error: None };
    for row in (0..).map(|row| (number, row)) {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        let began = Instant::now();
        match client.ask(&format!("insert into told values ({}, {}) returning 'ok';", row.0, row.1)) {
            Ok(answer) if answer == "ok" => told.rows.push(row),
            Ok(answer) => {
                told.error = Some(answer);
                break;
            }
            Err(error) => {
                told.error = Some(error.to_string());
                break;
            }
        }
        if row.1 > 0 {
            told.longest = told.longest.max(began.elapsed());
        }
    }
    told
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

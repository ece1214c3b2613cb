//! Clients that insert beside each other, one for each server, and the check that all they were told of is there.

use std::fmt::Write as _;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use ishigaki_servers::{Client, Server};

use super::{Settings, Work};
use crate::{Error, Latencies, Result};

/// What a row has where it is not told from others.
const FILLER: &str = ", 7";

/// What came of a load.
#[derive(Clone, Debug)]
pub(super) struct Done {
    /// Of all transactions.
    pub(super) latencies: Latencies,
    /// How long each server took for all of its own.
    pub(super) elapsed: Vec<Duration>,
}

/// A load that all servers have acknowledged, to be found again later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledged {
    /// Tells it from other loads of the same servers.
    pub(super) number: usize,
    pub(super) work: Work,
    pub(super) transactions: usize,
}

/// Makes the table for rows of so many integers.
pub(super) fn table(integers: usize) -> String {
    let mut columns = String::from("load_number int not null, number int not null");
    for column in 2..integers {
        let _ = write!(columns, ", c{column} int not null");
    }
    format!("create table rows_of_{integers} ({columns});\n")
}

/// A transaction: one row.
fn insert(integers: usize, load: usize, number: usize) -> String {
    let filler = FILLER.repeat(integers.saturating_sub(2));
    format!("insert into rows_of_{integers} values ({load}, {number}{filler}) returning 'ok';")
}

/// Has the first servers insert beside each other, and sees that it is there.
pub(super) fn run(settings: &Settings, servers: &[Server], work: Work, number: usize) -> Result<(Done, Acknowledged)> {
    let servers = &servers[..work.servers];
    let mut clients = Vec::new();
    for server in servers {
        let mut client = server.client()?;
        // Connected before anything is measured.
        client.ask("select 'ready';")?;
        clients.push(client);
    }
    let together = Barrier::new(clients.len());
    let body = |mut client: Client| {
        together.wait();
        let (start, mut latencies) = (Instant::now(), Latencies::new());
        for row in 0..settings.transactions {
            settings.under().go_on()?;
            let statement = insert(work.integers, number, row);
            let sent = Instant::now();
            let answer = client.ask(&statement)?;
            if answer != "ok" {
                return Err(wrong(settings, format!("a server has answered an insert with `{answer}`")));
            }
            latencies.record(sent.elapsed());
        }
        Ok((start.elapsed(), latencies))
    };
    let outcomes: Vec<Result<(Duration, Latencies)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = clients.into_iter().map(|client| scope.spawn(|| body(client))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a client returns its errors")).collect()
    });
    let mut done = Done { latencies: Latencies::new(), elapsed: Vec::new() };
    for outcome in outcomes {
        let (elapsed, latencies) = outcome?;
        done.elapsed.push(elapsed);
        done.latencies.add(&latencies);
    }
    let acknowledged = Acknowledged { number, work, transactions: settings.transactions };
    check(settings, servers, acknowledged)?;
    Ok((done, acknowledged))
}

/// Every row that was acknowledged is there, once, and no other.
pub(super) fn check(settings: &Settings, servers: &[Server], load: Acknowledged) -> Result<()> {
    let Acknowledged { number, work, transactions } = load;
    let question = format!(
        "select concat(count(*), ' ', count(distinct number), ' ', min(number), ' ', max(number)) from rows_of_{} where \
         load_number = {number};\n",
        work.integers
    );
    let expected = format!("{transactions} {transactions} 0 {}", transactions - 1);
    for server in &servers[..work.servers] {
        let found = server.run_when_up(&question, &|| settings.under().is_stopped())?;
        if found.trim() != expected {
            let reason = format!(
                "{transactions} rows were acknowledged, and the server of {} has (rows, different ones, the first and the \
                 last): {}",
                server.data().display(),
                found.trim()
            );
            return Err(wrong(settings, reason));
        }
    }
    Ok(())
}

fn wrong(settings: &Settings, reason: String) -> Error {
    Error::Wrong { workload: super::NAME, reason, path: settings.host.scratch.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_as_many_integers_as_its_table() {
        for integers in [2, 12, 50] {
            let columns = table(integers).matches("int not null").count();
            let values = insert(integers, 3, 14).split_once('(').unwrap().1.split(',').count();
            assert_eq!((columns, values), (integers, integers));
        }
        assert_eq!(insert(2, 3, 14), "insert into rows_of_2 values (3, 14) returning 'ok';");
    }
}

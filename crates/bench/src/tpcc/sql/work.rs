//! Clients of servers beside each other, each with one transaction after the other.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use ishigaki_base::random::Seed;
use ishigaki_servers::{Client, Server};

use super::call::{Answer, statement, understand};
use super::{Settings, told};
use crate::oltp::Stop;
use crate::tpcc::Receipt;
use crate::tpcc::inputs::Inputs;
use crate::tpcc::mix::{Kind, Mix};
use crate::{Latencies, Result};

/// What came of a load, or of one client's part in it.
#[derive(Clone, Debug)]
pub(super) struct Done {
    /// From the begin until the last transaction was answered.
    pub(super) elapsed: Duration,
    /// Of what committed, by the type of transaction; attempts that gave way are part of the time.
    pub(super) latencies: [Latencies; Kind::ALL.len()],
    /// Transactions that their user took back.
    pub(super) rollbacks: u64,
    /// Attempts that gave way, by the server's code.
    pub(super) gave_way: BTreeMap<String, u64>,
}

/// That, and what was acknowledged to the client.
type OfClient = (Done, Vec<Receipt>);

impl Done {
    fn new() -> Self {
        let latencies = std::array::from_fn(|_| Latencies::new());
        Self { elapsed: Duration::ZERO, latencies, rollbacks: 0, gave_way: BTreeMap::new() }
    }

    fn add(&mut self, other: &Self) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latencies.iter_mut().zip(&other.latencies).for_each(|(own, other)| own.add(other));
        self.rollbacks += other.rollbacks;
        for (code, count) in &other.gave_way {
            *self.gave_way.entry(code.clone()).or_default() += count;
        }
    }

    /// Of all types.
    pub(super) fn all(&self) -> Latencies {
        let mut all = Latencies::new();
        self.latencies.iter().for_each(|of_kind| all.add(of_kind));
        all
    }
}

/// Has the servers' clients work beside each other; gives what came of it, and what each server has acknowledged. No other load
/// of the same servers has that number.
pub(super) fn run(
    settings: &Settings,
    servers: &[Server],
    number: usize,
    seed: Seed,
) -> Result<(Done, Vec<Vec<Receipt>>)> {
    let mut terminals = Vec::new();
    for (place, server) in servers.iter().enumerate() {
        for client in 0..settings.clients {
            let terminal = (number * settings.clients + client) as u32;
            let seed = seed.derive(place as u64).derive(u64::from(terminal));
            let inputs = settings.company.inputs(Mix::Full, terminal, seed);
            let mut client = server.client()?;
            // Connected before anything is measured.
            client.ask("select 'ready';")?;
            terminals.push((place, client, inputs));
        }
    }
    let together = Barrier::new(terminals.len());
    let body = |client: Client, inputs: Inputs| {
        together.wait();
        work(settings, client, inputs)
    };
    let outcomes: Vec<(usize, Result<OfClient>)> = std::thread::scope(|scope| {
        let start = |(place, client, inputs)| (place, scope.spawn(|| body(client, inputs)));
        let threads: Vec<_> = terminals.into_iter().map(start).collect();
        let joined = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("a client returns its errors");
        threads.into_iter().map(|(place, thread)| (place, joined(thread))).collect()
    });
    let mut all = (Done::new(), vec![Vec::new(); servers.len()]);
    for (place, outcome) in outcomes {
        let (done, receipts) = outcome?;
        all.0.add(&done);
        all.1[place].extend(receipts);
    }
    Ok(all)
}

/// One client, until the time is over; what it has begun it ends.
fn work(settings: &Settings, mut client: Client, mut inputs: Inputs) -> Result<OfClient> {
    let (mut done, mut receipts) = (Done::new(), Vec::new());
    let start = Instant::now();
    while start.elapsed() < settings.duration {
        settings.under().go_on()?;
        let (kind, input) = inputs.draw();
        let statement = statement(settings.kind, &input);
        let sent = Instant::now();
        loop {
            let answer = client.ask(&statement)?;
            match understand(&input, &answer).map_err(|reason| told(settings, Stop::Wrong(reason)))? {
                Answer::Done(receipt) => {
                    done.latencies[kind as usize].record(sent.elapsed());
                    if receipt != Receipt::Nothing {
                        receipts.push(receipt);
                    }
                    break;
                }
                Answer::Rollback => {
                    done.rollbacks += 1;
                    break;
                }
                Answer::GaveWay(code) => *done.gave_way.entry(code).or_default() += 1,
            }
        }
    }
    done.elapsed = start.elapsed();
    Ok((done, receipts))
}

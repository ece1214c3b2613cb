//! The verdict: version chains per key, the graph over them, and the search for an explanation of what was seen without
//! its version.
//!
//! First every key gets its chain: the last write of each committed writer, in commit order. Then each observation becomes
//! either a sure place in a chain or a [`Choice`] between several. Sure places and chains make the graph; choices
//! are settled last, forced ones first.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::graph::{Arrow, Dependency, Graph};
use super::own::{Own, states, taken_back};
use super::{Edge, History, Key, Level, Operation, Outcome, Seen, Transaction, TransactionId, Version, Violation};

/// How many ways to explain unseen versions are tried.
const PATIENCE: usize = 100_000;

pub(super) fn check(history: &History, level: Level) -> Result<(), Violation> {
    match check_at(history, level) {
        // A plain cycle says more than one that needs time, so that is looked for first.
        Err(violation @ Violation::Cycle(_)) if level != Level::Serializable => {
            Err(check_at(history, Level::Serializable).err().unwrap_or(violation))
        }
        verdict => verdict,
    }
}

fn check_at(history: &History, level: Level) -> Result<(), Violation> {
    let mut judge = Judge::new(history)?;
    judge.order_writers();
    judge.place_reads()?;
    match level {
        Level::Serializable => {}
        Level::Recent => judge.order_neighbours_in_time(),
        Level::Strict => judge.order_in_time(),
    }
    judge.verdict()
}

/// The last write of a committed transaction to a key.
#[derive(Clone, Copy, Debug)]
struct Link {
    place: u64,
    node: usize,
    operation: usize,
    /// `None` for a deletion.
    version: Option<Version>,
}

/// What the history knows about one version.
struct Written {
    key: Key,
    committed: bool,
    /// Its writer wrote the key again later.
    replaced: bool,
    /// Its writer took it back.
    undone: bool,
}

/// An observation that fits several places of a chain. Place 0 is before the first version, place `n` the `n`-th one.
#[derive(Clone, Debug)]
struct Choice {
    node: usize,
    operation: usize,
    key: Key,
    places: Vec<usize>,
}

struct Judge<'h> {
    /// The committed transactions; their indices are the graph's nodes.
    nodes: Vec<&'h Transaction>,
    written: HashMap<Version, Written>,
    chains: BTreeMap<Key, Vec<Link>>,
    graph: Graph,
    choices: Vec<Choice>,
    tried: usize,
}

impl<'h> Judge<'h> {
    fn new(history: &'h History) -> Result<Self, Violation> {
        let committed = |transaction: &&Transaction| matches!(transaction.outcome, Outcome::Committed(_));
        let nodes: Vec<_> = history.transactions.iter().filter(committed).collect();
        let mut judge = Self {
            graph: Graph::new(nodes.len()),
            nodes,
            written: HashMap::new(),
            chains: BTreeMap::new(),
            choices: Vec::new(),
            tried: 0,
        };
        for transaction in &history.transactions {
            judge.collect_versions(transaction);
        }
        judge.link_chains()?;
        Ok(judge)
    }

    fn collect_versions(&mut self, transaction: &Transaction) {
        let committed = transaction.outcome != Outcome::Aborted;
        let (undone, own) = (taken_back(&transaction.operations), states(&transaction.operations));
        let last = own.last().into_iter().flatten().map(|(_, (operation, _))| *operation);
        let last: BTreeSet<usize> = last.collect();
        for (operation, done) in transaction.operations.iter().enumerate() {
            if let Operation::Write { key, version } = done {
                let (undone, last) = (undone.contains(&operation), last.contains(&operation));
                let written = Written { key: *key, committed, replaced: !undone && !last, undone };
                self.written.insert(*version, written);
            }
        }
    }

    fn link_chains(&mut self) -> Result<(), Violation> {
        let mut places: BTreeMap<u64, TransactionId> = BTreeMap::new();
        for (node, transaction) in self.nodes.iter().enumerate() {
            let Outcome::Committed(place) = transaction.outcome else { continue };
            let last = states(&transaction.operations).pop().unwrap_or_default();
            if last.is_empty() {
                continue;
            }
            if let Some(first) = places.insert(place, transaction.id) {
                return Err(Violation::SharedPlace { place, first, second: transaction.id });
            }
            for (key, (operation, version)) in last {
                self.chains.entry(key).or_default().push(Link { place, node, operation, version });
            }
        }
        for chain in self.chains.values_mut() {
            chain.sort_by_key(|link| link.place);
        }
        Ok(())
    }

    /// `ww` edges along every chain.
    fn order_writers(&mut self) {
        for (key, chain) in &self.chains {
            for pair in chain.windows(2) {
                self.graph.add(pair[0].node, arrow(Dependency::WriteWrite, *key, pair[0].operation, &pair[1]));
            }
        }
    }

    /// Finds for each observation the places of the chain that it fits.
    fn place_reads(&mut self) -> Result<(), Violation> {
        for node in 0..self.nodes.len() {
            let transaction = self.nodes[node];
            let states = states(&transaction.operations);
            for ((operation, done), own) in transaction.operations.iter().enumerate().zip(&states) {
                match done {
                    Operation::Write { .. } | Operation::Delete { .. } | Operation::RollBack { .. } => {}
                    Operation::Read { key, saw } => self.place(node, operation, own, *key, saw)?,
                    Operation::Scan { range, saw } => {
                        let ascending = saw.windows(2).all(|pair| pair[0].0 < pair[1].0);
                        if !ascending || !saw.iter().all(|(key, _)| range.contains(key)) {
                            return Err(Violation::DisorderedScan { reader: transaction.id, operation: done.clone() });
                        }
                        let mut keys: BTreeMap<Key, &Seen> =
                            self.chains.range(range.clone()).map(|(key, _)| (*key, &Seen::Absent)).collect();
                        keys.extend(saw.iter().map(|(key, seen)| (*key, seen)));
                        for (key, seen) in keys {
                            self.place(node, operation, own, key, seen)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, node: usize, operation: usize, own: &Own, key: Key, saw: &Seen) -> Result<(), Violation> {
        let reader = self.nodes[node].id;
        let done = || self.nodes[node].operations[operation].clone();
        if let Some((_, written)) = own.get(&key) {
            let fits = match saw {
                Seen::Absent => written.is_none(),
                Seen::Present => written.is_some(),
                Seen::Version(version) => *written == Some(*version),
                Seen::Garbage(_) => false,
            };
            let missed = || Violation::OwnWriteMissed { reader, operation: done(), key, saw: saw.clone() };
            return if fits { Ok(()) } else { Err(missed()) };
        }
        let never = || Violation::NeverWritten { reader, operation: done(), key, saw: saw.clone() };
        if let Seen::Version(version) = saw {
            let written = self.written.get(version).filter(|written| written.key == key).ok_or_else(never)?;
            if !written.committed {
                return Err(Violation::AbortedRead { reader, operation: done(), version: *version });
            }
            if version.writer == reader {
                return Err(Violation::OwnWriteMissed { reader, operation: done(), key, saw: saw.clone() });
            }
            if written.undone {
                return Err(Violation::UndoneRead { reader, operation: done(), version: *version });
            }
            if written.replaced {
                return Err(Violation::IntermediateRead { reader, operation: done(), version: *version });
            }
        }
        let chain = self.chains.get(&key).map_or(&[][..], Vec::as_slice);
        let fits = |link: &Link| match saw {
            Seen::Absent => link.version.is_none(),
            Seen::Present => link.version.is_some(),
            Seen::Version(version) => link.version == Some(*version),
            Seen::Garbage(_) => false,
        };
        let initial = (*saw == Seen::Absent).then_some(0);
        // Its own version can not be what it saw before it wrote it.
        let later = chain.iter().enumerate().filter(|(_, link)| link.node != node && fits(link)).map(|(at, _)| at + 1);
        let places: Vec<usize> = initial.into_iter().chain(later).collect();
        match places.as_slice() {
            [] => return Err(never()),
            [place] => {
                let choice = Choice { node, operation, key, places: Vec::new() };
                take(&mut self.graph, &self.chains, &choice, *place);
            }
            _ => self.choices.push(Choice { node, operation, key, places }),
        }
        Ok(())
    }

    /// `rt` edges, without those that follow from others.
    fn order_in_time(&mut self) {
        for (later, transaction) in self.nodes.iter().enumerate() {
            let before = || self.nodes.iter().enumerate().filter(|(_, first)| first.ended < transaction.began);
            let nearest = before().map(|(_, first)| first.began).max().unwrap_or(0);
            for (first, _) in before().filter(|(_, first)| first.ended >= nearest) {
                let dependency = Dependency::RealTime;
                self.graph.add(first, Arrow { to: later, dependency, key: None, operations: None });
            }
        }
    }

    /// `rt` edges between those who touched the same key, one of them to write it.
    fn order_neighbours_in_time(&mut self) {
        for (later, transaction) in self.nodes.iter().enumerate() {
            for (first, before) in self.nodes.iter().enumerate() {
                if before.ended < transaction.began && (meet(before, transaction) || meet(transaction, before)) {
                    let dependency = Dependency::RealTime;
                    self.graph.add(first, Arrow { to: later, dependency, key: None, operations: None });
                }
            }
        }
    }

    fn verdict(mut self) -> Result<(), Violation> {
        if let Some(cycle) = self.graph.shortest_cycle() {
            return Err(self.describe(&cycle));
        }
        let graph = self.graph.clone();
        let choices = std::mem::take(&mut self.choices);
        self.settle(graph, choices)
    }

    /// Looks for one place for each choice such that no cycle appears; the error is the cycle of the last attempt.
    fn settle(&mut self, mut graph: Graph, mut choices: Vec<Choice>) -> Result<(), Violation> {
        self.tried += 1;
        if self.tried > PATIENCE {
            return Err(Violation::Undecided { tried: self.tried });
        }
        loop {
            let before = choices.len();
            let mut open = Vec::with_capacity(before);
            for mut choice in choices {
                let mut places = std::mem::take(&mut choice.places);
                let last = places.last().copied();
                places.retain(|place| possible(&graph, &self.chains, &choice, *place));
                match places.as_slice() {
                    [] => {
                        take(&mut graph, &self.chains, &choice, last.expect("a choice has places"));
                        let cycle = graph.shortest_cycle().expect("an impossible place closes a cycle");
                        return Err(self.describe(&cycle));
                    }
                    [place] => take(&mut graph, &self.chains, &choice, *place),
                    _ => open.push(Choice { places, ..choice }),
                }
            }
            choices = open;
            if choices.len() == before || choices.is_empty() {
                break;
            }
        }
        let Some(choice) = choices.pop() else { return Ok(()) };
        let mut verdict = Ok(());
        for place in &choice.places {
            let mut attempt = graph.clone();
            take(&mut attempt, &self.chains, &choice, *place);
            verdict = self.settle(attempt, choices.clone());
            if matches!(verdict, Ok(()) | Err(Violation::Undecided { .. })) {
                break;
            }
        }
        verdict
    }

    fn describe(&self, cycle: &[(usize, Arrow)]) -> Violation {
        let edges = cycle.iter().map(|(from, arrow)| {
            let (from, to) = (self.nodes[*from], self.nodes[arrow.to]);
            Edge {
                from: from.id,
                to: to.id,
                dependency: arrow.dependency,
                key: arrow.key,
                from_operation: arrow.operations.map(|(first, _)| from.operations[first].clone()),
                to_operation: arrow.operations.map(|(_, second)| to.operations[second].clone()),
            }
        });
        Violation::Cycle(edges.collect())
    }
}

fn arrow(dependency: Dependency, key: Key, operation: usize, to: &Link) -> Arrow {
    Arrow { to: to.node, dependency, key: Some(key), operations: Some((operation, to.operation)) }
}

/// The version at a place of a chain, and the next one.
fn around<'c>(
    chains: &'c BTreeMap<Key, Vec<Link>>,
    choice: &Choice,
    place: usize,
) -> (Option<&'c Link>, Option<&'c Link>) {
    let chain = chains.get(&choice.key).map_or(&[][..], Vec::as_slice);
    let seen = place.checked_sub(1).and_then(|at| chain.get(at));
    (seen, chain.get(place))
}

/// Whether the choice's reader can have seen this place without closing a cycle.
fn possible(graph: &Graph, chains: &BTreeMap<Key, Vec<Link>>, choice: &Choice, place: usize) -> bool {
    let (seen, next) = around(chains, choice, place);
    let before = seen.is_none_or(|link| link.node == choice.node || !graph.reaches(choice.node, link.node));
    before && next.is_none_or(|link| link.node == choice.node || !graph.reaches(link.node, choice.node))
}

/// Adds the `wr` and `rw` edges of having seen this place.
fn take(graph: &mut Graph, chains: &BTreeMap<Key, Vec<Link>>, choice: &Choice, place: usize) {
    let (seen, next) = around(chains, choice, place);
    if let Some(link) = seen {
        let operations = Some((link.operation, choice.operation));
        let arrow = Arrow { to: choice.node, dependency: Dependency::WriteRead, key: Some(choice.key), operations };
        graph.add(link.node, arrow);
    }
    if let Some(link) = next {
        graph.add(choice.node, arrow(Dependency::ReadWrite, choice.key, choice.operation, link));
    }
}

/// True if one touched a key that the other wrote.
fn meet(one: &Transaction, writer: &Transaction) -> bool {
    let last = |transaction: &Transaction| states(&transaction.operations).pop().unwrap_or_default();
    let (own, written) = (last(one), last(writer));
    let touches = |key: Key| {
        let reads = |operation: &Operation| match operation {
            Operation::Read { key: at, .. } => *at == key,
            Operation::Scan { range, .. } => range.contains(&key),
            Operation::Write { .. } | Operation::Delete { .. } | Operation::RollBack { .. } => false,
        };
        own.contains_key(&key) || one.operations.iter().any(reads)
    };
    written.into_keys().any(touches)
}

//! One connection with many chains of requests under way.
//!
//! ```text
//!  callers ── send: numbers, signature, encryption, write ──▶ socket ──▶ server
//!  callers ◀── mailbox ◀── reader thread: decrypt, check, take from the table ◀──┘
//! ```
//!
//! The server grants *credits*, and each request takes one for each 64 KiB that it may bring. A chain goes out only when there are
//! credits for all of it. A chain whose caller has gone keeps its place until it is answered. When a connection is lost, all its chains learn that
//! through their mailboxes.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::answer::{Answer, PLAIN, RELATED, SIGNED};
use super::bytes::{Body, Malformed};
use super::keys::{SEALED, Sealing, Signing, TRANSFORM};
use super::request::{HEADER, Request};
use crate::source::multiplex::{self, CAPACITY, Lost, Multiplexed, Patient, Room, held};

/// Credits that are asked for until there are so many.
const CREDITS: u32 = 2048;
/// How many more are asked for with each request.
const MORE: u32 = 64;
/// The most bytes of a message: what a chain may ask for, and what stands before the data.
const RECORD: usize = super::LARGEST + (256 << 10);

/// Where a caller finds the answers to its chains.
pub(super) type Mailbox = multiplex::Mailbox<Vec<Answer>>;

/// What it finds there.
pub(super) type Letter = multiplex::Letter<Vec<Answer>>;

/// What was agreed on when the connection began.
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) tree: u32,
    pub(super) signing: Option<Signing>,
    pub(super) sealing: Option<Sealing>,
    /// The most bytes that one request reads, and that one other request brings.
    pub(super) read: u32,
    pub(super) transact: u32,
    /// The number of the next request.
    pub(super) next: u64,
    pub(super) credits: u32,
}

/// *Threads*: any number. *Drop* closes it and waits for its thread.
pub(super) struct Connection {
    shared: Arc<Shared>,
    stream: TcpStream,
    /// One writes at a time.
    pen: Mutex<()>,
    reader: Option<JoinHandle<()>>,
}

struct Shared {
    session: Session,
    table: Mutex<Table>,
    under_way: AtomicUsize,
    /// Whether anything was ever answered.
    answered: AtomicBool,
    room: Arc<Room>,
    silence: Duration,
}

struct Table {
    /// By the number of a request: that of its chain's first one, and its place in the chain.
    requests: HashMap<u64, (u64, usize)>,
    chains: HashMap<u64, Chain>,
    next: u64,
    credits: u32,
    lost: Option<Lost>,
    /// When chains were there after none had been.
    waiting_since: Instant,
}

struct Chain {
    mailbox: Arc<Mailbox>,
    ticket: u64,
    answers: Vec<Option<Answer>>,
    /// How many are missing.
    left: usize,
}

impl Connection {
    /// `silence` is how long the server may send nothing while it has chains.
    pub(super) fn new(stream: TcpStream, session: Session, room: Arc<Room>, silence: Duration) -> io::Result<Self> {
        let table = Table {
            requests: HashMap::new(),
            chains: HashMap::new(),
            next: session.next,
            credits: session.credits,
            lost: None,
            waiting_since: Instant::now(),
        };
        let shared = Arc::new(Shared {
            session,
            table: Mutex::new(table),
            under_way: AtomicUsize::new(0),
            answered: AtomicBool::new(false),
            room,
            silence,
        });
        let (reading, of_reader) = (stream.try_clone()?, Arc::clone(&shared));
        let run = move || of_reader.read_all(&reading);
        let reader = std::thread::Builder::new().name("smb-reader".to_owned()).spawn(run)?;
        Ok(Self { shared, stream, pen: Mutex::default(), reader: Some(reader) })
    }

    pub(super) fn session(&self) -> &Session {
        &self.shared.session
    }

    /// Sends the first of the chains, as many as have room; how many.
    pub(super) fn send<'a>(&self, chains: impl Iterator<Item = (u64, &'a [Request])>, mailbox: &Arc<Mailbox>) -> usize {
        let _pen = held(&self.pen);
        let (mut sent, mut frames) = (0, Vec::new());
        for (ticket, chain) in chains {
            match self.shared.enter(chain, ticket, mailbox) {
                Some(message) => frames.push(message),
                None => break,
            }
            sent += 1;
        }
        let outcome = frames.into_iter().try_fold(Vec::new(), |mut bytes, message| {
            bytes.extend(frame(&self.shared.sealed(message)?));
            Ok(bytes)
        });
        if let Err(error) = outcome.and_then(|bytes: Vec<u8>| (&self.stream).write_all(&bytes)) {
            self.shared.lose(false, format!("sending to the server: {error}"));
            let _ = self.stream.shutdown(Shutdown::Both);
        }
        sent
    }
}

impl Multiplexed for Connection {
    fn under_way(&self) -> Option<usize> {
        let count = self.shared.under_way.load(Ordering::Relaxed);
        (count != usize::MAX).then_some(count)
    }

    fn answered(&self) -> bool {
        self.shared.answered.load(Ordering::Relaxed)
    }

    fn hang_up(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.hang_up();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// A message with its length before it.
pub(super) fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// A request with its header.
pub(super) fn encoded(request: &Request, number: u64, credits: u32, flags: u32, session: u64, tree: u32) -> Body {
    let header = Body::default().bytes(&PLAIN).u16(HEADER as u16).u16(request.charge()).u32(0).u16(request.command);
    let header = header.u16(credits.min(u32::from(u16::MAX)) as u16).u32(flags).u32(0).u64(number).u32(0).u32(tree);
    header.u64(session).zeros(16).bytes(&request.body)
}

/// Reads one message.
pub(super) fn message(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut size = [0; 4];
    input.read_exact(&mut size)?;
    let size = u32::from_be_bytes(size) as usize;
    if !(HEADER..=RECORD).contains(&size) {
        let reason = format!("the server sent a message of absurd length: {size} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let mut message = Vec::with_capacity(size);
    if input.by_ref().take(size as u64).read_to_end(&mut message)? < size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(message)
}

impl Shared {
    /// Notes a chain in the table, if it has room; its message.
    fn enter(&self, chain: &[Request], ticket: u64, mailbox: &Arc<Mailbox>) -> Option<Vec<u8>> {
        let mut table = held(&self.table);
        let charge: u32 = chain.iter().map(|request| u32::from(request.charge())).sum();
        if table.lost.is_some() || table.chains.len() >= CAPACITY {
            return None;
        }
        if table.credits < charge {
            let idle = table.chains.is_empty();
            drop(table);
            if idle {
                self.lose(true, format!("the server grants fewer than {charge} credits"));
            }
            return None;
        }
        if table.chains.is_empty() {
            table.waiting_since = Instant::now();
        }
        let first = table.next;
        let more = if table.credits < CREDITS { MORE } else { 0 };
        let answers = vec![None; chain.len()];
        table.chains.insert(first, Chain { mailbox: Arc::clone(mailbox), ticket, left: answers.len(), answers });
        let mut message = Vec::new();
        for (place, request) in chain.iter().enumerate() {
            let (number, charge) = (table.next, request.charge());
            table.requests.insert(number, (first, place));
            table.next += u64::from(charge);
            table.credits -= u32::from(charge);
            let signs = self.session.sealing.is_none() && self.session.signing.is_some();
            let flags = if place > 0 { RELATED } else { 0 } | if signs { SIGNED } else { 0 };
            let Session { id, tree, .. } = self.session;
            let body = encoded(request, number, u32::from(charge) + more, flags, id, tree);
            let is_last = place + 1 == chain.len();
            let mut part = if is_last { body.0 } else { body.padded().0 };
            if !is_last {
                let size = part.len() as u32;
                part[20..24].copy_from_slice(&size.to_le_bytes());
            }
            if let Some(signing) = self.session.signing.as_ref().filter(|_| signs) {
                signing.sign(&mut part);
            }
            message.extend(part);
        }
        self.under_way.store(table.chains.len(), Ordering::Relaxed);
        Some(message)
    }

    fn sealed(&self, message: Vec<u8>) -> io::Result<Vec<u8>> {
        let Some(sealing) = &self.session.sealing else { return Ok(message) };
        sealing.seal(message).ok_or_else(|| io::Error::other("a message could not be encrypted"))
    }

    fn waiting_since(&self) -> Option<Instant> {
        let table = held(&self.table);
        (!table.chains.is_empty()).then_some(table.waiting_since)
    }

    fn read_all(&self, stream: &TcpStream) {
        let mut input =
            io::BufReader::with_capacity(64 << 10, Patient::new(stream, self.silence, || self.waiting_since()));
        loop {
            let outcome = message(&mut input).map_err(|error| {
                let broken = error.kind() == io::ErrorKind::InvalidData;
                (broken, error.to_string())
            });
            let outcome = outcome.and_then(|message| {
                self.answers(message).map_err(|Malformed(reason)| (true, format!("the server's messages: {reason}")))
            });
            let outcome = outcome.and_then(|answers| answers.into_iter().try_for_each(|answer| self.take(answer)));
            if let Err((broken, reason)) = outcome {
                self.lose(broken, reason);
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
    }

    /// The answers in a message that the server has encrypted or signed, as was agreed on.
    fn answers(&self, message: Vec<u8>) -> Result<Vec<Answer>, Malformed> {
        let is_sealed = message.starts_with(&SEALED) && message.len() >= TRANSFORM;
        let message = match &self.session.sealing {
            Some(sealing) if is_sealed => sealing.open(message)?,
            Some(_) => return Err(Malformed("one is not encrypted")),
            None => message,
        };
        let answers = Answer::split(message)?;
        if let Some(signing) = self.session.signing.as_ref().filter(|_| !is_sealed) {
            let unsigned = |answer: &&Answer| !answer.is_interim() && !answer.status().is_over();
            if answers.iter().filter(unsigned).any(|answer| !signing.is_signed(answer.bytes())) {
                return Err(Malformed("one is not signed by the server"));
            }
        }
        Ok(answers)
    }

    /// Gives an answer to its chain.
    fn take(&self, answer: Answer) -> Result<(), (bool, String)> {
        let number = answer.number();
        // What the server says by itself is not asked for by a source.
        if number == u64::MAX {
            return Ok(());
        }
        if answer.status().is_over() {
            return Err((false, answer.status().to_string()));
        }
        let finished = {
            let mut table = held(&self.table);
            table.credits = table.credits.saturating_add(u32::from(answer.credits()));
            if answer.is_interim() {
                return Ok(());
            }
            let unknown = || (true, "the server answered what was not asked".to_owned());
            let (first, place) = table.requests.remove(&number).ok_or_else(unknown)?;
            let chain = table.chains.get_mut(&first).ok_or_else(unknown)?;
            chain.left -= 1;
            chain.answers[place] = Some(answer);
            let finished = if chain.left == 0 { table.chains.remove(&first) } else { None };
            if table.lost.is_none() {
                self.under_way.store(table.chains.len(), Ordering::Relaxed);
            }
            finished
        };
        self.answered.store(true, Ordering::Relaxed);
        self.room.ring();
        if let Some(chain) = finished {
            chain.mailbox.put(chain.ticket, Ok(chain.answers.into_iter().flatten().collect()));
        }
        Ok(())
    }

    /// Tells all chains, once.
    fn lose(&self, broken: bool, reason: String) {
        let lost = Lost { broken, reason: reason.into() };
        let chains = {
            let mut table = held(&self.table);
            if table.lost.is_some() {
                return;
            }
            table.lost = Some(lost.clone());
            self.under_way.store(usize::MAX, Ordering::Relaxed);
            table.requests.clear();
            std::mem::take(&mut table.chains)
        };
        for chain in chains.into_values() {
            chain.mailbox.put(chain.ticket, Err(lost.clone()));
        }
        self.room.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absurd_length_is_refused_before_there_is_room_for_it() {
        for size in [[0; 4], [0, 0, 0, 63], [0xff; 4], [0, 0x20, 0, 0], [0x85, 0, 0, 0]] {
            let error = message(&mut &size[..]).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        assert_eq!(message(&mut &frame(&[7; 100])[..]).expect("a message"), [7; 100]);
    }
}

//! One connection with many calls under way.
//!
//! ```text
//!  callers ── send: number, note in the table, write ──▶ socket ──▶ server
//!  callers ◀── mailbox ◀── reader thread: take from the table ◀── socket ◀──┘
//! ```
//!
//! A caller leaves its call in the table and goes on; the reader thread puts the answer into the mailbox that the table names. A call
//! whose caller has gone keeps its place until it is answered, so a connection never has more than [`CAPACITY`] of them and their
//! bytes always fit into the socket's buffer. When a connection is lost, all its calls learn that through their mailboxes.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::rpc::{self, Call, Credentials};
use crate::source::multiplex::{self, CAPACITY, Lost, Multiplexed, Patient, Room, held};

/// The most bytes of an answer: what a read may ask for, and what stands before the data.
pub(super) const RECORD: usize = super::LARGEST + (64 << 10);
/// What the reader takes from the socket at a time, but for the data of large answers.
const BUFFER: usize = 64 << 10;
/// Neighbouring numbers become numbers far apart: a bit that is wrong in an answer leads to no other call.
const SPREAD: u32 = 0x9E37_79B1;

/// Where a caller finds the answers to its calls.
pub(super) type Mailbox = multiplex::Mailbox<Vec<u8>>;

/// What it finds there.
pub(super) type Letter = multiplex::Letter<Vec<u8>>;

/// *Threads*: any number. *Drop* closes it and waits for its thread.
pub(super) struct Connection {
    shared: Arc<Shared>,
    stream: TcpStream,
    /// One writes at a time.
    pen: Mutex<Vec<u8>>,
    next: AtomicU32,
    reader: Option<JoinHandle<()>>,
}

struct Shared {
    table: Mutex<Table>,
    under_way: AtomicUsize,
    /// Whether anything was ever answered.
    answered: AtomicBool,
    room: Arc<Room>,
    silence: Duration,
}

struct Table {
    calls: HashMap<u32, (Arc<Mailbox>, u64)>,
    lost: Option<Lost>,
    /// When calls were there after none had been.
    waiting_since: Instant,
}

impl Connection {
    /// `silence` is how long the server may send nothing while it has calls.
    pub(super) fn new(stream: TcpStream, room: Arc<Room>, silence: Duration) -> io::Result<Self> {
        let table = Table { calls: HashMap::new(), lost: None, waiting_since: Instant::now() };
        let shared = Arc::new(Shared {
            table: Mutex::new(table),
            under_way: AtomicUsize::new(0),
            answered: AtomicBool::new(false),
            room,
            silence,
        });
        let (reading, of_reader) = (stream.try_clone()?, Arc::clone(&shared));
        let run = move || of_reader.read_all(&reading);
        let reader = std::thread::Builder::new().name("nfs-reader".to_owned()).spawn(run)?;
        Ok(Self { shared, stream, pen: Mutex::default(), next: AtomicU32::new(1), reader: Some(reader) })
    }

    /// Sends the first of the calls, as many as have room; how many.
    pub(super) fn send<'a>(
        &self,
        calls: impl Iterator<Item = (u64, &'a Call)>,
        credentials: &Credentials,
        mailbox: &Arc<Mailbox>,
    ) -> usize {
        let mut pen = held(&self.pen);
        pen.clear();
        let mut sent = 0;
        {
            let mut table = held(&self.shared.table);
            if table.lost.is_some() {
                return 0;
            }
            if table.calls.is_empty() {
                table.waiting_since = Instant::now();
            }
            let room = CAPACITY.saturating_sub(table.calls.len());
            for (ticket, call) in calls.take(room) {
                let xid = self.next.fetch_add(1, Ordering::Relaxed).wrapping_mul(SPREAD);
                table.calls.insert(xid, (Arc::clone(mailbox), ticket));
                call.encode(xid, credentials, &mut pen);
                sent += 1;
            }
            self.shared.under_way.store(table.calls.len(), Ordering::Relaxed);
        }
        if let Err(error) = (&self.stream).write_all(&pen) {
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

impl Shared {
    fn waiting_since(&self) -> Option<Instant> {
        let table = held(&self.table);
        (!table.calls.is_empty()).then_some(table.waiting_since)
    }

    fn read_all(&self, stream: &TcpStream) {
        let mut input = BufReader::with_capacity(BUFFER, Patient::new(stream, self.silence, || self.waiting_since()));
        loop {
            let record = match record(&mut input) {
                Ok(record) => record,
                Err(error) => {
                    self.lose(error.kind() == io::ErrorKind::InvalidData, error.to_string());
                    break;
                }
            };
            let Some((xid, _)) = rpc::split_xid(&record) else {
                self.lose(true, "the server sent an answer without a number".to_owned());
                break;
            };
            let (call, left) = {
                let mut table = held(&self.table);
                let call = table.calls.remove(&xid);
                if table.lost.is_none() {
                    self.under_way.store(table.calls.len(), Ordering::Relaxed);
                }
                (call, table.calls.len())
            };
            let Some((mailbox, ticket)) = call else {
                self.lose(true, "the server answered what was not asked".to_owned());
                break;
            };
            self.answered.store(true, Ordering::Relaxed);
            if left + 1 == CAPACITY {
                self.room.ring();
            }
            mailbox.put(ticket, Ok(record));
        }
        let _ = stream.shutdown(Shutdown::Both);
    }

    /// Tells all calls, once.
    fn lose(&self, broken: bool, reason: String) {
        let lost = Lost { broken, reason: reason.into() };
        let calls = {
            let mut table = held(&self.table);
            if table.lost.is_some() {
                return;
            }
            table.lost = Some(lost.clone());
            self.under_way.store(usize::MAX, Ordering::Relaxed);
            std::mem::take(&mut table.calls)
        };
        for (mailbox, ticket) in calls.into_values() {
            mailbox.put(ticket, Err(lost.clone()));
        }
        self.room.ring();
    }
}

/// Reads one record: fragments, each with its length before it (RFC 5531, section 11).
pub(super) fn record(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut record = Vec::new();
    loop {
        let mut mark = [0; 4];
        input.read_exact(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        let size = (mark & !rpc::LAST) as usize;
        let is_last = mark & rpc::LAST != 0;
        if size > RECORD - record.len() || (size == 0 && !is_last) {
            let reason = format!("the server sent an answer of absurd length: a fragment of {size} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        record.reserve_exact(size);
        if input.by_ref().take(size as u64).read_to_end(&mut record)? < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if is_last {
            return Ok(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_may_come_in_fragments() {
        let bytes = [&[0, 0, 0, 3][..], b"abc", &[0x80, 0, 0, 2], b"de", b"next"].concat();
        assert_eq!(record(&mut &bytes[..]).expect("a record"), b"abcde");
    }

    #[test]
    fn an_absurd_length_is_refused_before_there_is_room_for_it() {
        for mark in [[0xff; 4], [0x80, 0x20, 0, 0], [0; 4]] {
            let error = record(&mut &mark[..]).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        let many: Vec<u8> = [&(1_u32 << 20).to_be_bytes()[..], &vec![0; 1 << 20]].concat().repeat(3);
        assert_eq!(record(&mut &many[..]).expect_err("refused").kind(), io::ErrorKind::InvalidData);
    }
}

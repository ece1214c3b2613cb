//! A server of our own that speaks enough of NFS version 3, and misbehaves as a test says.
//!
//! It knows one directory of files, at one port for NFS, the mount service and access lists. Before each answer it asks its [`Manners`]
//! what to do with it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ishigaki_migrate::source::nfs::NfsSource;
use ishigaki_migrate::source::{Cancel, Result};

pub(crate) const GETATTR: u32 = 1;
pub(crate) const LOOKUP: u32 = 3;
pub(crate) const READ: u32 = 6;
pub(crate) const READDIR: u32 = 16;
pub(crate) const READDIRPLUS: u32 = 17;
const FSINFO: u32 = 19;

/// What to do with an answer.
pub(crate) enum Act {
    Answer,
    /// Say only that, with nothing behind it.
    Status(u32),
    /// Close the connection instead.
    Close,
    /// Close it after a part of the answer.
    CloseAfter(usize),
    /// Say nothing.
    Ignore,
    /// Another record, mark and all; the other argument is where a file's data begin in it.
    Change(Change),
}

type Change = Box<dyn FnOnce(&mut Vec<u8>, usize) + Send>;

pub(crate) type Decide = Box<dyn FnMut(u32) -> Act + Send>;

/// How the server is.
pub(crate) struct Manners {
    /// The files, by name.
    pub(crate) files: Vec<(Vec<u8>, Vec<u8>)>,
    /// It lists with attributes.
    pub(crate) plus: bool,
    /// Of every so many entries, one lacks attributes and handle in such a list.
    pub(crate) lacking: usize,
    /// Entries in a page.
    pub(crate) page: usize,
    /// The most bytes that a read gives, whatever is asked.
    pub(crate) piece: usize,
    /// What it answers to each call of NFS.
    pub(crate) decide: Decide,
}

impl Manners {
    /// A good server with so many files.
    pub(crate) fn good(files: usize) -> Self {
        let files = (0..files).map(|number| (format!("file-{number}").into_bytes(), content(number))).collect();
        Self { files, plus: true, lacking: usize::MAX, page: 100, piece: 1 << 20, decide: Box::new(|_| Act::Answer) }
    }
}

/// The bytes of a file, of a length of its own.
pub(crate) fn content(number: usize) -> Vec<u8> {
    (0..=number * 37 % 5000).map(|place| (place * 7 + number * 13) as u8).collect()
}

pub(crate) struct Peer {
    port: u16,
    pub(crate) manners: Arc<Mutex<Manners>>,
}

impl Peer {
    pub(crate) fn start(manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let manners = Arc::new(Mutex::new(manners));
        let of_server = Arc::clone(&manners);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let manners = Arc::clone(&of_server);
                std::thread::spawn(move || drop(serve(stream, &manners)));
            }
        });
        Self { port, manners }
    }

    pub(crate) fn open(&self, options: &str) -> Result<NfsSource> {
        let port = self.port;
        let address = format!("nfs://127.0.0.1:{port}/export?mountport={port}&{options}");
        NfsSource::open(&address.parse().expect("an address"), &Cancel::new())
    }

    pub(crate) fn decide(&self, decide: impl FnMut(u32) -> Act + Send + 'static) {
        self.manners.lock().expect("not poisoned").decide = Box::new(decide);
    }
}

fn serve(mut stream: TcpStream, manners: &Mutex<Manners>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let mut call = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut call)?;
        let (mut answer, act, data) = {
            let mut manners = manners.lock().expect("not poisoned");
            answer(&call, &mut manners)
        };
        let mark = ((answer.len() - 4) as u32 | 1 << 31).to_be_bytes();
        answer[..4].copy_from_slice(&mark);
        match act {
            Act::Answer | Act::Status(_) => stream.write_all(&answer)?,
            Act::Ignore => {}
            Act::Close => return stream.shutdown(Shutdown::Both),
            Act::CloseAfter(size) => {
                stream.write_all(&answer[..size.min(answer.len())])?;
                return stream.shutdown(Shutdown::Both);
            }
            Act::Change(change) => {
                change(&mut answer, data);
                stream.write_all(&answer)?;
            }
        }
    }
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend(word.to_be_bytes());
    }
}

fn put_opaque(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, &[bytes.len() as u32]);
    out.extend(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Takes words and opaque bytes from a call.
struct Arguments<'a>(&'a [u8]);

impl Arguments<'_> {
    fn word(&mut self) -> u32 {
        let (word, rest) = self.0.split_first_chunk().expect("our client is whole");
        self.0 = rest;
        u32::from_be_bytes(*word)
    }

    fn long(&mut self) -> u64 {
        u64::from(self.word()) << 32 | u64::from(self.word())
    }

    fn opaque(&mut self) -> Vec<u8> {
        let size = self.word() as usize;
        let (bytes, rest) = self.0.split_at(size);
        self.0 = &rest[size.next_multiple_of(4) - size..];
        bytes.to_vec()
    }
}

/// The record of an answer, with room for its mark; what to do with it; where data begin in it.
fn answer(call: &[u8], manners: &mut Manners) -> (Vec<u8>, Act, usize) {
    let mut arguments = Arguments(call);
    let xid = arguments.word();
    let [_, _, program, _, procedure, _] = std::array::from_fn(|_| arguments.word());
    arguments.opaque();
    arguments.long();
    let mut out = Vec::new();
    let accepted = |out: &mut Vec<u8>, state| put(out, &[0, xid, 1, 0, 0, 0, state]);
    match program {
        100_005 => {
            accepted(&mut out, 0);
            put(&mut out, &[0]);
            put_opaque(&mut out, &handle(0));
            put(&mut out, &[1, 1]);
            (out, Act::Answer, usize::MAX)
        }
        100_003 => {
            accepted(&mut out, 0);
            let act = (manners.decide)(procedure);
            let mut data = usize::MAX;
            if let Act::Status(status) = act {
                put(&mut out, &[status, 0, 0]);
            } else {
                data = results(procedure, &mut arguments, manners, &mut out);
            }
            (out, act, data)
        }
        100_227 => {
            accepted(&mut out, 0);
            // With a list of three entries and one of five.
            put(&mut out, &[0, 0, 5, 5, 5]);
            put(&mut out, &[1, 0, 6, 2, 7, 4, 4, 0, 4, 0x10, 0, 4, 0x20, 0, 0]);
            put(&mut out, &[0, 0]);
            (out, Act::Answer, usize::MAX)
        }
        _ => {
            accepted(&mut out, 1);
            (out, Act::Answer, usize::MAX)
        }
    }
}

/// Object 0 is the root, others are the files in order.
fn handle(object: usize) -> Vec<u8> {
    [&b"handle of "[..], &(object as u64).to_be_bytes()].concat()
}

fn object(handle: &[u8], manners: &Manners) -> Option<usize> {
    let number = u64::from_be_bytes(handle.strip_prefix(b"handle of ")?.try_into().ok()?) as usize;
    (number <= manners.files.len()).then_some(number)
}

fn put_attributes(out: &mut Vec<u8>, object: usize, manners: &Manners) {
    let size = object.checked_sub(1).map_or(4096, |file| manners.files[file].1.len());
    put(out, &[if object == 0 { 2 } else { 1 }, 0o644, 1, 10, 20, 0, size as u32, 0, 0, 0, 0, 0, 77]);
    put(out, &[0, object as u32, 1, 1, 2, 2, 3, 3]);
}

/// Appends what a procedure answers; where data begin in it.
fn results(procedure: u32, arguments: &mut Arguments<'_>, manners: &Manners, out: &mut Vec<u8>) -> usize {
    let nowhere = usize::MAX;
    let Some(object) = object(&arguments.opaque(), manners) else {
        put(out, &[10_001, 0, 0]);
        return nowhere;
    };
    match procedure {
        GETATTR => {
            put(out, &[0]);
            put_attributes(out, object, manners);
        }
        LOOKUP => {
            let name = arguments.opaque();
            match manners.files.iter().position(|(file, _)| *file == name) {
                Some(file) if object == 0 => {
                    put(out, &[0]);
                    put_opaque(out, &handle(file + 1));
                    put(out, &[1]);
                    put_attributes(out, file + 1, manners);
                    put(out, &[0]);
                }
                _ => put(out, &[2, 0]),
            }
        }
        READ if object > 0 => {
            let (offset, count) = (arguments.long() as usize, arguments.word() as usize);
            let bytes = &manners.files[object - 1].1;
            let from = offset.min(bytes.len());
            let to = bytes.len().min(from + count.min(manners.piece));
            put(out, &[0, 1]);
            put_attributes(out, object, manners);
            put(out, &[(to - from) as u32, u32::from(to == bytes.len())]);
            put_opaque(out, &bytes[from..to]);
            return out.len() - (to - from).next_multiple_of(4);
        }
        READDIR | READDIRPLUS if object == 0 && (manners.plus || procedure == READDIR) => {
            page(arguments.long() as usize, procedure == READDIRPLUS, manners, out);
        }
        READDIRPLUS => put(out, &[10_004, 0]),
        FSINFO => put(out, &[0, 0, 1 << 20, 1 << 20, 1, 1 << 20, 1 << 20, 1, 1 << 20, 0, 0, 0, 1, 0]),
        _ => put(out, &[22, 0]),
    }
    nowhere
}

/// The cookie of the first entry is 1; `.` and `..` come before the files.
fn page(cookie: usize, plus: bool, manners: &Manners, out: &mut Vec<u8>) {
    put(out, &[0, 0, 0, 9]);
    let dots: [&[u8]; 2] = [b".", b".."];
    let all = dots.into_iter().chain(manners.files.iter().map(|(name, _)| &name[..]));
    for (number, name) in all.enumerate().skip(cookie).take(manners.page) {
        put(out, &[1, 0, number as u32]);
        put_opaque(out, name);
        put(out, &[0, number as u32 + 1]);
        let object = number.saturating_sub(1);
        let lacks = number % manners.lacking == manners.lacking - 1;
        if plus && lacks {
            put(out, &[0, 0]);
        } else if plus {
            put(out, &[1]);
            put_attributes(out, object, manners);
            put(out, &[1]);
            put_opaque(out, &handle(object));
        }
    }
    put(out, &[0, u32::from(cookie + manners.page >= manners.files.len() + 2)]);
}

/// Waits a little less than a machine under load needs to notice.
pub(crate) const SOON: Duration = Duration::from_millis(60);

//! Samba behind a wire that garbles what it says.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_migrate::source::smb::{Credentials, SmbSource};
use ishigaki_migrate::source::{Cancel, ErrorKind, Location, Source};
use ishigaki_testkit::seeded;

use crate::samba::Samba;

/// A wire between a source and a server. Connections of it end with it.
struct Wire {
    port: u16,
    garbles: Arc<AtomicBool>,
    /// Messages that were changed.
    changed: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
}

impl Wire {
    fn new(server: &str, mut random: fastrand::Rng) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("has an address").port();
        let [garbles, ends] = [false, false].map(|value| Arc::new(AtomicBool::new(value)));
        let changed = Arc::<AtomicU64>::default();
        let wire = Self { port, garbles: garbles.clone(), changed: changed.clone(), ends: ends.clone() };
        let server = server.to_owned();
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(server) = TcpStream::connect((server.as_str(), 445)) else { continue };
                let [from_client, from_server] = [&client, &server].map(|stream| stream.try_clone().expect("clones"));
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut &from_client, &mut &server);
                    let _ = server.shutdown(Shutdown::Both);
                });
                let (garbles, changed, mut random) = (garbles.clone(), changed.clone(), random.fork());
                std::thread::spawn(move || {
                    while let Some(mut message) = next(&from_server) {
                        if garbles.load(Ordering::Relaxed) && random.u32(0..6) == 0 {
                            garble(&mut message, &mut random);
                            changed.fetch_add(1, Ordering::Relaxed);
                        }
                        if (&client).write_all(&message).is_err() {
                            break;
                        }
                    }
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        wire
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// One message with its length.
fn next(mut stream: &TcpStream) -> Option<Vec<u8>> {
    let mut message = vec![0; 4];
    stream.read_exact(&mut message).ok()?;
    let size = u32::from_be_bytes(message[..4].try_into().ok()?) as usize;
    message.resize(4 + size, 0);
    stream.read_exact(&mut message[4..]).ok()?;
    Some(message)
}

fn garble(message: &mut Vec<u8>, random: &mut fastrand::Rng) {
    // Mostly where sizes and offsets stand.
    let end = if random.bool() { message.len().min(200) } else { message.len() };
    let place = random.usize(0..end);
    match random.u32(0..5) {
        0 | 1 => message[place] ^= 1 << random.u32(0..8),
        2 if place + 4 <= message.len() => {
            let word = *random.choice([0, 1, u32::MAX, 0x7fff_ffff, 64, 0x103]).as_ref().unwrap_or(&0);
            message[place..place + 4].copy_from_slice(&word.to_le_bytes());
        }
        3 => message.truncate(place.max(4)),
        _ => drop(message.splice(place..place, [random.u8(..)])),
    }
}

fn at(number: usize) -> Location {
    Location { path: number.to_string().into(), handle: Box::default() }
}

fn content(number: usize) -> Vec<u8> {
    (0..1000 * number).map(|place| (place * 7 + number) as u8).collect()
}

/// Everything that is asked of a source, for a while; how often it was right. What is wrong is counted by `check`.
fn ask_all(source: &SmbSource, count: usize, wire: &Wire, check: bool) -> usize {
    let mut right = 0;
    let before = wire.changed.load(Ordering::Relaxed);
    let until = Instant::now() + Duration::from_mins(2);
    while wire.changed.load(Ordering::Relaxed) < before + 60 && Instant::now() < until {
        let mut buffers = vec![vec![0; 1000 * count]; count];
        let locations: Vec<_> = (0..count).map(at).collect();
        let mut files: Vec<_> = locations.iter().zip(buffers.iter_mut().map(Vec::as_mut_slice)).collect();
        let results = source.read_files(&mut files, &Cancel::new());
        for (number, result) in results.into_iter().enumerate() {
            if let Ok(size) = result {
                assert!(!check || buffers[number][..size] == content(number), "file {number}: {size} bytes");
                right += 1;
            }
        }
        let mut names = 0;
        let listed = source.list(&Location { path: "".into(), handle: Box::default() }, &Cancel::new(), &mut |page| {
            names += page.len();
            Ok(())
        });
        assert!(!check || listed.is_err() || names == count, "{names} names");
        for number in 0..3 {
            let _ = source.extras(&at(number), &Cancel::new());
            if let Ok(told) = source.attributes(&at(number), &Cancel::new()) {
                assert!(!check || told.size == 1000 * number as u64);
            }
        }
    }
    right
}

/// Garbles from the first message on, and while files are read; then no more, and the source goes on.
fn garbled(name: &str, share: &str, credentials: &Credentials, check: bool) {
    let Some(server) = Samba::start() else { return };
    let count = 20;
    for number in 0..count {
        fs::write(server.tree.path().join(number.to_string()), content(number)).expect("writes");
    }
    seeded(name, |seed| {
        let wire = Wire::new(server.host(), seed.generator());
        let open = || {
            let address = format!("smb://127.0.0.1:{}/{share}?connections=2&timeout=3", wire.port);
            SmbSource::open(&address.parse().expect("an address"), credentials, &Cancel::new())
        };
        let source = open().expect("opens");
        wire.garbles.store(true, Ordering::Relaxed);
        let right = ask_all(&source, count, &wire, check);
        assert!(right > 0 || !check, "some answers come through");
        for _ in 0..10 {
            if let Err(error) = open() {
                assert_ne!(error.kind, ErrorKind::Cancelled, "{error}");
            }
        }
        wire.garbles.store(false, Ordering::Relaxed);
        // Connections on which a length was wrong end by their silence.
        let until = Instant::now() + Duration::from_mins(1);
        let mut buffer = vec![0; 5000];
        loop {
            match source.read(&at(5), 0, &mut buffer, &Cancel::new()) {
                Ok(size) => break assert!(buffer[..size] == content(5)),
                Err(error) => assert!(Instant::now() < until, "the source goes on: {error}"),
            }
        }
    });
}

#[test]
fn a_garbled_message_that_was_signed_is_asked_again_and_never_a_wrong_byte() {
    let name = "a_garbled_message_that_was_signed_is_asked_again_and_never_a_wrong_byte";
    garbled(name, "share", &Samba::credentials("root"), true);
}

#[test]
fn a_garbled_message_that_was_encrypted_is_asked_again_and_never_a_wrong_byte() {
    let name = "a_garbled_message_that_was_encrypted_is_asked_again_and_never_a_wrong_byte";
    garbled(name, "sealed", &Samba::credentials("root"), true);
}

#[test]
fn a_garbled_message_to_a_guest_is_survived() {
    // Without signatures nothing could notice that bytes are wrong.
    garbled("a_garbled_message_to_a_guest_is_survived", "open", &Credentials::guest(), false);
}

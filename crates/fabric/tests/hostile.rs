//! Peers that mean harm: none of them makes a server crash, hang, or write where it should not.

#[allow(dead_code, reason = "shared with the tests of behaviour")]
mod kit;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ishigaki_fabric::{Call, Security, Settings, Token};
use ishigaki_testkit::seeded;

use kit::{Server, caller};

/// The bytes of a client's greeting: magic, version 1, no method, a window of 16.
fn greeting() -> Vec<u8> {
    let mut bytes = b"ISGF\x01\0\0\0\x10\0\0\0".to_vec();
    bytes.resize(44, 7);
    bytes
}

/// Connects, sends these bytes and sees the server end the connection.
fn is_cut_off(server: &Server, bytes: &[u8]) -> bool {
    let mut socket = TcpStream::connect(&server.address).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a deadline");
    // The server may have ended it before all was sent.
    let _ = socket.write_all(bytes);
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn whoever_greets_wrongly_is_cut_off_and_the_others_are_served() {
    let server = Server::echoing(&Security::Open);
    let mut wrong = greeting();
    wrong[0] = b'X';
    let mut version = greeting();
    version[4] = 9;
    let mut window = greeting();
    window[8] = 0;
    for bytes in [&b"GET / HTTP/1.1\r\nHost: here\r\nAccept: everything\r\n\r\n"[..], &wrong, &version, &window] {
        assert!(is_cut_off(&server, bytes), "{bytes:?}");
    }
    caller(&server, &Security::Open).call(&Call::message(b"me")).expect("served");
}

#[test]
fn whoever_sends_what_is_no_frame_is_cut_off() {
    let settings = Settings { stall: Duration::from_millis(300), ..Settings::default() };
    let server = Server::with(&Security::Open, &settings, kit::echo);
    let frame = |kind: u8, flags: u8, length: u32, rest: &[u8]| {
        [&greeting()[..], &[kind, flags, 0, 0], &length.to_le_bytes(), &[0; 8], rest].concat()
    };
    for bytes in [
        frame(9, 0, 0, &[]),
        frame(1, 0xff, 0, &[]),
        frame(1, 0, u32::MAX, &[]),
        frame(3, 1, (1 << 20) + 1, &[0; 24]),
        // A write into a region that there is not.
        frame(3, 1, 4, &[0; 28]),
    ] {
        assert!(is_cut_off(&server, &bytes), "{:?}", &bytes[44..]);
    }
    // More requests than the window of the server, which answers them all at once or none.
    let flood = [&greeting()[..], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].repeat(100_000)].concat();
    assert!(is_cut_off(&server, &flood));
    caller(&server, &Security::Open).call(&Call::message(b"me")).expect("served");
}

#[test]
fn random_bytes_behind_a_greeting_harm_nobody() {
    let server = Server::echoing(&Security::Open);
    seeded("random_bytes_behind_a_greeting_harm_nobody", |seed| {
        for run in 0..200 {
            let mut random = seed.derive(run).generator();
            let mut bytes = greeting();
            let kind = random.u8(0..5);
            bytes.push(kind);
            bytes.extend((0..random.usize(0..300)).map(|_| if random.bool() { 0 } else { random.u8(..) }));
            let mut socket = TcpStream::connect(&server.address).expect("connected");
            let _ = socket.write_all(&bytes);
        }
    });
    caller(&server, &Security::Open).call(&Call::message(b"me")).expect("served");
}

#[test]
fn whoever_says_nothing_is_given_up_and_keeps_nobody_waiting() {
    let settings = Settings { connect: Duration::from_millis(300), ..Settings::default() };
    let listener = ishigaki_fabric::Listener::bind("127.0.0.1:0", settings, Security::Open).expect("bound");
    let address = listener.address().to_string();
    let _silent = TcpStream::connect(&address).expect("connected");
    let arrival = listener.accept().expect("accepted").expect("open");
    let begin = Instant::now();
    assert!(arrival.greet(|| true).is_err());
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[test]
fn who_finds_no_room_is_told_so() {
    let listener = ishigaki_fabric::Listener::bind("127.0.0.1:0", Settings::default(), Security::Open).expect("bound");
    let address = listener.address().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let refused = listener.accept().expect("accepted").expect("open").greet(|| false);
            assert!(refused.is_err());
        });
        let outcome = ishigaki_fabric::connect(&address, &Settings::default(), &Security::Open);
        let error = outcome.expect_err("there is no room").to_string();
        assert!(error.contains("as many connections as it takes"), "{error}");
    });
}

#[test]
fn whoever_can_not_prove_the_token_gets_no_further() {
    let token = Token::new(b"a token that stays secret").expect("long enough");
    let server = Server::silent(&Security::Token(token));
    let mut greeting = greeting();
    greeting[5] = 1;
    let request = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert!(is_cut_off(&server, &[&greeting[..], &[0; 32], &request].concat()));
    assert_eq!(server.has_heard(), 0);
}

#[test]
fn a_node_that_does_not_know_our_token_hears_nothing_of_us() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    let impostor = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("accepted");
        let mut theirs = [0; 44];
        socket.read_exact(&mut theirs).expect("a greeting");
        let mut answer = greeting();
        answer[5] = 1;
        socket.write_all(&answer).expect("sent");
        let mut proof = [0; 32];
        socket.read_exact(&mut proof).expect("a proof");
        // Sends the client's own proof back.
        socket.write_all(&[&[0], &proof[..]].concat()).expect("sent");
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        rest
    });
    let security = Security::Token(Token::new(b"a token that stays secret").expect("long enough"));
    let outcome = ishigaki_fabric::connect(&address, &Settings::default(), &security);
    let error = outcome.expect_err("refused").to_string();
    assert!(error.contains("does not know our token"), "{error}");
    assert!(impostor.join().expect("no panic").is_empty());
}

#[test]
fn two_thousand_connections_that_come_and_go_leave_nothing_behind() {
    let server = Server::with(&Security::Open, &Settings::default(), |_, _| ());
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("a folder").count();
    let _warm = kit::connected(&server, &Security::Open);
    let before = descriptors();
    for _ in 0..2000 {
        drop(TcpStream::connect(&server.address).expect("connected"));
    }
    let deadline = kit::soon();
    while descriptors() > before + 50 {
        assert!(Instant::now() < deadline, "{} descriptors of {before}", descriptors());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A greeting that asks for libfabric.
fn greeting_for_libfabric() -> Vec<u8> {
    let mut bytes = greeting();
    bytes[7] = 1;
    bytes
}

#[test]
fn whoever_offers_what_is_no_endpoint_is_cut_off_and_the_others_are_served() {
    for kind in kit::transports().into_iter().skip(1) {
        let settings = Settings { connect: Duration::from_secs(2), ..Settings::default() };
        let server = Server::with(&kind, &settings, kit::echo);
        let offer = |head: [u8; 4], name: &[u8]| {
            let mut offer = vec![0; 376];
            offer[..4].copy_from_slice(&head);
            offer[40..40 + name.len()].copy_from_slice(name);
            [greeting_for_libfabric(), offer].concat()
        };
        for bytes in [
            offer([1, 0, 0, 0], b""),
            offer([2, 0, 0, 0], b""),
            offer([0, 0, 0, 0], b""),
            offer([0, 200, 16, 0], b"tcp"),
            offer([0, 3, 16, 0], b"bus"),
            // The right provider at an address that leads nowhere.
            offer([0, 11, 16, 0], b"tcp;ofi_rxm"),
            offer([0, 3, 16, 0], b"net"),
            [greeting_for_libfabric(), vec![0xff; 376]].concat(),
            // Says nothing more.
            greeting_for_libfabric(),
        ] {
            let begin = Instant::now();
            assert!(is_cut_off(&server, &bytes), "{:?}", &bytes[44..]);
            assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
        }
        caller(&server, &kind).call(&Call::message(b"me")).expect("served");
        caller(&server, &Security::Open).call(&Call::message(b"me, over TCP")).expect("served");
    }
}

#[test]
fn random_offers_harm_nobody() {
    for kind in kit::transports().into_iter().skip(1).take(1) {
        let server = Server::echoing(&kind);
        seeded("random_offers_harm_nobody", |seed| {
            for run in 0..60 {
                let mut random = seed.derive(run).generator();
                let mut bytes = greeting_for_libfabric();
                bytes.extend([0, random.u8(0..70), random.u8(..), random.u8(0..3), 0, 0, 0, 0]);
                bytes.extend((0..random.usize(0..400)).map(|_| if random.bool() { 0 } else { random.u8(..) }));
                let mut socket = TcpStream::connect(&server.address).expect("connected");
                let _ = socket.write_all(&bytes);
            }
        });
        caller(&server, &kind).call(&Call::message(b"me")).expect("served");
    }
}

#[test]
fn who_wants_a_transport_that_the_other_side_does_not_use_is_told_so() {
    let asks = |fabric: &str| Settings { fabric: fabric.parse().expect("a transport"), ..Settings::default() };
    let server = Server::echoing(&Security::Open);
    let outcome = ishigaki_fabric::connect(&server.address, &asks("ofi:tcp"), &Security::Open);
    let error = outcome.expect_err("refused").to_string();
    assert!(error.contains("it uses TCP alone"), "{error}");
    for kind in kit::transports().into_iter().skip(1).take(1) {
        let server = Server::echoing(&kind);
        let why = |fabric: &str| {
            let outcome = ishigaki_fabric::connect(&server.address, &asks(fabric), &Security::Open);
            outcome.expect_err("refused").to_string()
        };
        let (pigeon, net) = (why("ofi:carrier-pigeon"), why("ofi:net"));
        assert!(pigeon.contains("the provider carrier-pigeon is not to be had here"), "{pigeon}");
        assert!(net.contains("name the same"), "{net}");
        let server = Server::with(&kind, &asks("ofi:tcp"), kit::echo);
        caller(&server, &Security::Open).call(&Call::message(b"over TCP")).expect("served");
    }
}

#[test]
fn connections_over_libfabric_that_come_and_go_leave_nothing_behind() {
    for kind in kit::transports().into_iter().skip(1) {
        let server = Server::echoing(&kind);
        let descriptors = || std::fs::read_dir("/proc/self/fd").expect("a folder").count();
        caller(&server, &kind).call(&Call::message(b"me")).expect("served");
        let before = descriptors();
        for _ in 0..60 {
            caller(&server, &kind).call(&Call::message(b"me")).expect("served");
        }
        let deadline = kit::soon();
        while descriptors() > before + 40 {
            assert!(Instant::now() < deadline, "{kind:?}: {} descriptors of {before}", descriptors());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

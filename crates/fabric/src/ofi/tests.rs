use std::net::{TcpListener, TcpStream};

use super::*;
use crate::endpoint::Settings;
use crate::libfabric::Libfabric;
use crate::libfabric::channel::{Channel, OwnAddress, Sizes};
use crate::libfabric::library::Registration;
use crate::security::{Security, Side};
use words::{HEAD, Head, MESSAGE};

/// Both ends of a stream; nothing where there is no libfabric.
fn pair() -> Option<(Ofi, Ofi)> {
    if Libfabric::probe().expect("a library that can be used").is_none() {
        println!("SKIPPED: there is no libfabric (Debian: libfabric1)");
        return None;
    }
    let (settings, open) = (Settings::default(), Security::Open);
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let server = listener.accept().expect("accepted").0;
    let client = Wire::client(client, "127.0.0.1", &open, &settings).expect("a wire");
    let server = Wire::server(server, "127.0.0.1", &open, &settings).expect("a wire");
    let deadline = Instant::now() + Duration::from_secs(10);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| meet(server, "tcp", Side::Server, &settings, deadline).expect("met"));
        let client = meet(client, "tcp", Side::Client, &settings, deadline).expect("met");
        Some((client, server.join().expect("no panic")))
    })
}

fn soon() -> Block {
    Block::Until(Instant::now() + Duration::from_secs(5))
}

/// Receives so many bytes.
fn receive(stream: &Ofi, length: usize) -> Result<Vec<u8>, Fault> {
    let (mut bytes, mut received) = (vec![0; length], 0);
    while received < length {
        received += stream.receive(&mut [IoSliceMut::new(&mut bytes[received..])], soon())?;
    }
    Ok(bytes)
}

/// Sends a message as no honest peer does.
fn lie(stream: &Ofi, bytes: &[u8], change: impl Fn(&mut Head)) {
    let mut state = stream.state.lock();
    let (messages, ring) = (state.leaving.messages, state.leaving.ring);
    let mut head = Head { secret: state.theirs_secret(), messages, ring, messages_taken: 0, ring_taken: 0 };
    change(&mut head);
    let slot = state.leaving.slot().expect("there are some");
    state.channel.compose(slot, 0, &head.encode());
    state.channel.compose(slot, HEAD, bytes);
    assert!(state.channel.send(slot, HEAD + bytes.len()).expect("sent"), "the provider is not busy");
}

#[test]
fn a_stream_gives_what_was_sent_in_order_however_long_it_is() {
    let Some((client, server)) = pair() else { return };
    let long: Vec<u8> = (0..3 * RING + 17).map(|at| (at * 7 + at / 251) as u8).collect();
    for length in [1, 100, INLINE, INLINE + 1, PIECE, RING, long.len()] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let bytes = &long[..length];
                let sent =
                    if length <= INLINE { client.send_short(bytes) } else { client.send_long([bytes].into_iter()) };
                sent.expect("sent");
            });
            assert!(receive(&server, length).expect("received") == long[..length], "{length} bytes");
        });
    }
}

#[test]
fn both_directions_are_full_at_once_and_neither_waits_for_ever() {
    let Some((client, server)) = pair() else { return };
    let (long, rounds) = (vec![7; RING], 30);
    std::thread::scope(|scope| {
        for (one, other) in [(&client, &server), (&server, &client)] {
            let long = &long[..];
            scope.spawn(move || (0..rounds).for_each(|_| one.send_long([long].into_iter()).expect("sent")));
            scope.spawn(move || {
                (0..rounds).for_each(|_| assert!(receive(other, RING).expect("received") == long));
            });
        }
    });
}

#[test]
fn who_lies_about_what_it_sent_or_took_is_refused() {
    type Lie = (&'static str, fn(&mut Head), &'static [u8]);
    let lies: [Lie; 6] = [
        ("took messages that were not sent", |head| head.messages_taken = 1, b""),
        ("took bytes that were not written", |head| head.ring_taken = 1, b""),
        ("left a message out", |head| head.messages += 2, b"x"),
        ("sent the same again", |_| (), b"x"),
        ("wrote beyond the ring", |head| (head.messages, head.ring) = (head.messages + 1, RING as u64 + 1), b"x"),
        ("sent nothing", |head| head.messages += 1, b""),
    ];
    for (what, change, bytes) in lies {
        let Some((client, server)) = pair() else { return };
        lie(&client, bytes, change);
        let outcome = receive(&server, 1);
        assert!(matches!(outcome, Err(Fault::Refused(_))), "{what}: {outcome:?}");
        assert!(matches!(server.send_short(b"?"), Err(Fault::Refused(_))), "{what}: everybody hears of it");
    }
}

/// Somebody else, who has found the server's endpoint.
fn stranger(server: &Ofi) -> Channel {
    let sizes = Sizes { ring: 4096, message: 2 * MESSAGE, messages: 2, writes: 1 };
    let mut stranger =
        Channel::open("tcp", OwnAddress::Host("127.0.0.1".to_owned()), Registration::Any, sizes).expect("opened");
    let address = server.state.lock().channel.address().expect("an address");
    stranger.join(&address).expect("joined");
    stranger
}

/// Sends a message of so many bytes, or finds out that the server's provider wants no more of them.
fn pester(server: &Ofi, stranger: &mut Channel, length: usize) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let (mut begun, mut done) = (false, Vec::new());
    while done.is_empty() {
        assert!(Instant::now() < deadline, "{length} bytes");
        begun = begun || stranger.send(0, length).expect("nothing is wrong");
        if stranger.poll(&mut done).is_err() {
            return;
        }
        server.state.lock().progress().expect("nothing is wrong");
    }
}

#[test]
fn who_does_not_know_the_secret_is_passed_over() {
    let Some((client, server)) = pair() else { return };
    // Of each kind more than there are slots, none of which may be lost.
    let many = words::MESSAGES + words::EXTRA + 1;
    let mut one = stranger(&server);
    for length in [0, HEAD - 1, HEAD, HEAD + 10, MESSAGE] {
        (0..many).for_each(|_| pester(&server, &mut one, length));
    }
    // After one that is too long the provider ends that connection.
    (0..many).for_each(|_| pester(&server, &mut stranger(&server), MESSAGE + 1));
    let until = Instant::now() + Duration::from_millis(100);
    while Instant::now() < until {
        server.state.lock().progress().expect("nothing is wrong");
    }
    for round in 0..200_u32 {
        client.send_short(&round.to_le_bytes()).expect("sent");
        assert_eq!(receive(&server, 4).expect("received"), round.to_le_bytes());
    }
}

#[test]
fn the_last_words_say_whether_anything_is_missing() {
    let Some((client, server)) = pair() else { return };
    client.state.lock().leaving.messages += 1;
    client.close();
    let begin = Instant::now();
    let Err(Fault::Broken(reason)) = receive(&server, 1) else { panic!("nothing was sent") };
    assert!(reason.contains("not all that it sent has come"), "{reason}");
    assert!(begin.elapsed() < Duration::from_secs(3));
    let Some((client, server)) = pair() else { return };
    client.wire.close();
    let Err(Fault::Broken(reason)) = receive(&server, 1) else { panic!("nothing was sent") };
    assert!(reason.contains("without a word"), "{reason}");
    drop(client);
}

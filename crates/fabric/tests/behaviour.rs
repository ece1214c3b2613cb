//! What a user of a connection sees.

#[allow(dead_code, reason = "shared with the tests of hostile peers")]
mod kit;

use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use ishigaki_device::AlignedBuffer;
use ishigaki_fabric::{
    Answer, Call, Caller, Error, Event, Outgoing, RegionKey, Security, Settings, Target, Token, Wait,
};
use ishigaki_testkit::seeded;
use rustix::event::{PollFd, PollFlags, Timespec};

use kit::{Server, caller, connected, kinds, soon, transports};

#[test]
fn a_message_is_answered_over_every_kind_of_connection() {
    for kind in kinds() {
        let server = Server::echoing(&kind);
        let caller = caller(&server, &kind);
        for length in [0, 1, 64, 4096, 300_000] {
            let message: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let answer = caller.call(&Call::message(&message)).expect("answered");
            assert!(answer == Answer::Message(message[..].into()), "{length} bytes over {kind:?}");
        }
    }
}

#[test]
fn bytes_are_in_the_region_when_the_answer_is_there() {
    for kind in kinds() {
        let server = Server::writing(&kind);
        let caller = caller(&server, &kind);
        for length in [0, 512, 4096, 1 << 20] {
            let region = caller.endpoint().register(AlignedBuffer::zeroed(1 << 20)).expect("registered");
            let request = kit::write_request(region.key(), 0, length, 0xab);
            let call = Call { region: Some(region.clone()), ..Call::message(&request) };
            assert_eq!(caller.call(&call).expect("answered"), Answer::Written(length));
            let memory = region.memory().expect("it is there");
            assert!(memory[..length as usize].iter().all(|&byte| byte == 0xab), "{length} bytes over {kind:?}");
            assert!(memory[length as usize..].iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn bytes_that_are_sent_before_a_request_are_there_when_it_arrives() {
    for kind in transports() {
        let server = Server::reading(&kind);
        let caller = caller(&server, &kind);
        let Answer::Message(key) = caller.call(&Call::message(b"key")).expect("answered") else { panic!("a message") };
        let target = Target { key: RegionKey(key[..].try_into().expect("a key")), offset: 3 };
        for byte in 0..20 {
            let bytes = vec![byte; 100_000];
            let call = Call { before: Some((target, &bytes)), ..Call::message(b"sum") };
            let Answer::Message(sum) = caller.call(&call).expect("answered") else { panic!("a message") };
            assert_eq!(u64::from_le_bytes(sum[..].try_into().expect("a number")), 100_000 * u64::from(byte));
        }
    }
}

#[test]
fn many_threads_over_one_connection_get_their_own_answers() {
    for kind in kinds() {
        let server = Server::writing(&kind);
        let caller = caller(&server, &kind);
        seeded("many_threads_over_one_connection_get_their_own_answers", |seed| {
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    let caller = &caller;
                    scope.spawn(move || {
                        let mut random = seed.derive(thread).generator();
                        let region = caller.endpoint().register(AlignedBuffer::zeroed(65536)).expect("registered");
                        for _ in 0..100 {
                            let (length, byte) = (random.u32(0..65536), random.u8(1..));
                            let request = kit::write_request(region.key(), 0, length, byte);
                            let call = Call { region: Some(region.clone()), ..Call::message(&request) };
                            assert_eq!(caller.call(&call).expect("answered"), Answer::Written(length));
                            let memory = region.memory().expect("it is there");
                            assert!(memory[..length as usize].iter().all(|&found| found == byte));
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn one_thread_keeps_more_requests_in_flight_than_there_are_credits() {
    for kind in transports() {
        let settings = Settings { window: 4, ..Settings::default() };
        let server = Server::with(&kind, &settings, kit::echo);
        let caller = Caller::new(connected(&server, &kind), Duration::from_secs(10));
        let messages: Vec<[u8; 2]> = (0..1000_u16).map(u16::to_le_bytes).collect();
        let calls: Vec<_> = messages
            .iter()
            .enumerate()
            .map(|(at, message)| Call { token: at as u64, ..Call::message(message) })
            .collect();
        let mut pending = caller.submit(&calls).expect("sent");
        let mut done = Vec::new();
        while !pending.is_empty() {
            caller.wait_any(&mut pending, &mut done).expect("answered");
        }
        assert_eq!(done.len(), 1000);
        for (token, answer) in done {
            assert_eq!(answer, Answer::Message(messages[token as usize][..].into()));
        }
    }
}

#[test]
fn an_answer_that_nobody_wants_any_more_harms_nobody() {
    for kind in transports() {
        let server = Server::writing(&kind);
        let caller = caller(&server, &kind);
        for round in 0..300 {
            // The region goes at once; the caller keeps it until the peer has written.
            let region = caller.endpoint().register(AlignedBuffer::zeroed(4096)).expect("registered");
            let request = kit::write_request(region.key(), 0, 4096, 1);
            let call = Call { region: Some(region), ..Call::message(&request) };
            drop(caller.submit(std::slice::from_ref(&call)).expect("sent"));
            drop(call);
            if round % 50 == 0 {
                let region = caller.endpoint().register(AlignedBuffer::zeroed(512)).expect("registered");
                let request = kit::write_request(region.key(), 0, 512, 7);
                let call = Call { region: Some(region.clone()), ..Call::message(&request) };
                assert_eq!(caller.call(&call).expect("answered"), Answer::Written(512));
                assert_eq!(region.memory().expect("it is there")[511], 7);
            }
        }
    }
}

#[test]
fn a_peer_that_dies_leaves_a_clear_error_to_everybody_and_nobody_waits() {
    for kind in transports() {
        let server = Server::silent(&kind);
        let caller = caller(&server, &kind);
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| caller.call(&Call::message(b"anybody?")))).collect();
            server.heard(4);
            drop(server);
            for waiting in waiting {
                let error = waiting.join().expect("no panic").expect_err("nobody answered");
                assert!(matches!(error, Error::Lost { sent: true, .. }), "{error}");
                assert!(error.to_string().contains("may have been carried out"), "{error}");
            }
        });
        let later = caller.call(&Call::message(b"now?")).expect_err("there is nobody");
        assert!(matches!(later, Error::Lost { sent: false, .. }), "{later}");
        assert!(caller.is_lost() && begin.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_peer_that_does_not_answer_is_given_up_in_time() {
    for kind in transports() {
        let server = Server::silent(&kind);
        let caller = Caller::new(connected(&server, &kind), Duration::from_millis(300));
        let begin = Instant::now();
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| caller.call(&Call::message(b"anybody?")))).collect();
            waiting.into_iter().map(|waiting| waiting.join().expect("no panic").expect_err("nobody answered")).collect()
        });
        assert!(outcomes.iter().any(|error| matches!(error, Error::Timeout { .. })), "{outcomes:?}");
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
        assert!(caller.is_lost());
    }
}

#[test]
fn a_peer_that_reads_nothing_is_given_up_in_time() {
    for kind in transports() {
        let stall = Duration::from_millis(300);
        let settings = Settings { stall, ..kind.settings() };
        let server = Server::deaf(&kind);
        let endpoint = ishigaki_fabric::connect(&server.address, &settings, &kind.security).expect("connected");
        let (begin, bytes) = (Instant::now(), vec![0; 1 << 20]);
        let target = Target { key: RegionKey([0; 16]), offset: 0 };
        let error = (0..200)
            .find_map(|id| endpoint.send(&[Outgoing::Write { id, target, bytes: &bytes, completes: None }]).err())
            .expect("200 MiB are more than any buffer takes");
        assert!(matches!(error, Error::Lost { .. }), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}

#[test]
fn a_wait_that_was_too_short_loses_nothing() {
    for kind in transports() {
        let (client, server) = kit::pair(&kind);
        let mut events = Vec::new();
        client.receive(&mut events, Wait::No).expect("nothing is there, and that is no error");
        let outcome = client.receive(&mut events, Wait::Until(Instant::now()));
        assert!(matches!(outcome, Err(Error::Timeout { .. })) && events.is_empty());
        server.send(&[Outgoing::Request { id: 5, bytes: b"hello" }]).expect("sent");
        client.receive(&mut events, Wait::Until(soon())).expect("received");
        assert_eq!(events, [Event::Request { id: 5, bytes: b"hello"[..].into() }]);
    }
}

#[test]
fn what_came_before_the_end_is_not_lost_with_it() {
    for kind in kinds() {
        for wait in [Wait::No, Wait::Until(soon())] {
            let (client, server) = kit::pair(&kind);
            server.send(&[Outgoing::Reply { id: 5, credits: 0, bytes: b"goodbye" }]).expect("sent");
            drop(server);
            // Both are here.
            moment();
            let mut events = Vec::new();
            client.receive(&mut events, wait).expect("received");
            assert_eq!(events, [Event::Reply { id: 5, credits: 0, bytes: b"goodbye"[..].into() }], "{kind:?}");
            let outcome = client.receive(&mut events, wait);
            assert!(matches!(outcome, Err(Error::Lost { .. })) && events.len() == 1, "{kind:?}: {outcome:?}");
        }
    }
}

#[test]
fn whoever_polls_the_socket_misses_nothing_that_has_come() {
    for kind in kinds() {
        let (client, server) = kit::pair(&kind);
        for _ in 0..5 {
            let messages: Vec<_> = (0..20).map(|number| vec![number; 20_000]).collect();
            let batch: Vec<_> =
                (0..).zip(&messages).map(|(id, bytes)| Outgoing::Reply { id, credits: 0, bytes }).collect();
            let mut events = Vec::new();
            std::thread::scope(|scope| {
                scope.spawn(|| server.send(&batch).expect("sent"));
                client.receive(&mut events, Wait::Until(soon())).expect("received");
            });
            // All of it is on its way or here; what is here and not handed out must show.
            moment();
            while events.len() < messages.len() {
                let socket = client.readable().expect("a descriptor");
                let mut poll = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
                let soon = Timespec { tv_sec: 1, tv_nsec: 0 };
                assert_eq!(rustix::event::poll(&mut poll, Some(&soon)), Ok(1), "{kind:?}: {}", events.len());
                client.receive(&mut events, Wait::Until(self::soon())).expect("received");
            }
        }
    }
}

#[test]
fn what_is_too_long_is_refused_before_it_is_sent() {
    for kind in transports() {
        let (client, server) = kit::pair(&kind);
        let long = vec![0; ishigaki_fabric::MAX_MESSAGE + 1];
        let outcome = client.send(&[Outgoing::Request { id: 1, bytes: &long }]);
        assert!(matches!(outcome, Err(Error::Invalid { .. })));
        client.send(&[Outgoing::Request { id: 2, bytes: b"short" }]).expect("the connection is good");
        let mut events = Vec::new();
        server.receive(&mut events, Wait::Until(soon())).expect("received");
        assert!(matches!(events[..], [Event::Request { id: 2, .. }]));
    }
}

#[test]
fn without_authentication_no_other_host_is_let_near() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7"] {
        let outcome = ishigaki_fabric::Listener::bind(address, Settings::default(), Security::Open);
        assert!(matches!(outcome, Err(Error::Insecure { .. })), "{address}");
    }
    let outcome = ishigaki_fabric::connect("192.0.2.1:7", &Settings::default(), &Security::Open);
    assert!(matches!(outcome, Err(Error::Insecure { .. })));
}

#[test]
fn only_who_knows_the_token_comes_in_and_is_told_why_not() {
    let token = |secret: &[u8]| Security::Token(Token::new(secret).expect("long enough"));
    let right = token(b"the right token of this node");
    let server = Server::echoing(&right);
    let why = |security: &Security| {
        let outcome = ishigaki_fabric::connect(&server.address, &Settings::default(), security);
        outcome.expect_err("not let in").to_string()
    };
    assert!(why(&token(b"a wrong token of some length")).contains("our token is not the node's"));
    assert!(why(&Security::Open).contains("one side uses a token"));
    caller(&server, &right).call(&Call::message(b"me")).expect("let in");
}

#[test]
fn only_who_has_a_certificate_of_the_right_authority_comes_in() {
    let (ours, theirs) = (kit::Authority::new(), kit::Authority::new());
    let server = Server::echoing(&ours.member(&ours));
    // One who believes the server but is of another authority, the other way round, and who speaks no TLS at all.
    for security in [theirs.member(&ours), ours.member(&theirs), Security::Open] {
        let settings = Settings { connect: Duration::from_secs(2), ..Settings::default() };
        let outcome = ishigaki_fabric::connect(&server.address, &settings, &security);
        assert!(outcome.is_err(), "{security:?}");
    }
    let member = ours.member(&ours);
    caller(&server, &member).call(&Call::message(b"me")).expect("let in");
}

#[test]
fn a_listener_that_is_closed_lets_its_waiter_go() {
    let listener = ishigaki_fabric::Listener::bind("127.0.0.1:0", Settings::default(), Security::Open);
    let listener = Arc::new(listener.expect("bound"));
    let waiter = Arc::clone(&listener);
    let waiting = std::thread::spawn(move || waiter.accept());
    std::thread::sleep(Duration::from_millis(20));
    listener.close();
    assert!(waiting.join().expect("no panic").expect("no error").is_none());
}

/// Both ends, the asking one with a caller.
fn asking(settings: &Settings, timeout: Duration) -> (Arc<Caller>, Arc<dyn ishigaki_fabric::Endpoint>) {
    let (client, server) = kit::pair_with(&Security::Open, settings);
    (Caller::new(client, timeout), server)
}

/// Waits for so many requests; their numbers.
fn requests(server: &Arc<dyn ishigaki_fabric::Endpoint>, count: usize) -> Vec<u32> {
    let mut events = Vec::new();
    while events.len() < count {
        server.receive(&mut events, Wait::Until(soon())).expect("received");
    }
    let id = |event: &Event| if let Event::Request { id, .. } = event { *id } else { panic!("{event:?}") };
    events.iter().map(id).collect()
}

fn reply(server: &Arc<dyn ishigaki_fabric::Endpoint>, id: u32) {
    server.send(&[Outgoing::Reply { id, credits: 1, bytes: b"done" }]).expect("sent");
}

/// Until those who are to sleep do.
fn moment() {
    std::thread::sleep(Duration::from_millis(50));
}

/// Two threads that ask one after the other and sleep, the first one leading; and what the server calls their requests.
fn two_asleep<'s>(
    scope: &'s Scope<'s, '_>,
    caller: &'s Arc<Caller>,
    server: &Arc<dyn ishigaki_fabric::Endpoint>,
) -> [(ScopedJoinHandle<'s, ishigaki_fabric::Result<Answer>>, u32); 2] {
    [b"first".as_slice(), b"second"].map(|message| {
        let thread = scope.spawn(move || caller.call(&Call::message(message)));
        let id = requests(server, 1)[0];
        moment();
        (thread, id)
    })
}

#[test]
fn whoever_got_an_answer_passes_the_lead_on() {
    let (caller, server) = asking(&Settings::default(), Duration::from_secs(10));
    std::thread::scope(|scope| {
        let [(first, one), (second, two)] = two_asleep(scope, &caller, &server);
        reply(&server, one);
        first.join().expect("no panic").expect("answered");
        let begin = Instant::now();
        reply(&server, two);
        second.join().expect("no panic").expect("answered");
        assert!(begin.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn an_answer_reaches_its_thread_while_another_one_leads_on() {
    let (caller, server) = asking(&Settings::default(), Duration::from_secs(10));
    std::thread::scope(|scope| {
        let [(first, one), (second, two)] = two_asleep(scope, &caller, &server);
        reply(&server, two);
        let begin = Instant::now();
        second.join().expect("no panic").expect("answered");
        assert!(begin.elapsed() < Duration::from_secs(5));
        reply(&server, one);
        first.join().expect("no panic").expect("answered");
    });
}

#[test]
fn a_credit_reaches_who_waits_for_one_while_another_one_leads_on() {
    let settings = Settings { window: 2, ..Settings::default() };
    let (caller, server) = asking(&settings, Duration::from_secs(10));
    std::thread::scope(|scope| {
        let mut given_up = caller.submit(&[Call::message(b"zero")]).expect("sent");
        let zero = requests(&server, 1)[0];
        let first = scope.spawn(|| caller.call(&Call::message(b"first")));
        let one = requests(&server, 1)[0];
        moment();
        let second = scope.spawn(|| caller.call(&Call::message(b"second")));
        moment();
        let begin = Instant::now();
        reply(&server, zero);
        let two = requests(&server, 1)[0];
        assert!(begin.elapsed() < Duration::from_secs(5));
        reply(&server, two);
        reply(&server, one);
        for thread in [first, second] {
            thread.join().expect("no panic").expect("answered");
        }
        given_up.clear();
    });
}

#[test]
fn a_deadline_holds_while_another_thread_leads_with_a_later_one() {
    let (caller, server) = asking(&Settings::default(), Duration::from_millis(600));
    std::thread::scope(|scope| {
        let begin = Instant::now();
        let mut early = caller.submit(&[Call::message(b"early")]).expect("sent");
        std::thread::sleep(Duration::from_millis(300));
        let late = scope.spawn(|| caller.call(&Call::message(b"late")));
        requests(&server, 2);
        moment();
        let outcome = early.pop().expect("one").wait();
        assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
        assert!(begin.elapsed() < Duration::from_millis(850), "{:?}", begin.elapsed());
        assert!(late.join().expect("no panic").is_err());
    });
}

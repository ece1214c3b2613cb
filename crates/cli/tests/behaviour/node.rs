//! `ishigaki node` as a process: served, stopped, killed, started again, refused, stalled, and visited a thousand times.

pub(crate) mod served;

use std::fs;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::ErrorKind;
use ishigaki_device::{AlignedBuffer, Directory};
use ishigaki_fabric::{Call, Caller, Event, Security, Settings, Wait, connect};
use ishigaki_remote::{Anywhere, Client, ClientSettings, Location};
use serde_json::Value;

use crate::program::{Program, database, signal};
use served::{Served, page};

const WAYS: [&str; 3] = ["dynamic", "static", "ring"];

#[test]
fn what_is_written_by_its_name_lies_in_the_folder_and_it_ends_when_it_is_told_to() {
    for io in WAYS {
        let folder = database();
        let node = Served::start(folder.path(), &["--io", io]);
        assert_eq!((&node.told["io"], &node.told["access"]), (&io.into(), &"read-write".into()));
        assert_eq!((&node.told["security"], &node.told["pid"]), (&"none".into(), &node.id().into()));
        let place: Anywhere = format!("node://{}/a/b?connections=2", node.address()).parse().expect("a place");
        let directory = place.open().expect("opened");
        let device = directory.create("pages", 65536).expect("created");
        device.write_at(0, &page(1)).expect("written");
        device.sync().expect("synced");
        device.write_durable(4096, &page(2)).expect("written");
        directory.sync().expect("synced");
        let mut back = AlignedBuffer::zeroed(8192);
        device.read_at(0, &mut back).expect("read");
        assert!(back[..4096] == page(1)[..] && back[4096..] == page(2)[..]);
        let bytes = fs::read(folder.path().join("a/b/pages")).expect("the file");
        assert!(bytes[..8192] == back[..]);
        let ended = node.ends_by("TERM");
        assert_eq!(
            (&ended["ended"], &ended["bytes_written"], &ended["bytes_read"]),
            (&true.into(), &8192.into(), &8192.into())
        );
    }
}

#[test]
fn a_person_is_told_what_is_served_and_to_whom() {
    let folder = database();
    let mut running =
        Program::new().args(["node", "--read-only", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path()).start();
    let (first, second) = (running.hear(), running.hear());
    assert!(first.contains("for reading (") && first.contains("who has the token"), "{first}");
    let name = folder.path().join("ishigaki-token").display().to_string();
    assert!(second.contains("node://127.0.0.1:") && second.contains(&format!("?token-file={name}")), "{second}");
    signal(running.id(), "INT");
    let answer = running.ends();
    assert!(answer.code == Some(0) && answer.stdout.contains("Ended after "), "{}{}", answer.stdout, answer.stderr);
}

#[test]
fn what_was_answered_before_a_soft_end_is_there_and_nothing_else_was_done() {
    let folder = database();
    let node = Served::start(folder.path(), &[]);
    let device = node.directory().create("pages", 1 << 20).expect("created");
    let (begun, told) = std::sync::mpsc::channel();
    let (written, ended) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u8)
            .map(|thread| {
                let (device, begun) = (Arc::clone(&device), begun.clone());
                scope.spawn(move || {
                    for turn in 1..=u8::MAX {
                        if device.write_durable(u64::from(thread) * 4096, &page(turn)).is_err() {
                            return turn - 1;
                        }
                        let _ = begun.send(());
                        // So that there are always some under way, and not all numbers are used up.
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    u8::MAX
                })
            })
            .collect();
        (0..40).for_each(|_| told.recv().expect("writes are done"));
        let ended = node.ends_by("TERM");
        (threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>(), ended)
    });
    let sum: u64 = written.iter().copied().map(u64::from).sum();
    assert_eq!(ended["bytes_written"], sum * 4096, "{written:?}");
    let bytes = fs::read(folder.path().join("pages")).expect("the file");
    for (bytes, turn) in bytes.chunks(4096).zip(written) {
        assert!(bytes == &page(turn)[..], "the last write that was answered");
    }
}

#[test]
fn a_node_that_is_killed_is_told_clearly_and_found_again_when_it_is_back() {
    let folder = database();
    let node = Served::start(folder.path(), &[]);
    let (address, directory) = (node.address().to_owned(), node.directory());
    let device = directory.create("pages", 65536).expect("created");
    directory.sync().expect("synced");
    device.write_durable(0, &page(1)).expect("written");
    device.write_at(4096, &page(2)).expect("written, and not durable");
    let error = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut buffer = AlignedBuffer::zeroed(65536);
            loop {
                if let Err(error) = device.read_at(0, &mut buffer) {
                    return error;
                }
            }
        });
        std::thread::sleep(Duration::from_millis(30));
        node.kill();
        reader.join().expect("no panic")
    });
    let text = error.to_string();
    assert!(text.contains("pages") && text.contains("read"), "{text}");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(cause.contains(&address) && (cause.contains("lost") || cause.contains("no connection")), "{cause}");
    assert!(device.read_at(0, &mut page(0)).is_err(), "nobody is there");
    let again = Served::start(folder.path(), &["--listen", &address]);
    assert_eq!(again.address(), address);
    let mut back = page(0);
    device.read_at(0, &mut back).expect("the device finds the node again");
    assert!(back[..] == page(1)[..]);
    let error = device.sync().expect_err("what was not durable may be lost").to_string();
    assert!(error.contains("sync"), "{error}");
    device.write_durable(8192, &page(3)).expect("written");
}

#[test]
fn only_who_has_the_token_comes_in_and_everybody_is_told_why_not() {
    let folder = database();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let (token, other) = (file("token", "0123456789abcdef\n"), file("other", "fedcba9876543210\n"));
    let node = Served::start(folder.path(), &["--token-file", &token]);
    assert_eq!(node.told["security"], "token");
    let open = |options: &str| {
        format!("node://{}/t{options}", node.address()).parse::<Location>().expect("a location").connect()
    };
    open(&format!("?token-file={token}")).expect("let in").create("pages", 4096).expect("created");
    for (options, word) in [(String::new(), "token"), (format!("?token-file={other}"), "our token is not the node's")] {
        let error = open(&options).expect_err("refused");
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(word), "{error}");
    }
    let answer = Program::new()
        .args(["media", "probe", &format!("node://{}/t?token-file={other}", node.address())])
        .fails_with(1);
    assert!(answer.stderr.starts_with("error: ") && answer.stderr.contains("token"), "{}", answer.stderr);
}

#[test]
fn what_can_not_be_served_is_refused_with_the_remedy() {
    let folder = database();
    let short = folder.path().join("short");
    fs::write(&short, "short").expect("written");
    let missing = folder.path().join("missing");
    let (data, missing, short) =
        (folder.path().display().to_string(), missing.display().to_string(), short.display().to_string());
    let other = Served::start(folder.path(), &[]);
    let taken = other.address().to_owned();
    for (arguments, code, words) in [
        (vec!["--data", &missing], 1, "make it"),
        (vec!["--data", &short], 1, "is no folder"),
        (vec!["--data", &data, "--listen", &taken], 3, "another port"),
        (vec!["--data", &data, "--listen", "0.0.0.0:0"], 1, "give a token or certificates"),
        (vec!["--data", &data, "--listen", "7117"], 3, "HOST:PORT"),
        (vec!["--data", &data, "--token-file", &short], 1, "at least 16 bytes"),
        (vec!["--data", &data, "--token-file", &missing], 1, "can not be read"),
        (vec!["--data", &data, "--tls-ca", &short], 2, "tls-key"),
        (vec!["--data", &data, "--io", "fast"], 2, "dynamic, static and ring"),
        (vec!["--data", &data, "--max-connections", "0"], 1, "at least one"),
    ] {
        let answer = Program::new().arg("node").args(&arguments).fails_with(code);
        assert!(answer.stderr.contains(words) && answer.stdout.is_empty(), "{arguments:?}: {}", answer.stderr);
    }
}

#[test]
fn a_node_is_closed_to_other_users_of_its_host_unless_it_is_told_to_be_open() {
    let folder = database();
    let token = folder.path().join("ishigaki-token");
    let node = Served::closed(folder.path(), &[]);
    assert_eq!(node.told["security"], "token");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&token).expect("made").permissions());
    assert_eq!(mode & 0o777, 0o600);
    let stranger: Location = format!("node://{}/", node.address()).parse().expect("a location");
    let error = stranger.connect().expect_err("no token").to_string();
    assert!(error.contains("one side uses a token"), "{error}");
    let location: Location = node.told["location"].as_str().expect("its name").parse().expect("a location");
    let directory = location.connect().expect("with the token");
    directory.create("pages", 4096).expect("created");
    // Its secret is no file of clients'.
    assert_eq!(directory.list().expect("listed"), ["pages"]);
    for name in ["ishigaki-token", "ishigaki-token.new"] {
        assert!(
            directory.open(name).is_err() && directory.create(name, 4096).is_err() && directory.remove(name).is_err()
        );
        assert!(directory.rename("pages", name).is_err(), "{name}");
    }
    // A run behind it has the same one.
    let before = fs::read(&token).expect("a secret");
    node.ends_by("TERM");
    let node = Served::closed(folder.path(), &["--read-only"]);
    assert_eq!(fs::read(&token).expect("a secret"), before);
    node.kill();
    // One that others could read is none.
    fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("set");
    let data = folder.path().display().to_string();
    let told = Program::new().args(["node", "--listen", "127.0.0.1:0", "--data", &data]).fails_with(1).stderr;
    assert!(told.contains("mode 0600") && told.contains("--open-to-this-host"), "{told}");
    let open = Served::start(folder.path(), &[]);
    assert_eq!(
        (&open.told["security"], &open.told["location"]),
        (&"none".into(), &format!("node://{}/", open.address()).into())
    );
    assert!(open.directory().open("pages").is_ok());
}

#[test]
fn nobody_gets_out_of_the_folder() {
    let home = database();
    let (inside, outside) = (home.path().join("inside"), home.path().join("outside"));
    fs::create_dir(&inside).and_then(|()| fs::create_dir(&outside)).expect("made");
    fs::write(outside.join("secret"), [7; 4096]).expect("written");
    std::os::unix::fs::symlink(&outside, inside.join("way")).expect("linked");
    std::os::unix::fs::symlink(outside.join("secret"), inside.join("link")).expect("linked");
    let node = Served::start(&inside, &[]);
    assert!(node.directory().open("link").is_err());
    let client = Client::connect(node.address(), &ClientSettings::default(), &Security::Open).expect("connected");
    for path in ["way", "../outside", "way/../../outside", ".."] {
        let directory = client.directory(path);
        assert!(directory.open("secret").is_err() && directory.list().is_err(), "{path}");
        assert!(directory.create("new", 4096).is_err(), "{path}");
    }
    assert_eq!(fs::read_dir(&outside).expect("listed").count(), 1);
    let place = format!("node://{}/../outside", node.address());
    let answer = Program::new().args(["media", "probe", &place]).fails_with(2);
    assert!(answer.stderr.contains("begins with a dot"), "{}", answer.stderr);
}

#[test]
fn a_client_that_takes_no_answers_keeps_nobody_waiting_and_does_not_hold_up_the_end() {
    for io in WAYS {
        let folder = database();
        let node = Served::start(folder.path(), &["--io", io]);
        let device = node.directory().create("pages", 1 << 20).expect("created");
        // By hand, since no client of ours would do it: asks for 100 MiB and receives none of them.
        let endpoint = connect(node.address(), &Settings::default(), &Security::Open).expect("connected");
        let region = endpoint.register(AlignedBuffer::zeroed(1 << 20)).expect("registered");
        let text = |text: &str| [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
        endpoint
            .send(&[ishigaki_fabric::Outgoing::Request {
                id: 0,
                bytes: &[&[2][..], &text(""), &text("pages")].concat(),
            }])
            .expect("sent");
        let mut events = Vec::new();
        endpoint.receive(&mut events, Wait::Until(Instant::now() + Duration::from_secs(20))).expect("an answer");
        let Some(Event::Reply { bytes, .. }) = events.first() else { panic!("{events:?}") };
        let handle: [u8; 4] = bytes[1..5].try_into().expect("a handle");
        for id in 1..=100 {
            let read =
                [&[4][..], &handle, &[0; 8], &(1_u32 << 20).to_le_bytes(), &region.target().key.0, &[0; 8]].concat();
            endpoint.send(&[ishigaki_fabric::Outgoing::Request { id, bytes: &read }]).expect("sent");
        }
        let begin = Instant::now();
        for _ in 0..20 {
            device.read_at(0, &mut page(0)).expect("the others are served");
        }
        assert!(begin.elapsed() < Duration::from_secs(8), "{io}: {:?}", begin.elapsed());
        if io != "ring" {
            // The end is the same for all, and takes its time.
            continue;
        }
        let begin = Instant::now();
        node.ends_by("TERM");
        assert!(begin.elapsed() < Duration::from_secs(18), "{io}: {:?}", begin.elapsed());
        drop(endpoint);
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = database();
    let node = Served::start(folder.path(), &[]);
    // Somebody who says nothing and does not go; a soft end gives him a moment.
    let _idle: Vec<_> = (0..8)
        .map(|_| Client::connect(node.address(), &ClientSettings::default(), &Security::Open).expect("connected"))
        .collect();
    let pid = node.id();
    signal(pid, "TERM");
    signal(pid, "TERM");
    let code = node.code();
    assert!(code == Some(130) || code == Some(0), "{code:?}");
}

#[test]
fn a_thousand_clients_that_come_and_go_leave_nothing_behind() {
    let folder = database();
    let node = Served::start(folder.path(), &[]);
    node.directory().create("pages", 65536).expect("created");
    let resources = || {
        let count = |what: &str| fs::read_dir(format!("/proc/{}/{what}", node.id())).expect("listed").count();
        (count("fd"), count("task"))
    };
    // One client stays: what it takes is there before and after.
    let client = Client::connect(node.address(), &ClientSettings::default(), &Security::Open).expect("connected");
    let is_alone = || client.status().expect("told").connections == 1;
    eventually(is_alone);
    // A connection is not counted any more a moment before its files are closed.
    let before = loop {
        let seen = resources();
        std::thread::sleep(Duration::from_millis(100));
        if resources() == seen {
            break seen;
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let address = node.address();
            scope.spawn(move || {
                for turn in 0..250 {
                    let settings = ClientSettings::default();
                    if turn % 3 == 0 {
                        // Comes and says nothing, or greets and goes.
                        drop(std::net::TcpStream::connect(address).expect("connected"));
                        continue;
                    }
                    let client = Client::connect(address, &settings, &Security::Open).expect("connected");
                    if turn % 5 == thread {
                        let device = client.directory("").open("pages").expect("opened");
                        device.read_at(0, &mut page(0)).expect("read");
                    }
                }
            });
        }
    });
    eventually(|| is_alone() && resources() == before);
}

/// Looks again and again until it is so.
fn eventually(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never was");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn who_finds_no_room_is_told_so() {
    let folder = database();
    let node = Served::start(folder.path(), &["--max-connections", "1"]);
    let _first = Client::connect(node.address(), &ClientSettings::default(), &Security::Open).expect("connected");
    let error = Client::connect(node.address(), &ClientSettings::default(), &Security::Open).expect_err("full");
    assert!(error.to_string().contains("as many connections as it takes"), "{error}");
}

#[test]
fn a_request_without_an_answer_is_given_up_when_its_node_dies() {
    let folder = database();
    let node = Served::start(folder.path(), &[]);
    let endpoint = connect(node.address(), &Settings::default(), &Security::Open).expect("connected");
    let caller = Caller::new(endpoint, Duration::from_mins(1));
    // A watch is answered, and then the node only asks: what is asked there gets no answer.
    caller.call(&Call::message(&[18])).expect("a watch");
    let mut pending = caller.submit(&[Call::message(&[1])]).expect("sent");
    let begin = Instant::now();
    node.kill();
    let error = pending.pop().expect("one").wait().expect_err("nobody answers");
    assert!(matches!(error, ishigaki_fabric::Error::Lost { sent: true, .. }), "{error}");
    assert!(error.to_string().contains("may have been carried out"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_nodes_directory_can_be_probed_and_hold_a_log_like_any_other_place() {
    let folder = database();
    let node = Served::start(folder.path(), &[]);
    let place = format!("node://{}/a", node.address());
    let answer = Program::new()
        .args(["media", "probe", "--threads", "1", "--sizes", "4KiB", "--seconds", "0.05", "--rounds", "1", &place])
        .succeeds();
    assert!(answer.stdout.starts_with(&place) && answer.stdout.contains("4.0 KiB"), "{}", answer.stdout);
    let answer = Program::new()
        .args(["bench", "ycsb", "--records", "1000", "--seconds", "0.1", "--rounds", "1", "--json", "--device", &place])
        .succeeds();
    assert!(answer.stdout.contains(&place) && answer.stdout.contains("throughput"), "{}", answer.stdout);
    let directory = place.parse::<Anywhere>().and_then(|place| place.open()).expect("opened");
    assert_eq!(directory.list().expect("listed"), [""; 0], "nothing is left");
}

#[test]
fn bytes_go_by_another_network_for_who_asks_for_it() {
    let probed = Program::new().args(["media", "probe", "--fabric"]).succeeds().stdout;
    if probed.contains("There is no libfabric") {
        let _ = writeln!(io::stderr(), "SKIPPED: bytes by another network: {probed}");
        return;
    }
    let folder = database();
    let node = Served::start(folder.path(), &["--fabric", "ofi:tcp"]);
    let ycsb = |place: &str| {
        let few = ["bench", "ycsb", "--records", "1000", "--seconds", "0.1", "--rounds", "1", "--device", place];
        Program::new().args(few)
    };
    let address = node.address();
    ycsb(&format!("node://{address}/a?fabric=ofi:tcp")).succeeds();
    ycsb(&format!("node://{address}/b")).succeeds();
    let answer = ycsb(&format!("node://{address}/c?fabric=ofi:net")).start().ends();
    assert!(answer.code != Some(0) && answer.stderr.contains("name the same"), "{}", answer.stderr);
    let answer = Program::new()
        .args(["bench", "remote", "--size", "4KiB", "--depth", "4", "--seconds", "0.05", "--rounds", "1"])
        .args(["--file", "4MiB", "--io", "ring,static", "--fabric", "tcp,ofi:tcp", "--data"])
        .arg(folder.path())
        .succeeds();
    let rows =
        |fabric: &str| answer.stdout.lines().filter(|line| line.split_whitespace().any(|word| word == fabric)).count();
    assert_eq!((rows("tcp"), rows("ofi:tcp")), (2, 2), "{}", answer.stdout);
}

#[test]
fn a_benchmark_of_remote_reads_has_a_line_for_each_side_and_a_table_for_people() {
    let folder = database();
    let bench = || {
        Program::new()
            .args(["bench", "remote", "--size", "4KiB", "--depth", "1,4", "--seconds", "0.05", "--rounds", "1"])
            .args(["--file", "4MiB", "--data"])
            .arg(folder.path())
    };
    let answer = bench().arg("--json").succeeds();
    let lines: Vec<Value> = answer.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for depth in [1, 4] {
        let count = |target: &str, io: &str, metric: &str| {
            let of_it = |line: &&Value| {
                let case = &line["case"];
                line["metric"] == metric
                    && case["target"] == target
                    && case["depth"] == depth
                    && (io.is_empty() || case["io"] == io)
                    && line["median"].as_f64().is_some_and(|median| median > 0.0)
            };
            lines.iter().filter(of_it).count()
        };
        assert_eq!(count("local", "", "throughput"), 1);
        for io in WAYS {
            assert_eq!((count("network", io, "throughput"), count("remote", io, "latency_p99")), (1, 1), "{io}");
            assert_eq!(count("remote/local", io, "ratio"), 2, "{io}");
        }
    }
    let answer = bench().args(["--io", "ring"]).succeeds();
    assert!(answer.stdout.contains("remote/local") && answer.stdout.lines().count() == 4, "{}", answer.stdout);
    assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0, "nothing is left");
}

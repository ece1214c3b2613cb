//! A server that misbehaves: no panic, an error that says so, and never a wrong byte.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ishigaki_migrate::source::nfs::NfsSource;
use ishigaki_migrate::source::{Cancel, Entry, ErrorKind, Location, Result, Source};
use ishigaki_testkit::{seeded, seeded_runs};

use crate::peer::{Act, GETATTR, LOOKUP, Manners, Peer, READ, READDIR, READDIRPLUS, SOON, content};

const NOENT: u32 = 2;
const STALE: u32 = 70;
const BAD_COOKIE: u32 = 10_003;
const JUKEBOX: u32 = 10_008;

fn at(path: &str) -> Location {
    Location { path: path.into(), handle: Box::default() }
}

fn list(source: &NfsSource) -> Result<BTreeMap<OsString, Entry>> {
    let mut entries = BTreeMap::new();
    let mut take = |page: Vec<Entry>| {
        for entry in page {
            assert!(entries.insert(entry.name.clone(), entry).is_none(), "a name is given once");
        }
        Ok(())
    };
    source.list(&at(""), &Cancel::new(), &mut take)?;
    Ok(entries)
}

/// Where all files are, as a listing says.
fn files(source: &NfsSource, count: usize) -> Vec<Location> {
    let entries = list(source).expect("lists");
    let locate = |number: usize| {
        let path = format!("file-{number}");
        Location { handle: entries[&OsString::from(&path)].handle.clone(), path: path.into() }
    };
    (0..count).map(locate).collect()
}

/// Reads each file; what is read is right.
fn read_all(source: &NfsSource, files: &[Location]) -> Vec<Result<usize>> {
    let mut buffers = vec![vec![0xee; 6000]; files.len()];
    let mut asked: Vec<_> = files.iter().zip(buffers.iter_mut().map(Vec::as_mut_slice)).collect();
    let results = source.read_files(&mut asked, &Cancel::new());
    for (number, result) in results.iter().enumerate() {
        if let Ok(size) = result {
            assert!(buffers[number][..*size] == content(number), "file {number}: {size} bytes");
        }
    }
    results
}

#[test]
fn a_jukebox_answer_is_waited_for() {
    let peer = Peer::start(Manners::good(20));
    let mut asked: HashMap<u32, usize> = HashMap::new();
    peer.decide(move |procedure| {
        let count = asked.entry(procedure).or_default();
        *count += 1;
        if *count % 3 == 1 { Act::Status(JUKEBOX) } else { Act::Answer }
    });
    let source = peer.open("").expect("opens");
    let files = files(&source, 20);
    assert!(read_all(&source, &files).iter().all(Result::is_ok));

    peer.decide(|_| Act::Status(JUKEBOX));
    let source = Arc::new(source);
    let cancel = Cancel::new();
    let (other, of_thread, file) = (Arc::clone(&source), cancel.clone(), files[0].clone());
    let waits = std::thread::spawn(move || (other.attributes(&file, &of_thread), Instant::now()));
    std::thread::sleep(SOON);
    let told = Instant::now();
    cancel.cancel();
    let (outcome, ended) = waits.join().expect("ends");
    assert_eq!(outcome.expect_err("cancelled").kind, ErrorKind::Cancelled);
    assert!(ended - told < Duration::from_secs(1), "{:?}", ended - told);

    peer.decide(|_| Act::Answer);
    let hasty = peer.open("timeout=1").expect("opens");
    peer.decide(|_| Act::Status(JUKEBOX));
    let error = hasty.attributes(&files[0], &Cancel::new()).expect_err("never there");
    assert!(error.kind == ErrorKind::Unavailable && error.message.contains("JUKEBOX"), "{error}");
}

#[test]
fn connections_that_close_at_any_moment_are_made_again() {
    seeded_runs("connections_that_close_at_any_moment_are_made_again", 5, |seed| {
        let peer = Peer::start(Manners::good(300));
        let mut random = seed.generator();
        peer.decide(move |_| match random.u32(0..40) {
            0 => Act::Close,
            1 => Act::CloseAfter(random.usize(0..200)),
            _ => Act::Answer,
        });
        let source = peer.open("").expect("opens");
        let files = files(&source, 300);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for result in read_all(&source, &files) {
                        result.expect("is read in the end");
                    }
                });
            }
        });
    });
}

#[test]
fn many_threads_share_the_connections() {
    let peer = Peer::start(Manners::good(300));
    let source = peer.open("connections=2").expect("opens");
    let files = files(&source, 300);
    std::thread::scope(|scope| {
        for thread in 0..256 {
            let (source, files) = (&source, &files);
            scope.spawn(move || {
                for number in (thread..thread + 10).map(|number| number % files.len()) {
                    let mut buffer = [0; 6000];
                    let read = source.read(&files[number], 0, &mut buffer, &Cancel::new()).expect("reads");
                    assert!(buffer[..read] == content(number));
                }
            });
        }
    });
}

/// Makes one thing of an answer wrong, but not in a file's data: nothing could notice that.
fn garble(answer: &mut Vec<u8>, data: usize, random: &mut fastrand::Rng) {
    let end = data.min(answer.len());
    let place = random.usize(0..end);
    match random.u32(0..5) {
        0 => answer[place] ^= 1 << random.u32(0..8),
        1 => answer[place] = random.u8(..),
        2 => {
            let place = place & !3;
            let word = *random.choice([0, 1, 2, 0xffff_ffff, 0x7fff_ffff, 0x8000_0000, 70, 22]).as_ref().unwrap_or(&0);
            answer[place..place + 4].copy_from_slice(&u32::to_be_bytes(word));
        }
        3 => answer.truncate(place),
        _ => drop(answer.splice(place..place, (0..random.usize(1..9)).map(|_| random.u8(..)).collect::<Vec<_>>())),
    }
}

#[test]
fn a_garbled_answer_is_an_error_or_asked_again_and_never_a_wrong_byte() {
    seeded_runs("a_garbled_answer_is_an_error_or_asked_again_and_never_a_wrong_byte", 6, |seed| {
        let peer = Peer::start(Manners::good(60));
        let source = peer.open("timeout=2&connections=2").expect("opens");
        let files = files(&source, 60);
        let mut random = seed.generator();
        peer.decide(move |procedure| {
            if procedure != READ || random.u32(0..4) != 0 {
                return Act::Answer;
            }
            let mut random = random.fork();
            Act::Change(Box::new(move |answer, data| garble(answer, data, &mut random)))
        });
        let results = read_all(&source, &files);
        assert!(results.iter().any(Result::is_ok), "{results:?}");
        for (number, file) in files.iter().enumerate().take(10) {
            let mut buffer = [0; 6000];
            if let Ok(size) = source.read(file, 0, &mut buffer, &Cancel::new()) {
                assert!(buffer[..size] == content(number), "file {number}: {size} bytes");
            }
        }
        peer.decide(|_| Act::Answer);
        assert!(read_all(&source, &files).iter().all(Result::is_ok), "the source goes on");
    });
}

#[test]
fn a_wrong_number_in_an_answer_leads_to_no_other_call() {
    seeded("a_wrong_number_in_an_answer_leads_to_no_other_call", |seed| {
        let peer = Peer::start(Manners::good(60));
        let source = peer.open("connections=1").expect("opens");
        let files = files(&source, 60);
        let mut random = seed.generator();
        for _ in 0..20 {
            let (mut reads, wrong, bit) = (0, random.u32(1..60), random.u32(0..6));
            peer.decide(move |procedure| {
                reads += u32::from(procedure == READ);
                if procedure != READ || reads != wrong {
                    return Act::Answer;
                }
                Act::Change(Box::new(move |answer, _| answer[7] ^= 1 << bit))
            });
            assert!(read_all(&source, &files).iter().all(Result::is_ok));
        }
    });
}

#[test]
fn a_garbled_listing_or_attribute_is_an_error_or_a_listing() {
    seeded("a_garbled_listing_or_attribute_is_an_error_or_a_listing", |seed| {
        let manners = Manners { page: 7, lacking: 5, ..Manners::good(30) };
        let peer = Peer::start(manners);
        let source = peer.open("timeout=1&connections=1").expect("opens");
        let mut random = seed.generator();
        peer.decide(move |_| {
            if random.u32(0..3) != 0 {
                return Act::Answer;
            }
            let mut random = random.fork();
            Act::Change(Box::new(move |answer, data| garble(answer, data, &mut random)))
        });
        let until = Instant::now() + Duration::from_secs(4);
        let mut failed = 0;
        while Instant::now() < until {
            let entries = source.list(&at(""), &Cancel::new(), &mut |page| {
                for entry in page {
                    let name = entry.name.into_vec();
                    assert!(!name.is_empty() && name != b"." && name != b"..");
                    assert!(!name.contains(&b'/') && !name.contains(&0));
                }
                Ok(())
            });
            let attributes = source.attributes(&at("file-3"), &Cancel::new());
            failed += usize::from(entries.is_err()) + usize::from(attributes.is_err());
        }
        assert!(failed > 0, "what was garbled was noticed");
    });
}

#[test]
fn names_that_are_none_break_the_listing() {
    for name in [&b"a/b"[..], b"", b"a\0", b"/"] {
        let mut manners = Manners::good(5);
        manners.files.push((name.to_vec(), Vec::new()));
        let source = Peer::start(manners).open("").expect("opens");
        let error = list(&source).expect_err("refused");
        assert!(error.kind == ErrorKind::Broken && error.message.contains("name"), "{error}");
    }
}

#[test]
fn a_server_that_lists_without_attributes_is_asked_for_them() {
    for (plus, lacking) in [(false, usize::MAX), (true, 3)] {
        let peer = Peer::start(Manners { plus, lacking, ..Manners::good(250) });
        let lookups = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lookups);
        // Each second file that is looked up has gone meanwhile.
        peer.decide(move |procedure| {
            let is_gone = procedure == LOOKUP && counted.fetch_add(1, Ordering::Relaxed) % 2 == 1;
            if is_gone { Act::Status(NOENT) } else { Act::Answer }
        });
        let source = peer.open("").expect("opens");
        let entries = list(&source).expect("lists");
        let lookups = lookups.load(Ordering::Relaxed);
        assert!(if plus { (80..90).contains(&lookups) } else { lookups == 250 }, "{lookups}");
        assert_eq!(entries.len(), 250 - lookups / 2);
        for (name, entry) in &entries {
            let number = name.to_str().and_then(|name| name.strip_prefix("file-")?.parse().ok()).expect("a number");
            let attributes = entry.attributes.expect("has attributes");
            assert_eq!((attributes.size, attributes.id), (content(number).len() as u64, (77, number as u64 + 1)));
            assert!(!entry.handle.is_empty());
        }
        // The second time the server is not asked for what it does not have.
        let plain = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&plain);
        peer.decide(move |procedure| {
            seen.lock().expect("not poisoned").push(procedure);
            Act::Answer
        });
        assert_eq!(list(&source).expect("lists").len(), 250);
        assert_eq!(plain.lock().expect("not poisoned").contains(&READDIRPLUS), plus);
    }
}

#[test]
fn a_listing_begins_anew_without_giving_a_name_twice() {
    let peer = Peer::start(Manners::good(1000));
    let mut pages = 0;
    peer.decide(move |procedure| {
        pages += usize::from(procedure == READDIRPLUS);
        if procedure == READDIRPLUS && [4, 9, 11].contains(&pages) { Act::Status(BAD_COOKIE) } else { Act::Answer }
    });
    let source = peer.open("").expect("opens");
    assert_eq!(list(&source).expect("lists").len(), 1000);

    let mut pages = 0;
    peer.decide(move |procedure| {
        pages += usize::from(procedure == READDIRPLUS);
        if procedure == READDIRPLUS && pages == 5 { Act::Status(STALE) } else { Act::Answer }
    });
    assert_eq!(list(&source).expect("lists").len(), 1000, "after a stale handle, too");

    let mut pages = 0;
    peer.decide(move |procedure| {
        pages += usize::from(procedure == READDIRPLUS);
        if procedure == READDIRPLUS && pages % 2 == 0 { Act::Status(BAD_COOKIE) } else { Act::Answer }
    });
    assert_eq!(list(&source).expect_err("never ends").kind, ErrorKind::Unavailable);
}

#[test]
fn a_listing_that_never_ends_is_refused() {
    let endless = |files, change: fn(&mut Vec<u8>, u8)| {
        let peer = Peer::start(Manners { page: 1, ..Manners::good(files) });
        let source = peer.open("").expect("opens");
        let mut pages = 0;
        peer.decide(move |procedure| {
            pages += u8::from(procedure == READDIRPLUS);
            match procedure {
                READDIRPLUS => Act::Change(Box::new(move |answer, _| change(answer, pages))),
                _ => Act::Answer,
            }
        });
        list(&source).expect_err("never ends")
    };
    // The last word says whether the listing ends.
    let empty_page = endless(0, |answer, _| *answer.last_mut().expect("has bytes") = 0);
    assert!(empty_page.kind == ErrorKind::Broken && empty_page.message.contains("empty"), "{empty_page}");
    // And behind the place of the only entry stand 124 bytes.
    let circle = endless(3, |answer, pages| {
        let end = answer.len();
        answer[end - 1] = 0;
        answer[end - 125] = 2 + pages % 2;
    });
    assert!(circle.kind == ErrorKind::Broken && circle.message.contains("circle"), "{circle}");
}

#[test]
fn reads_that_give_less_than_was_asked_go_on() {
    let peer = Peer::start(Manners { piece: 700, ..Manners::good(100) });
    let source = peer.open("").expect("opens");
    let files = files(&source, 100);
    assert!(read_all(&source, &files).iter().all(Result::is_ok));
    for (number, file) in files.iter().enumerate() {
        let bytes = content(number);
        let mut buffer = [0; 6000];
        let read = source.read(file, 1, &mut buffer, &Cancel::new()).expect("reads");
        assert!(buffer[..read] == bytes[1..]);
    }
    peer.manners.lock().expect("not poisoned").piece = 0;
    let error = source.read(&files[50], 0, &mut [0; 10], &Cancel::new()).expect_err("nothing comes");
    assert_eq!(error.kind, ErrorKind::Broken, "{error}");
}

#[test]
fn a_read_tells_what_the_file_is_unless_it_changed_meanwhile() {
    let peer = Peer::start(Manners { piece: 500, ..Manners::good(100) });
    let source = peer.open("").expect("opens");
    let (file, cancel) = (&files(&source, 100)[99], Cancel::new());
    let attributes = source.attributes(file, &cancel).expect("has attributes");
    let both = || {
        let (mut one, mut other) = ([0; 6000], [0; 6000]);
        let alone = source.read_told(file, 0, &mut one, &cancel).expect("reads").1;
        let among = source.read_files_told(&mut [(file, &mut other[..])], &cancel).remove(0).expect("reads").1;
        [alone, among]
    };
    assert_eq!(both(), [Some(attributes); 2]);
    for wrong in [0, 3, 7] {
        let mut reads = 0;
        // Of eight pieces one tells another time of the last change: its last byte is the twelfth before the two lengths and the mark.
        peer.decide(move |procedure| {
            reads += usize::from(procedure == READ);
            if procedure != READ || reads % 8 != wrong {
                return Act::Answer;
            }
            Act::Change(Box::new(|answer, data| answer[data - 13] += 1))
        });
        assert_eq!(both(), [None; 2], "piece {wrong} of another version");
    }
}

#[test]
fn an_end_that_comes_too_early_is_asked_about_again() {
    let peer = Peer::start(Manners { piece: 500, ..Manners::good(100) });
    let source = peer.open("").expect("opens");
    let files = files(&source, 100);
    peer.decide(|procedure| match procedure {
        // The word before the data's length says that the file ends.
        READ => Act::Change(Box::new(|answer, data| answer[data - 5] = 1)),
        _ => Act::Answer,
    });
    assert!(read_all(&source, &files).iter().all(Result::is_ok));
}

#[test]
fn a_stale_handle_in_the_middle_of_a_read_begins_it_anew() {
    let peer = Peer::start(Manners { piece: 500, ..Manners::good(100) });
    let source = peer.open("").expect("opens");
    let files = files(&source, 100);
    for whole in [true, false] {
        let mut reads = 0;
        // Another file had been there, of other bytes; its handle becomes stale.
        peer.decide(move |procedure| {
            reads += usize::from(procedure == READ);
            match reads {
                4 if procedure == READ => Act::Status(STALE),
                ..4 if procedure == READ => {
                    Act::Change(Box::new(|answer, data| answer[data..].iter_mut().for_each(|byte| *byte ^= 0xff)))
                }
                _ => Act::Answer,
            }
        });
        let mut buffer = [0; 6000];
        let (file, bytes) = (&files[99], content(99));
        let read = if whole {
            source.read(file, 0, &mut buffer, &Cancel::new())
        } else {
            source.read_files(&mut [(file, &mut buffer[..])], &Cancel::new()).remove(0)
        };
        assert_eq!(read, Ok(bytes.len()));
        assert!(bytes.len() > 3000 && buffer[..bytes.len()] == bytes, "no byte of the other file");
    }
    peer.decide(|procedure| if procedure == READ { Act::Status(STALE) } else { Act::Answer });
    let results = read_all(&source, &files);
    assert!(results.iter().all(|result| result.as_ref().is_err_and(|error| error.kind == ErrorKind::Gone)));
}

#[test]
fn a_server_that_says_nothing_is_unavailable_in_time() {
    let peer = Peer::start(Manners::good(5));
    let source = peer.open("timeout=1").expect("opens");
    let files = files(&source, 5);
    peer.decide(|_| Act::Ignore);
    let began = Instant::now();
    let error = source.attributes(&files[0], &Cancel::new()).expect_err("nothing comes");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    let results = read_all(&source, &files);
    assert!(results.iter().all(|result| result.as_ref().is_err_and(|error| error.kind == ErrorKind::Unavailable)));
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    peer.decide(|_| Act::Answer);
    assert!(read_all(&source, &files).iter().all(Result::is_ok), "the source goes on");
}

#[test]
fn what_the_server_refuses_is_told_by_kind() {
    let peer = Peer::start(Manners::good(5));
    let source = peer.open("").expect("opens");
    let file = &files(&source, 5)[0];
    for (status, kind) in [
        (1, ErrorKind::Denied),
        (NOENT, ErrorKind::Gone),
        (5, ErrorKind::Broken),
        (13, ErrorKind::Denied),
        (20, ErrorKind::Gone),
        (STALE, ErrorKind::Gone),
        (10_001, ErrorKind::Gone),
        (10_006, ErrorKind::Broken),
        (0xdead_beef, ErrorKind::Broken),
    ] {
        peer.decide(move |procedure| if procedure == GETATTR { Act::Status(status) } else { Act::Answer });
        let error = source.attributes(file, &Cancel::new()).expect_err("refused");
        assert_eq!(error.kind, kind, "{status}: {error}");
    }
}

#[test]
fn access_lists_come_by_their_side_protocol() {
    let source = Peer::start(Manners::good(5)).open("").expect("opens");
    assert!(source.capabilities().extras);
    let extras = source.extras(&at("file-1"), &Cancel::new()).expect("reads");
    let [(name, list)] = &extras.attributes[..] else { panic!("one list: {extras:?}") };
    assert_eq!((name.to_str(), list.len()), (Some("system.posix_acl_access"), 44));
}

#[test]
fn an_absurd_length_closes_the_connection_and_is_told() {
    let peer = Peer::start(Manners::good(5));
    let source = peer.open("timeout=5").expect("opens");
    let file = &files(&source, 5)[4];
    for mark in [[0xff; 4], [0x80, 0x7f, 0, 0], [0, 0, 0, 0]] {
        peer.decide(move |procedure| match procedure {
            READ | READDIR => Act::Change(Box::new(move |answer, _| answer[..4].copy_from_slice(&mark))),
            _ => Act::Answer,
        });
        let error = source.read(file, 0, &mut [0; 10], &Cancel::new()).expect_err("refused");
        assert!(error.kind == ErrorKind::Broken && error.message.contains("absurd length"), "{error}");
    }
}

use ishigaki_device::{Error, Promise};
use ishigaki_fabric::{RegionKey, Target};

use super::*;

pub(crate) fn requests() -> Vec<Request<'static>> {
    let target = Target { key: RegionKey([3; 16]), offset: 77 };
    let (directory, name) = ("a/b", "pages-1");
    vec![
        Request::Hello,
        Request::Open { directory, name },
        Request::Close { handle: 1 },
        Request::Read { handle: 1, offset: 1 << 40, length: 4096, target },
        Request::Blank { length: 4096, target },
        Request::Staging,
        Request::Write { handle: 1, offset: 512, length: 512, slot: 3, durable: true },
        Request::Sync { handle: 1 },
        Request::Trim { handle: 1, offset: 512, length: 1 << 40 },
        Request::LockFile { handle: 1 },
        Request::Create { directory, name, length: 1 << 30 },
        Request::List { directory, after: name },
        Request::Rename { directory, from: name, to: "pages-2" },
        Request::Remove { directory, name },
        Request::SyncNames { directory },
        Request::LockNames { directory: "" },
        Request::Unlock { lock: 9 },
        Request::Watch,
        Request::Keep { handle: 1, watch: 5 },
        Request::Renew { watch: 5 },
        Request::Load,
    ]
}

pub(crate) fn answers() -> Vec<Answer> {
    let promise = Promise { block_size: 512, atomic_write: 4096, direct: true, trim: false };
    let opened =
        Opened { handle: 1, file: 2, identity: 3, length: 8192, promise, writes_through: None, writable: true };
    let mut answers = vec![
        Answer::Done,
        Answer::Welcome { instance: 7 },
        Answer::Opened(opened),
        Answer::Staging { keys: vec![RegionKey([1; 16]), RegionKey([2; 16])] },
        Answer::Names { names: vec!["a".to_owned(), "b".to_owned()], more: true },
        Answer::Locked { lock: 4 },
        Answer::Watching { watch: 5, lease: 2000 },
        Answer::Load(Status { cores: 2, requests: 3, ..Status::default() }),
    ];
    let reason = || "it is so".to_owned();
    let failures = [
        Failure::NotFound,
        Failure::AlreadyExists,
        Failure::Locked { holder: None },
        Failure::Locked { holder: Some(reason()) },
        Failure::Invalid { reason: reason() },
        Failure::Damaged { reason: reason() },
        Failure::NoSpace { needed: 4096 },
        Failure::Io { operation: 2, errno: 5, reason: reason() },
        Failure::PowerCut,
        Failure::Refused { reason: reason() },
    ];
    answers.extend(failures.map(Answer::Failed));
    answers
}

#[test]
fn every_request_reads_back_and_no_part_of_one_does() {
    for request in requests() {
        let bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Some(request));
        for short in 0..bytes.len() {
            assert_eq!(Request::decode(&bytes[..short]), None, "{request:?}");
        }
        assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), None, "{request:?}");
    }
}

#[test]
fn every_answer_reads_back_and_no_part_of_one_does() {
    for answer in answers() {
        let bytes = answer.encode();
        assert_eq!(Answer::decode(&bytes), Some(answer.clone()));
        for short in 0..bytes.len() {
            assert_eq!(Answer::decode(&bytes[..short]), None, "{answer:?}");
        }
    }
}

#[test]
fn a_notice_reads_back() {
    for notice in [Notice::Begin { file: 1, offset: 2, length: 3 }, Notice::End { file: 1, offset: 2, length: 3 }] {
        assert_eq!(Notice::decode(&notice.encode()), Some(notice));
        assert_eq!(Notice::decode(&notice.encode()[1..]), None);
    }
}

#[test]
fn texts_and_promises_that_no_one_may_send_are_refused() {
    let long = "x".repeat(101);
    for request in [
        Request::Open { directory: "", name: &long },
        Request::Create { directory: &"d/".repeat(600), name: "n", length: 1 },
    ] {
        assert_eq!(Request::decode(&request.encode()), None);
    }
    let promise = Promise { block_size: 512, atomic_write: 4096, direct: true, trim: false };
    for (block_size, length) in [(0, 0), (513, 513), (8192, 8192), (512, 100)] {
        let promise = Promise { block_size, ..promise };
        let opened = Opened { handle: 1, file: 2, identity: 3, length, promise, writes_through: None, writable: true };
        assert_eq!(Answer::decode(&Answer::Opened(opened).encode()), None, "{block_size}");
    }
    // A number of names that no memory would hold.
    assert_eq!(Answer::decode(&[4, 0, 255, 255, 255, 255]), None);
}

#[test]
fn an_error_keeps_its_kind_over_the_wire_and_loses_the_nodes_paths() {
    let name = || "/srv/secret/place".to_owned();
    let io = |operation| Error::Io { name: name(), operation, source: std::io::Error::from_raw_os_error(5) };
    for error in [
        Error::NotFound { name: name() },
        Error::AlreadyExists { name: name() },
        Error::Locked { directory: name(), holder: Some("pid 7".to_owned()) },
        Error::Invalid { name: name(), reason: "odd".to_owned() },
        Error::Damaged { name: name(), reason: "rotten".to_owned() },
        Error::NoSpace { name: name(), needed: 4096 },
        io("read"),
        io("sync"),
        Error::ReadOnly { name: name(), operation: "lock", source: std::io::Error::from_raw_os_error(30) },
        Error::PowerCut { name: name() },
    ] {
        let Some(Answer::Failed(failure)) = Answer::decode(&Answer::Failed(Failure::of(&error)).encode()) else {
            panic!("{error}");
        };
        let there = failure.into_error("node://n:1/f");
        assert_eq!(there.kind(), error.kind());
        assert_eq!(there.to_string(), error.to_string().replace("/srv/secret/place", "node://n:1/f"));
    }
}

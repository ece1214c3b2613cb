//! Work that a node does for its clients beside its files.

#[expect(dead_code, reason = "the other tests use the rest of it")]
mod kit;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ErrorKind;
use ishigaki_device::{AlignedBuffer, Directory, Error};
use ishigaki_fabric::{Call, Caller, Security, connect};
use ishigaki_remote::{
    Access, Client, ClientSettings, Export, Folder, MAX_ORDER, NodeSettings, RemoteWork, Results, StorageNode,
    WorkError, Worker,
};

use kit::{MODES, settings};

/// Does what an order says in words.
#[derive(Clone, Debug, Default)]
struct Scribe(Arc<Done>);

#[derive(Debug, Default)]
struct Done {
    /// Bytes that were handed out.
    sent: AtomicU64,
    /// Works that were told that nobody wants them.
    stopped: AtomicU64,
}

impl Worker for Scribe {
    fn take(&self, order: &[u8], folder: Folder, results: Results) -> Result<(), WorkError> {
        let order = String::from_utf8_lossy(order).into_owned();
        if order == "refuse" {
            return Err(WorkError::Refused { reason: "no such work is done here".to_owned() });
        }
        let own = Arc::clone(&self.0);
        std::thread::spawn(move || own.work(&order, &folder, results));
        Ok(())
    }
}

impl Done {
    fn work(&self, order: &str, folder: &Folder, results: Results) {
        let (word, rest) = order.split_once(' ').unwrap_or((order, ""));
        match word {
            "count" => {
                for piece in 0..rest.parse().unwrap_or(0) {
                    let bytes = vec![piece as u8; 300_000];
                    let length = bytes.len() as u64;
                    if results.send(bytes).is_err() {
                        self.stopped.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    self.sent.fetch_add(length, Ordering::SeqCst);
                }
                results.finish(Ok(()));
            }
            "sleep" => {
                std::thread::sleep(Duration::from_millis(rest.parse().unwrap_or(0)));
                let _ = results.send(b"awake".to_vec());
                results.finish(Ok(()));
            }
            "vanish" => drop(results),
            "list" => match folder.directory(rest).and_then(|directory| directory.list()) {
                Ok(names) => {
                    let _ = results.send(names.join(",").into_bytes());
                    results.finish(Ok(()));
                }
                Err(error) => results.finish(Err(error.into())),
            },
            "exhaust" => results.finish(Err(WorkError::Refused { reason: "no memory for it".to_owned() })),
            _ => results.finish(Err(WorkError::Failed(Error::Io {
                name: "secret/path".to_owned(),
                operation: "read",
                source: io::Error::from_raw_os_error(5),
            }))),
        }
    }
}

struct Place {
    _folder: tempfile::TempDir,
    scribe: Scribe,
    node: StorageNode,
}

fn place(settings: NodeSettings) -> Place {
    let folder = tempfile::tempdir().expect("a folder");
    let scribe = Scribe::default();
    let worker: Arc<dyn Worker> = Arc::new(scribe.clone());
    let export = Export::Folder(folder.path().to_owned());
    let node = StorageNode::start_with(&export, settings, Security::Open, Some(worker)).expect("started");
    Place { _folder: folder, scribe, node }
}

fn client(node: &StorageNode) -> Client {
    // Shorter than some of the works are.
    let settings = ClientSettings { timeout: Duration::from_secs(6), ..ClientSettings::default() };
    Client::connect(&node.address().to_string(), &settings, &Security::Open).expect("connected")
}

fn all(mut work: RemoteWork) -> ishigaki_remote::Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(bytes) = work.next(&|| true)? {
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

#[test]
fn results_come_whole_and_in_order_in_every_mode() {
    for mode in MODES {
        let place = place(settings(mode));
        let client = client(&place.node);
        let results = all(client.work(b"count 12").expect("begun")).expect("results");
        assert_eq!(results.len(), 12 * 300_000, "{mode}");
        assert!(results.chunks(300_000).enumerate().all(|(at, piece)| piece.iter().all(|&byte| byte == at as u8)));
        assert_eq!(all(client.work(b"count 0").expect("begun")).expect("nothing"), b"");
    }
}

#[test]
fn a_work_that_takes_longer_than_an_answer_may_is_waited_for_and_others_go_on() {
    for mode in MODES {
        let place = place(settings(mode));
        let client = client(&place.node);
        let slow = client.work(b"sleep 7500").expect("begun");
        let slow = std::thread::spawn(move || all(slow));
        assert_eq!(all(client.work(b"count 1").expect("begun")).expect("results").len(), 300_000);
        let device = client.directory("").create("file", 4096).expect("made");
        device.write_durable(0, &AlignedBuffer::zeroed(4096)).expect("written");
        assert!(!slow.is_finished(), "{mode}");
        assert_eq!(slow.join().expect("no panic").expect("in the end"), b"awake", "{mode}");
    }
}

#[test]
fn who_does_not_take_results_holds_the_work_back_and_who_goes_ends_it() {
    let place = place(settings(MODES[2]));
    let client = client(&place.node);
    let mut work = client.work(b"count 100000").expect("begun");
    assert!(work.next(&|| true).expect("results").is_some());
    std::thread::sleep(Duration::from_millis(300));
    let sent = place.scribe.0.sent.load(Ordering::SeqCst);
    assert!(sent < 8 << 20, "{sent} bytes for one who takes nothing");
    drop(work);
    until(|| place.scribe.0.stopped.load(Ordering::SeqCst) == 1);
    // And if he goes without a word.
    let address = place.node.address().to_string();
    let endpoint = connect(&address, &ishigaki_fabric::Settings::default(), &Security::Open).expect("connected");
    let caller = Caller::new(endpoint, Duration::from_secs(10));
    let order = b"count 100000";
    let begin = [&[22][..], &(order.len() as u32).to_le_bytes(), order].concat();
    caller.call(&Call::message(&begin)).expect("begun");
    drop(caller);
    until(|| place.scribe.0.stopped.load(Ordering::SeqCst) == 2);
}

fn until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !what() {
        assert!(Instant::now() < deadline, "never");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_refused(error: &ishigaki_remote::Error) -> bool {
    matches!(error, ishigaki_remote::Error::Refused { .. })
}

#[test]
fn a_connection_that_has_too_many_works_is_refused_another() {
    let place = place(settings(MODES[1]));
    let client = client(&place.node);
    let some: Vec<_> = (0..64).map(|_| client.work(b"count 100000").expect("begun")).collect();
    let error = client.work(b"count 1").expect_err("too many");
    assert!(is_refused(&error), "{error}");
    drop(some);
}

#[test]
fn failures_of_a_work_come_as_errors_that_tell_no_path_of_the_nodes() {
    let place = place(NodeSettings { access: Access::ReadOnly, ..settings(MODES[1]) });
    let client = client(&place.node);
    let said = |order: &str| {
        let outcome = client.work(order.as_bytes()).and_then(all);
        outcome.expect_err(order)
    };
    for (order, words) in [("refuse", "no such work is done here"), ("exhaust", "no memory for it")] {
        let error = said(order);
        assert!(is_refused(&error) && error.to_string().contains(words), "{error}");
    }
    for order in ["vanish", "fail", "list ../.."] {
        assert!(!is_refused(&said(order)), "{order} is a fault");
    }
    assert!(said("vanish").to_string().contains("ended before its time"));
    let error = said("fail");
    assert!(error.kind() == ErrorKind::Unavailable && !error.to_string().contains("secret"), "{error}");
    assert!(said("list ../..").kind() == ErrorKind::Invalid);
    let long = vec![b'x'; MAX_ORDER + 1];
    assert_eq!(client.work(&long).expect_err("too long").kind(), ErrorKind::Invalid);
    // The connection is as good as before.
    assert!(client.status().is_ok());
}

#[test]
fn a_node_without_a_worker_says_so_and_a_lost_one_loses_its_works() {
    let bare = kit::Place::new(MODES[0]);
    let error = bare.client().work(b"count 1").expect_err("nobody works there");
    assert!(is_refused(&error) && error.to_string().contains("fetch the pages instead"), "{error}");
    let place = place(settings(MODES[2]));
    let client = client(&place.node);
    let mut work = client.work(b"count 100000").expect("begun");
    assert!(work.next(&|| true).expect("results").is_some());
    drop(place);
    let mut outcome = work.next(&|| true);
    while let Ok(Some(_)) = outcome {
        outcome = work.next(&|| true);
    }
    assert_eq!(outcome.expect_err("lost").kind(), ErrorKind::Unavailable);
}

//! Two processes: what can not be seen within one. The other process is this test binary again, as a server.

#[allow(dead_code, reason = "shared with the other tests")]
mod kit;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_device::AlignedBuffer;
use ishigaki_fabric::{Answer, Call, Caller, Error, Security, connect};

use kit::{Kind, Server, transports_of};

/// The word by which the other process is told its transport.
const CHILD: &str = "ISHIGAKI_FABRIC_TEST_SERVER";

/// Another process that serves. Dropping it kills it.
struct Other {
    child: Child,
    address: String,
}

impl Other {
    fn serving(kind: &Kind) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "the_other_process_serves", "--nocapture"])
            .env(CHILD, kind.fabric.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address =
            lines.map_while(Result::ok).find_map(|line| line.split_once("serves at ").map(|(_, at)| at.to_owned()));
        Self { child, address: address.expect("it tells where") }
    }

    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("it has ended");
    }

    fn caller(&self, kind: &Kind) -> Arc<Caller> {
        let endpoint = connect(&self.address, &kind.settings(), &kind.security).expect("connected");
        Caller::new(endpoint, Duration::from_secs(10))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.kill();
    }
}

/// No test of its own: what the other process does.
#[test]
fn the_other_process_serves() {
    let Ok(fabric) = std::env::var(CHILD) else { return };
    let kind = Kind { security: Security::Open, fabric: fabric.parse().expect("a transport") };
    let server = Server::writing(&kind);
    println!("serves at {}", server.address);
    loop {
        std::thread::park();
    }
}

fn transports() -> Vec<Kind> {
    transports_of(&["tcp", "net", "shm"])
}

fn ask(caller: &Arc<Caller>, length: u32, byte: u8) -> Result<(), Error> {
    let region = caller.endpoint().register(AlignedBuffer::zeroed(1 << 20)).expect("registered");
    let request = kit::write_request(region.key(), 0, length, byte);
    let call = Call { region: Some(region.clone()), ..Call::message(&request) };
    assert_eq!(caller.call(&call)?, Answer::Written(length));
    let memory = region.memory().expect("it is there");
    assert!(memory[..length as usize].iter().all(|&found| found == byte));
    assert!(memory[length as usize..].iter().all(|&found| found == 0));
    Ok(())
}

#[test]
fn bytes_get_from_one_process_to_another_over_every_transport() {
    for kind in transports() {
        let other = Other::serving(&kind);
        for byte in 1..5 {
            // One after the other: what one connection leaves behind must not hinder the next.
            let caller = other.caller(&kind);
            for length in [0, 1, 100, 4096, 5000, 1 << 20] {
                ask(&caller, length, byte).unwrap_or_else(|error| panic!("{length} bytes over {kind:?}: {error}"));
            }
        }
    }
}

#[test]
fn several_connections_between_two_processes_do_not_disturb_each_other() {
    for kind in transports() {
        let other = Other::serving(&kind);
        std::thread::scope(|scope| {
            for byte in 1..4 {
                let (kind, other) = (&kind, &other);
                scope.spawn(move || {
                    let caller = other.caller(kind);
                    (0..40).for_each(|at| ask(&caller, at * 997, byte).expect("answered"));
                });
            }
        });
    }
}

#[test]
fn a_process_that_is_killed_is_noticed_at_once() {
    for kind in transports() {
        let mut other = Other::serving(&kind);
        let caller = other.caller(&kind);
        ask(&caller, 5000, 1).expect("answered");
        other.kill();
        let begin = Instant::now();
        let error = ask(&caller, 5000, 2).expect_err("there is nobody");
        assert!(matches!(error, Error::Lost { .. }), "{kind:?}: {error}");
        assert!(begin.elapsed() < Duration::from_secs(3), "{kind:?}: {:?}", begin.elapsed());
        assert!(caller.is_lost());
    }
}

#[test]
fn shared_memory_within_one_process_is_refused_and_says_so() {
    for kind in transports_of(&["shm"]).into_iter().skip(1) {
        let server = Server::echoing(&kind);
        let outcome = connect(&server.address, &kind.settings(), &kind.security);
        let error = outcome.expect_err("refused").to_string();
        assert!(error.contains("within one process"), "{error}");
    }
}

/// Files in shared memory whose names begin like this.
fn shared(prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").expect("listed");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix)))
        .collect()
}

/// Files that are removed in the end.
struct Planted(Vec<PathBuf>);

impl Drop for Planted {
    fn drop(&mut self) {
        for path in &self.0 {
            // The provider may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[test]
fn what_a_killed_process_of_our_number_has_left_is_in_nobodys_way() {
    for kind in transports_of(&["shm"]).into_iter().skip(1) {
        let user = std::fs::metadata("/proc/self").expect("this process").uid();
        // What the provider calls endpoints if nobody names them: process, user, count. This content is not one of its own.
        let name = |count| PathBuf::from(format!("/dev/shm/{}:{user}:{count}", std::process::id()));
        let planted = Planted((0..200).map(name).collect());
        for path in &planted.0 {
            std::fs::write(path, vec![0xff; 65536]).expect("written");
        }
        let other = Other::serving(&kind);
        ask(&other.caller(&kind), 5000, 1).expect("answered");
    }
}

#[test]
fn what_a_killed_process_has_left_in_shared_memory_is_removed_and_what_living_ones_have_is_not() {
    for kind in transports_of(&["shm"]).into_iter().skip(1) {
        let (living, mut killed) = (Other::serving(&kind), Other::serving(&kind));
        let callers = [living.caller(&kind), killed.caller(&kind)];
        let of = |other: &Other| shared(&format!("ishigaki-{}-", other.child.id()));
        killed.kill();
        drop(Other::serving(&kind).caller(&kind));
        assert_eq!((of(&living).len(), of(&killed).len()), (2, 0), "a claim and an endpoint");
        ask(&callers[0], 5000, 1).expect("answered");
        drop(callers);
    }
}

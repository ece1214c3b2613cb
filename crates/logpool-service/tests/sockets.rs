//! Members that are served on sockets, for virtual machines: who may connect, what the service tells of them, and what it finds
//! after its death. Nothing here mounts anything, so no test takes root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::ErrorKind;
use ishigaki_device::{Directory, FileDirectory};
use ishigaki_logpool::{MemberSettings, Pool, Settings};
use ishigaki_logpool_service::{
    Added, Config, Error, MemberConfig, MemberStatus, Place, Reply, Request, Serving, Status, ask,
};

/// A place with a configuration of these members.
fn config(place: &Path, members: &str) -> Config {
    Config::parse(&format!("data = \"data\"\n{members}"), &place.join("pool.toml")).unwrap()
}

const ORDERS: &str = "[[member]]\nname = \"orders\"\nprofile = \"mariadb\"\nsocket = \"orders.socket\"\n";

fn status(config: &Config) -> Status {
    let Reply::Status(status) = ask(&config.data, &Request::Status {}).unwrap() else { panic!("another question") };
    *status
}

fn member(config: &Config, name: &str) -> MemberStatus {
    status(config).members.into_iter().find(|member| member.name == name).expect("it is served")
}

/// Asks the service to take in `machine`, on a socket.
fn add(config: &Config, socket: PathBuf) -> Result<Added, Error> {
    let mut member: MemberConfig = "machine:generic:x:105:106".parse().unwrap();
    member.place = Place::Socket(socket);
    match ask(&config.data, &Request::Add(member))? {
        Reply::Added(added) => Ok(added),
        other => panic!("{other:?}"),
    }
}

fn remove(config: &Config, name: &str, force: bool) -> Result<Reply, Error> {
    ask(&config.data, &Request::Remove { name: name.to_owned(), force })
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what}, within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_member_on_a_socket_is_for_who_runs_the_service_and_its_machine_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let (config, socket) = (config(folder.path(), ORDERS), folder.path().join("orders.socket"));
    let serving = Serving::start(&config).unwrap();
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o7777, 0o600);
    let orders = member(&config, "orders");
    assert_eq!((&orders.place, orders.mounted), (&Place::Socket(socket.clone()), true));
    assert_eq!((orders.connected, orders.problem), (Some(false), None));
    let text = serde_json::to_string(&status(&config)).unwrap();
    assert!(text.contains("\"socket\":\"") && !text.contains("\"mount\":"), "{text}");

    let machine = UnixStream::connect(&socket).unwrap();
    wait_until("the machine is seen", || member(&config, "orders").connected == Some(true));
    drop(machine);
    wait_until("it has gone", || member(&config, "orders").connected == Some(false));

    fs::remove_file(&socket).unwrap();
    let problem = member(&config, "orders").problem.expect("nobody can connect");
    assert!(problem.contains("orders.socket was removed by somebody; start the service again"), "{problem}");
    assert_eq!(serving.problems(), [("orders".to_owned(), problem)]);
    serving.stop().unwrap();
}

#[test]
fn a_member_that_is_added_on_a_socket_is_served_there_at_once_and_after_every_start() {
    let folder = tempfile::tempdir().unwrap();
    let (config, socket) = (config(folder.path(), ORDERS), folder.path().join("machine.socket"));
    let serving = Serving::start(&config).unwrap();
    for (path, kind, words) in [
        (PathBuf::from("machine.socket"), ErrorKind::Invalid, "is no absolute path"),
        (folder.path().join("orders.socket"), ErrorKind::Unavailable, "somebody listens there already"),
        (folder.path().join("data"), ErrorKind::Invalid, "which is no socket"),
        (folder.path().join("no/such/folder"), ErrorKind::Invalid, "No such file"),
        (folder.path().join("s".repeat(120)), ErrorKind::Invalid, "room for 107 bytes"),
    ] {
        let error = add(&config, path).unwrap_err();
        assert!((error.kind(), error.to_string().contains(words)) == (kind, true), "{:?}: {error}", error.kind());
    }
    assert_eq!(status(&config).not_served, Vec::<String>::new(), "nobody was taken in for that");
    let added = add(&config, socket.clone()).unwrap();
    assert_eq!((added.place, added.owner.to_string().as_str()), (Place::Socket(socket.clone()), "105:106"));
    assert!(fs::read_to_string(&added.noted_in).unwrap().contains("socket = \""));
    let error = add(&config, folder.path().join("another")).unwrap_err().to_string();
    assert!(error.contains("is served already, at socket ") && error.contains("machine.socket"), "{error}");
    serving.stop().unwrap();
    assert!(!socket.exists());

    let serving = Serving::start(&config).unwrap();
    assert_eq!(member(&config, "machine").place, Place::Socket(socket.clone()));
    assert!(UnixStream::connect(&socket).is_ok());
    serving.stop().unwrap();
}

#[test]
fn what_a_dead_service_has_left_is_in_nobodys_way_and_a_member_that_it_did_not_note_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), ORDERS);
    // One that died when the pool had taken somebody in, and nobody had noted where that is served; with its socket made.
    fs::create_dir(&config.data).unwrap();
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(&config.data).unwrap());
    let pool = Pool::open_together(directory, Settings::default()).unwrap();
    pool.add("machine", MemberSettings::default()).unwrap();
    pool.close().unwrap();
    let (orders, machine) = (folder.path().join("orders.socket"), folder.path().join("machine.socket"));
    for path in [&orders, &machine] {
        drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    }

    let serving = Serving::start(&config).unwrap();
    assert_eq!(status(&config).not_served, ["machine"]);
    assert!(UnixStream::connect(&orders).is_ok());
    add(&config, machine.clone()).unwrap();
    assert_eq!(status(&config).not_served, Vec::<String>::new());
    assert!(UnixStream::connect(&machine).is_ok());
    serving.stop().unwrap();
}

#[test]
fn a_member_is_removed_when_it_is_served_nowhere_and_with_its_files_only_if_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), ORDERS);
    fs::create_dir(&config.data).unwrap();
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(&config.data).unwrap());
    let pool = Pool::open_together(directory, Settings::default()).unwrap();
    pool.add("empty", MemberSettings::default()).unwrap();
    pool.add("full", MemberSettings::default()).unwrap().create("log").unwrap();
    pool.close().unwrap();

    let serving = Serving::start(&config).unwrap();
    for (name, force, words) in [
        ("orders", true, "is served at socket "),
        ("full", false, "`ishigaki log rebuild` takes them out"),
        ("nobody", true, "nobody"),
    ] {
        let error = remove(&config, name, force).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(status(&config).not_served, ["empty", "full"]);
    let Reply::Removed(removed) = remove(&config, "empty", false).unwrap() else { panic!("another question") };
    assert_eq!((removed.name.as_str(), removed.files), ("empty", Some(0)));
    let Reply::Removed(removed) = remove(&config, "full", true).unwrap() else { panic!("another question") };
    assert_eq!(removed.files, Some(1));
    serving.stop().unwrap();

    let serving = Serving::start(&config).unwrap();
    assert_eq!(status(&config).not_served, Vec::<String>::new(), "and not after the next start");
    assert_eq!(member(&config, "orders").problem, None);
    serving.stop().unwrap();
}

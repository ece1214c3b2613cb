//! The socket for a virtual machine, without one: who may connect, what it takes the place of, and that nobody who connects can end it.
//! What a machine does with it is in `guest.rs`.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ishigaki_base::random::Seed;
use ishigaki_device::{Directory, MemoryDirectory};
use ishigaki_logpool::{Member, MemberSettings, Pool, Settings};
use ishigaki_logpool_fs::{Access, Calendar, Error, Socket, SocketSettings};
use ishigaki_testkit::seeded;

fn pool() -> (Pool, Member) {
    let pool =
        Pool::open_together(Arc::new(MemoryDirectory::new()) as Arc<dyn Directory>, Settings::default()).unwrap();
    let member = pool.add("guest", MemberSettings::default()).unwrap();
    (pool, member)
}

fn serve(member: &Member, path: &Path) -> Result<Socket, Error> {
    let settings = SocketSettings { access: Access::own(), threads: 2, calendar: Calendar::new(SystemTime::now) };
    Socket::new(member.clone(), path, &settings)
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what}, within a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn only_its_user_may_connect_and_it_goes_with_its_owner() {
    let (folder, (_pool, member)) = (tempfile::tempdir().unwrap(), pool());
    let path = folder.path().join("socket");
    let socket = serve(&member, &path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!((socket.path(), socket.is_connected()), (&*path, false));
    drop(socket);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn it_takes_the_place_of_a_dead_socket_and_of_nothing_else() {
    let (folder, (_pool, member)) = (tempfile::tempdir().unwrap(), pool());
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    let socket = serve(&member, &path).unwrap();
    let refused = serve(&member, &path).unwrap_err();
    assert!(refused.to_string().contains("somebody listens there"), "{refused}");
    assert!(UnixStream::connect(&path).is_ok(), "the first one is as it was");
    drop(socket);

    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    assert!(matches!(serve(&member, &file), Err(Error::Socket { .. })));
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    assert!(matches!(serve(&member, &folder.path().join("no/such/folder")), Err(Error::Socket { .. })));
}

#[test]
fn whoever_talks_nonsense_is_hung_up_on_and_the_next_one_served() {
    seeded("whoever_talks_nonsense_is_hung_up_on_and_the_next_one_served", talk_nonsense);
}

fn talk_nonsense(Seed(seed): Seed) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (folder, (_pool, member)) = (tempfile::tempdir().unwrap(), pool());
    let socket = serve(&member, &folder.path().join("socket")).unwrap();
    for _ in 0..100 {
        let mut stream = UnixStream::connect(socket.path()).unwrap();
        let mut said = vec![0; random.usize(0..200)];
        random.fill(&mut said);
        if said.len() >= 12 {
            // A request of a kind that there is, in the protocol's version, with a length of its own choice.
            said[..4].copy_from_slice(&random.u32(1..45).to_le_bytes());
            said[4..8].copy_from_slice(&1_u32.to_le_bytes());
            said[8..12].copy_from_slice(&random.u32(0..300).to_le_bytes());
        }
        let _ = stream.write_all(&said);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
        drop(stream);
        wait_until("it is given up", || !socket.is_connected());
    }
    let open = fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(open < 60, "{open} descriptors are open, of which a test takes a dozen: some of each connection are left");
    let stream = UnixStream::connect(socket.path()).unwrap();
    wait_until("the next one is served", || socket.is_connected());
    drop(stream);
    wait_until("it has gone", || !socket.is_connected());
    assert!(member.list(None).unwrap().is_empty());
}

#[test]
fn ending_does_not_wait_for_who_is_connected() {
    let (folder, (pool, member)) = (tempfile::tempdir().unwrap(), pool());
    let socket = serve(&member, &folder.path().join("socket")).unwrap();
    let _stream = UnixStream::connect(socket.path()).unwrap();
    wait_until("it is served", || socket.is_connected());
    drop(socket);
    pool.close().unwrap();
}

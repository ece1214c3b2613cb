//! NFS-Ganesha in front of the folder.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ishigaki_migrate::source::nfs::NfsSource;
use ishigaki_migrate::source::{Cancel, Location, Source};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::ganesha::Ganesha;
use crate::stage::skip;
use crate::{EACH, MANY, SOME, allow, alone, begun, end, list};

/// As `docs/migrate.md` says it.
fn export(folder: &Path) -> Option<Ganesha> {
    let export = format!(
        "EXPORT {{ Export_Id = 2; Path = {}; Pseudo = /door; Protocols = 3,4; Access_Type = RW; Squash = No_Root_Squash; \
         SecType = sys; Transports = TCP; Filesystem_Id = 5.7; FSAL {{ Name = VFS; }} }}\n",
        folder.display()
    );
    Ganesha::start_with(&std::env::temp_dir(), &export)
}

/// What one of the tools of libnfs says.
fn tool(program: &str, words: &[&str]) -> Vec<u8> {
    let done = Command::new(program).args(words).output().expect("libnfs-utils is installed");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.is_empty(), "{program} {words:?}: {said}");
    done.stdout
}

/// A program of its own that uses libnfs.
struct Client {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Client {
    fn new(server: &Ganesha, export: &str, version: &str) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", include_str!("client.py"), server.host(), export, version])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, orders, answers };
        assert_eq!(client.hear(), "ok");
        client
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// What it answers.
    fn ask(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        self.hear()
    }

    fn order(&mut self, order: &str) {
        let answer = self.ask(order);
        assert!(answer.starts_with("ok"), "{order}: {answer}");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn clients_of_ganesha_work_while_files_arrive() {
    clients_work("clients_of_ganesha_work_while_files_arrive", SOME);
}

#[test]
#[ignore = "takes minutes on a busy machine"]
fn clients_of_ganesha_see_5000_names_while_files_arrive() {
    clients_work("clients_of_ganesha_see_5000_names_while_files_arrive", MANY);
}

fn clients_work(test: &str, names: usize) {
    let _alone = alone();
    let needed = ["/usr/bin/nfs-ls", "/usr/bin/nfs-cat", "/usr/bin/nfs-cp"];
    if let Some(missing) = needed.into_iter().find(|path| !Path::new(path).exists()) {
        skip::<()>(test, &format!("{missing} is not installed (libnfs-utils)"));
        return;
    }
    let Some((stage, serving)) = begun(test, names) else { return };
    allow(&stage.old.join("a/b/file-8"), "nobody");
    let Some(server) = export(&stage.at) else { return };
    let url = |path: &str, version: u8| match version {
        3 => format!("nfs://{}{}/{path}?uid=0&gid=0&version=3", server.host(), stage.at.display()),
        _ => format!("nfs://{}/door/{path}?uid=0&gid=0&version=4", server.host()),
    };
    let of_old = |name: &str| fs::read(stage.old.join(name)).unwrap();
    let here = |name: &str| fs::read(stage.at.join(name)).unwrap();

    // Many files are shown with their sizes, and none of them is pulled.
    for version in [3, 4] {
        let shown = String::from_utf8(tool("nfs-ls", &[&url("many", version)])).unwrap();
        let size = EACH.to_string();
        let files = shown.lines().filter(|line| line.split_whitespace().any(|word| word == size)).count();
        assert_eq!(files, names, "{shown}");
    }
    let status = stage.status();
    assert_eq!((status.copied, status.whole), (0, 0), "{status:?}");

    // Reads, writes and names.
    for version in [3, 4] {
        let name = format!("a/b/file-{}", 25 + version);
        assert!(tool("nfs-cat", &[&url(&name, version)]) == of_old(&name), "{name}");
    }
    let local = stage.held.path().join("local");
    fs::write(&local, vec![3; 300_000]).unwrap();
    // By version 4 libnfs 4.0 makes the file and can not write to it, also without a migration.
    tool("nfs-cp", &[local.to_str().unwrap(), &url("a/new", 3)]);
    assert!(here("a/new") == vec![3; 300_000]);
    let mut client = Client::new(&server, "/door", "4");
    client.order("write /a/b/file-20 100000 written");
    let mut wanted = of_old("a/b/file-20");
    wanted[100_000..100_007].copy_from_slice(b"written");
    assert!(here("a/b/file-20") == wanted);
    assert_eq!(client.ask("read /a/b/file-20 99998 11"), format!("ok {}", hex(&wanted[99_998..100_009])));
    let mut older = Client::new(&server, stage.at.to_str().unwrap(), "3");
    for order in [
        "write /a/b/file-19 5 written",
        "truncate /a/b/file-18 5000",
        "mkdir /made",
        "rename /a/b/file-17 /made/moved",
        "link /a/b/file-16 /made/linked",
        "unlink /a/b/file-15",
        "chmod /a/b/file-8 640",
    ] {
        older.order(order);
    }
    let mut wanted = of_old("a/b/file-19");
    wanted[5..12].copy_from_slice(b"written");
    assert!(here("a/b/file-19") == wanted);
    assert!(here("a/b/file-18") == of_old("a/b/file-18")[..5000]);
    assert!(here("made/moved") == of_old("a/b/file-17") && here("made/linked") == of_old("a/b/file-16"));
    assert!(!stage.at.join("a/b/file-15").exists());
    // An access list stays when a client changes the mode, which then says what the list may give at most.
    let access = list(&stage.at.join("a/b/file-8"));
    assert!(access.contains("user:65534:r--") && access.contains("mask::r--"), "{access}");

    // Locks hold between a client, another one, and a program here.
    let mut second = Client::new(&server, "/door", "4");
    let local = File::options().read(true).write(true).open(stage.at.join("a/b/file-20")).unwrap();
    let lock = || fcntl_lock(&local, FlockOperation::NonBlockingLockExclusive);
    client.order("lock /a/b/file-20");
    let refused = second.ask("lock /a/b/file-20");
    assert!(refused.starts_with("error"), "{refused}");
    assert!(lock().is_err(), "a client has it");
    client.order("unlock /a/b/file-20");
    lock().unwrap();
    let refused = second.ask("lock /a/b/file-20");
    assert!(refused.starts_with("error"), "{refused}");
    fcntl_lock(&local, FlockOperation::Unlock).unwrap();
    // One that was refused gets the same answer again: libnfs 4.0 does not count its requests on.
    let mut third = Client::new(&server, "/door", "4");
    third.order("lock /a/b/file-20");
    assert!(lock().is_err(), "a client has it");
    third.order("unlock /a/b/file-20");
    lock().unwrap();
    drop(local);
    older.order("close /a/b/file-19");
    drop((client, second, third, older, server));
    let numbers = [8, 15, 16, 17, 18, 19, 20].map(|number| format!("a/b/file-{number}"));
    let mut changed: Vec<&str> = numbers.iter().map(String::as_str).collect();
    changed.extend(["a/new", "made"]);
    end(&stage, serving, &changed);
    assert!(list(&stage.new.join("a/b/file-8")).contains("user:65534:r--"));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// The number that the system gives to a mount without a device.
fn device(of: &Path) -> u64 {
    fs::metadata(of).unwrap().dev()
}

/// File systems in memory, which hold numbers of mounts.
struct Fillers(Vec<PathBuf>);

impl Fillers {
    /// The system gives the lowest number that is free. Takes those below that one, so that the next mount gets it; none if it is not free.
    fn below(number: u64, place: &Path) -> Option<Self> {
        let mut fillers = Self(Vec::new());
        loop {
            let at = place.join(format!("filler-{}", fillers.0.len()));
            fs::create_dir(&at).unwrap();
            mount("tmpfs", &at, "tmpfs", MountFlags::empty(), None).unwrap();
            let taken = device(&at);
            fillers.0.push(at);
            if taken >= number {
                let last = fillers.0.pop().expect("it was pushed");
                unmount(&last, UnmountFlags::empty()).unwrap();
                return (taken == number).then_some(fillers);
            }
        }
    }
}

impl Drop for Fillers {
    fn drop(&mut self) {
        for at in &self.0 {
            let _ = unmount(at, UnmountFlags::DETACH);
        }
    }
}

/// A client keeps handles for days. Those of before lead to the same files when service and server were started anew.
#[test]
fn handles_of_ganesha_hold_over_a_restart_of_service_and_server() {
    let _alone = alone();
    let test = "handles_of_ganesha_hold_over_a_restart_of_service_and_server";
    let Some((stage, serving)) = begun(test, 1) else { return };
    let number = device(&stage.at);
    let Some(server) = export(&stage.at) else { return };
    let source = |server: &Ganesha| {
        let address = format!("nfs://{}{}", server.host(), stage.at.display()).parse().unwrap();
        NfsSource::open(&address, &Cancel::new()).unwrap()
    };
    let mut handles = Vec::new();
    let from = source(&server);
    let directory = Location { path: "a/b".into(), handle: Box::default() };
    let mut take = |page: Vec<ishigaki_migrate::source::Entry>| {
        handles.extend(page.into_iter().map(|entry| (entry.name, entry.handle)));
        Ok(())
    };
    from.list(&directory, &Cancel::new(), &mut take).unwrap();
    assert!(handles.iter().all(|(_, handle)| !handle.is_empty()));
    drop((from, server));
    // What is moved is found by its handle alone.
    fs::rename(stage.at.join("a/b"), stage.at.join("empty/b")).unwrap();
    serving.stop().unwrap();
    // Ganesha's handles have the number of the mount in them.
    let Some(fillers) = Fillers::below(number, stage.held.path()) else {
        skip::<()>(test, "another mount has taken the number of the folder's");
        return;
    };
    let serving = stage.start();
    drop(fillers);
    if device(&stage.at) != number {
        skip::<()>(test, "another mount has taken the number of the folder's");
        serving.stop().unwrap();
        return;
    }
    let Some(server) = export(&stage.at) else { return };
    let from = source(&server);
    let mut files = 0;
    for (name, handle) in handles {
        let location = Location { path: Path::new("a/b").join(&name), handle };
        let Ok(bytes) = fs::read(stage.old.join("a/b").join(&name)) else { continue };
        let mut buffer = vec![0; bytes.len() + 1];
        let read = from.read(&location, 0, &mut buffer, &Cancel::new()).unwrap();
        assert!(buffer[..read] == bytes, "{}", name.display());
        files += 1;
    }
    assert_eq!(files, 30);
    drop((from, server));
    serving.stop().unwrap();
}

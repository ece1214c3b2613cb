//! Debian's Samba, on an address of its own of this host: `smbcacls` asks no other port than 445.
//!
//! A shell is the first process of a namespace. It starts and kills the server and all its processes as the test says over a pipe, and ends when the
//! pipe does, so that nothing outlives the test, whatever becomes of it.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate::source::smb::{Credentials, SmbSource};
use tempfile::TempDir;

const SCRIPT: &str = r#"
echo ready
while read word; do
    case $word in
    start) smbd -F --no-process-group -s "$1/smb.conf" </dev/null >/dev/null 2>&1 & ;;
    kill) kill -9 -1; wait ;;
    stop) kill -STOP -1 ;;
    continue) kill -CONT -1 ;;
    esac
    echo done
done
kill -9 -1
"#;

/// Long enough for a machine that is busy with other tests.
const LONG: Duration = Duration::from_mins(2);
const PASSWORD: &str = "a password = 1";

pub(crate) struct Samba {
    /// What is shared as `share`, `sealed`, `open` and `unmangled`.
    pub(crate) tree: TempDir,
    /// What is shared as `copy`.
    pub(crate) copy: TempDir,
    home: TempDir,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// One of this host's own (127.0.0.0/8).
    host: String,
}

/// Whether the server can run here; says so if not.
fn can_run() -> bool {
    let is_there = |path: &str| Path::new(path).exists();
    let library = format!("/usr/lib/{}-linux-gnu/samba/vfs/acl_xattr.so", std::env::consts::ARCH);
    let needed = ["/usr/sbin/smbd", "/usr/bin/smbcacls", "/usr/bin/smbclient", "/usr/bin/smbpasswd", &library];
    let why = match needed.into_iter().find(|path| !is_there(path)) {
        Some(path) => format!("{path} is not installed (samba, samba-vfs-modules, smbclient)"),
        None if !rustix::process::geteuid().is_root() => "smbd takes root".to_owned(),
        None => match unshare(&["true"]).output().expect("unshare runs") {
            output if output.status.success() => return true,
            output => format!("no namespaces here: {}", String::from_utf8_lossy(&output.stderr).trim()),
        },
    };
    println!("SKIPPED: no test against Samba: {why}");
    false
}

/// An address on which nothing listens; says so if there is none.
fn free_host() -> Option<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = std::process::id().wrapping_mul(64).wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed));
    // No two have one address: another server's tree would be behind it.
    let (low, number) = (number % 254 + 1, number / 254);
    let host = format!("127.{}.{}.{low}", (number / 256 % 128) | 0x80, number % 256);
    match TcpListener::bind((host.as_str(), 445)) {
        Ok(_) => Some(host),
        Err(error) => {
            println!("SKIPPED: no test against Samba: port 445 of {host}: {error}");
            None
        }
    }
}

/// A command in a namespace of its own.
fn unshare(words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]).args(words);
    command
}

impl Samba {
    /// A server with an empty tree; `None` where there can be none.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// A server with more settings, behind which there may be more shares.
    pub(crate) fn start_with(settings: &str) -> Option<Self> {
        if !can_run() {
            return None;
        }
        let host = free_host()?;
        let [tree, copy, home] = [(); 3].map(|()| tempfile::tempdir().expect("a directory"));
        for place in [&tree, &copy, &home] {
            fs::set_permissions(place.path(), Permissions::from_mode(0o755)).expect("sets the mode");
        }
        let mut text = format!(
            "[global]\nserver role = standalone server\nsmb ports = 445\ninterfaces = {host}/8\nbind interfaces only = yes\n\
             disable netbios = yes\nload printers = no\nprintcap name = /dev/null\ndisable spoolss = yes\n\
             guest account = nobody\nmap to guest = Never\nlog level = 1\nmax log size = 0\nstore dos attributes = yes\n\
             server multi channel support = no\nvfs objects = acl_xattr\n"
        );
        let place = home.path().display();
        for what in
            ["private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir"]
        {
            let directory = home.path().join(what.replace(' ', "-"));
            fs::create_dir(&directory).expect("makes");
            writeln!(text, "{what} = {}", directory.display()).expect("writes");
        }
        writeln!(text, "log file = {place}/log\npassdb backend = tdbsam:{place}/passdb.tdb").expect("writes");
        for (name, path, more) in [
            ("share", &tree, "read only = no"),
            ("sealed", &tree, "read only = yes\nsmb encrypt = required"),
            ("open", &tree, "read only = yes\nguest ok = yes"),
            ("unmangled", &tree, "read only = yes\nmangled names = no"),
            ("copy", &copy, "read only = no"),
        ] {
            writeln!(text, "[{name}]\npath = {}\n{more}", path.path().display()).expect("writes");
        }
        writeln!(text, "[global]\n{settings}").expect("writes");
        fs::write(home.path().join("smb.conf"), text).expect("writes");
        let mut command = unshare(&["sh", "-c", SCRIPT, "sh"]);
        command.arg(home.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("unshare starts");
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut server = Self { tree, copy, home, child, orders, answers, host };
        server.expect("ready");
        for user in ["root", "nobody"] {
            server.add_user(user);
        }
        server.order("start");
        Some(server)
    }

    fn configuration(&self) -> String {
        self.home.path().join("smb.conf").display().to_string()
    }

    fn add_user(&self, user: &str) {
        let mut command = Command::new("smbpasswd");
        command.args(["-c", &self.configuration(), "-s", "-a", user]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().expect("smbpasswd runs");
        let mut input = child.stdin.take().expect("it is piped");
        write!(input, "{PASSWORD}\n{PASSWORD}\n").expect("it listens");
        drop(input);
        assert!(child.wait().expect("ends").success(), "smbpasswd -a {user}");
    }

    /// `start`, `kill`, `stop` or `continue`.
    pub(crate) fn order(&mut self, word: &str) {
        let orders = self.orders.as_mut().expect("it runs");
        writeln!(orders, "{word}").expect("the shell listens");
        self.expect("done");
        if word == "start" {
            let until = Instant::now() + LONG;
            while TcpStream::connect((self.host.as_str(), 445)).is_err() {
                let log = || fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
                assert!(Instant::now() < until, "smbd does not answer: {}", log());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn expect(&mut self, answer: &str) {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the shell answers");
        assert_eq!(line.trim(), answer, "the server's shell");
    }

    /// A share, with what follows.
    pub(crate) fn address(&self, rest: &str) -> String {
        format!("smb://{}/{rest}", self.host)
    }

    /// The address on which it listens.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// A share as Samba's clients name it.
    pub(crate) fn share(&self, name: &str) -> String {
        format!("//{}/{name}", self.host)
    }

    pub(crate) fn credentials(user: &str) -> Credentials {
        Credentials { user: user.to_owned(), password: PASSWORD.to_owned(), domain: String::new() }
    }

    pub(crate) fn source(&self) -> SmbSource {
        self.source_of("share")
    }

    pub(crate) fn source_of(&self, rest: &str) -> SmbSource {
        let address = self.address(rest).parse().expect("an address");
        SmbSource::open(&address, &Self::credentials("root"), &Cancel::new()).expect("the server is there")
    }

    /// What one of Samba's clients says.
    pub(crate) fn client(&self, program: &str, words: &[&str]) -> String {
        self.client_of("root", program, words).unwrap_or_else(|said| panic!("{program} {words:?}: {said}"))
    }

    /// What one of Samba's clients says to another user, `root` or `nobody`; an error is what it says when it fails.
    pub(crate) fn client_of(&self, user: &str, program: &str, words: &[&str]) -> Result<String, String> {
        let configuration = self.configuration();
        let mut command = Command::new(program);
        command.args(["-s", &configuration, "-U", &format!("{user}%{PASSWORD}")]).args(words);
        let output = command.output().expect("runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(said) } else { Err(said + &String::from_utf8_lossy(&output.stderr)) }
    }
}

impl Drop for Samba {
    fn drop(&mut self) {
        // The shell ends with its input, and all in the namespace with the shell.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

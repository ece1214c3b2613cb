//! Debian's NFS-Ganesha in a network and mount namespace of its own, at the other end of a link.
//!
//! A shell is the first process there. It starts and kills the server as the test says over a pipe, and ends when the pipe does, so that
//! nothing outlives the test, whatever becomes of it.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate::source::nfs::NfsSource;
use tempfile::TempDir;

/// The benchmarks start the same server by the same script.
const SCRIPT: &str = include_str!("ganesha.sh");

pub(crate) struct Ganesha {
    /// What is exported.
    pub(crate) tree: TempDir,
    _home: TempDir,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    address: String,
}

/// Whether the server can run here; says so if not.
fn can_run() -> bool {
    let is_there =
        |program: &str| ["/usr/bin", "/usr/sbin", "/sbin"].iter().any(|place| Path::new(place).join(program).exists());
    let missing = ["ganesha.nfsd", "rpcbind", "rpcinfo", "ip"].into_iter().find(|program| !is_there(program));
    let why = match missing {
        Some(program) => format!("{program} is not installed (nfs-ganesha-vfs, rpcbind, iproute2)"),
        None if !rustix::process::geteuid().is_root() => "namespaces take root".to_owned(),
        None => match unshare(&["true"]).output().expect("unshare runs") {
            output if output.status.success() => return true,
            output => format!("no namespaces here: {}", String::from_utf8_lossy(&output.stderr).trim()),
        },
    };
    println!("SKIPPED: no test against NFS-Ganesha: {why}");
    false
}

/// A command in a network and mount namespace of its own.
fn unshare(words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]).args(words);
    command
}

fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().expect("runs");
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Ganesha {
    /// A server with an empty tree; `None` where there can be none.
    pub(crate) fn start() -> Option<Self> {
        Self::start_in(&std::env::temp_dir())
    }

    /// A server whose tree is a new directory there.
    pub(crate) fn start_in(place: &Path) -> Option<Self> {
        Self::start_with(place, "")
    }

    /// The same, with more exports.
    pub(crate) fn start_with(place: &Path, more: &str) -> Option<Self> {
        if !can_run() {
            return None;
        }
        let tree = tempfile::tempdir_in(place).expect("a directory");
        let home = tempfile::tempdir().expect("a directory");
        fs::set_permissions(tree.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("sets the mode");
        let mut configuration = String::from(
            "NFS_CORE_PARAM { Protocols = 3,4; Enable_NLM = false; Enable_RQUOTA = false; MNT_Port = 20048; }\n\
             NFSv4 { Graceless = true; }\nLOG { Default_Log_Level = EVENT; }\n",
        );
        let shown = tree.path().display();
        writeln!(
            configuration,
            "EXPORT {{ Export_Id = 1; Path = {shown}; Pseudo = /export; Protocols = 3; Access_Type = RO; \
             Squash = No_Root_Squash; SecType = sys; Transports = TCP; PrivilegedPort = true; Attr_Expiration_Time = 0; FSAL {{ Name = VFS; }} }}\n{more}"
        )
        .expect("writes");
        fs::write(home.path().join("ganesha.conf"), configuration).expect("writes");
        let mut command = unshare(&["sh", "-c", SCRIPT, "sh"]);
        command.arg(home.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("unshare starts");
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut server = Self { tree, _home: home, child, orders, answers, address: String::new() };
        server.expect("ready");
        server.link();
        server.order("start");
        Some(server)
    }

    /// A pair of network devices, one here and one there. They go with the namespace.
    fn link(&mut self) {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = std::process::id().wrapping_mul(16).wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed)) % 0x4000;
        let [_, _, high, low] = (number * 4).to_be_bytes();
        let (here, there) = (format!("nfs{number}h"), format!("nfs{number}t"));
        let pid = self.child.id().to_string();
        // Of the addresses that are set aside for measuring networks (RFC 2544).
        let host = |last: u8| format!("198.19.{high}.{}", low + last);
        run("ip", &["link", "add", &here, "type", "veth", "peer", "name", &there, "netns", &pid]);
        run("ip", &["address", "add", &format!("{}/30", host(1)), "dev", &here]);
        run("ip", &["link", "set", &here, "up"]);
        let within = ["--target", &pid, "--net", "ip"];
        let address = format!("{}/30", host(2));
        run("nsenter", &[&within[..], &["address", "add", &address, "dev", &there]].concat());
        run("nsenter", &[&within[..], &["link", "set", &there, "up"]].concat());
        self.address = host(2);
    }

    /// `start`, `kill`, `stop` or `continue`.
    pub(crate) fn order(&mut self, word: &str) {
        let orders = self.orders.as_mut().expect("it runs");
        writeln!(orders, "{word}").expect("the shell listens");
        self.expect("done");
    }

    fn expect(&mut self, answer: &str) {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the shell answers");
        assert_eq!(line.trim(), answer, "the server's shell");
    }

    /// Where it listens.
    pub(crate) fn host(&self) -> &str {
        &self.address
    }

    /// What is below the export, with options.
    pub(crate) fn address(&self, rest: &str) -> String {
        format!("nfs://{}{}{rest}", self.host(), self.tree.path().display())
    }

    pub(crate) fn source(&self) -> NfsSource {
        self.source_of("")
    }

    pub(crate) fn source_of(&self, rest: &str) -> NfsSource {
        let address = self.address(rest).parse().expect("an address");
        NfsSource::open(&address, &Cancel::new()).expect("the server is there")
    }
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        // The shell ends with its input, and all in the namespace with the shell.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

//! The server that is replaced: Debian's NFS-Ganesha, and an rsync daemon beside it, on a second host of this machine.
//!
//! A shell is the first process of a process namespace there. It starts both, and ends with its input, so that nothing outlives the measurement.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::delay::Relay;
use crate::hosts::{Hosts, Speed, Stay};
use crate::{Error, Result};

/// Ports of the server.
const NFS: u16 = 2049;
const MOUNT: u16 = 20048;
const RSYNC: u16 = 873;

const SCRIPT: &str = r#"
set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib/nfs
mkdir -p /run/ganesha /run/rpcbind /var/lib/nfs/ganesha
rpcbind -w
rsync --daemon --no-detach --config="$1/rsyncd.conf" </dev/null >/dev/null 2>&1 &
ganesha.nfsd -F -f "$1/ganesha.conf" -L "$1/ganesha.log" -p /run/ganesha.pid </dev/null >/dev/null 2>&1 &
until rpcinfo -t 127.0.0.1 100003 3 && rpcinfo -t 127.0.0.1 100005 3; do
    kill -0 $!
    sleep 0.05
done >/dev/null 2>&1
echo ready
cat >/dev/null
"#;

/// What the server takes, and the package that brings it.
const PROGRAMS: [(&str, &str); 7] = [
    ("ganesha.nfsd", "nfs-ganesha-vfs"),
    ("rpcbind", "rpcbind"),
    ("rpcinfo", "rpcbind"),
    ("rsync", "rsync"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("unshare", "util-linux"),
];

/// A server with its exports, and the link to it.
#[derive(Debug)]
pub(super) struct OldServer {
    child: Child,
    home: PathBuf,
    hosts: Hosts,
    relays: Option<[Relay; 3]>,
}

fn failed(reason: String) -> Error {
    Error::Process { what: "the server that is replaced", reason }
}

impl OldServer {
    /// A server with an empty directory of each name, below a new directory of `home`, which goes with it.
    pub(super) fn start(home: &Path, names: &[String]) -> Result<Self> {
        let missing = PROGRAMS.iter().find(|(program, _)| {
            !["/usr/bin", "/usr/sbin", "/bin", "/sbin"].iter().any(|place| Path::new(place).join(program).exists())
        });
        if let Some((program, package)) = missing {
            return Err(failed(format!("{program} is not there; install {package}")));
        }
        let hosts = Hosts::new()?;
        hosts.shape(Speed::Bits(1_000_000_000))?;
        let mut ganesha =
            "NFS_CORE_PARAM { Protocols = 3,4; Enable_NLM = false; Enable_RQUOTA = false; MNT_Port = 20048; }\n\
             NFSv4 { Graceless = true; }\nLOG { Default_Log_Level = EVENT; }\n"
                .to_owned();
        let mut rsync = "use chroot = no\nuid = root\ngid = root\nread only = yes\nreverse lookup = no\n".to_owned();
        let io = |path: &Path, source| Error::Io { path: path.to_owned(), operation: "preparing a server", source };
        for (number, name) in names.iter().enumerate() {
            let tree = home.join(name);
            fs::create_dir_all(&tree).map_err(|source| io(&tree, source))?;
            let (shown, id) = (tree.display(), number + 1);
            let _ = writeln!(
                ganesha,
                "EXPORT {{ Export_Id = {id}; Path = {shown}; Pseudo = /{name}; Protocols = 3; Access_Type = RO; \
                 Squash = No_Root_Squash; SecType = sys; Transports = TCP; PrivilegedPort = false; FSAL {{ Name = VFS; }} }}"
            );
            let _ = write!(rsync, "[{name}]\npath = {shown}\n");
        }
        for (name, text) in [("ganesha.conf", ganesha), ("rsyncd.conf", rsync)] {
            let path = home.join(name);
            fs::write(&path, text).map_err(|source| io(&path, source))?;
        }
        let words = hosts.there();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.args([
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            SCRIPT,
            "sh",
        ]);
        command.arg(home).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let output = child.stdout.take();
        let server = Self { child, home: home.to_owned(), hosts, relays: None };
        let mut line = String::new();
        let read = output.map_or(Ok(0), |output| BufReader::new(output).read_line(&mut line));
        if read.is_err() || line.trim() != "ready" {
            let log = fs::read_to_string(home.join("ganesha.log")).unwrap_or_default();
            let last = log.lines().last().unwrap_or("it wrote no log");
            return Err(failed(format!("it ended before it was ready; NFS-Ganesha: {last}")));
        }
        Ok(server)
    }

    /// From now on there is such a way to it, at least.
    pub(super) fn set_round_trip(&mut self, round_trip: Duration) -> Result<()> {
        self.relays = None;
        if !round_trip.is_zero() {
            let relay = |port| Relay::start(SocketAddr::from((self.hosts.address(), port)), round_trip);
            self.relays = Some([relay(NFS)?, relay(MOUNT)?, relay(RSYNC)?]);
        }
        Ok(())
    }

    /// An exported directory, on the server's disk.
    pub(super) fn tree(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    fn host_and_ports(&self) -> (String, [u16; 3]) {
        match &self.relays {
            None => (self.hosts.address().to_string(), [NFS, MOUNT, RSYNC]),
            Some(relays) => ("127.0.0.1".to_owned(), relays.each_ref().map(Relay::port)),
        }
    }

    /// As `ishigaki migrate` takes it.
    pub(super) fn nfs(&self, name: &str) -> String {
        let (host, [nfs, mount, _]) = self.host_and_ports();
        format!("nfs://{host}:{nfs}{}?mountport={mount}", self.tree(name).display())
    }

    /// As rsync takes it.
    pub(super) fn rsync(&self, name: &str) -> String {
        let (host, [.., port]) = self.host_and_ports();
        format!("rsync://{host}:{port}/{name}/")
    }

    /// Keeps this process to its own half of the processors.
    pub(super) fn stay_here(&self) -> Result<Stay<'_>> {
        self.hosts.stay_here()
    }

    /// How many processors each side has.
    pub(super) fn processors(&self) -> String {
        self.hosts.processors()
    }
}

impl Drop for OldServer {
    fn drop(&mut self) {
        // The shell ends with its input, and all in its namespace with the shell.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

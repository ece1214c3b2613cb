//! The server that is replaced: Debian's NFS-Ganesha and smbd on a second host of this machine, and beside them what the rivals speak with: an rsync
//! daemon, and `rclone serve webdav` where rclone is installed.
//!
//! Parts: `standing` is a program there that ends with this process, `samba` the configuration of smbd.

mod samba;
mod standing;

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use self::standing::Standing;
use super::delay::Relay;
use super::{Link, Protocol};
use crate::hosts::{Hosts, Speed, Stay};
use crate::{Error, Result};

/// The link's speed in each direction.
const BITS: u64 = 1_000_000_000;
/// Ports of the server.
const PORTS: [u16; 5] = [NFS, MOUNT, RSYNC, SMB, WEBDAV];
const NFS: u16 = 2049;
const MOUNT: u16 = 20048;
const RSYNC: u16 = 873;
const SMB: u16 = 445;
const WEBDAV: u16 = 8088;
/// Long enough for a machine that is busy with other things.
const LONG: Duration = Duration::from_mins(2);

/// The tests of a migration start the same server by the same script.
const GANESHA: &str = include_str!("../../../migrate/tests/sources/ganesha.sh");
const RIVALS: &str = r#"
rsync --daemon --no-detach --config="$1/rsyncd.conf" </dev/null >/dev/null 2>&1 &
if command -v rclone >/dev/null; then
    rclone serve webdav "$1/old" --addr :8088 --read-only --config "" </dev/null >/dev/null 2>&1 &
fi
echo ready
cat >/dev/null
"#;

/// What the server takes, and the package that brings it.
const PROGRAMS: [(&str, &str); 11] = [
    ("ganesha.nfsd", "nfs-ganesha-vfs"),
    ("rpcbind", "rpcbind"),
    ("rpcinfo", "rpcbind"),
    ("smbd", "samba"),
    ("smbpasswd", "samba"),
    ("rsync", "rsync"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("umount", "mount"),
];

/// What this host lacks for such a server and for a migration from it; `None` if nothing is missing.
pub fn missing() -> Option<String> {
    let lacks = PROGRAMS.iter().find(|(program, _)| !is_installed(program));
    if let Some((program, package)) = lacks {
        return Some(format!("{program} is not there; install {package}"));
    }
    if !rustix::process::geteuid().is_root() {
        return Some("namespaces and mounts take root".to_owned());
    }
    if let Err(error) = fs::File::open("/dev/fuse") {
        return Some(format!("/dev/fuse: {error}"));
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "true"]);
    match command.stdin(Stdio::null()).output() {
        Err(error) => Some(format!("unshare: {error}")),
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("no namespaces here: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Whether a program is where Debian puts programs.
pub(super) fn is_installed(program: &str) -> bool {
    ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].iter().any(|place| Path::new(place).join(program).exists())
}

/// A server with its exports, and the link to it.
#[derive(Debug)]
pub(super) struct OldServer {
    // Its programs end before the link goes.
    _standing: [Standing; 3],
    home: PathBuf,
    relays: Option<Vec<Relay>>,
    hosts: Hosts,
}

fn failed(reason: String) -> Error {
    Error::Process { what: "the server that is replaced", reason }
}

impl OldServer {
    /// A server with an empty directory of each name, which it has in `home`.
    pub(super) fn start(home: &Path, names: &[String]) -> Result<Self> {
        if let Some(lack) = missing() {
            return Err(failed(lack));
        }
        let hosts = Hosts::new()?;
        hosts.shape(Speed::Bits(BITS))?;
        let mut trees = Vec::new();
        for name in names {
            let tree = home.join("old").join(name);
            let made = fs::create_dir_all(&tree);
            made.map_err(|source| Error::Io { path: tree.clone(), operation: "preparing a server", source })?;
            trees.push((name.clone(), tree));
        }
        configure(home, &trees)?;
        let mut ganesha = Standing::start(&hosts, "NFS-Ganesha", GANESHA, home)?;
        if let Err(error) = ganesha.order("start") {
            let log = fs::read_to_string(home.join("log")).unwrap_or_default();
            return Err(failed(format!("{error}; NFS-Ganesha: {}", log.lines().last().unwrap_or("it wrote no log"))));
        }
        let samba = samba::start(&hosts, home, &trees)?;
        let rivals = Standing::start(&hosts, "the rivals' servers", RIVALS, home)?;
        let server = Self { _standing: [ganesha, samba, rivals], home: home.to_owned(), relays: None, hosts };
        for port in [SMB, RSYNC].into_iter().chain(Self::has_rclone().then_some(WEBDAV)) {
            server.wait_for(port)?;
        }
        Ok(server)
    }

    fn wait_for(&self, port: u16) -> Result<()> {
        let until = Instant::now() + LONG;
        while TcpStream::connect((self.hosts.address(), port)).is_err() {
            if Instant::now() > until {
                return Err(failed(format!("nothing listens on its port {port}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Whether `rclone` is here, which both sides of a copy take.
    pub(super) fn has_rclone() -> bool {
        is_installed("rclone")
    }

    /// From now on everything goes over that link.
    pub(super) fn set_link(&mut self, link: Link) -> Result<()> {
        self.relays = None;
        let round_trip = link.round_trip();
        if !round_trip.is_zero() {
            let relay = |port| Relay::start(SocketAddr::from((self.hosts.address(), port)), round_trip);
            self.relays = Some(PORTS.into_iter().map(relay).collect::<Result<_>>()?);
        }
        Ok(())
    }

    /// An exported directory, on the server's disk.
    pub(super) fn tree(&self, name: &str) -> PathBuf {
        self.home.join("old").join(name)
    }

    fn place(&self, port: u16) -> (Ipv4Addr, u16) {
        let relay = PORTS.iter().position(|one| *one == port).and_then(|at| self.relays.as_ref()?.get(at));
        relay.map_or((self.hosts.address(), port), |relay| (Ipv4Addr::LOCALHOST, relay.port()))
    }

    /// As `ishigaki migrate` takes it.
    pub(super) fn source(&self, protocol: Protocol, name: &str) -> String {
        match protocol {
            Protocol::Nfs => {
                let ((host, nfs), (_, mount)) = (self.place(NFS), self.place(MOUNT));
                format!("nfs://{host}:{nfs}{}?mountport={mount}", self.tree(name).display())
            }
            Protocol::Smb => {
                let (host, port) = self.place(SMB);
                format!("smb://{host}:{port}/{name}?uid=0&gid=0")
            }
        }
    }

    /// The file that names the account of SMB.
    pub(super) fn credentials(&self) -> PathBuf {
        samba::credentials(&self.home)
    }

    /// As rsync takes it.
    pub(super) fn rsync(&self, name: &str) -> String {
        let (host, port) = self.place(RSYNC);
        format!("rsync://{host}:{port}/{name}/")
    }

    /// What `rclone copy` takes to read it, without the destination: by `WebDAV` from another rclone, or from smbd.
    pub(super) fn rclone(&self, protocol: Protocol, name: &str, obscured: &str) -> Vec<String> {
        let words: Vec<String> = match protocol {
            Protocol::Nfs => {
                let (host, port) = self.place(WEBDAV);
                vec![":webdav:".to_owned(), format!("--webdav-url=http://{host}:{port}/{name}")]
            }
            Protocol::Smb => {
                let (host, port) = self.place(SMB);
                vec![
                    format!(":smb:{name}"),
                    format!("--smb-host={host}"),
                    format!("--smb-port={port}"),
                    format!("--smb-user={}", samba::USER),
                    format!("--smb-pass={obscured}"),
                ]
            }
        };
        words
    }

    /// The account's password, for `rclone obscure`.
    pub(super) fn password() -> &'static str {
        samba::PASSWORD
    }

    /// Words that run a program on the other host, and how it reaches this one.
    pub(super) fn there(&self) -> (Vec<String>, Ipv4Addr) {
        (self.hosts.there(), self.hosts.here())
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

/// The files of NFS-Ganesha and of the rsync daemon.
fn configure(home: &Path, trees: &[(String, PathBuf)]) -> Result<()> {
    let mut ganesha =
        "NFS_CORE_PARAM { Protocols = 3,4; Enable_NLM = false; Enable_RQUOTA = false; MNT_Port = 20048; }\n\
         NFSv4 { Graceless = true; }\nLOG { Default_Log_Level = EVENT; }\n"
            .to_owned();
    let mut rsync = "use chroot = no\nuid = root\ngid = root\nread only = yes\nreverse lookup = no\n".to_owned();
    for (number, (name, tree)) in trees.iter().enumerate() {
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
        fs::write(&path, text).map_err(|source| Error::Io { path, operation: "preparing a server", source })?;
    }
    Ok(())
}

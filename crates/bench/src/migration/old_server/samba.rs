//! Debian's smbd on the other host: its configuration, its account, and what clients need to know.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::standing::Standing;
use crate::hosts::Hosts;
use crate::{Error, Result};

const WHAT: &str = "smbd";
/// The account; nothing but this process and the other host reach the server.
pub(super) const USER: &str = "root";
pub(super) const PASSWORD: &str = "measured";

const SCRIPT: &str = r#"
smbd -F --no-process-group -s "$1/smb.conf" </dev/null >/dev/null 2>&1 &
echo ready
cat >/dev/null
"#;

/// A server with a share of each name, its own files in `home`.
pub(super) fn start(hosts: &Hosts, home: &Path, shares: &[(String, PathBuf)]) -> Result<Standing> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { path, operation: "preparing smbd", source }
    };
    let mut text = String::from(
        "[global]\nserver role = standalone server\nsmb ports = 445\ndisable netbios = yes\nload printers = no\n\
         printcap name = /dev/null\ndisable spoolss = yes\nguest account = nobody\nmap to guest = Never\nlog level = 0\n\
         store dos attributes = yes\nserver multi channel support = no\nvfs objects = acl_xattr\n",
    );
    for what in ["private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir"]
    {
        let directory = home.join(format!("smb-{}", what.replace(' ', "-")));
        fs::create_dir(&directory).map_err(io(&directory))?;
        let _ = writeln!(text, "{what} = {}", directory.display());
    }
    let place = home.display();
    let _ = writeln!(text, "log file = {place}/smbd.log\npassdb backend = tdbsam:{place}/passdb.tdb");
    for (name, path) in shares {
        let _ = writeln!(text, "[{name}]\npath = {}\nread only = yes", path.display());
    }
    let configuration = home.join("smb.conf");
    fs::write(&configuration, text).map_err(io(&configuration))?;
    let credentials = credentials(home);
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&credentials);
    let text = format!("username={USER}\npassword={PASSWORD}\n");
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(io(&credentials))?;
    add_user(&configuration)?;
    Standing::start(hosts, WHAT, SCRIPT, home)
}

/// The file that names the account, as `ishigaki migrate` takes it.
pub(super) fn credentials(home: &Path) -> PathBuf {
    home.join("smb.credentials")
}

fn add_user(configuration: &Path) -> Result<()> {
    let failed = |reason: String| Error::Process { what: "smbpasswd", reason };
    let mut command = Command::new("smbpasswd");
    command.arg("-c").arg(configuration).args(["-s", "-a", USER]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        let _ = write!(input, "{PASSWORD}\n{PASSWORD}\n");
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
}

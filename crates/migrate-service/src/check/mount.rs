//! Whether the folder can be mounted on, and what this host gives.

use std::fs::{self, OpenOptions};
use std::path::Path;

use ishigaki_migrate::engine::HIDDEN;
use rustix::io::Errno;

use super::Finding;
use super::paths::Told;
use crate::{Config, control};

/// Files that are whole keep a descriptor open until they are settled.
const FEW_FILES: u64 = 16_384;

pub(super) fn look(config: &Config, told: &[Option<Told>], findings: &mut Vec<Finding>) {
    let at = &config.at;
    match fs::read_dir(at) {
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            let message =
                format!("{}: a service that died has left its mount there; the start replaces it", at.display());
            findings.push(Finding::note("at", message));
        }
        Err(error) => {
            let message = format!("{}: {error}", at.display());
            findings.push(Finding::problem("at", message, "make an empty directory there"));
        }
        Ok(mut names) => {
            // What a service that runs shows there is no trouble of the folder's. That it runs is told elsewhere.
            if names.next().is_some() && !control::is_answered(&config.to) {
                let message = format!("{} is not empty: what it holds would be hidden", at.display());
                let remedy = if config.to.join(HIDDEN).exists() {
                    "clients have written there while no service ran: move that away (`chattr -i` lets you), start, and copy it in through the folder"
                } else {
                    "choose an empty directory"
                };
                findings.push(Finding::problem("at", message, remedy));
            }
            outside(config, at, told, findings);
        }
    }
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        let message = format!("/dev/fuse can not be used: {error}");
        findings.push(Finding::problem("host", message, "load the kernel's module (`modprobe fuse`), and run as root"));
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    if let Some(limit) = limit.filter(|limit| *limit < FEW_FILES) {
        let message = format!("a process may have {limit} files open");
        findings.push(Finding::warning("host", message, "raise the limit (`LimitNOFILE=`, `ulimit -Hn`) to 65536"));
    }
}

/// The folder lies neither in the destination or a source, nor around one, whatever symbolic links their paths go through.
fn outside(config: &Config, at: &Path, told: &[Option<Told>], findings: &mut Vec<Finding>) {
    let Ok(at) = fs::canonicalize(at) else { return };
    let to = fs::canonicalize(&config.to).ok();
    let meet = |one: &Path, two: &Path| one.starts_with(two) || two.starts_with(one);
    if let Some(to) = to.as_deref().filter(|to| meet(&at, to)) {
        let message = format!("{} and the destination {} lie in each other", at.display(), to.display());
        findings.push(Finding::problem("at", message, "choose a folder outside of the destination"));
    }
    for source in told.iter().flatten().map(|told| &told.path) {
        if meet(&at, source) {
            let message = format!("{} and the source {} lie in each other", at.display(), source.display());
            findings.push(Finding::problem("at", message, "choose a folder outside of the source"));
        }
    }
}

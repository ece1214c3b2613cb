//! What can go wrong with the service of volumes.

use std::io;
use std::path::{Path, PathBuf};

use ishigaki_base::ErrorKind;

/// The result of the service's work.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration file can not be read, or is no TOML of that form.
    #[error("{}{}: {reason}", .path.display(), .line.map(|line| format!(":{line}")).unwrap_or_default())]
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1, where it is known.
        line: Option<usize>,
        /// What is wrong.
        reason: String,
    },
    /// There is no configuration.
    #[error(
        "{}: there is no such file; it says where a pool lies: write one, as `ishigaki volume --help` shows it, or name another one by --config", .0.display()
    )]
    NoConfig(PathBuf),
    /// A setting can not be followed.
    #[error("{}: `{field}`: {reason}; {remedy}", .path.display())]
    Setting {
        /// The configuration.
        path: PathBuf,
        /// The setting.
        field: &'static str,
        /// What is wrong.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// There is no pool.
    #[error("{}: there is no pool of volumes; `ishigaki volume pool create` makes one", .0.display())]
    NoPool(PathBuf),
    /// The fast device is missing.
    #[error(
        "{}: the fast device is not there; a pool is not opened without it. Bring it back, or, if it is lost for good, see \"When the fast device is lost\" in docs/volumes.md", .0.display()
    )]
    NoFast(PathBuf),
    /// There is nothing to attach.
    #[error(
        "{path}: there is no such image to attach: put one there (`qemu-img convert -O raw OLD {path}`), or have an empty volume made by `ishigaki volume create`", path = .0.display()
    )]
    NoImage(PathBuf),
    /// An image that is not whole blocks.
    #[error("{path}: {length} bytes are not whole blocks of 4 KiB: `truncate -s %4096 {path}` makes the image so long", path = .path.display())]
    NotWhole {
        /// The image.
        path: PathBuf,
        /// Its length.
        length: u64,
    },
    /// The slow device's directory is not where it was opened.
    #[error(
        "{path}: the directory of the slow device is not there any more: another program has moved or unmounted it since it was opened. Nothing was changed; move or mount it there again, and restart the service if `status` says that volumes have stopped", path = .0.display()
    )]
    Moved(PathBuf),
    /// Something else than an image.
    #[error(
        "{path}: this is {what}; a volume is made of a plain file, the raw image of a disk. Give the name of one, or put one there in its place (`qemu-img convert -O raw OLD {path}`)", path = .path.display()
    )]
    NoFile {
        /// Where it is.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// There is a pool already, or something else.
    #[error("{}: {reason}", .path.display())]
    Taken {
        /// What is taken.
        path: PathBuf,
        /// By what.
        reason: String,
    },
    /// Something of the service's own can not be made or read.
    #[error("{}: {cause}", .path.display())]
    Path {
        /// What.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// A volume is used.
    #[error("volume `{name}` is in use: {by}; end that first")]
    InUse {
        /// The volume.
        name: String,
        /// What uses it.
        by: String,
    },
    /// Not all could be brought home.
    #[error(
        "not everything is on the slow device: {0}; `status` says why, and what is on the fast device alone is kept there"
    )]
    NotHome(String),
    /// Devices that do not answer at the end of the service.
    #[error(
        "the devices of these volumes do not answer, so they are left as a kill would leave them: {0}. All else is durable. What was answered for by a flush is there; until their file systems answer, or are \
         unmounted by force (`umount -f`, `fusermount -u`), the kernel may keep the process, and no other one can serve the pool"
    )]
    Hanging(String),
    /// The slow device's directory does not answer.
    #[error("the slow device `{place}`: {cause}")]
    Slow {
        /// As the configuration says it.
        place: String,
        /// Why it can not be opened.
        cause: io::Error,
    },
    /// It has something in it.
    #[error("volume `{0}` is removed with all that is in it; say so with `--force`")]
    NotForced(String),
    /// No service answers for that pool.
    #[error("{}: no service serves this pool; `ishigaki volume serve` starts one", .0.display())]
    NotServed(PathBuf),
    /// The control socket is its user's.
    #[error("{}: only the user of the service, and root, may ask it", .0.display())]
    Forbidden(PathBuf),
    /// A service did not answer as one does.
    #[error("{}: the service does not answer as it should: {reason}", .map.display())]
    Answer {
        /// The pool.
        map: PathBuf,
        /// What was there instead.
        reason: String,
    },
    /// The service has refused.
    #[error("{message}")]
    Refused {
        /// What can be done.
        kind: ErrorKind,
        /// Why.
        message: String,
    },
    /// Where figures were to be given, or agents to be heard.
    #[error("{address}: {cause}; choose another port, or one of this host's addresses")]
    Address {
        /// The address.
        address: String,
        /// The system's answer.
        cause: io::Error,
    },
    /// A device of the pool.
    #[error(transparent)]
    Device(#[from] ishigaki_device::Error),
    /// The pool.
    #[error(transparent)]
    Pool(#[from] ishigaki_tier::Error),
    /// A socket for a virtual machine.
    #[error(transparent)]
    Socket(#[from] ishigaki_virtio::Error),
    /// A block device.
    #[error(transparent)]
    Block(#[from] ishigaki_emulate::Error),
}

impl Error {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::File { .. }
            | Self::NoConfig(_)
            | Self::NoFast(_)
            | Self::NoImage(_)
            | Self::NotWhole { .. }
            | Self::NoFile { .. }
            | Self::Setting { .. }
            | Self::NoPool(_)
            | Self::Taken { .. }
            | Self::InUse { .. }
            | Self::NotForced(_)
            | Self::NotHome(_)
            | Self::Forbidden(_) => ErrorKind::Invalid,
            Self::Hanging(_)
            | Self::Slow { .. }
            | Self::Path { .. }
            | Self::Moved(_)
            | Self::NotServed(_)
            | Self::Answer { .. }
            | Self::Address { .. } => ErrorKind::Unavailable,
            Self::Refused { kind, .. } => *kind,
            Self::Device(error) => error.kind(),
            Self::Pool(error) => error.kind(),
            Self::Socket(error) => error.kind(),
            Self::Block(error) => error.kind(),
        }
    }

    pub(crate) fn path(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::Path { path, cause }
    }
}

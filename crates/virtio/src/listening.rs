//! A socket's name: whose place it takes, and who may connect.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Bytes of the longest path by which somebody can connect.
const LONGEST: usize = 107;

/// Whether there is a socket of that name.
pub fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// The folder in which a socket is.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Sees that a socket can have that name, and takes away one that nobody listens on.
pub fn clear(path: &Path) -> io::Result<()> {
    if path.as_os_str().len() > LONGEST {
        let reason = format!("a socket's path has room for {LONGEST} bytes; choose a shorter one");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    if is_socket(path) {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there already"));
        }
        return fs::remove_file(path);
    }
    match fs::symlink_metadata(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something else, which is no socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::metadata(parent(path)).map(drop),
        Err(error) => Err(error),
    }
}

/// Makes the socket, in place of one that nobody listens on.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    clear(path)?;
    // Nobody else may connect before its mode says so: it is made where nobody else comes, and gets its name then; never that
    // of something else.
    let parent = parent(path);
    let cradle = parent.join(format!(".ishigaki-socket-{}", std::process::id()));
    let unborn = cradle.join("s");
    let _ = fs::remove_dir_all(&cradle);
    fs::DirBuilder::new().mode(0o700).create(&cradle)?;
    let born = UnixListener::bind(&unborn).and_then(|listener| {
        fs::set_permissions(&unborn, fs::Permissions::from_mode(0o600))?;
        fs::hard_link(&unborn, path)?;
        Ok(listener)
    });
    fs::remove_dir_all(&cradle)?;
    born
}

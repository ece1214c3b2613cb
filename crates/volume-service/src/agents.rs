//! Hears what agents in guests tell of their volumes. Over the network each volume has a token, which its guest is given by hand: a guest speaks for its own volume
//! alone. `port` is the way that needs neither.

mod port;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ishigaki_agent::{LONGEST, Message, Reply};
use ishigaki_device::Device;
use ishigaki_prefetch::Layout;
use ishigaki_service::door::{PATIENCE, answer, hear};
use ishigaki_service::socket::gone;

use crate::core::Core;
use crate::door::make as make_folder;
use crate::{Error, Result};

pub(crate) use port::Port;

/// The folder of the tokens, below the map.
const TOKENS: &str = "tokens";
/// Bytes of a token, written as hexadecimal digits.
const LENGTH: usize = 16;

fn path(map: &Path, volume: &str) -> PathBuf {
    map.join(TOKENS).join(volume)
}

/// The token of a volume, made if it has none. The name is that of a volume.
pub(crate) fn token(map: &Path, volume: &str) -> Result<String> {
    let path = path(map, volume);
    match fs::read_to_string(&path) {
        Ok(token) if token.len() == 2 * LENGTH => return Ok(token),
        // One that was being written when the process died.
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::path(&path)(error)),
    }
    make_folder(&map.join(TOKENS))?;
    let make = || {
        let mut bytes = [0; LENGTH];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let token = format!("{:032x}", u128::from_le_bytes(bytes));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(token.as_bytes())?;
        file.sync_all()?;
        Ok(token)
    };
    make().map_err(Error::path(&path))
}

/// A volume of that name that comes later has another one.
pub(crate) fn forget(map: &Path, volume: &str) {
    if let Err(error) = gone(fs::remove_file(path(map, volume))) {
        tracing::warn!(volume, %error, "the token of a volume could not be removed");
    }
}

/// Hears an agent.
pub(crate) fn serve(mut stream: TcpStream, core: &Core) {
    let heard = hear(&mut stream, LONGEST, PATIENCE, |heard| heard.ends_with(b"\n"));
    let outcome = heard.and_then(|line| {
        let taken = serde_json::from_slice(&line).map_err(|error| not_understood(&error));
        let reply = match taken.and_then(|message| take(core, &message)) {
            Ok(has_layout) => Reply::Taken { has_layout },
            Err(message) => Reply::Refused { message },
        };
        answer(&mut stream, &written(&reply)?)
    });
    if let Err(error) = outcome {
        tracing::debug!(%error, "an agent was not heard out");
    }
}

fn not_understood(error: &serde_json::Error) -> String {
    format!("this is no message of an agent: {error}")
}

fn written(reply: &Reply) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(reply).map_err(io::Error::other)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Takes a message that has the token of its volume.
fn take(core: &Core, message: &Message) -> Result<bool, String> {
    // The same whether the volume is there or not.
    let refused = || "there is no such volume, or this is not its token".to_owned();
    let volume = core.pool.volume(&message.volume).map_err(|_| refused())?;
    let token = fs::read_to_string(path(&core.config.map, volume.name())).map_err(|_| refused())?;
    if token.len() != 2 * LENGTH || !is_same(token.as_bytes(), message.token.as_bytes()) {
        return Err(refused());
    }
    learn(core, message)
}

/// Takes what is said of a volume. Whether it is known where its files lie.
fn learn(core: &Core, message: &Message) -> Result<bool, String> {
    let volume = core.pool.volume(&message.volume).map_err(|error| error.to_string())?;
    if let Some(files) = message.laid() {
        let layout = Layout::new(files, volume.len()).map_err(|error| error.to_string())?;
        core.prefetching.set_layout(volume.name(), layout);
    }
    if let Some(work) = message.work {
        core.prefetching.set_work(volume.name(), work);
    }
    Ok(core.prefetching.has_layout(volume.name()))
}

/// Takes as long wherever they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

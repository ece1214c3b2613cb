//! What volumes come and go by: `create`, `attach`, `detach`, `remove`; `flush`, `pin`, `unpin`.

use std::io::{self, Write};

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_volume_service::{Kind, Made, Reply, Request};
use serde_json::json;

use super::{Which, another, values};
use crate::failure::{EXIT_CODES, Failure};
use crate::human::size;

const CREATE_EXAMPLES: &str = "\
Examples:
  ishigaki volume create orders --size 200GiB
  ishigaki volume create archive --size 1TiB --mode write-through    losing the fast device loses nothing";

/// Make a volume, all zeros; where a service runs, it is served at once
#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES, after_long_help = format!("{CREATE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Create {
    /// Its name, and that of its file on the slow device
    #[arg(value_parser = values::name)]
    name: String,

    /// Its size, in whole blocks of 4 KiB; the space is reserved
    #[arg(long, value_name = "SIZE", value_parser = values::size_of_volume)]
    size: ByteSize,

    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
struct How {
    /// What becomes of a write: write-back (to the fast device, and home later), write-through (to both), read-only (to the slow one; the fast one has what is read)
    #[arg(long, value_name = "MODE", default_value = "write-back", value_parser = values::mode)]
    mode: String,

    #[command(flatten)]
    which: Which,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn create(Create { name, size, how }: &Create) -> Result<(), Failure> {
    made(&how.which, how.json, &Request::Create { name: name.clone(), size: size.as_u64(), mode: how.mode.clone() })
}

const ATTACH_EXAMPLES: &str = "\
Examples:
  ishigaki volume attach debian.raw    the image /srv/disk/volumes/debian.raw is a volume from here on";

/// Make a volume of a file that lies on the slow device already: the raw image of a disk, as it is
#[derive(Debug, Args)]
#[command(after_help = ATTACH_EXAMPLES, after_long_help = format!("{ATTACH_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Attach {
    /// The file's name
    #[arg(value_parser = values::name)]
    name: String,

    #[command(flatten)]
    how: How,
}

pub(super) fn attach(Attach { name, how }: &Attach) -> Result<(), Failure> {
    made(&how.which, how.json, &Request::Attach { name: name.clone(), mode: how.mode.clone() })
}

fn made(which: &Which, json: bool, request: &Request) -> Result<(), Failure> {
    let Reply::Made(made) = which.ask(request)? else { return Err(another()) };
    if json {
        let line = serde_json::to_string(&made).map_err(|error| Failure::invalid(error.to_string()))?;
        return Ok(writeln!(io::stdout(), "{line}")?);
    }
    let Made { served, volume } = made;
    writeln!(io::stdout(), "Volume {}: {}, {}.", volume.name, size(volume.size), volume.mode)?;
    let told = match (&volume.door, &volume.trouble) {
        (_, Some(trouble)) => format!("It can not be served yet: {trouble}"),
        (Some(door), None) if door.kind == Kind::Socket => {
            format!("A virtual machine finds it at {}.", door.path.display())
        }
        (Some(door), None) => format!("It is the block device {}.", door.path.display()),
        (None, None) if served => "It has no door; the configuration gives it one.".to_owned(),
        (None, None) => "No service runs; `ishigaki volume serve` serves it.".to_owned(),
    };
    Ok(writeln!(io::stdout(), "{told}")?)
}

const RESIZE_EXAMPLES: &str = "\
Examples:
  ishigaki volume resize orders --size 300GiB    its file system is made larger in the machine, by resize2fs for one";

/// Make a volume longer, by zeros
///
/// Refused while a virtual machine is connected or a file system mounted; the machine sees the new size when it starts again. A volume can not be made shorter:
/// detach it, make file system and file smaller, and attach it.
#[derive(Debug, Args)]
#[command(after_help = RESIZE_EXAMPLES, after_long_help = format!("{RESIZE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Resize {
    /// The volume
    #[arg(value_parser = values::name)]
    name: String,

    /// Its size from then on, in whole blocks of 4 KiB; the space is reserved
    #[arg(long, value_name = "SIZE", value_parser = values::size_of_volume)]
    size: ByteSize,

    #[command(flatten)]
    told: Told,
}

pub(super) fn resize(Resize { name, size, told }: &Resize) -> Result<(), Failure> {
    made(&told.which, told.json, &Request::Resize { name: name.clone(), size: size.as_u64() })
}

const DETACH_EXAMPLES: &str = "\
Examples:
  ishigaki volume detach orders    /srv/disk/volumes/orders is a plain image of a disk then";

/// Take all of a volume home: its file on the slow device is a plain image of a disk then, and no volume any more
///
/// Refused while a virtual machine is connected or a file system mounted.
#[derive(Debug, Args)]
#[command(after_help = DETACH_EXAMPLES, after_long_help = format!("{DETACH_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Detach {
    /// The volume
    #[arg(value_parser = values::name)]
    name: String,

    #[command(flatten)]
    told: Told,
}

#[derive(Debug, Args)]
struct Told {
    #[command(flatten)]
    which: Which,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Told {
    fn done(&self, request: &Request, said: &str) -> Result<(), Failure> {
        let Reply::Done {} = self.which.ask(request)? else { return Err(another()) };
        let line = if self.json { json!({ "done": true }).to_string() } else { said.to_owned() };
        Ok(writeln!(io::stdout(), "{line}")?)
    }
}

pub(super) fn detach(Detach { name, told }: &Detach) -> Result<(), Failure> {
    let said = format!("{name} is a plain image of a disk on the slow device.");
    told.done(&Request::Detach { name: name.clone() }, &said)
}

const REMOVE_EXAMPLES: &str = "\
Examples:
  ishigaki volume remove scratch --force";

/// Remove a volume with all that is in it
///
/// Refused while a virtual machine is connected or a file system mounted.
#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES, after_long_help = format!("{REMOVE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Remove {
    /// The volume
    #[arg(value_parser = values::name)]
    name: String,

    /// Say that what is in it is not needed any more
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    told: Told,
}

pub(super) fn remove(Remove { name, force, told }: &Remove) -> Result<(), Failure> {
    told.done(&Request::Remove { name: name.clone(), force: *force }, &format!("{name} is removed."))
}

const TOKEN_EXAMPLES: &str = "\
Examples:
  ishigaki volume token orders    for the guest's `ishigaki volume agent --token-file`";

/// Print the token by which an agent in a virtual machine speaks for its volume
#[derive(Debug, Args)]
#[command(after_help = TOKEN_EXAMPLES, after_long_help = format!("{TOKEN_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Token {
    /// The volume
    #[arg(value_parser = values::name)]
    name: String,

    #[command(flatten)]
    told: Told,
}

pub(super) fn token(Token { name, told }: &Token) -> Result<(), Failure> {
    let Reply::Token(token) = told.which.ask(&Request::Token { name: name.clone() })? else { return Err(another()) };
    let line = if told.json { json!({ "token": token }).to_string() } else { token };
    Ok(writeln!(io::stdout(), "{line}")?)
}

const FLUSH_EXAMPLES: &str = "\
Examples:
  ishigaki volume flush    before the fast device is taken out, or a backup is made of the slow one";

/// Take home what is on the fast device alone; it stays there, too
///
/// After that, the loss of the fast device loses nothing that was written before.
#[derive(Debug, Args)]
#[command(after_help = FLUSH_EXAMPLES, after_long_help = format!("{FLUSH_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Flush {
    #[command(flatten)]
    told: Told,
}

pub(super) fn flush(Flush { told }: &Flush) -> Result<(), Failure> {
    told.done(&Request::Flush {}, "All that was on the fast device alone is on the slow one as well.")
}

const PIN_EXAMPLES: &str = "\
Examples:
  ishigaki volume pin orders    all of it comes from the fast device, as soon as it is there";

/// Have all of a volume be on the fast device, and stay there
///
/// What is missing comes within half of the disk's time. Refused where the fast device has no room for all that is pinned; a sixteenth of it is never pinned.
#[derive(Debug, Args)]
#[command(after_help = PIN_EXAMPLES, after_long_help = format!("{PIN_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Pin {
    /// The volume
    #[arg(value_parser = values::name)]
    name: String,

    #[command(flatten)]
    told: Told,
}

pub(super) fn pin(Pin { name, told }: &Pin) -> Result<(), Failure> {
    let said = format!("{name} is pinned; `ishigaki volume status` tells how much of it is on the fast device.");
    told.done(&Request::Pin { name: name.clone(), pinned: true }, &said)
}

const UNPIN_EXAMPLES: &str = "\
Examples:
  ishigaki volume unpin orders    what is not used of it leaves the fast device for others";

/// Have a volume be on the fast device as far as it is used, as others are
#[derive(Debug, Args)]
#[command(after_help = UNPIN_EXAMPLES, after_long_help = format!("{UNPIN_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Unpin {
    /// The volume
    #[arg(value_parser = values::name)]
    name: String,

    #[command(flatten)]
    told: Told,
}

pub(super) fn unpin(Unpin { name, told }: &Unpin) -> Result<(), Failure> {
    told.done(&Request::Pin { name: name.clone(), pinned: false }, &format!("{name} is not pinned."))
}

//! A service that its service manager starts again under working servers, by `systemctl restart`: what the one process leaves with
//! the manager, and the next one takes.
//!
//! ```text
//!  the one that is to end                        service manager              the next one
//!    answers what it has taken, closes the pool
//!    table, devices ────────────────────────────▶ keeps them
//!    ticket into the data directory, ends
//!                                                 starts ──────────────────▶  opens the pool
//!                                                                             takes the ticket, and answers from here on
//!                                                 closes them ◀─────────────  serves
//! ```
//!
//! The *table* is a file in memory with what the kernel knows of each mount, and a number that nobody else has: the *ticket*. It holds
//! as long as the ticket is in the data directory. Every service takes that away before it answers for any mount, so that
//! descriptors fit the pool as its last service has left it, or are of no use: a service that dies has left no ticket.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use ishigaki_logpool_fs::{Inheritance, Table};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use serde::{Deserialize, Serialize};

use crate::takeover::{MOST, Parcel, VERSION};
use ishigaki_service::{Kept, Supervisor, stored};

/// The name of the table with the service manager.
const TABLE: &str = "ishigaki-table";
/// That of a mount's device, with its place in the table behind it.
const DEVICE: &str = "ishigaki-mount-";

/// The ticket in the data directory.
const TICKET: &str = "restart-ticket";

/// Bytes of the longest line before a table.
const LONGEST_HEADING: usize = 4096;

/// The line before a table, in JSON. Behind the table are the bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Heading {
    version: u32,
    ticket: String,
    devices: usize,
    table: u64,
    bytes: u64,
}

fn device_name(number: usize) -> String {
    format!("{DEVICE}{number}")
}

fn is_ours(name: &str) -> bool {
    name == TABLE || name.strip_prefix(DEVICE).is_some_and(|number| number.parse::<usize>().is_ok())
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Leaves everything with the service manager, and the ticket in the data directory. After an error the manager has nothing any more,
/// and every mount is ended.
pub(crate) fn keep(inheritance: Inheritance, data: &Path, supervisor: &Supervisor) -> io::Result<()> {
    let mut parcel = Parcel::of(inheritance);
    let kept = keep_parcel(&mut parcel, data, supervisor);
    if kept.is_err() {
        let names = (0..parcel.devices().len()).map(device_name).chain([TABLE.to_owned()]);
        forget(supervisor, names);
        match parcel.open() {
            Ok(inheritance) => inheritance.give_up(),
            Err(error) => tracing::warn!(%error, "mounts could not be ended"),
        }
    }
    kept
}

fn keep_parcel(parcel: &mut Parcel, data: &Path, supervisor: &Supervisor) -> io::Result<()> {
    parcel.write()?;
    // The kernel gives each out once.
    let ticket = fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
    let (table, bytes) = (parcel.written(), parcel.bytes());
    let heading = Heading {
        version: VERSION,
        ticket: ticket.clone(),
        devices: parcel.devices().len(),
        table: table.len() as u64,
        bytes: bytes.len() as u64,
    };
    let mut file = File::from(memfd_create(TABLE, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    let mut line = serde_json::to_vec(&heading)?;
    line.push(b'\n');
    for part in [&line, table, bytes] {
        file.write_all(part)?;
    }
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    supervisor.keep(TABLE, file.as_fd())?;
    for (number, device) in parcel.devices().iter().enumerate() {
        supervisor.keep(&device_name(number), device.as_fd())?;
    }
    supervisor.wait()?;
    store_ticket(data, &ticket)
}

/// Has the service manager close descriptors.
fn forget(supervisor: &Supervisor, names: impl IntoIterator<Item = String>) {
    for name in names {
        if let Err(error) = supervisor.forget(&name) {
            tracing::warn!(%error, name, "the service manager may keep a descriptor, and servers may wait for ever for an answer");
        }
    }
}

/// The table's file, and the devices in its order.
type Parts = (Heading, Table, Vec<u8>, Vec<Option<OwnedFd>>);

/// What a service manager has kept of the service before this one.
#[derive(Debug)]
pub(crate) struct Left {
    names: Vec<String>,
    /// Its devices, in the order of the table, and `None` for each that was not kept.
    parts: io::Result<Parts>,
}

impl Left {
    /// What there is of it among descriptors that were given back; `None` if nothing. Others are closed.
    pub(crate) fn find(kept: Kept) -> Option<Self> {
        let (mut table, mut devices, mut names) = (None, Vec::new(), Vec::new());
        for (name, descriptor) in kept.into_descriptors() {
            if !is_ours(&name) {
                tracing::debug!(name, "a descriptor is not of this program");
                continue;
            }
            match name.strip_prefix(DEVICE).and_then(|number| number.parse::<usize>().ok()) {
                Some(number) => devices.push((number, descriptor)),
                None => table = Some(descriptor),
            }
            names.push(name);
        }
        if names.is_empty() {
            return None;
        }
        let table = table.ok_or_else(|| invalid("there is no table with them"));
        let parts = table.and_then(|table| read_table(&File::from(table))).map(|(heading, table, bytes)| {
            let mut places: Vec<Option<OwnedFd>> = (0..heading.devices).map(|_| None).collect();
            for (number, device) in devices {
                if let Some(place) = places.get_mut(number) {
                    *place = Some(device);
                }
            }
            (heading, table, bytes, places)
        });
        Some(Self { names, parts })
    }

    /// The names of its descriptors.
    pub(crate) fn into_names(self) -> Vec<String> {
        self.names
    }

    /// The mounts, and the ticket with which they hold, if that is in the data directory. Otherwise why not: then they are ended, and
    /// the folders are free as soon as the service manager has been told.
    pub(crate) fn open(self, data: &Path) -> (Vec<String>, io::Result<(Inheritance, String)>) {
        let Self { names, parts } = self;
        let opened = parts.and_then(|(heading, table, bytes, devices)| {
            let folders: Vec<_> = table.mounts().map(|(member, path)| format!("{member} ({})", path.display())).collect();
            if ticket(data)?.as_ref() != Some(&heading.ticket) {
                for folder in folders {
                    tracing::warn!("the server of member {folder} gets errors, and must be started again");
                }
                return Err(invalid("they are not what the last service of the data directory has left"));
            }
            let (inheritance, lost) = Inheritance::put_together_without(table, &bytes, devices)?;
            for (member, path) in lost {
                tracing::warn!(
                    member,
                    path = %path.display(),
                    "the service manager has not kept its mount (`FileDescriptorStoreMax=` must be greater than the number of members): its server gets errors, and must be started again"
                );
            }
            Ok((inheritance, heading.ticket))
        });
        (names, opened)
    }
}

/// Has the service manager close what it has kept, and waits for that.
pub(crate) fn release(supervisor: Option<&Supervisor>, names: Vec<String>) {
    let Some(supervisor) = supervisor else {
        tracing::warn!("no service manager can be told to close what it has kept: NOTIFY_SOCKET is not set");
        return;
    };
    forget(supervisor, names);
    if let Err(error) = supervisor.wait() {
        tracing::warn!(%error, "the service manager may still keep mounts");
    }
}

/// What is in a table's file.
fn read_table(file: &File) -> io::Result<(Heading, Table, Vec<u8>)> {
    let mut start = vec![0; LONGEST_HEADING.min(usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX))];
    file.read_exact_at(&mut start, 0)?;
    let line = start.iter().position(|&byte| byte == b'\n').ok_or_else(|| invalid("the table has no heading"))?;
    let heading: Heading = serde_json::from_slice(&start[..line])?;
    if heading.version != VERSION {
        let version = heading.version;
        return Err(invalid(&format!("they are of version {version}, and this program takes version {VERSION}")));
    }
    let length = heading.table.saturating_add(heading.bytes);
    if length > MOST || file.metadata()?.len() != length + line as u64 + 1 {
        return Err(invalid("the table is not whole"));
    }
    let read = |offset: u64, length: u64| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, line as u64 + 1 + offset)?;
        Ok(bytes)
    };
    let (table, bytes) = (read(0, heading.table)?, read(heading.table, heading.bytes)?);
    let table: Table = serde_json::from_slice(&table)?;
    if heading.devices != table.mounts().count() {
        return Err(invalid("the table has another number of mounts"));
    }
    Ok((heading, table, bytes))
}

/// The ticket in a data directory.
fn ticket(data: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    match File::open(data.join(TICKET)).and_then(|file| file.take(LONGEST_HEADING as u64).read_to_string(&mut text)) {
        Ok(_) => Ok(Some(text.trim_end().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether that ticket is in a data directory.
pub(crate) fn fits(data: &Path, wanted: &str) -> bool {
    ticket(data).is_ok_and(|found| found.as_deref() == Some(wanted))
}

fn store_ticket(data: &Path, ticket: &str) -> io::Result<()> {
    stored::replace(&data.join(TICKET), format!("{ticket}\n").as_bytes())
}

/// Takes the ticket away, durably: from here on nothing that a service manager has kept fits the pool. Where mounts are to be gone on
/// with, it must be theirs.
///
/// # Errors
///
/// When it is another one, or can not be taken away.
pub(crate) fn take_ticket(data: &Path, wanted: Option<&str>) -> io::Result<()> {
    let found = ticket(data)?;
    if let Some(wanted) = wanted
        && found.as_deref() != Some(wanted)
    {
        return Err(invalid("another service has served the data directory meanwhile; start this one again"));
    }
    if found.is_some() {
        fs::remove_file(data.join(TICKET))?;
        stored::settle(&data.join(TICKET))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        take_ticket(data, None).unwrap();
        store_ticket(data, "one").unwrap();
        assert!(take_ticket(data, Some("two")).is_err());
        take_ticket(data, Some("one")).unwrap();
        assert!(take_ticket(data, Some("one")).is_err());
        store_ticket(data, "three").unwrap();
        take_ticket(data, None).unwrap();
        assert!(!data.join(TICKET).exists());
    }

    #[test]
    fn descriptors_of_others_are_ignored_and_a_table_that_is_none_is_refused() {
        let file = || OwnedFd::from(tempfile::tempfile().unwrap());
        assert!(Left::find(Kept::new(vec![("http".to_owned(), file()), (format!("{DEVICE}x"), file())])).is_none());
        for (name, words) in [(TABLE, "no heading"), ("ishigaki-mount-0", "no table")] {
            let left = Left::find(Kept::new(vec![(name.to_owned(), file())])).unwrap();
            let (names, opened) = left.open(Path::new("/"));
            assert_eq!(names, [name]);
            let error = opened.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

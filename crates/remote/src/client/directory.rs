//! A directory of a node's.

use std::sync::Arc;

use ishigaki_device::{Device, Directory, DirectoryLock, Error, Result, check_name};

use super::device::{RemoteDevice, renamed};
use super::link::Live;
use super::{Client, Shared};
use crate::protocol::{Answer, Request};

/// A directory below a storage node's folder. Clones are handles to the same one.
///
/// Its [`lock`](Directory::lock) belongs to one connection: when that is lost, so is the lock, and every later request fails
/// until the lock was dropped. [`sync`](Directory::sync) fails if the node has been started again since a change of names
/// that it should cover.
#[derive(Clone, Debug)]
pub struct RemoteDirectory {
    shared: Arc<Shared>,
    path: String,
    /// For messages: `node://host:port/dir`.
    label: String,
}

impl RemoteDirectory {
    pub(super) fn new(shared: &Arc<Shared>, path: &str) -> Self {
        let path = path.trim_matches('/').to_owned();
        let label = format!("node://{}/{path}", shared.address);
        Self { shared: Arc::clone(shared), path, label }
    }

    /// Its client.
    pub fn client(&self) -> Client {
        Client { shared: Arc::clone(&self.shared) }
    }

    /// Where it is below the node's folder; empty for the folder itself.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// [`Directory::open`] with its type.
    pub fn open_device(&self, name: &str) -> Result<RemoteDevice> {
        self.opened(name, "open", |directory| Request::Open { directory, name })
    }

    /// [`Directory::create`] with its type.
    pub fn create_device(&self, name: &str, length: u64) -> Result<RemoteDevice> {
        let device = self.opened(name, "create", |directory| Request::Create { directory, name, length })?;
        Ok(device)
    }

    fn label_of(&self, name: &str) -> String {
        format!("{}{}{name}", self.label, if self.path.is_empty() { "" } else { "/" })
    }

    fn opened<'a>(
        &'a self,
        name: &'a str,
        operation: &'static str,
        request: impl FnOnce(&'a str) -> Request<'a>,
    ) -> Result<RemoteDevice> {
        check_name(name)?;
        let label = self.label_of(name);
        let (live, answer) = self.ask_as(&label, operation, &request(&self.path))?;
        let Answer::Opened(opened) = answer else {
            return Err(self.shared.nonsense().of_device(&label, operation));
        };
        if operation == "create" {
            self.shared.names_of(&self.path).written(live.instance);
        }
        Ok(RemoteDevice::new(&self.shared, &live, &self.path, name, label, opened))
    }

    fn ask_as(&self, label: &str, operation: &'static str, request: &Request<'_>) -> Result<(Arc<Live>, Answer)> {
        let failed = |error: crate::Error| match error {
            crate::Error::Device(error) => renamed(&error, label),
            other => other.of_device(label, operation),
        };
        let live = self.shared.live().map_err(failed)?;
        let answer = live.ask(request).map_err(failed)?;
        Ok((live, answer))
    }

    /// A change of names, which a later sync makes durable.
    fn change(&self, name: &str, operation: &'static str, request: &Request<'_>) -> Result<()> {
        let (live, _) = self.ask_as(&self.label_of(name), operation, request)?;
        self.shared.names_of(&self.path).written(live.instance);
        Ok(())
    }
}

impl Directory for RemoteDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(self.create_device(name, length)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(self.open_device(name)?))
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut all: Vec<String> = Vec::new();
        loop {
            let after = all.last().cloned().unwrap_or_default();
            let request = Request::List { directory: &self.path, after: &after };
            let Answer::Names { mut names, more } = self.ask_as(&self.label, "list", &request)?.1 else {
                return Err(self.shared.nonsense().of_device(&self.label, "list"));
            };
            // Or a node that gives no names could keep us here.
            let more = more && !names.is_empty();
            all.append(&mut names);
            if !more {
                return Ok(all);
            }
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.change(from, "rename", &Request::Rename { directory: &self.path, from, to })
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.change(name, "remove", &Request::Remove { directory: &self.path, name })
    }

    fn sync(&self) -> Result<()> {
        let names = self.shared.names_of(&self.path);
        let covered = names.begin();
        let (live, _) = self.ask_as(&self.label, "sync", &Request::SyncNames { directory: &self.path })?;
        if names.synced(live.instance, &covered) {
            return Ok(());
        }
        let source = std::io::Error::other(
            "the node was started again after names were changed and not synced; the changes may be lost",
        );
        Err(Error::Io { name: self.label.clone(), operation: "sync", source })
    }

    fn lock(&self) -> Result<DirectoryLock> {
        let take = |live: &Live| live.ask(&Request::LockNames { directory: &self.path });
        RemoteLock::take(&self.shared, &self.label, || Ok(()), take)
    }
}

/// A lock at the node, as long as the first connection lives. While it is held, all requests go by that connection, so that
/// none of them is done without the lock.
#[derive(Debug)]
pub(super) struct RemoteLock {
    shared: Arc<Shared>,
    live: Arc<Live>,
    lock: u32,
}

impl RemoteLock {
    pub(super) fn take(
        shared: &Arc<Shared>,
        label: &str,
        before: impl FnOnce() -> Result<()>,
        take: impl FnOnce(&Live) -> crate::Result<Answer>,
    ) -> Result<DirectoryLock> {
        let failed = |error: crate::Error| match error {
            crate::Error::Device(error) => renamed(&error, label),
            other => other.of_device(label, "lock"),
        };
        let Some(link) = shared.links.first() else { return Err(failed(shared.nonsense())) };
        let live = link.live().map_err(failed)?;
        // From here on nothing is sent by another connection, and this one is not made anew.
        link.add_lock();
        let outcome = before().and_then(|()| take(&live).map_err(failed));
        let lock = match outcome {
            Ok(Answer::Locked { lock }) => lock,
            other => {
                link.remove_lock();
                return Err(other.err().unwrap_or_else(|| failed(shared.nonsense())));
            }
        };
        Ok(DirectoryLock::new(Self { shared: Arc::clone(shared), live, lock }))
    }
}

impl Drop for RemoteLock {
    fn drop(&mut self) {
        // Waits, so that the lock is free when this returns. If the connection is gone, so is the lock.
        let _ = self.live.ask(&Request::Unlock { lock: self.lock });
        if let Some(link) = self.shared.links.first() {
            link.remove_lock();
        }
    }
}

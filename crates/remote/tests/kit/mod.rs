//! Nodes over a folder of their own, and clients of theirs.

use std::path::Path;
use std::time::Duration;

use ishigaki_device::{AlignedBuffer, Device};
use ishigaki_fabric::Security;
use ishigaki_remote::{Access, Client, ClientSettings, Export, Mode, NodeSettings, StorageNode};

/// Every way of I/O.
pub(crate) const MODES: [Mode; 3] = [Mode::Dynamic, Mode::Static, Mode::Ring];

/// A node and the folder that it serves.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) node: StorageNode,
}

impl Place {
    pub(crate) fn new(mode: Mode) -> Self {
        Self::with(settings(mode))
    }

    pub(crate) fn with(settings: NodeSettings) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let node = node(&Export::Folder(folder.path().to_owned()), settings);
        Self { folder, node }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn client(&self) -> Client {
        client(&self.node)
    }
}

pub(crate) fn settings(mode: Mode) -> NodeSettings {
    NodeSettings {
        listen: "127.0.0.1:0".to_owned(),
        mode,
        access: Access::ReadWrite,
        // Where nobody keeps copies.
        lease: Duration::from_millis(1),
        ..NodeSettings::default()
    }
}

pub(crate) fn node(export: &Export, settings: NodeSettings) -> StorageNode {
    StorageNode::start(export, settings, Security::Open).expect("started")
}

pub(crate) fn client(node: &StorageNode) -> Client {
    client_at(&node.address().to_string())
}

pub(crate) fn client_at(address: &str) -> Client {
    Client::connect(address, &ClientSettings::default(), &Security::Open).expect("connected")
}

/// Blocks that are full of one byte.
pub(crate) fn full(length: usize, byte: u8) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(length);
    buffer.fill(byte);
    buffer
}

/// What a device holds there.
pub(crate) fn read(device: &dyn Device, offset: u64, length: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(length);
    device.read_at(offset, &mut buffer).expect("read");
    buffer
}

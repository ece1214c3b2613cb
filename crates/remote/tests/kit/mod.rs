//! Nodes over a folder of their own, and clients of theirs.

pub(crate) mod proxy;

use std::path::Path;
use std::time::Duration;

use ishigaki_device::{AlignedBuffer, Device};
use ishigaki_fabric::{Fabric, Libfabric, Security, Settings};
use ishigaki_remote::{Access, Client, ClientSettings, Export, Mode, NodeSettings, StorageNode};

/// Every way of I/O.
pub(crate) const MODES: [Mode; 3] = [Mode::Dynamic, Mode::Static, Mode::Ring];

/// Every way of I/O over every transport: TCP, and libfabric's tcp where there is one.
pub(crate) fn ways() -> Vec<(Mode, Fabric)> {
    let mut fabrics = vec![Fabric::Tcp];
    match Libfabric::probe().expect("a library that can be used") {
        Some(_) => fabrics.push(Fabric::Libfabric { provider: "tcp".to_owned() }),
        None => println!("SKIPPED: there is no libfabric (Debian: libfabric1); only TCP is tested"),
    }
    fabrics.into_iter().flat_map(|fabric| MODES.map(|mode| (mode, fabric.clone()))).collect()
}

/// A node and the folder that it serves.
pub(crate) struct Place {
    pub(crate) fabric: Fabric,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) node: StorageNode,
}

impl Place {
    pub(crate) fn new(mode: Mode) -> Self {
        Self::with(settings(mode))
    }

    /// A node that is reached over this transport.
    pub(crate) fn over(mode: Mode, fabric: &Fabric) -> Self {
        let fabric = Settings { fabric: fabric.clone(), ..Settings::default() };
        Self::with(NodeSettings { fabric, ..settings(mode) })
    }

    pub(crate) fn with(settings: NodeSettings) -> Self {
        let fabric = settings.fabric.fabric.clone();
        let folder = tempfile::tempdir().expect("a folder");
        let node = node(&Export::Folder(folder.path().to_owned()), settings);
        Self { fabric, folder, node }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(ClientSettings::default())
    }

    /// The same with other settings, but those of the transport.
    pub(crate) fn client_with(&self, mut settings: ClientSettings) -> Client {
        settings.fabric.fabric = self.fabric.clone();
        Client::connect(&self.node.address().to_string(), &settings, &Security::Open).expect("connected")
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

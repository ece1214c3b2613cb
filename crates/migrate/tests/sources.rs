//! Sources: what is asked of a real directory, of a real server, and of a peer that misbehaves.

#[path = "sources/ganesha.rs"]
mod ganesha;
#[path = "sources/misbehaviour.rs"]
mod misbehaviour;
#[path = "sources/nfs.rs"]
mod nfs;
#[path = "sources/path.rs"]
mod path;
#[path = "sources/peer.rs"]
mod peer;
#[path = "sources/samba.rs"]
mod samba;
#[path = "sources/smb.rs"]
mod smb;

//! Sources: what is asked of a real directory, of a real server, and of a peer that misbehaves.

#[path = "sources/ganesha.rs"]
mod ganesha;
#[path = "sources/garbled_smb.rs"]
mod garbled_smb;
#[path = "sources/misbehaviour.rs"]
mod misbehaviour;
#[path = "sources/nfs.rs"]
mod nfs;
#[path = "sources/odd.rs"]
mod odd;
#[path = "sources/path.rs"]
mod path;
#[path = "sources/peer.rs"]
mod peer;
#[path = "sources/samba.rs"]
mod samba;
#[path = "sources/smb.rs"]
mod smb;
#[path = "sources/whole_smb.rs"]
mod whole_smb;

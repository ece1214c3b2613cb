//! The first request of a mount: which options both sides know.
//!
//! The library answers it, into a pipe; what it does not know is put into that answer on its way to the kernel.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;

use fuse_backend_rs::api::filesystem::FileSystem;
use fuse_backend_rs::api::server::Server;
use fuse_backend_rs::transport::FuseDevWriter;

use super::{Beside, PASSTHROUGH};
use crate::channel::Received;

/// Where `struct fuse_init_in` has its options, behind the header.
const OFFERED: (usize, usize) = (12, 16);
/// Where `struct fuse_init_out` has them, and how many file systems may lie below.
const OPTIONS: (usize, usize) = (12, 32);
const STACK: usize = 36;
/// That there is a second word of options.
const EXTENDED: u32 = 1 << 30;

/// Bytes of the header of an answer.
const HEADER: usize = 16;

/// Answers it.
pub(crate) fn begin<F: FileSystem + Sync>(
    received: Received<'_>,
    server: &Server<F>,
    beside: &dyn Beside,
) -> io::Result<()> {
    let offered = offered(received.body());
    let (mut from, to) = io::pipe()?;
    let Received { device, request, answer } = received;
    let refused = |error| io::Error::other(format!("{error}"));
    {
        let writer = FuseDevWriter::new(to.as_raw_fd(), answer).map_err(refused)?;
        let reader = Received::reader(request)?;
        server
            .handle_message(reader, writer.into(), None, None)
            .map_err(|error| io::Error::other(format!("the first request: {error}")))?;
    }
    drop(to);
    let mut reply = Vec::with_capacity(128);
    from.read_to_end(&mut reply)?;
    let wanted = beside.options(offered) & offered;
    if let Some(body) = reply.get_mut(HEADER..) {
        add(body, wanted);
    }
    send(device, &reply)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn offered(body: &[u8]) -> u64 {
    let low = word(body, OFFERED.0);
    let high = if low & EXTENDED == 0 { 0 } else { word(body, OFFERED.1) };
    u64::from(high) << 32 | u64::from(low)
}

/// Adds options to an answer.
fn add(body: &mut [u8], wanted: u64) {
    let mut put = |at: usize, more: u32| {
        let value = word(body, at) | more;
        if let Some(place) = body.get_mut(at..at + 4) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
    };
    put(OPTIONS.0, wanted as u32);
    put(OPTIONS.1, (wanted >> 32) as u32);
    if wanted & PASSTHROUGH != 0 {
        // What is passed through lies on a file system that lies on none.
        put(STACK, 1);
    }
}

fn send(device: &File, reply: &[u8]) -> io::Result<()> {
    rustix::io::write(device, reply)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_added_in_both_words() {
        let mut body = [0_u8; 64];
        body[12..16].copy_from_slice(&(EXTENDED | 5).to_ne_bytes());
        body[16..20].copy_from_slice(&(1_u32 << 5).to_ne_bytes());
        assert_eq!(offered(&body), PASSTHROUGH | u64::from(EXTENDED) | 5);
        let mut reply = [0_u8; 64];
        reply[12] = 1;
        add(&mut reply, PASSTHROUGH | 4);
        assert_eq!((word(&reply, 12), word(&reply, 32), word(&reply, 36)), (5, 1 << 5, 1));
    }
}

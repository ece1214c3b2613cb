//! The process at the other end of a socket. rustix has its number as one that is never 0, and the kernel tells 0 of a process that this one can not see.

#![allow(unsafe_code, reason = "the kernel is asked in its own form")]

use std::os::fd::{AsFd, AsRawFd};

/// The number of that process, as far as the kernel tells; 0 for one of another namespace.
pub(crate) fn process(socket: &impl AsFd) -> Option<i32> {
    let mut told = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of_val(&told) as libc::socklen_t;
    let (descriptor, into) = (socket.as_fd().as_raw_fd(), (&raw mut told).cast());
    // SAFETY: the kernel writes at most `length` bytes to a `struct ucred`, which this is and in which all bytes may have any value, and keeps no pointer to it.
    let outcome = unsafe { libc::getsockopt(descriptor, libc::SOL_SOCKET, libc::SO_PEERCRED, into, &raw mut length) };
    (outcome == 0).then_some(told.pid)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_other_end_of_a_socket_of_ones_own_is_oneself() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(process(&one), Some(std::process::id().cast_signed()));
        assert_eq!(process(&std::fs::File::open("/dev/null").unwrap()), None);
    }
}

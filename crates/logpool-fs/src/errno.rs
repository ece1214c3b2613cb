//! What an error of the pool is for a program that knows nothing of pools.

use std::io;

use ishigaki_base::ErrorKind;
use ishigaki_logpool::Error;
use rustix::io::Errno;

/// The answer to a request that failed. What fails for good is told in the log as well, where it happened.
pub(crate) fn answer(error: Error) -> io::Error {
    let errno = match error {
        Error::Full { .. } => Errno::NOSPC,
        Error::NotFound { .. } => Errno::NOENT,
        Error::Exists { .. } => Errno::EXIST,
        Error::NotEmpty { .. } => Errno::NOTEMPTY,
        Error::IsDirectory { .. } => Errno::ISDIR,
        Error::NotDirectory { .. } => Errno::NOTDIR,
        Error::Invalid { .. } => Errno::INVAL,
        // The medium of the log.
        error if error.kind() == ErrorKind::Exhausted => Errno::NOSPC,
        error => {
            tracing::error!(%error, "a request fails");
            Errno::IO
        }
    };
    errno.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_member_is_a_full_disk_and_a_closed_pool_a_broken_one() {
        let full = Error::Full { member: "a".to_owned(), what: "its files".to_owned(), passes: false };
        assert_eq!(answer(full).raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        assert_eq!(answer(Error::Closed).raw_os_error(), Some(Errno::IO.raw_os_error()));
    }
}

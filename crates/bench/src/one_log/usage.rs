//! What was asked of the disk and of the pool between two moments.

use std::fs;
use std::path::Path;

use ishigaki_logpool_service::Status;

/// Ticks of a second in what the kernel tells of processes.
const TICKS: f64 = 100.0;

/// What a disk was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) writes: f64,
    pub(crate) bytes: f64,
    pub(crate) syncs: f64,
}

impl Counts {
    /// As an emulated disk tells them: a word and a number on each line.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let number = |word: &str| {
            let told = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))?;
            told.trim().parse().ok()
        };
        Some(Self { writes: number("writes")?, bytes: number("bytes_written")?, syncs: number("flushes")? })
    }

    /// Since an earlier moment.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            writes: self.writes - earlier.writes,
            bytes: self.bytes - earlier.bytes,
            syncs: self.syncs - earlier.syncs,
        }
    }
}

/// What a pool has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pooled {
    /// Bytes that servers wrote.
    pub(crate) written: f64,
    /// Bytes of the entries that came of them.
    pub(crate) logged: f64,
    /// Bytes that the log wrote.
    pub(crate) medium: f64,
    /// Requests that had to be durable, and writes that answered them.
    pub(crate) requests: f64,
    pub(crate) writes: f64,
    /// Seconds of processor that its process took.
    pub(crate) processor: f64,
}

impl Pooled {
    /// As its service tells.
    pub(super) fn of(status: &Status) -> Self {
        let members = || status.members.iter();
        Self {
            written: members().map(|member| member.written_bytes as f64).sum(),
            logged: members().map(|member| member.logged_bytes as f64).sum(),
            medium: status.log.medium_bytes as f64,
            requests: status.log.requests as f64,
            writes: status.log.writes as f64,
            processor: processor(status.pid).unwrap_or_default(),
        }
    }

    /// Since an earlier moment.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            written: self.written - earlier.written,
            logged: self.logged - earlier.logged,
            medium: self.medium - earlier.medium,
            requests: self.requests - earlier.requests,
            writes: self.writes - earlier.writes,
            processor: self.processor - earlier.processor,
        }
    }
}

/// Seconds of processor that a process has taken, all threads together.
fn processor(process: u32) -> Option<f64> {
    ticks(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?).map(|ticks| ticks / TICKS)
}

/// Its own and the kernel's for it. What is behind the last bracket has no words of the process' own.
fn ticks(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (own, kernel): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(own + kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_an_emulated_disk_tells_them() {
        let told = "reads 1\nbytes_read 2\nwrites 3\nbytes_written 4096\nflushes 5\ntrims 6\n";
        assert_eq!(Counts::parse(told), Some(Counts { writes: 3.0, bytes: 4096.0, syncs: 5.0 }));
        assert_eq!(Counts::parse("writes 3\n"), None);
    }

    #[test]
    fn the_processor_time_of_a_process_is_found_behind_its_name() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1";
        assert_eq!(ticks(stat), Some(300.0));
        assert!(processor(std::process::id()).is_some());
    }
}

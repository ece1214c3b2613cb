//! Reads what `strace -f -y` wrote: a call a line, or two lines when another thread's came in between.

use std::collections::HashMap;

/// Flags of open files, by descriptor, as `/proc/self/fdinfo` has them.
pub(super) type Descriptors = HashMap<u32, u64>;

/// `O_DSYNC`; `O_SYNC` contains its bit.
const DSYNC: u64 = 0o10_000;

/// What a call means for durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `fdatasync`.
    DataSync,
    /// `fsync`, `syncfs` and `sync`: metadata too.
    FullSync,
    /// `msync` and `sync_file_range`.
    RangeSync,
    /// A write that returns when it is durable.
    DurableWrite,
    /// A write into the page cache, or past it without a word about durability.
    PlainWrite,
    /// `io_uring_enter` and `io_submit`: what they did is not told apart.
    Submit,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::DataSync, Self::FullSync, Self::RangeSync, Self::DurableWrite, Self::PlainWrite, Self::Submit];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DataSync => "fdatasync",
            Self::FullSync => "fsync",
            Self::RangeSync => "msync, sync_file_range",
            Self::DurableWrite => "durable writes",
            Self::PlainWrite => "plain writes",
            Self::Submit => "io_uring, aio",
        }
    }

    /// Whether something is durable when it returns.
    pub(crate) fn makes_durable(self) -> bool {
        !matches!(self, Self::PlainWrite | Self::Submit)
    }
}

/// How many calls there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    counts: [u64; Kind::ALL.len()],
    /// That writes answered to have written.
    pub(crate) bytes: u64,
}

impl Calls {
    pub(crate) fn of(&self, kind: Kind) -> u64 {
        self.counts[kind as usize]
    }
}

/// Counts the calls on files; those on pipes, terminals and the like are left out.
pub(super) fn calls(text: &str, descriptors: &Descriptors) -> Calls {
    let mut calls = Calls::default();
    // Threads whose write to a file has begun in an earlier line.
    let mut begun: HashMap<&str, bool> = HashMap::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let rest = rest.trim_start();
        if rest.starts_with("<... ") {
            if begun.remove(thread) == Some(true) {
                calls.bytes += answer(rest);
            }
            continue;
        }
        let Some((name, arguments)) = rest.split_once('(') else { continue };
        let Some(kind) = kind(name, arguments, descriptors) else { continue };
        calls.counts[kind as usize] += 1;
        let writes = matches!(kind, Kind::DurableWrite | Kind::PlainWrite);
        if rest.ends_with("<unfinished ...>") {
            begun.insert(thread, writes);
        } else if writes {
            calls.bytes += answer(rest);
        }
    }
    calls
}

fn kind(name: &str, arguments: &str, descriptors: &Descriptors) -> Option<Kind> {
    match name {
        "fdatasync" => Some(Kind::DataSync),
        "fsync" | "syncfs" | "sync" => Some(Kind::FullSync),
        "msync" | "sync_file_range" => Some(Kind::RangeSync),
        "io_uring_enter" | "io_submit" => Some(Kind::Submit),
        "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => {
            // `7</a/file>, …`
            let (number, path) = arguments.split_once('<')?;
            let flags = descriptors.get(&number.parse().ok()?).copied().unwrap_or(0);
            let durable = flags & DSYNC != 0 || arguments.contains("RWF_DSYNC") || arguments.contains("RWF_SYNC");
            path.starts_with('/').then_some(if durable { Kind::DurableWrite } else { Kind::PlainWrite })
        }
        _ => None,
    }
}

/// The number after the last `= `; zero for an error.
fn answer(line: &str) -> u64 {
    line.rsplit_once("= ").and_then(|(_, answer)| answer.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"101 pwrite64(7</data/log>, ""..., 512, 4096) = 512
101 fdatasync(7</data/log>) = 0
102 pwrite64(8</data/meta>, ""..., 64, 0 <unfinished ...>
101 write(9<anon_inode:[eventfd]>, ""..., 8) = 8
102 <... pwrite64 resumed>)             = 64
103 pwritev2(7</data/log>, [{iov_base=""..., iov_len=4096}], 1, 512, RWF_DSYNC) = 4096
103 fdatasync(7</data/log> <unfinished ...>
103 <... fdatasync resumed>)            = 0
103 pwrite64(7</data/log>, ""..., 512, 4096) = -1 EIO (Input/output error)
103 +++ exited with 0 +++
"#;

    #[test]
    fn each_call_is_counted_once_and_by_what_it_means() {
        let descriptors = Descriptors::from([(7, 0o100_001), (8, 0o110_001)]);
        let calls = calls(TRACE, &descriptors);
        assert_eq!(Kind::ALL.map(|kind| calls.of(kind)), [2, 0, 0, 2, 2, 0]);
        assert_eq!(calls.bytes, 512 + 64 + 4096);
    }
}

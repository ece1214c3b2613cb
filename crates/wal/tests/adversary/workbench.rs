//! What the attacks share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ishigaki_base::{ByteSize, Lsn};
use ishigaki_device::Directory;
use ishigaki_wal::{CommitRule, Group, Log, LogKind, Recovery, Result, Settings, Stream};

/// How long something that must happen is given to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `work` in a thread of its own; the test fails when it takes too long, and that it hangs is the likely reason.
pub(crate) fn watchdog<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let worker = thread::spawn(move || done.send(work()).expect("somebody waits for it"));
    match result.recv_timeout(PATIENCE) {
        Ok(value) => {
            worker.join().expect("it has just sent its value");
            value
        }
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(RecvTimeoutError::Disconnected) => std::panic::resume_unwind(worker.join().expect_err("it sent nothing")),
    }
}

pub(crate) type Records = BTreeMap<u64, Vec<u8>>;

pub(crate) fn quiet(streams: u16) -> Settings {
    Settings {
        streams,
        segment: ByteSize::kib(16),
        commit: CommitRule::Watermark,
        background: false,
        ..Settings::default()
    }
}

pub(crate) fn open(directory: Arc<dyn Directory>, settings: Settings) -> Result<(Arc<Log>, Recovery, Records)> {
    let mut records = Records::new();
    let (log, recovery) = Log::open(directory, settings, &mut |position, payload| {
        let lsn = position.lsn();
        assert!(records.insert(lsn.0, payload.to_vec()).is_none(), "a record is shown once");
        Ok(())
    })?;
    Ok((log, recovery, records))
}

pub(crate) fn commit(stream: &Stream, payload: &[u8]) -> Lsn {
    let lsn = stream.append(payload).unwrap();
    stream.wait(lsn).unwrap();
    lsn
}

pub(crate) fn any_settings(random: &mut fastrand::Rng) -> Settings {
    let segment = ByteSize::kib(*random.choice(&[16, 20, 64, 256]).unwrap());
    let bytes = ByteSize::kib(*random.choice(&[4, 8, 16, 64]).unwrap());
    let group = Group { transactions: random.usize(1..8), bytes, time: Duration::from_millis(1) };
    let (kind, streams) = if random.bool() { (LogKind::Parallel, random.u16(1..=5)) } else { (LogKind::Serial, 1) };
    Settings { kind, streams, segment, group, commit: CommitRule::Watermark, background: false, ..Settings::default() }
}

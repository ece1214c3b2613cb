//! A whole log through recovery: [`inspect`] and [`Log::open`] over whatever the script puts on the medium.
//!
//! Both must agree on whether the log is sound and on what it holds. A log that was opened can be appended to, closed and
//! opened again, and then has what it had and what was appended, nothing else.

#![no_main]

use std::sync::Arc;

use ishigaki_base::Position;
use ishigaki_device::{Directory, MemoryDirectory};
use ishigaki_fuzz::image::{build, script_of};
use ishigaki_fuzz::seeds::plant;
use ishigaki_fuzz::settings;
use ishigaki_wal::{CommitRule, Dependencies, Error, Log, Recovery, Result, inspect};
use libfuzzer_sys::fuzz_target;

type Records = Vec<(Position, Vec<u8>)>;

fn open(directory: &Arc<MemoryDirectory>, streams: u16) -> Result<(Arc<Log>, Recovery, Records)> {
    let mut records = Records::new();
    let directory: Arc<dyn Directory> = directory.clone();
    let mut replay = |position, payload: &[u8]| {
        records.push((position, payload.to_vec()));
        Ok(())
    };
    let (log, recovery) = Log::open(directory, settings(streams, CommitRule::Dependencies), &mut replay)?;
    Ok((log, recovery, records))
}

fn accepts(script: &[u8]) -> bool {
    let directory = build(script);
    let inspected = inspect(directory.as_ref());
    let opened = open(&directory, 2);
    let (inspection, (log, recovery, records)) = match (inspected, opened) {
        (Ok(inspection), Ok(opened)) => (inspection, opened),
        (Ok(inspection), Err(error)) => {
            // A log at the end of its numbers can be read and not be opened once more.
            let is_told = inspection.problem.is_some() || matches!(error, Error::Invalid { .. });
            assert!(is_told, "opening fails, and inspection finds nothing: {error}");
            return false;
        }
        (Err(error), Ok(_)) => panic!("it can be opened and not inspected: {error}"),
        (Err(_), Err(_)) => return false,
    };
    assert!(inspection.problem.is_none(), "it can be opened although {:?}", inspection.problem);
    assert_eq!(
        (inspection.records, inspection.dropped, inspection.cut, inspection.records),
        (recovery.records, recovery.dropped, recovery.cut, records.len() as u64)
    );

    let appended = log.assign().append(b"one more");
    match (log.close(), appended) {
        // There is none after this one, and the log can not be opened any more.
        (Ok(()), Ok(lsn)) if lsn == Position::MAX_LSN => {}
        (Ok(()), Ok(lsn)) => {
            let (_, _, again) = open(&directory, 3).expect("it was closed");
            let (last, before) = again.split_last().expect("one was appended");
            assert_eq!(before, records);
            assert_eq!((last.0.lsn(), &last.1[..]), (lsn, &b"one more"[..]));
        }
        (closed, appended) => panic!("memory never fails: {closed:?}, {appended:?}"),
    }
    true
}

/// Logs of several generations, streams and rules; closed, crashed and trimmed.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (streams, commit) in [(1, CommitRule::Watermark), (3, CommitRule::Watermark), (3, CommitRule::Dependencies)] {
        let directory = Arc::new(MemoryDirectory::new());
        for generation in 0..3_usize {
            let directory: Arc<dyn Directory> = directory.clone();
            let (log, _) = Log::open(directory.clone(), settings(streams, commit), &mut |_, _| Ok(())).expect("valid");
            let mut read = Dependencies::default();
            for number in 0..4 {
                let session = log.assign();
                let receipt = session.append_after(&read, &vec![number; 7 * generation]).expect("appended");
                read.add(receipt.position());
                if number % 2 == 1 {
                    session.settle(&receipt).expect("written");
                }
            }
            seeds.push(script_of(directory.as_ref()));
            log.close().expect("closed");
        }
        seeds.push(script_of(directory.as_ref()));
    }
    // A log that was trimmed, with a stream whose first segments are gone.
    let directory = Arc::new(MemoryDirectory::new());
    let (log, _) = Log::open(directory.clone(), settings(2, CommitRule::Watermark), &mut |_, _| Ok(())).expect("valid");
    let stream = log.assign();
    for number in 0..20 {
        let lsn = stream.append(&[number; 2000]).expect("appended");
        stream.wait(lsn).expect("written");
        if number == 18 {
            log.trim(log.here()).expect("reached");
            seeds.push(script_of(directory.as_ref()));
        }
    }
    log.close().expect("closed");
    seeds.push(script_of(directory.as_ref()));
    // One record in several chunks and segments.
    let directory = Arc::new(MemoryDirectory::new());
    let (log, _) = Log::open(directory.clone(), settings(1, CommitRule::Watermark), &mut |_, _| Ok(())).expect("valid");
    log.assign().append(&[7; 5000]).expect("appended");
    log.close().expect("closed");
    seeds.push(script_of(directory.as_ref()));
    seeds
}

fuzz_target!(init: plant(&seeds(), accepts), |script: &[u8]| {
    accepts(script);
});

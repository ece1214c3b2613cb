//! Whether the log holds what it must after long writing.

use std::sync::Arc;

use ishigaki_device::Directory;
use ishigaki_wal::{self as wal, Log};

use super::{NAME, Record, Settings};
use crate::Result;

/// Opens the log again. Of each worker it must hold a run of records, to the last one that was acknowledged.
pub(super) fn check(
    directory: Arc<dyn Directory>,
    log: wal::Settings,
    settings: &Settings,
    payload: usize,
    acknowledged: &[u64],
) -> Result<()> {
    let records = (0..acknowledged.len()).map(|worker| Record::new(settings.origin.seed, worker as u32, payload));
    let mut holdings = Holdings { workers: records.map(|record| (record, None)).collect(), wrong: None };
    let (log, _) = Log::open(directory, log, &mut |_, payload| {
        holdings.enter(payload);
        Ok(())
    })?;
    log.close()?;
    holdings.judge(acknowledged).map_err(|reason| settings.target.wrong(NAME, reason))
}

/// What was found so far.
#[derive(Debug)]
struct Holdings {
    /// By worker: its records, and the number that must come next once there was one.
    workers: Vec<(Record, Option<u64>)>,
    wrong: Option<String>,
}

impl Holdings {
    fn enter(&mut self, payload: &[u8]) {
        if self.wrong.is_none() {
            self.wrong = self.apply(payload).err();
        }
    }

    fn apply(&mut self, payload: &[u8]) -> std::result::Result<(), String> {
        let (worker, number) = payload
            .split_first_chunk()
            .and_then(|(worker, rest)| Some((u32::from_le_bytes(*worker), u64::from_le_bytes(*rest.first_chunk()?))))
            .ok_or("a record is too short")?;
        let (record, next) =
            self.workers.get_mut(worker as usize).ok_or_else(|| format!("there was no worker {worker}"))?;
        if record.numbered(number) != payload {
            return Err(format!("record {number} of worker {worker} has other bytes"));
        }
        if next.is_some_and(|next| next != number) {
            return Err(format!("record {number} of worker {worker} comes after a gap"));
        }
        *next = Some(number + 1);
        Ok(())
    }

    fn judge(self, acknowledged: &[u64]) -> std::result::Result<(), String> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        for (worker, ((_, next), acknowledged)) in self.workers.iter().zip(acknowledged).enumerate() {
            if *acknowledged > 0 && next.unwrap_or(0) < *acknowledged {
                return Err(format!("worker {worker}'s last acknowledged record is not there"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;

    fn record(worker: u32) -> Record {
        Record::new(Seed(7), worker, 64)
    }

    fn judged(numbers: &[u64], acknowledged: u64) -> std::result::Result<(), String> {
        let mut holdings = Holdings { workers: vec![(record(0), None)], wrong: None };
        for number in numbers {
            holdings.enter(record(0).numbered(*number));
        }
        holdings.judge(&[acknowledged])
    }

    #[test]
    fn a_run_to_the_last_acknowledged_record_is_right_wherever_it_begins() {
        assert_eq!(judged(&[0, 1, 2], 3), Ok(()));
        assert_eq!(judged(&[1, 2, 3], 3), Ok(()));
        assert_eq!(judged(&[], 0), Ok(()));
    }

    #[test]
    fn a_gap_a_lost_end_and_other_bytes_are_seen() {
        assert!(judged(&[0, 2], 3).unwrap_err().contains("gap"));
        assert!(judged(&[0, 1], 3).unwrap_err().contains("last acknowledged"));
        assert!(judged(&[], 1).unwrap_err().contains("last acknowledged"));
        let mut holdings = Holdings { workers: vec![(record(0), None)], wrong: None };
        let mut bytes = record(0).numbered(0).to_vec();
        bytes[63] ^= 1;
        holdings.enter(&bytes);
        assert!(holdings.judge(&[0]).unwrap_err().contains("other bytes"));
    }
}

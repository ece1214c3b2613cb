//! Whether it is known where the log ended: what verification and salvage say alike.
//!
//! The log's control block says it, of a log that was closed. A log that was not closed goes as far as its chunks do. A
//! checkpoint, and the note of a log that lies apart, know more: which log it is, which generation it had reached, and up to
//! where it was durable. Where the log that is there contradicts one of them, it is another one, an older one, or its end
//! is gone, and nothing says how much of it.

use ishigaki_base::Lsn;
use ishigaki_device::Directory;
use ishigaki_wal::{LogEnd, Survey};

use crate::apart;
use crate::checkpoint::leftovers::Manifests;

/// What says where the log ended that `survey` has read up to `read`.
pub(crate) fn of(tables: &dyn Directory, manifests: &Manifests, survey: &Survey, read: Lsn) -> LogEnd {
    let known = manifests.current.as_ref().or(manifests.previous.as_ref());
    let noted = apart::made_log(tables);
    if survey.is_empty() && manifests.is_empty() && noted.is_none() {
        // There is no database, and no log of one.
        return LogEnd::Closed(Lsn::ZERO);
    }
    let there = survey.log();
    for log in known.map(|manifest| manifest.log).into_iter().chain(noted) {
        if let Some(other) = there.filter(|&there| there != log) {
            return LogEnd::Unknown(format!("the database is of log {log}, and the log that is there is {other}"));
        }
    }
    let Some(manifest) = known else { return survey.end().clone() };
    if let Err(error) = survey.check_reached(manifest.start) {
        return LogEnd::Unknown(format!("it is an older log than that of the checkpoint: {error}"));
    }
    match survey.end() {
        LogEnd::Closed(end) if *end < manifest.end => {
            let durable = manifest.end;
            LogEnd::Unknown(format!(
                "it says that it ended at {end}, and was durable up to {durable}: it is an older one"
            ))
        }
        LogEnd::Open if read < manifest.end => {
            let durable = manifest.end;
            LogEnd::Unknown(format!(
                "it ends at {read}, and was durable up to {durable}: its last chunks are damaged, missing or older"
            ))
        }
        end => end.clone(),
    }
}

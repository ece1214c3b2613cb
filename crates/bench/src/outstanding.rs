//! How many transactions a worker may have outstanding where nobody says it.

use ishigaki_wal::LogKind;

/// Four groups of the log; and where epochs acknowledge, so many that the worker never waits for them.
pub(crate) fn usual_outstanding(kind: LogKind, group: usize) -> usize {
    match kind {
        LogKind::Epoch { .. } => 1 << 16,
        LogKind::Parallel | LogKind::Serial => 4 * group,
    }
}

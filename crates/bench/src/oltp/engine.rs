//! One side of a comparison: how a database is opened, and what figures call it.

use ishigaki_base::ByteSize;
use ishigaki_txn::{self as txn, CheckpointSettings};
use ishigaki_wal::{self as wal, CommitRule, Group, LogKind};

use super::OUTSTANDING_IN_EPOCHS;
use crate::Case;

/// A transaction engine: settings of the database, and what distinguishes them.
#[derive(Clone, Debug)]
pub struct Engine {
    /// What figures call it: log, rule and group, and whatever else the caller compares.
    pub case: Case,
    /// How its databases are opened. The log's streams are as many as there are workers, whatever is said here.
    pub settings: txn::Settings,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new(Self::roomy())
    }
}

impl Engine {
    /// An engine that figures call by its log, its rule and its group.
    pub fn new(settings: txn::Settings) -> Self {
        let log = &settings.log;
        let case = Case::from_iter([
            ("log".to_owned(), log.kind.to_string().into()),
            ("commit".to_owned(), log.commit.to_string().into()),
            ("group".to_owned(), log.group.transactions.into()),
        ]);
        Self { case, settings }
    }

    /// Every log under every rule with every group, otherwise as `settings` say.
    pub fn product(logs: &[LogKind], commits: &[CommitRule], groups: &[usize], settings: &txn::Settings) -> Vec<Self> {
        let mut engines = Vec::new();
        for &kind in logs {
            for &commit in commits {
                for &transactions in groups {
                    let group = Group { transactions, ..settings.log.group.clone() };
                    let log = wal::Settings { kind, commit, group, ..settings.log.clone() };
                    engines.push(Self::new(txn::Settings { log, ..settings.clone() }));
                }
            }
        }
        engines
    }

    /// The defaults with room for all that a run writes, in memory and in the log, and no checkpoint in the middle of it;
    /// the log has no stream for relief, so that each worker has its own, as in the papers.
    pub fn roomy() -> txn::Settings {
        let room = ByteSize::tib(1);
        txn::Settings {
            log: wal::Settings { relief: 0, space: room, ..wal::Settings::default() },
            memory: room,
            checkpoint: CheckpointSettings { automatic: false, ..CheckpointSettings::default() },
            ..txn::Settings::default()
        }
    }

    /// With a stream for each worker.
    pub(super) fn settings(&self, workers: usize) -> txn::Settings {
        let log = wal::Settings { streams: workers as u16, ..self.settings.log.clone() };
        txn::Settings { log, ..self.settings.clone() }
    }

    pub(super) fn usual_outstanding(&self) -> usize {
        match self.settings.log.kind {
            LogKind::Epoch { .. } => OUTSTANDING_IN_EPOCHS,
            _ => 4 * self.settings.log.group.transactions,
        }
    }
}

//! One side of a comparison: how a database is opened, and what figures call it.

use ishigaki_base::ByteSize;
use ishigaki_txn::{self as txn, CheckpointSettings, ProtocolKind, Release};
use ishigaki_wal::{self as wal, CommitRule, LogKind};

use crate::Case;
use crate::outstanding::usual_outstanding;

/// A transaction engine: settings of the database, and what distinguishes them.
#[derive(Clone, Debug)]
pub struct Engine {
    /// What figures call it: protocol, release, log, rule and group, and whatever else the caller compares.
    pub case: Case,
    /// How its databases are opened. The log's streams are as many as there are workers, whatever is said here.
    pub settings: txn::Settings,
    /// Transactions that a worker may have outstanding where the sweep says nothing. Default: none given, which means four
    /// groups of the log, and under epochs as many as it can.
    pub outstanding: Option<usize>,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new(Self::roomy())
    }
}

impl Engine {
    /// An engine that figures call by what [`Choices`] there are.
    pub fn new(settings: txn::Settings) -> Self {
        let log = &settings.log;
        let case = Case::from_iter([
            ("protocol".to_owned(), settings.protocol.to_string().into()),
            ("release".to_owned(), settings.release.to_string().into()),
            ("log".to_owned(), log.kind.to_string().into()),
            ("commit".to_owned(), log.commit.to_string().into()),
            ("group".to_owned(), log.group.transactions.into()),
        ]);
        Self { case, settings, outstanding: None }
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
        let log = &self.settings.log;
        self.outstanding.unwrap_or(usual_outstanding(log.kind, log.group.transactions))
    }
}

/// What engines are compared: each of these with each of the others.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Default: the default of transactions.
    pub protocols: Vec<ProtocolKind>,
    /// Default: early.
    pub releases: Vec<Release>,
    /// Default: parallel.
    pub logs: Vec<LogKind>,
    /// Default: by dependencies.
    pub commits: Vec<CommitRule>,
    /// Transactions of a group. Default 16.
    pub groups: Vec<usize>,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            protocols: vec![ProtocolKind::default()],
            releases: vec![Release::Early],
            logs: vec![LogKind::Parallel],
            commits: vec![CommitRule::Dependencies],
            groups: vec![16],
        }
    }
}

impl Choices {
    /// The engines, otherwise as `settings` say.
    pub fn engines(&self, settings: &txn::Settings) -> Vec<Engine> {
        let mut all = vec![settings.clone()];
        vary(&mut all, &self.protocols, |settings, protocol| settings.protocol = protocol);
        vary(&mut all, &self.releases, |settings, release| settings.release = release);
        vary(&mut all, &self.logs, |settings, kind| settings.log.kind = kind);
        vary(&mut all, &self.commits, |settings, commit| settings.log.commit = commit);
        vary(&mut all, &self.groups, |settings, group| settings.log.group.transactions = group);
        all.into_iter().map(Engine::new).collect()
    }
}

/// Each of the settings with each of the values.
fn vary<T: Copy>(all: &mut Vec<txn::Settings>, values: &[T], set: impl Fn(&mut txn::Settings, T)) {
    let with = |settings: &txn::Settings, value| {
        let mut settings = settings.clone();
        set(&mut settings, value);
        settings
    };
    *all = all.iter().flat_map(|settings| values.iter().map(|&value| with(settings, value))).collect();
}

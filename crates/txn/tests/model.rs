//! Histories of concurrent transactions, judged from outside; and one transaction at a time against an ordered map.

#[path = "model/adaptor.rs"]
mod adaptor;
#[path = "model/map.rs"]
mod map;

use std::sync::{Arc, Barrier};
use std::time::Duration;

use adaptor::{InSnapshot, InTransaction, small_settings};
use ishigaki_base::random::Seed;
use ishigaki_device::MemoryDirectory;
use ishigaki_testkit::history::{Level, Recorder, Trace, Violation};
use ishigaki_testkit::program::{Program, Savepoints, Shape, Step};
use ishigaki_testkit::seeded_runs;
use ishigaki_txn::{
    ConflictReason, Database, Error, ProtocolKind, Release, Savepoint, Session, Settings, Snapshot, TableId,
    Transaction,
};

/// How many histories each test judges.
const HISTORIES: u64 = 5_000;

/// How many the long tests judge, which are run on demand.
const MANY_HISTORIES: u64 = 100_000;

/// Every protocol.
const PROTOCOLS: [ProtocolKind; 2] = [ProtocolKind::Locking, ProtocolKind::TicToc];

/// What the histories of a protocol are held to.
fn level(protocol: ProtocolKind) -> Level {
    match protocol {
        ProtocolKind::Locking => Level::Strict,
        ProtocolKind::TicToc => Level::Recent,
    }
}

fn under(protocol: ProtocolKind) -> Settings {
    Settings { protocol, ..small_settings() }
}

fn open(settings: Settings) -> (Database, TableId) {
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), settings).unwrap();
    let table = database.session().run(|txn| txn.create_table("keys")).unwrap();
    (database, table)
}

/// A program of one step.
fn just(step: Step) -> Program {
    Program { steps: vec![step], commits: true, on_snapshot: false }
}

/// Runs a program that only reads.
fn run_on_snapshot(session: &Session, table: TableId, program: &Program, recorder: &Recorder, mut pause: impl FnMut()) {
    let mut trace = recorder.begin();
    let snapshot = session.snapshot().unwrap();
    for step in &program.steps {
        pause();
        just(step.clone()).run(&mut InSnapshot::new(&snapshot, table), &mut trace).unwrap();
    }
    trace.commit(snapshot.lsn().0);
}

/// Reads everything once more, so that the final state is judged too.
fn look_at_the_end(database: &Database, table: TableId, keys: u64, recorder: &Recorder) {
    let mut trace = recorder.begin();
    let mut txn = database.session().begin().unwrap();
    let all = just(Step::Scan(0..keys));
    all.run(&mut InTransaction::new(&mut txn, table), &mut trace).unwrap();
    let ticket = txn.commit().unwrap();
    trace.commit(ticket.lsn().0);
}

/// Runs one program until it commits, gives up of itself or has conflicted too often.
fn run_program(session: &Session, table: TableId, program: &Program, recorder: &Recorder, mut pause: impl FnMut()) {
    if program.on_snapshot {
        return run_on_snapshot(session, table, program, recorder, pause);
    }
    let mut age = None;
    for _ in 0..50 {
        let mut trace = recorder.begin();
        let begun = age.map_or_else(|| session.begin(), |age| session.begin_with_age(age));
        let mut txn = begun.unwrap();
        age = Some(txn.age());
        let mut target = InTransaction::new(&mut txn, table);
        target.before_each_step(&mut pause);
        match program.run(&mut target, &mut trace) {
            Ok(()) if program.commits => match txn.commit() {
                Ok(ticket) => return trace.commit(ticket.lsn().0),
                Err(error) => assert!(matches!(error, Error::Conflict { .. }), "{error}"),
            },
            Ok(()) => return,
            // Ten seconds of waiting in vain would be a wake-up that was lost.
            Err(Error::Conflict { reason }) => assert_ne!(reason, ConflictReason::WaitedTooLong),
            Err(other) => panic!("{other}"),
        }
        pause();
    }
}

/// A history of real threads that wait for each other.
fn threaded_history(seed: Seed, shape: &Shape, settings: &Settings) -> Result<(), Violation> {
    let (database, table) = open(settings.clone());
    let recorder = Recorder::new();
    let sessions = shape.draw(seed);
    let start = Barrier::new(sessions.len());
    std::thread::scope(|scope| {
        for (index, programs) in sessions.iter().enumerate() {
            let (session, recorder, start) = (database.session(), &recorder, &start);
            let mut random = seed.derive(index as u64).generator();
            scope.spawn(move || {
                start.wait();
                for program in programs {
                    // On few cores only giving the processor away mixes the steps.
                    run_program(&session, table, program, recorder, || {
                        if random.bool() {
                            std::thread::yield_now();
                        }
                    });
                }
            });
        }
    });
    look_at_the_end(&database, table, shape.keys, &recorder);
    recorder.finish().check(level(settings.protocol))
}

/// One session of an interleaved history: its programs, and where it stands.
struct Player<'a> {
    session: Session,
    programs: std::slice::Iter<'a, Program>,
    playing: Option<(Stage, Trace<'a>, &'a Program, usize)>,
    savepoints: Savepoints<Savepoint>,
}

/// What a program runs on.
enum Stage {
    Transaction(Box<Transaction>),
    Snapshot(Snapshot),
}

impl Stage {
    fn begin(session: &Session, program: &Program) -> Self {
        if program.on_snapshot {
            Self::Snapshot(session.snapshot().unwrap())
        } else {
            Self::Transaction(Box::new(session.begin().unwrap()))
        }
    }

    fn run(
        &mut self,
        table: TableId,
        step: &Step,
        trace: &mut Trace<'_>,
        savepoints: &mut Savepoints<Savepoint>,
    ) -> Result<(), Error> {
        match self {
            Self::Transaction(txn) => step.run(&mut InTransaction::new(txn, table), trace, savepoints),
            Self::Snapshot(snapshot) => step.run(&mut InSnapshot::new(snapshot, table), trace, savepoints),
        }
    }

    /// Its place in the order of commits.
    fn commit(self) -> Result<u64, Error> {
        match self {
            Self::Transaction(txn) => txn.commit().map(|ticket| ticket.lsn().0),
            Self::Snapshot(snapshot) => Ok(snapshot.lsn().0),
        }
    }
}

impl<'a> Player<'a> {
    /// Takes the next step; false when there is none.
    fn play(&mut self, table: TableId, recorder: &'a Recorder) -> bool {
        let Some((mut stage, mut trace, program, at)) = self.playing.take() else {
            let Some(program) = self.programs.next() else { return false };
            let trace = recorder.begin();
            self.playing = Some((Stage::begin(&self.session, program), trace, program, 0));
            self.savepoints = Savepoints::default();
            return true;
        };
        if let Some(step) = program.steps.get(at) {
            match stage.run(table, step, &mut trace, &mut self.savepoints) {
                Ok(()) => self.playing = Some((stage, trace, program, at + 1)),
                Err(Error::Conflict { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        } else if program.commits {
            match stage.commit() {
                Ok(place) => trace.commit(place),
                Err(error) => assert!(matches!(error, Error::Conflict { .. }), "{error}"),
            }
        }
        true
    }
}

/// A history of one thread that plays all sessions in turn, the same for the same seed. Nobody waits.
fn interleaved_history(seed: Seed, shape: &Shape, settings: &Settings) -> Result<(), Violation> {
    let (database, table) = open(Settings { lock_wait: Duration::ZERO, ..settings.clone() });
    let recorder = Recorder::new();
    let sessions = shape.draw(seed);
    let mut players: Vec<_> = sessions
        .iter()
        .map(|programs| Player {
            session: database.session(),
            programs: programs.iter(),
            playing: None,
            savepoints: Savepoints::default(),
        })
        .collect();
    let mut random = seed.derive(1).generator();
    while !players.is_empty() {
        let player = random.usize(..players.len());
        if !players[player].play(table, &recorder) {
            players.swap_remove(player);
        }
    }
    drop(players);
    look_at_the_end(&database, table, shape.keys, &recorder);
    recorder.finish().check(level(settings.protocol))
}

/// Shapes that stress different things, by turns.
fn shape(seed: Seed) -> Shape {
    let shape = match seed.0 % 6 {
        0 => Shape::default(),
        1 => Shape { keys: 3, sessions: 4, ..Shape::default() },
        2 => Shape { keys: 4, sessions: 2, weights: [1, 1, 3, 3, 3], ..Shape::default() },
        // Some keys are read far more than written, so that their versions are valid for long.
        3 => Shape {
            keys: 4,
            sessions: 4,
            transactions: 6..=12,
            steps: 2..=3,
            weights: [5, 3, 0, 0, 0],
            snapshot_every: 2,
            ..Shape::default()
        },
        // Writes that are taken back, of keys that others write.
        4 => Shape {
            keys: 3,
            sessions: 4,
            transactions: 6..=12,
            steps: 1..=3,
            weights: [4, 3, 1, 1, 1],
            undo_every: 1,
            ..Shape::default()
        },
        _ => Shape { keys: 12, sessions: 3, weights: [2, 2, 1, 1, 4], steps: 2..=8, ..Shape::default() },
    };
    let snapshot_every = shape.snapshot_every.max([0, 3, 5][(seed.0 / 6 % 3) as usize]);
    let undo_every = shape.undo_every.max([0, 1, 2][(seed.0 / 18 % 3) as usize]);
    Shape { snapshot_every, undo_every, ..shape }
}

#[test]
fn sessions_whose_locks_last_until_they_are_durable_are_serializable() {
    let group = ishigaki_wal::Group { transactions: 3, ..Default::default() };
    for protocol in PROTOCOLS {
        let settings = under(protocol);
        let log = ishigaki_wal::Settings { group: group.clone(), ..settings.log };
        let settings = Settings { log, release: Release::Normal, ..settings };
        for history in [threaded_history, interleaved_history] {
            let name = "sessions_whose_locks_last_until_they_are_durable_are_serializable";
            seeded_runs(name, HISTORIES / 5, |seed| {
                let verdict = history(seed, &shape(seed), &settings);
                assert!(verdict.is_ok(), "{protocol}: {}", verdict.unwrap_err());
            });
        }
    }
}

/// Judges so many histories under each protocol.
fn every_protocol(name: &str, histories: u64, history: impl Fn(Seed, &Shape, &Settings) -> Result<(), Violation>) {
    for protocol in PROTOCOLS {
        seeded_runs(name, histories, |seed| {
            let verdict = history(seed, &shape(seed), &under(protocol));
            assert!(verdict.is_ok(), "{protocol}: {}", verdict.unwrap_err());
        });
    }
}

#[test]
fn threads_that_wait_for_each_other_are_serializable() {
    every_protocol("threads_that_wait_for_each_other_are_serializable", HISTORIES, threaded_history);
}

#[test]
#[ignore = "a hundred thousand histories take minutes"]
fn many_threads_that_wait_for_each_other_are_serializable() {
    every_protocol("many_threads_that_wait_for_each_other_are_serializable", MANY_HISTORIES, threaded_history);
}

#[test]
fn sessions_that_never_wait_are_serializable() {
    every_protocol("sessions_that_never_wait_are_serializable", HISTORIES, interleaved_history);
}

#[test]
#[ignore = "a hundred thousand histories take minutes"]
fn many_sessions_that_never_wait_are_serializable() {
    every_protocol("many_sessions_that_never_wait_are_serializable", MANY_HISTORIES, interleaved_history);
}

#[test]
fn without_range_protection_phantoms_are_found() {
    for protocol in PROTOCOLS {
        let unprotected = under(protocol).without_range_protection();
        let is_violated = |seed: &Seed| interleaved_history(*seed, &shape(*seed), &unprotected).is_err();
        let violated = (0..HISTORIES).map(Seed).find(is_violated);
        let seed = violated.expect("the checker must find a phantom when nothing protects against them");
        assert!(matches!(interleaved_history(seed, &shape(seed), &unprotected), Err(Violation::Cycle(_))));
        assert!(interleaved_history(seed, &shape(seed), &under(protocol)).is_ok());
    }
}

#[test]
fn without_range_protection_threads_see_phantoms_too() {
    for protocol in PROTOCOLS {
        let unprotected = under(protocol).without_range_protection();
        let violated = (0..HISTORIES).map(Seed).any(|seed| threaded_history(seed, &shape(seed), &unprotected).is_err());
        assert!(violated, "{protocol}: the checker must find a phantom when nothing protects against them");
    }
}

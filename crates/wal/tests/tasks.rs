//! Commits without a thread each: futures on one small executor, over every kind of log and rule.

mod trial;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_base::{Lsn, Position, StreamId};
use ishigaki_device::{Fault, MemoryDirectory};
use ishigaki_wal::{CommitRule, Dependencies, Error, Log, LogKind, Receipt, Settings};

use trial::Medium;

const KINDS: [LogKind; 3] = [LogKind::Parallel, LogKind::Serial, LogKind::Epoch { time: Duration::from_millis(2) }];

fn every_way(test: impl Fn(Settings)) {
    for kind in KINDS {
        for commit in [CommitRule::Watermark, CommitRule::Dependencies] {
            for (background, hold) in
                [(true, Settings::default().hold), (true, Duration::ZERO), (false, Duration::ZERO)]
            {
                test(Settings { kind, commit, background, hold, streams: 2, ..Settings::default() });
            }
        }
    }
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Tells the executor which task to poll.
struct Ready {
    task: usize,
    tell: Sender<usize>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        let _ = self.tell.send(self.task);
    }
}

/// Polls the tasks in this thread until all are done.
fn run(mut tasks: Vec<Task>) {
    let (tell, told): (_, Receiver<usize>) = channel();
    let wakers: Vec<Waker> =
        (0..tasks.len()).map(|task| Waker::from(Arc::new(Ready { task, tell: tell.clone() }))).collect();
    (0..tasks.len()).for_each(|task| tell.send(task).unwrap());
    let mut done = vec![false; tasks.len()];
    while done.iter().any(|done| !done) {
        let task = told.recv_timeout(Duration::from_secs(30)).expect("somebody is woken");
        if !done[task] {
            done[task] = tasks[task].as_mut().poll(&mut Context::from_waker(&wakers[task])) == Poll::Ready(());
        }
    }
}

#[test]
fn every_task_is_woken_when_its_record_and_what_it_depends_on_is_durable() {
    every_way(|settings| {
        let directory = Arc::new(MemoryDirectory::new());
        let (log, _) = Log::open(directory.clone(), settings.clone(), &mut |_, _| Ok(())).unwrap();
        let shared = std::rc::Rc::new(std::cell::Cell::new(Position::NONE));
        let tasks = (0..40_u8).map(|number| {
            let (log, stream, last, settings) = (log.clone(), log.assign(), shared.clone(), settings.clone());
            Box::pin(async move {
                for _ in 0..5 {
                    let mut dependencies = Dependencies::default();
                    dependencies.add(last.get());
                    let receipt = stream.append_after(&dependencies, &[number; 50]).unwrap();
                    last.set(receipt.position());
                    stream.pace_after(&receipt);
                    stream.settled(receipt.clone()).await.unwrap();
                    assert!(log.has_settled(&receipt), "{settings:?}");
                    // Who only reads waits for what was read.
                    stream.settled(Receipt::of_reader(dependencies)).await.unwrap();
                }
            }) as Task
        });
        run(tasks.collect());
        log.close().unwrap();
        let mut records = 0;
        let opened = Log::open(directory, settings.clone(), &mut |_, _| {
            records += 1;
            Ok(())
        });
        assert_eq!((opened.unwrap().1.cut, records), (Lsn(200), 200), "{settings:?}");
    });
}

#[test]
fn a_failed_write_wakes_every_task_with_the_error() {
    every_way(|settings| {
        for medium in Medium::ALL {
            let sim = medium.fresh(Seed(7));
            let directory = medium.directory(&sim).unwrap();
            let (log, _) = Log::open(directory, settings.clone(), &mut |_, _| Ok(())).unwrap();
            sim.inject(Fault::WriteError { nth: sim.writes() });
            let tasks = (0..10_u8).map(|number| {
                let stream = log.assign();
                Box::pin(async move {
                    // Where nobody could wait any more there is no record either.
                    let Ok(receipt) = stream.append_after(&Dependencies::default(), &[number; 50]) else { return };
                    let error = stream.settled(receipt).await.unwrap_err();
                    assert!(matches!(error, Error::Failed { .. }), "{error}");
                }) as Task
            });
            run(tasks.collect());
        }
    });
}

#[test]
fn closing_the_log_makes_durable_what_tasks_wait_for() {
    every_way(|settings| {
        let (log, _) = Log::open(Arc::new(MemoryDirectory::new()), settings, &mut |_, _| Ok(())).unwrap();
        let stream = log.assign();
        let receipt = stream.append_after(&Dependencies::default(), b"last words").unwrap();
        log.close().unwrap();
        run(vec![Box::pin(async move { stream.settled(receipt).await.unwrap() })]);
    });
}

#[test]
fn a_task_that_waits_for_a_record_that_is_not_there_is_told_so() {
    every_way(|settings| {
        let (log, _) = Log::open(Arc::new(MemoryDirectory::new()), settings, &mut |_, _| Ok(())).unwrap();
        let stream = log.assign();
        stream.append(b"there").unwrap();
        let positions = [(Lsn(2), 0), (Position::MAX_LSN, 0), (Lsn(1), 200)];
        run(positions
            .map(|(lsn, id)| {
                let (stream, mut missing) = (stream.clone(), Dependencies::default());
                missing.add(Position::new(lsn, StreamId(id)));
                Box::pin(async move {
                    let error = stream.settled(Receipt::of_reader(missing)).await.unwrap_err();
                    assert!(matches!(error, Error::Invalid { .. }), "{error}");
                }) as Task
            })
            .into());
    });
}

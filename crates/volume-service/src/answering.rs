//! Questions to a file system that may not answer: one of the network whose server is down, for example. The call does not return then, so it is made by a thread of its own, and
//! waited for only for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a file system may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// The same for the others, once one has not.
const SHORT: Duration = Duration::from_millis(100);

/// What a question has as its answer. One that takes longer is left to its thread.
///
/// # Errors
///
/// [`io::ErrorKind::TimedOut`] for that; where there is no thread, or it has panicked.
pub(crate) fn answered<T: Send + 'static>(
    patience: Duration,
    question: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    match answered_while_moving(patience, || 0, question)? {
        Moving::Done(answer) => Ok(answer),
        Moving::Silent(_) => {
            let reason = format!("its file system has not answered for {:.1} s; see to that", patience.as_secs_f64());
            Err(io::Error::new(io::ErrorKind::TimedOut, reason))
        }
    }
}

/// What has come of something that may take long.
pub(crate) enum Moving<T> {
    /// It has ended.
    Done(T),
    /// It has not, and stands still. Its thread may tell later.
    Silent(Receiver<T>),
}

/// What comes of something that may take long, as long as it goes on: `moved` is how far it is, and changes within `patience`.
///
/// # Errors
///
/// Where there is no thread, or it has panicked.
pub(crate) fn answered_while_moving<T: Send + 'static>(
    patience: Duration,
    moved: impl Fn() -> u64,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Moving<T>> {
    let (told, heard) = channel();
    let work = move || {
        // It may not be waited for any more.
        let _ = told.send(work());
    };
    Builder::new().name("volume-question".to_owned()).spawn(work)?;
    loop {
        let before = moved();
        match heard.recv_timeout(patience) {
            Ok(done) => return Ok(Moving::Done(done)),
            Err(RecvTimeoutError::Timeout) if moved() != before => {}
            Err(RecvTimeoutError::Timeout) => return Ok(Moving::Silent(heard)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the thread that asks its file system has panicked"));
            }
        }
    }
}

/// What has come of something that was done with each volume.
pub(crate) struct EachAnswered<T> {
    /// Of those that have.
    pub(crate) done: Vec<(String, T)>,
    /// Volumes for which it has not ended.
    pub(crate) silent: Vec<String>,
}

/// Does something with each of some volumes, with all at the same time, and waits for so long. What takes longer is left to its threads.
pub(crate) fn each_answered<V: Send + 'static, T: Send + 'static>(
    volumes: BTreeMap<String, V>,
    patience: Duration,
    work: impl Fn(&str, V) -> T + Clone + Send + 'static,
) -> EachAnswered<T> {
    let (told, heard) = channel();
    let mut silent: BTreeSet<_> = volumes.keys().cloned().collect();
    for (name, volume) in volumes {
        let (told, work, of) = (told.clone(), work.clone(), name.clone());
        let work = move || {
            let done = work(&of, volume);
            // It may not be waited for any more.
            let _ = told.send((of, done));
        };
        if let Err(error) = Builder::new().name("volume-ending".to_owned()).spawn(work) {
            tracing::error!(volume = name, %error, "there is no thread that ends the use of a volume");
        }
    }
    drop(told);
    let until = Instant::now() + patience;
    let mut done = Vec::new();
    while let Ok((name, one)) = heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
        silent.remove(&name);
        done.push((name, one));
    }
    EachAnswered { done, silent: silent.into_iter().collect() }
}

/// The same question about several volumes, again and again. One whose file system has not answered is left out until it has.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// Volumes whose file system has not answered yet.
    under_way: Arc<Mutex<BTreeSet<String>>>,
    /// One asks at a time, so that nothing is left out that is being answered.
    asking: Mutex<()>,
}

impl Questions {
    /// The answers, of those volumes whose file systems have answered within `patience`.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        names: impl Iterator<Item = String>,
        patience: Duration,
        question: impl Fn(&str) -> T + Clone + Send + 'static,
    ) -> Vec<(String, T)> {
        let _one = self.asking.lock();
        let (mut answers, mut patience) = (Vec::new(), patience);
        let left_out = self.under_way.lock().clone();
        let mut names: Vec<_> = names.filter(|name| !left_out.contains(name)).collect();
        while !names.is_empty() {
            let begun = answers.len();
            if !self.ask_some(&names, patience, question.clone(), &mut answers) {
                return answers;
            }
            names.drain(..answers.len() - begun);
            if let Some(silent) = names.first() {
                tracing::warn!(volume = silent, "the file system of a volume's file does not answer");
                names.remove(0);
                patience = patience.min(SHORT);
            }
        }
        answers
    }

    /// Asks about one after the other, until one is not answered. Whether there was a thread to ask.
    fn ask_some<T: Send + 'static>(
        &self,
        names: &[String],
        patience: Duration,
        question: impl Fn(&str) -> T + Send + 'static,
        answers: &mut Vec<(String, T)>,
    ) -> bool {
        let (told, heard) = channel();
        let (asked, under_way) = (names.to_vec(), self.under_way.clone());
        let work = move || {
            for name in asked {
                under_way.lock().insert(name.clone());
                let answer = question(&name);
                under_way.lock().remove(&name);
                if told.send((name, answer)).is_err() {
                    // It was not waited for, and the others were asked about by another thread.
                    return;
                }
            }
        };
        if let Err(error) = Builder::new().name("volume-question".to_owned()).spawn(work) {
            tracing::warn!(%error, "there is no thread that looks at the files of volumes");
            return false;
        }
        while let Ok(answer) = heard.recv_timeout(patience) {
            answers.push(answer);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn one_that_does_not_answer_is_left_out_until_it_does() {
        let questions = Questions::default();
        let is_shut = Arc::new(Mutex::new(()));
        let shut = is_shut.lock();
        let of = is_shut.clone();
        let question = move |name: &str| {
            if name.starts_with("hangs") {
                drop(of.lock());
            }
            name.len()
        };
        let ask = |patience| {
            let names = ["a", "hangs", "bb", "hangs too", "ccc"].map(str::to_owned);
            let answers = questions.ask(names.into_iter(), patience, question.clone());
            answers.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(ask(Duration::from_millis(200)), ["a", "bb", "ccc"]);
        let began = std::time::Instant::now();
        assert_eq!(ask(Duration::from_mins(1)), ["a", "bb", "ccc"]);
        assert!(began.elapsed() < Duration::from_secs(30), "they are waited for again");
        drop(shut);
        while ask(Duration::from_mins(1)).len() < 5 {
            assert!(began.elapsed() < Duration::from_mins(1), "they answer, and are still left out");
        }
    }

    #[test]
    fn what_goes_on_is_waited_for_and_what_stands_still_is_not() {
        let (moved, patience) = (Arc::new(AtomicU64::new(0)), Duration::from_millis(200));
        let (shut, opens) = channel::<()>();
        let now = || moved.load(Ordering::SeqCst);
        let counted = moved.clone();
        let work = move || {
            while counted.fetch_add(1, Ordering::SeqCst) < 30 {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = opens.recv();
            7
        };
        let Moving::Silent(heard) = answered_while_moving(patience, now, work).unwrap() else {
            panic!("it has not ended")
        };
        assert!(now() > 30, "it is waited for as long as it goes on");
        drop(shut);
        assert_eq!(heard.recv(), Ok(7));
        assert!(matches!(answered_while_moving(PATIENCE, || 0, || 8), Ok(Moving::Done(8))));
    }

    #[test]
    fn a_question_that_is_not_answered_is_waited_for_for_a_while() {
        assert_eq!(answered(PATIENCE, || 7).unwrap(), 7);
        let (answer, hangs) = channel::<()>();
        let error = answered(Duration::from_millis(50), move || hangs.recv()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(answer);
        assert!(answered(PATIENCE, || panic!("as it is to")).is_err());
    }
}

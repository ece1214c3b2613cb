//! Lets visitors of the control socket in, and answers them.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ishigaki_migrate::source::Cancel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Reply, Request};

/// Visitors at a time; the next one is hung up on.
const MOST: usize = 16;
/// Bytes of the longest question.
const LONGEST: u64 = 64 << 10;
/// How long a visitor may take for its next words.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon the end is noticed.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Answers visitors until it is cancelled, each in a thread of its own. While it rests, visitors wait outside. A reply of `None` ends the
/// conversation.
pub(crate) fn admit(
    listener: &UnixListener,
    cancel: &Cancel,
    rests: &AtomicBool,
    reply: &(impl Fn(Request, &UnixStream) -> Option<Reply> + Sync),
) {
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        while !cancel.is_cancelled() {
            if rests.load(Ordering::SeqCst) {
                cancel.wait(NAP);
                continue;
            }
            let mut polled = [PollFd::new(listener, PollFlags::IN)];
            if !matches!(poll(&mut polled, Some(&LOOK)), Ok(ready) if ready > 0) {
                continue;
            }
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => {
                    tracing::warn!(%error, "a visitor of the control socket could not be let in");
                    cancel.wait(PATIENCE);
                    continue;
                }
            };
            if inside.fetch_add(1, Ordering::SeqCst) >= MOST {
                inside.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let inside = &inside;
            scope.spawn(move || {
                if let Err(error) = serve(&stream, cancel, reply) {
                    tracing::debug!(%error, "a visitor of the control socket was not answered");
                }
                inside.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
}

/// How soon the end of a rest is noticed.
const NAP: Duration = Duration::from_millis(10);

/// Hears a visitor's questions and answers them.
fn serve(
    stream: &UnixStream,
    cancel: &Cancel,
    reply: &impl Fn(Request, &UnixStream) -> Option<Reply>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    while !cancel.is_cancelled() {
        let mut line = Vec::new();
        reader.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        let answer = match serde_json::from_slice(&line) {
            Ok(request) if line.ends_with(b"\n") => match reply(request, stream) {
                Some(answer) => answer,
                None => break,
            },
            Ok(_) => refused("the line has no end"),
            Err(error) => refused(&error.to_string()),
        };
        super::say(stream, &answer)?;
        // What follows a line that was too long is no question.
        if !line.ends_with(b"\n") {
            break;
        }
    }
    Ok(())
}

fn refused(why: &str) -> Reply {
    Reply::Refused { kind: ishigaki_base::ErrorKind::Invalid.to_string(), message: format!("no question: {why}") }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn questions_are_answered_line_by_line_and_what_is_none_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(place.path().join("socket")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (asked, cancel) = (AtomicU32::new(0), Cancel::new());
        let reply = |_, _: &UnixStream| {
            asked.fetch_add(1, Ordering::SeqCst);
            Some(Reply::Done {})
        };
        let rests = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| admit(&listener, &cancel, &rests, &reply));
            let stream = UnixStream::connect(place.path().join("socket")).unwrap();
            let mut lines = BufReader::new(&stream).lines();
            let mut ask = |question: &str| -> Reply {
                (&stream).write_all(question.as_bytes()).unwrap();
                serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
            };
            assert_eq!(ask("{\"pause\":{}}\n"), Reply::Done {});
            assert_eq!(ask("{\"throttle\":{\"bandwidth\":5}}\n"), Reply::Done {});
            for question in ["\n", "hello\n", "{}\n", "{\"status\":{\"more\":1}}\n", "{\"resolve\":{}}\n"] {
                let Reply::Refused { kind, message } = ask(question) else { panic!("{question}") };
                assert_eq!((kind.as_str(), message.starts_with("no question: ")), ("invalid", true), "{message}");
            }
            assert_eq!(asked.load(Ordering::SeqCst), 2);
            // A line that does not end is answered, and nothing behind it is read.
            let long = "x".repeat(LONGEST as usize);
            assert!(matches!(ask(&long), Reply::Refused { .. }));
            assert!(lines.next().is_none_or(|line| line.is_err()));
            cancel.cancel();
        });
    }
}

//! Questions to a service that has no ear for them at that moment.
//!
//! A service that ends because another takes its place, or that has too many visitors, closes a connection without reading from it.
//! The kernel tells that apart from an answer that does not come: the asking process gets `EPIPE` when it writes, or `ECONNRESET` when it reads, because
//! bytes lie there unread. Such a question was not taken, so it can be put again, whatever it asks for.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use ishigaki_base::ErrorKind;

/// For how long a question is put again.
const PATIENCE: Duration = Duration::from_secs(5);
const NAP: Duration = Duration::from_millis(20);

/// Puts a question, by a connection of its own each time, until a service has taken it.
///
/// # Errors
///
/// Those of `ask`; also that the question was not taken, after some seconds.
pub fn until_taken<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Err(error) if is_untaken(&error) && Instant::now() < until => thread::sleep(NAP),
            outcome => return outcome,
        }
    }
}

/// The kind of a refusal, as a service has written it; one that is not known may be tried again.
pub fn kind_of(word: &str) -> ErrorKind {
    let kinds = [
        ErrorKind::Conflict,
        ErrorKind::Invalid,
        ErrorKind::Exhausted,
        ErrorKind::Unavailable,
        ErrorKind::Corrupt,
        ErrorKind::Closed,
        ErrorKind::Cancelled,
    ];
    kinds.into_iter().find(|kind| kind.to_string() == word).unwrap_or(ErrorKind::Unavailable)
}

fn is_untaken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_question_that_was_not_read_is_put_again_and_one_that_was_read_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            // Closed before the question comes, or before it is read.
            for wait in [0, 50] {
                let (stream, _) = listener.accept().unwrap();
                thread::sleep(Duration::from_millis(wait));
                drop(stream);
            }
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(b"answer").unwrap();
            drop(stream);
            let (stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
        });
        let mut asked = 0;
        let mut ask = || {
            until_taken(|| {
                asked += 1;
                let mut stream = UnixStream::connect(&path)?;
                // So that the first is closed by then.
                thread::sleep(NAP);
                stream.write_all(b"question\n")?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer)?;
                Ok(answer)
            })
        };
        assert_eq!(ask().unwrap(), "answer");
        assert_eq!(ask().unwrap(), "", "it was read, and perhaps done");
        assert_eq!(asked, 4);
    }
}

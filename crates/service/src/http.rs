//! As much of HTTP/1.0 as a scraper needs: `GET /metrics`, one answer, and the connection's end.
//!
//! A request's body is not read, its fields are not looked at. What is longer than [`LONGEST`] or takes too long is not
//! answered with figures.

use std::io;

use crate::door::{PATIENCE, Stream, answer, dismiss, hear};

/// Bytes of the longest request.
const LONGEST: usize = 8 << 10;

/// What is asked for.
const PATH: &str = "/metrics";

const PLAIN: &str = "text/plain; charset=utf-8";
const FIGURES: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers one visitor.
pub fn serve(mut stream: impl Stream, figures: impl FnOnce() -> String) {
    let response = match hear(&mut stream, LONGEST, PATIENCE, is_whole) {
        Ok(request) => respond(&request, figures),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            response("431 Request Header Fields Too Large", PLAIN, "the request is too long\n", "")
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            response("408 Request Timeout", PLAIN, "the request took too long\n", "")
        }
        Err(error) => {
            tracing::debug!(%error, "a scraper has gone");
            return;
        }
    };
    let is_heard_out = !response.starts_with("HTTP/1.0 431");
    let said = answer(&mut stream, response.as_bytes());
    if let Err(error) = said.and_then(|()| if is_heard_out { Ok(()) } else { dismiss(&mut stream) }) {
        tracing::debug!(%error, "a scraper was not answered");
    }
}

/// Whether the empty line that ends a request's head is there.
fn is_whole(heard: &[u8]) -> bool {
    heard.windows(4).any(|bytes| bytes == b"\r\n\r\n") || heard.windows(2).any(|bytes| bytes == b"\n\n")
}

fn respond(request: &[u8], figures: impl FnOnce() -> String) -> String {
    let line = request.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = str::from_utf8(line).map(|line| line.trim_end_matches('\r').split(' ').collect::<Vec<_>>());
    let Ok([method, target, version]) = line.as_deref() else {
        return response("400 Bad Request", PLAIN, "this is no request\n", "");
    };
    if !version.starts_with("HTTP/1.") || !is_whole(request) {
        return response("400 Bad Request", PLAIN, "this is no request of HTTP/1\n", "");
    }
    let path = target.split('?').next().unwrap_or_default();
    match (path, *method) {
        (PATH, "GET") => response("200 OK", FIGURES, &figures(), ""),
        (PATH, "HEAD") => {
            let whole = response("200 OK", FIGURES, &figures(), "");
            let head = whole.find("\r\n\r\n").map_or(whole.len(), |end| end + 4);
            whole[..head].to_owned()
        }
        (PATH, _) => response("405 Method Not Allowed", PLAIN, "only GET and HEAD\n", "Allow: GET, HEAD\r\n"),
        _ => response("404 Not Found", PLAIN, "there is only /metrics\n", ""),
    }
}

fn response(status: &str, kind: &str, body: &str, more: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n{more}\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &[u8]) -> String {
        let response = respond(request, || "figures".to_owned());
        response.split("\r\n").next().unwrap().to_owned()
    }

    #[test]
    fn figures_are_given_to_who_asks_as_one_should() {
        let response = respond(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n", || "figures\n".to_owned());
        assert!(response.starts_with("HTTP/1.0 200 OK\r\n"), "{response}");
        assert!(response.ends_with("Content-Length: 8\r\nConnection: close\r\n\r\nfigures\n"), "{response}");
        let head = respond(b"HEAD /metrics HTTP/1.0\r\n\r\n", || "figures\n".to_owned());
        assert!(head.ends_with("Content-Length: 8\r\nConnection: close\r\n\r\n"), "{head}");
        assert_eq!(status(b"GET /metrics?x=1 HTTP/1.0\n\n"), "HTTP/1.0 200 OK");
    }

    #[test]
    fn others_are_told_what_is_wrong() {
        for (request, code) in [
            (&b""[..], "400"),
            (b"\r\n\r\n", "400"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"GET /metrics HTTP/2\r\n\r\n", "400"),
            (b"GET /metrics HTTP/1.1\r\nHost: cut off", "400"),
            (b"GET  /metrics HTTP/1.1\r\n\r\n", "400"),
            (b"\xff\xfe /metrics HTTP/1.1\r\n\r\n", "400"),
            (b"GET / HTTP/1.1\r\n\r\n", "404"),
            (b"GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ] {
            assert!(status(request).contains(code), "{}: {}", request.escape_ascii(), status(request));
        }
    }
}

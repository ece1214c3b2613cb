//! What Prometheus gets.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use super::site::Site;
use super::{commit, member};
use crate::served::can_mount;

/// The answer to a request, head and body.
fn ask(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// Reads the text format: every sample by its name with labels; what is not as it should be panics.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let (mut types, mut samples) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a kind");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(types.insert(name, kind).is_none(), "twice: {line}");
        } else if !line.starts_with("# HELP ") {
            let (sample, value) = line.rsplit_once(' ').expect("a value");
            let name = sample.split('{').next().expect("a name");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let kind = family.and_then(|family| types.get(family)).or_else(|| types.get(name));
            assert!(kind.is_some(), "no type: {line}");
            assert_eq!(*kind.unwrap() == "counter", name.ends_with("_total"), "{line}");
            assert!(samples.insert(sample.to_owned(), value.parse().expect("a number")).is_none(), "twice: {line}");
        }
    }
    samples
}

#[test]
fn metrics_are_those_of_the_status_and_can_be_read_by_prometheus() {
    if !can_mount("metrics_are_those_of_the_status_and_can_be_read_by_prometheus") {
        return;
    }
    let site = Site::new(&["orders", "idle"]);
    let members = ["orders", "idle"].map(|name| format!("{name}:generic:{}", site.path(name).display()));
    let service = site.serve(&["--member", &members[0], "--member", &members[1], "--metrics", "0"]);
    commit(&site.path("orders").join("log"), 40);
    let address = service.told["metrics"].as_str().expect("an address");
    let address = address.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.strip_suffix("/metrics"));
    let address = format!("127.0.0.1:{}", address.expect("this host alone, unless told"));

    let (head, body) = ask(&address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(head.starts_with("HTTP/1.0 200 OK") && head.contains("version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    let samples = parse(&body);
    let status = site.status();
    let of = |name: &str| samples[&format!("ishigaki_pool_member_{name}{{member=\"orders\"}}")];
    for (metric, key) in
        [("commits_total", "commits"), ("written_bytes_total", "written_bytes"), ("logged_bytes_total", "logged_bytes")]
    {
        assert_eq!(Some(of(metric)), member(&status, "orders")[key].as_f64(), "{metric}");
    }
    assert!((of("mounted"), of("failed")) == (1.0, 0.0) && of("commits_total") >= 40.0);
    let prefix = "ishigaki_pool_member_commit_seconds_bucket{member=\"orders\",le=\"";
    let mut buckets: Vec<(f64, f64)> = samples
        .iter()
        .filter_map(|(name, count)| {
            let end = name.strip_prefix(prefix)?.strip_suffix("\"}")?;
            Some((end.parse().expect("a number"), *count))
        })
        .collect();
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert!(buckets.is_sorted_by(|one, other| one.1 <= other.1), "{buckets:?}");
    assert_eq!(buckets.last(), Some(&(f64::INFINITY, of("commit_seconds_count"))));
    assert!((of("commit_seconds_count") - of("commits_total")).abs() < f64::EPSILON);
    assert!(of("commit_seconds_sum") > 0.0);

    for (request, code) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "404"),
        ("DELETE /metrics HTTP/1.1\r\n\r\n".to_owned(), "405"),
        ("hello\r\n\r\n".to_owned(), "400"),
        (format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(8 << 10)), "431"),
    ] {
        let (head, body) = ask(&address, &request);
        assert!(head.starts_with(&format!("HTTP/1.0 {code}")) && !body.contains("ishigaki"), "{code}: {head}");
    }
    service.ends_by("TERM");
    assert!(TcpStream::connect(&address).is_err());
}

//! What the transports do on this host: round trips of a message, and 4 KiB writes that complete requests.
//!
//! `cargo run --release -p ishigaki-fabric --example transports -- tcp ofi:tcp ofi:shm`
//!
//! The other end is a process of its own. The transports take turns, three rounds of each, and the median is told.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_device::AlignedBuffer;
use ishigaki_fabric::{
    Call, Caller, Endpoint, Error, Event, Fabric, Libfabric, Listener, Outgoing, RegionKey, Result, Security, Settings,
    Target, Wait, connect,
};

/// Of a page.
const PAGE: usize = 4096;

/// Requests in flight when many are.
const DEPTH: usize = 64;

/// How long one measurement takes.
const TIME: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, fabric] = &words[..]
        && serve == "serve"
    {
        return listen(fabric);
    }
    let own = std::env::current_exe().map_err(invalid)?;
    let words =
        if words.is_empty() { vec!["tcp".to_owned(), "ofi:tcp".to_owned(), "ofi:shm".to_owned()] } else { words };
    let mut fabrics = words.iter().map(|word| word.parse()).collect::<Result<Vec<Fabric>>>()?;
    let known = Libfabric::probe()?;
    fabrics.retain(|fabric| is_here(fabric, known.as_ref()));
    let mut seen = vec![(Vec::new(), Vec::new()); fabrics.len()];
    for _ in 0..3 {
        for (fabric, (trips, writes)) in fabrics.iter().zip(&mut seen) {
            let mut server = Command::new(&own)
                .args(["serve", &fabric.to_string()])
                .stdout(Stdio::piped())
                .spawn()
                .map_err(invalid)?;
            let mut address = String::new();
            if let Some(output) = server.stdout.take() {
                BufReader::new(output).read_line(&mut address).map_err(invalid)?;
            }
            let settings = Settings { fabric: fabric.clone(), ..Settings::default() };
            let caller = Caller::new(connect(address.trim(), &settings, &Security::Open)?, Duration::from_secs(10));
            trips.push(round_trip(&caller)?);
            writes.push(writes_per_second(&caller)?);
            caller.close();
            server.wait().map_err(invalid)?;
        }
    }
    println!("{:<16} {:>14} {:>20}", "transport", "round trip", "4 KiB writes, 64 deep");
    for (fabric, (mut trips, mut writes)) in fabrics.iter().zip(seen) {
        trips.sort_by(f64::total_cmp);
        writes.sort_by(f64::total_cmp);
        println!("{:<16} {:>11.1} us {:>18.0}/s", fabric.to_string(), trips[1], writes[1]);
    }
    Ok(())
}

/// Whether this host has the transport; if not, says so.
fn is_here(fabric: &Fabric, known: Option<&Libfabric>) -> bool {
    let Fabric::Libfabric { provider } = fabric else { return true };
    match known {
        None => println!("SKIPPED: {fabric}: there is no libfabric on this host (Debian: libfabric1)"),
        Some(known) if known.has(provider) => return true,
        Some(_) => println!("SKIPPED: {fabric}: libfabric has no provider {provider} here"),
    }
    false
}

/// The other process: serves one connection.
fn listen(fabric: &str) -> Result<()> {
    let settings = Settings { fabric: fabric.parse()?, ..Settings::default() };
    let listener = Listener::bind("127.0.0.1:0", settings, Security::Open)?;
    println!("{}", listener.address());
    if let Some(arrival) = listener.accept()? {
        serve(&*arrival.greet(|| true)?);
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn invalid(error: std::io::Error) -> Error {
    Error::Invalid { reason: error.to_string() }
}

/// Answers an empty message with an empty message, and a region's key with a page that is written there.
fn serve(endpoint: &dyn Endpoint) {
    let (page, mut events) = ([7; PAGE], Vec::new());
    while endpoint.receive(&mut events, Wait::Until(Instant::now() + Duration::from_secs(10))).is_ok() {
        let answer = |event: &Event| match event {
            Event::Request { id, bytes } => match bytes[..].try_into() {
                Ok(key) => {
                    let target = Target { key: RegionKey(key), offset: 0 };
                    Some(Outgoing::Write { id: *id, target, bytes: &page, completes: Some(1) })
                }
                Err(_) => Some(Outgoing::Reply { id: *id, credits: 1, bytes: b"" }),
            },
            _ => None,
        };
        let answers: Vec<_> = events.iter().filter_map(answer).collect();
        if endpoint.send(&answers).is_err() {
            return;
        }
        events.clear();
    }
}

/// In microseconds.
fn round_trip(caller: &Arc<Caller>) -> Result<f64> {
    let (begin, mut count) = (Instant::now(), 0_u32);
    while begin.elapsed() < TIME {
        caller.call(&Call::message(b"?"))?;
        count += 1;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(count))
}

fn writes_per_second(caller: &Arc<Caller>) -> Result<f64> {
    let register = |_| caller.endpoint().register(AlignedBuffer::zeroed(PAGE));
    let regions = (0..DEPTH).map(register).collect::<Result<Vec<_>>>()?;
    let calls: Vec<_> = regions.iter().enumerate().map(|(at, region)| (at, region.key(), region.clone())).collect();
    let (begin, mut count) = (Instant::now(), 0_usize);
    let mut pending = Vec::new();
    let submit = |at: usize, pending: &mut Vec<_>| -> Result<()> {
        let (token, key, region) = &calls[at];
        let call = Call { region: Some(region.clone()), token: *token as u64, ..Call::message(&key.0) };
        pending.extend(caller.submit(std::slice::from_ref(&call))?);
        Ok(())
    };
    (0..DEPTH).try_for_each(|at| submit(at, &mut pending))?;
    let mut done = Vec::new();
    while begin.elapsed() < TIME {
        caller.wait_any(&mut pending, &mut done)?;
        count += done.len();
        for (token, _) in done.drain(..) {
            submit(token as usize, &mut pending)?;
        }
    }
    while !pending.is_empty() {
        caller.wait_any(&mut pending, &mut done)?;
    }
    for region in &regions {
        assert!(region.memory().is_some_and(|memory| memory.iter().all(|&byte| byte == 7)), "the page is there");
    }
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

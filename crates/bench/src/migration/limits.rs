//! What the link and the disk can do by themselves: no migration is faster.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{LIMIT, Running, case, io};
use crate::{Error, Latencies, Line, Metric, Result};

/// Bytes that are sent over the link in a round, and written to the disk.
const BYTES: usize = 64 << 20;
/// Round trips of a byte in a round.
const TRIPS: usize = 200;

/// A program on the other host that has connected to this one; killed when this is dropped.
struct Peer {
    child: Child,
    stream: TcpStream,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::Process { what: "the other end of the link", reason: error.to_string() }
}

impl Running<'_> {
    pub(super) fn limits(&self) -> Result<Vec<Line>> {
        let stay = self.server.stay_here()?;
        let (mut bandwidths, mut trips, mut disks) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.settings.rounds {
            bandwidths.push(self.bandwidth().map_err(|error| failed(&error))?);
            trips.push(self.round_trip().map_err(|error| failed(&error))?);
            disks.push(self.disk()?);
        }
        drop(stay);
        let line =
            |of: &str, metric, values| Line::new(LIMIT, case(json!({"of": of})), metric, values, &self.settings.origin);
        Ok(vec![
            line("link", Metric::Bandwidth, bandwidths),
            line("link", Metric::LatencyP50, trips),
            line("disk", Metric::Bandwidth, disks),
        ])
    }

    /// What runs there has its end of a connection as its descriptor 3.
    fn peer(&self, program: &str) -> std::io::Result<Peer> {
        let (words, here) = self.server.there();
        let listener = TcpListener::bind((here, 0))?;
        let port = listener.local_addr()?.port();
        let script = format!("exec 3<>/dev/tcp/{here}/{port} || exit; {program}");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["setpriv", "--pdeathsig", "KILL", "bash", "-c", &script]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        listener.set_nonblocking(true)?;
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
            if let Some(status) = child.try_wait()? {
                return Err(std::io::Error::other(format!("it has not connected: {status}")));
            }
        };
        stream.set_nonblocking(false)?;
        Ok(Peer { child, stream })
    }

    /// Bytes a second from there to here.
    fn bandwidth(&self) -> std::io::Result<f64> {
        let mut peer = self.peer(&format!("head -c {BYTES} /dev/zero >&3"))?;
        let mut buffer = vec![0; 1 << 20];
        let began = Instant::now();
        let mut bytes = 0;
        while let count @ 1.. = peer.stream.read(&mut buffer)? {
            bytes += count;
        }
        Ok(bytes as f64 / began.elapsed().as_secs_f64())
    }

    /// The time until a byte has come back, which half of them stay within.
    fn round_trip(&self) -> std::io::Result<f64> {
        let mut peer = self.peer("exec cat <&3 >&3")?;
        peer.stream.set_nodelay(true)?;
        let mut latencies = Latencies::new();
        for _ in 0..TRIPS {
            let began = Instant::now();
            peer.stream.write_all(b"x")?;
            peer.stream.read_exact(&mut [0])?;
            latencies.record(began.elapsed());
        }
        Ok(latencies.quantile(0.5))
    }

    /// Bytes a second that are written to a file in the destinations' place, and durable.
    fn disk(&self) -> Result<f64> {
        let path = self.scratch.join("written");
        let bytes = vec![0x55; 1 << 20];
        let began = Instant::now();
        let mut file = File::create(&path).map_err(|source| io(&path, "making", source))?;
        let written = (0..BYTES >> 20).try_for_each(|_| file.write_all(&bytes)).and_then(|()| file.sync_all());
        written.map_err(|source| io(&path, "writing", source))?;
        let time = began.elapsed();
        std::fs::remove_file(&path).map_err(|source| io(&path, "removing", source))?;
        Ok(BYTES as f64 / time.as_secs_f64())
    }
}

//! A longer way to a server: a relay of TCP connections that keeps all bytes for a while, in both directions.
//!
//! Kernels without `sch_netem` can not delay packets. The relay has no window: as many bytes may be on the way as come, as on a link whose ends have
//! large buffers. It runs in this process, and takes its processors.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Bytes that are kept as one.
const CHUNK: usize = 64 << 10;
/// Chunks of a direction that are on the way, at most.
const ON_THE_WAY: usize = 1024;

/// Connections that are made to it go on to a server, later.
#[derive(Debug)]
pub(super) struct Relay {
    port: u16,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Relay {
    /// To a server, with half of a round trip in each direction.
    pub(super) fn start(server: SocketAddr, round_trip: Duration) -> Result<Self> {
        let failed = |error: std::io::Error| Error::Process { what: "a longer link", reason: error.to_string() };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let acceptor = thread::spawn(move || {
            for client in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                // A connection that can not be made is closed, which its client sees.
                let _ = client.and_then(|client| join(client, TcpStream::connect(server)?, round_trip / 2));
            }
        });
        Ok(Self { port, stop, acceptor: Some(acceptor) })
    }

    /// Of this host.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the acceptor. The threads of a connection end with it.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn join(client: TcpStream, server: TcpStream, delay: Duration) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    for (from, to) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
        let (sender, receiver) = sync_channel(ON_THE_WAY);
        thread::spawn(move || take(from, &sender));
        thread::spawn(move || give(to, &receiver, delay));
    }
    Ok(())
}

fn take(mut from: TcpStream, sender: &SyncSender<(Instant, Vec<u8>)>) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        if sender.send((Instant::now(), chunk[..count].to_vec())).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Read);
}

fn give(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>, delay: Duration) {
    for (came, chunk) in receiver {
        thread::sleep((came + delay).saturating_duration_since(Instant::now()));
        if to.write_all(&chunk).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_come_in_their_order_and_none_before_a_round_trip() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listens");
        let round_trip = Duration::from_millis(40);
        let relay = Relay::start(server.local_addr().expect("an address"), round_trip).expect("starts");
        let echo = thread::spawn(move || {
            let (mut stream, _) = server.accept().expect("accepts");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("reads");
            stream.write_all(&bytes).expect("writes");
        });
        let began = Instant::now();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).expect("connects");
        let sent: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        client.write_all(&sent).expect("writes");
        client.shutdown(Shutdown::Write).expect("shuts");
        let mut got = Vec::new();
        client.read_to_end(&mut got).expect("reads");
        assert!(got == sent && began.elapsed() >= round_trip, "{} bytes", got.len());
        echo.join().expect("ends");
    }
}

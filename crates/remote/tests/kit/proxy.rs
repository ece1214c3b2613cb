//! Between a client and its node: answers can be held back, and connections cut.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// Passes bytes on in both directions. Connections are numbered as they come; a client that keeps copies has its watch first.
pub(crate) struct Proxy {
    pub(crate) address: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    /// Answers are held back on all connections but the first.
    holds: bool,
    connections: Vec<Connection>,
}

struct Connection {
    sides: [TcpStream; 2],
    /// Bytes of the client's since answers are held back.
    asked: usize,
}

impl Proxy {
    pub(crate) fn to(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address").to_string();
        let shared = Arc::<Shared>::default();
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, node) = (client.expect("accepted"), TcpStream::connect(node).expect("connected"));
                let clone = |stream: &TcpStream| stream.try_clone().expect("cloned");
                let mut state = accepting.state.lock().expect("no panic");
                let number = state.connections.len();
                state.connections.push(Connection { sides: [clone(&client), clone(&node)], asked: 0 });
                let (there, back) = ((clone(&client), clone(&node)), (node, client));
                for (is_answer, (from, to)) in [(false, there), (true, back)] {
                    let shared = Arc::clone(&accepting);
                    std::thread::spawn(move || shared.pass(number, is_answer, from, to));
                }
            }
        });
        Self { address, shared }
    }

    /// Holds answers back from now on.
    pub(crate) fn hold(&self) {
        let mut state = self.shared.state.lock().expect("no panic");
        state.holds = true;
        state.connections.iter_mut().for_each(|connection| connection.asked = 0);
    }

    pub(crate) fn release(&self) {
        self.shared.state.lock().expect("no panic").holds = false;
        self.shared.released.notify_all();
    }

    /// Cuts the connections by which something was asked since answers are held back; how many.
    pub(crate) fn cut_asked(&self) -> usize {
        let state = self.shared.state.lock().expect("no panic");
        let asked: Vec<_> = state.connections.iter().skip(1).filter(|connection| connection.asked > 0).collect();
        for side in asked.iter().flat_map(|connection| &connection.sides) {
            // It may have ended with the other one already.
            let _ = side.shutdown(Shutdown::Both);
        }
        asked.len()
    }
}

impl Shared {
    fn pass(&self, number: usize, is_answer: bool, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = vec![0; 65536];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            let mut state = self.state.lock().expect("no panic");
            if !is_answer {
                state.connections[number].asked += length;
            }
            while is_answer && state.holds && number > 0 {
                state = self.released.wait(state).expect("no panic");
            }
            drop(state);
            if to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        // The other side may be gone already.
        let _ = to.shutdown(Shutdown::Write);
    }
}

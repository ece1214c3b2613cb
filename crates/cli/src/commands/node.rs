//! `ishigaki node`: a storage node, until somebody ends it.

use std::io;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_fabric::Fabric;
use ishigaki_remote::{Access, Credentials, Export, Location, Mode, NodeSettings, Status, StorageNode, Worker};
use ishigaki_scan::{FragmentWorker, WorkerSettings};
use serde_json::{Value, json};

use super::ends::{Ends, say};
use super::parse_seconds;
use crate::failure::Failure;
use crate::human;

const EXAMPLES: &str = "\
Examples:
  ishigaki node --data /srv/pages                                 for this user alone, at 127.0.0.1:7117
  head -c 32 /dev/urandom | base64 > token
  ishigaki node --data /srv/pages --listen 0.0.0.0:7117 --token-file token    for others who have the token
  ishigaki node --data /srv/pages --listen 127.0.0.1:0 --json     any free port, told on stdout
  ishigaki media probe 'node://10.0.0.7:7117/tables?token-file=token'         use it, here from another host";

/// How long requests that were taken may go on when the node is to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serve the files of a folder to other hosts
///
/// Others name it node://HOST:PORT/DIRECTORY wherever a directory can be given. Ctrl-C or SIGTERM ends it: what was taken is
/// done and answered; a second one ends it at once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The folder; clients get no further
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Where to listen; port 0 takes one that is free. Without --token-file or certificates, an address of this host alone
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7117")]
    listen: String,

    /// Clients may read and change nothing
    #[arg(long)]
    read_only: bool,

    /// How files are read: ring (many at once by `io_uring`), static (a pool of threads for each connection), dynamic (a
    /// thread for each request)
    #[arg(long, value_name = "WAY", default_value_t)]
    io: Mode,

    #[command(flatten)]
    files: Files,

    /// What carries the bytes of clients that ask for it, beside TCP: ofi:PROVIDER, a provider of libfabric as `ishigaki media
    /// probe --fabric` lists them. They write fabric=ofi:PROVIDER behind the location's `?`. What travels by it is not encrypted
    #[arg(long, value_name = "NAME", default_value_t)]
    fabric: Fabric,

    /// Connections at a time; who comes later is told so
    #[arg(long, value_name = "NUMBER", default_value_t = 1024)]
    max_connections: usize,

    /// What all connections may have in memory together: a quarter each for their own buffers, for bytes that are being read,
    /// for those that are to be written, and for results that clients have not asked for. What finds no room waits, or is
    /// refused and done by the client itself
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: ByteSize,

    /// Bytes that are being read for one connection at a time
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    max_memory: ByteSize,

    /// Requests of one connection that may be unanswered
    #[arg(long, value_name = "NUMBER", default_value_t = 128)]
    max_requests: u16,

    /// Threads of each connection's pool
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    threads: usize,

    /// How long clients may use copies after they were last heard of, and a write waits for one that is gone
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_seconds)]
    lease: Duration,

    /// Note each read of clients in this file: offset, length and name, a line each; for doing the same reads again
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    #[command(flatten)]
    fragments: Fragments,

    #[cfg(feature = "cluster")]
    #[command(flatten)]
    executor: super::executor::ExecutorArguments,

    /// Print one JSON object when it serves and one when it has ended, and nothing else on stdout
    #[arg(long)]
    json: bool,
}

/// What the node does beside serving files.
#[derive(Debug, Args)]
struct Fragments {
    /// Do no work of clients' scans: pages travel to them instead
    #[arg(long)]
    no_work: bool,

    /// Bytes that the work of all clients may use at a time
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    work_memory: ByteSize,

    /// Bytes of pages that are kept for the work of clients
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    page_memory: ByteSize,

    /// How long a piece of work may take, with the time that its client takes for results
    #[arg(long, value_name = "S", default_value = "900", value_parser = parse_seconds)]
    work_time: Duration,
}

/// What node and clients show each other.
#[derive(Debug, Args)]
struct Files {
    /// Let every user and program of this host in, without a token. Otherwise clients must show the one in the folder's file
    /// ishigaki-token, which is made for this user alone
    #[arg(long, conflicts_with_all = ["token_file", "tls_ca", "tls_cert", "tls_key"])]
    open_to_this_host: bool,

    /// A file with the secret that clients must have, too: 16 bytes at least
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// For TLS: certificates of the authorities that clients' certificates must come from (PEM)
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// For TLS: the node's own certificate (PEM)
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// For TLS: its private key (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { data, listen, read_only, io, files, json, .. } = arguments;
    let Files { open_to_this_host, token_file, tls_ca, tls_cert, tls_key } = files;
    let given =
        Credentials::of(token_file, tls_ca, tls_cert, tls_key).map_err(|error| Failure::usage(error.to_string()))?;
    let credentials = match given {
        Credentials::None if !open_to_this_host && is_of_this_host(&listen) && data.is_dir() => own(&data)?,
        given => given,
    };
    let security = credentials.security().map_err(failed)?;
    let (defaults, fabric) = (NodeSettings::default(), arguments.fabric);
    let settings = NodeSettings {
        listen,
        access: if read_only { Access::ReadOnly } else { Access::ReadWrite },
        mode: io,
        threads: arguments.threads,
        connections: arguments.max_connections,
        arrivals: defaults.arrivals,
        memory: arguments.memory,
        connection_memory: arguments.max_memory,
        lease: arguments.lease,
        trace: arguments.trace,
        fabric: ishigaki_fabric::Settings { window: arguments.max_requests, fabric: fabric.clone(), ..defaults.fabric },
    };
    // Before anybody can know of the node, so that no signal finds it unprepared.
    let ends = Ends::new(1)?;
    let worker =
        worker(&arguments.fragments).map_err(|error| Failure::invalid(format!("no threads for work: {error}")))?;
    let export = Export::Folder(data.clone());
    let node = StorageNode::start_with(&export, settings, security, worker).map_err(failed)?;
    #[cfg(feature = "cluster")]
    let executor = arguments.executor.start(node.address())?;
    let serving = Serving { node: &node, data: &data, read_only, credentials: &credentials, fabric: &fabric };
    say(&if json { serving.json().to_string() } else { serving.text() })?;
    ends.wait();
    if !json {
        say("ending: what was taken is still done; once more ends it at once")?;
    }
    // Its tasks need the node.
    #[cfg(feature = "cluster")]
    let orders = executor.map(super::executor::Running::end);
    #[cfg(not(feature = "cluster"))]
    let orders = None;
    let status = node.stop(PATIENCE);
    say(&if json { ended_json(&status, orders).to_string() } else { ended_text(&status) })
}

/// Who does clients' work, if anybody is to.
fn worker(given: &Fragments) -> io::Result<Option<Arc<dyn Worker>>> {
    if given.no_work {
        return Ok(None);
    }
    let settings = WorkerSettings {
        memory: given.work_memory,
        page_memory: given.page_memory,
        longest: given.work_time,
        ..WorkerSettings::default()
    };
    Ok(Some(Arc::new(FragmentWorker::new(settings)?)))
}

/// The token in the folder, made at the first start.
fn own(data: &Path) -> Result<Credentials, Failure> {
    Credentials::own(data).map_err(|error| {
        let reason =
            format!("{error}; or give --token-file FILE, or --open-to-this-host to let every user of this host in");
        Failure::of(error.kind(), reason).without_hint()
    })
}

/// Whether only this host reaches an address. What is none is refused where it is listened at, and so is one that others reach.
fn is_of_this_host(listen: &str) -> bool {
    listen
        .to_socket_addrs()
        .is_ok_and(|mut addresses| addresses.all(|address| address.ip().to_canonical().is_loopback()))
}

fn failed(error: ishigaki_remote::Error) -> Failure {
    Failure::of(error.kind(), error).without_hint()
}

/// What a node that has begun tells of itself.
struct Serving<'a> {
    node: &'a StorageNode,
    data: &'a Path,
    read_only: bool,
    credentials: &'a Credentials,
    fabric: &'a Fabric,
}

impl Serving<'_> {
    fn text(&self) -> String {
        let address = self.node.address();
        let whom = match self.credentials {
            Credentials::None => "every user and program of this host, without authentication",
            Credentials::Token(_) => "who has the token; nothing is encrypted",
            Credentials::Tls { .. } => "who has a certificate, by TLS",
        };
        let how = if self.read_only { "reading" } else { "reading and writing" };
        let also = match self.fabric {
            Fabric::Tcp => String::new(),
            fabric @ Fabric::Libfabric { .. } => {
                format!(", and node://{address}/?fabric={fabric} for bytes by that, which are not encrypted")
            }
        };
        format!(
            "Serving {} for {how} ({}), to {whom}.\nIts name is {}{also}; Ctrl-C ends it.",
            self.data.display(),
            self.node.mode(),
            self.location()
        )
    }

    /// As clients name it.
    fn location(&self) -> Location {
        let credentials = match self.credentials {
            token @ Credentials::Token(_) => token.clone(),
            // Clients have certificates of their own.
            Credentials::None | Credentials::Tls { .. } => Credentials::None,
        };
        Location::new(self.node.address().to_string(), credentials)
    }

    fn json(&self) -> Value {
        let address = self.node.address();
        json!({
            "node": address.to_string(),
            "location": self.location().to_string(),
            "port": address.port(),
            "data": self.data.display().to_string(),
            "access": if self.read_only { "read-only" } else { "read-write" },
            "io": self.node.mode().to_string(),
            "fabric": self.fabric.to_string(),
            "security": self.credentials.to_string(),
            "pid": std::process::id(),
        })
    }
}

fn ended_text(status: &Status) -> String {
    format!(
        "Ended after {}: {}, {} read, {} written, {} of results.",
        human::duration(Duration::from_nanos(status.uptime_nanos)),
        human::counted(status.requests, "request"),
        ByteSize(status.bytes_read),
        ByteSize(status.bytes_written),
        ByteSize(status.bytes_of_results)
    )
}

/// `orders`: how many fragments this node and others did for the executor here.
fn ended_json(status: &Status, orders: Option<(u64, u64)>) -> Value {
    let mut ended = json!({
        "ended": true,
        "seconds": status.uptime_nanos as f64 / 1e9,
        "requests": status.requests,
        "bytes_read": status.bytes_read,
        "bytes_written": status.bytes_written,
        "bytes_of_results": status.bytes_of_results,
    });
    if let Some((here, elsewhere)) = orders {
        ended["fragments_here"] = here.into();
        ended["fragments_elsewhere"] = elsewhere.into();
    }
    ended
}

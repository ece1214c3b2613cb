//! Servers of one kind each, and connections to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ishigaki_device::AlignedBuffer;
use ishigaki_fabric::{
    Caller, Endpoint, Event, Fabric, Libfabric, Listener, Outgoing, Region, RegionKey, Security, Settings, Target, Tls,
    TlsFiles, Token, Wait, connect,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// A deadline that no test should reach.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// What a server does with what it hears.
pub(crate) type Serve = fn(&Arc<dyn Endpoint>, &AtomicUsize);

/// A server in a thread. Dropping it ends its connections.
pub(crate) struct Server {
    pub(crate) address: String,
    listener: Arc<Listener>,
    heard: Arc<AtomicUsize>,
    connections: Arc<std::sync::Mutex<Vec<Arc<dyn Endpoint>>>>,
}

impl Server {
    /// One that serves each connection in a thread of its own.
    pub(crate) fn with(kind: impl Into<Kind>, settings: &Settings, serve: Serve) -> Self {
        let kind = kind.into();
        let settings = Settings { fabric: kind.fabric, ..settings.clone() };
        let listener = Arc::new(Listener::bind("127.0.0.1:0", settings, kind.security).expect("bound"));
        let (heard, connections) = (Arc::new(AtomicUsize::new(0)), Arc::<std::sync::Mutex<Vec<_>>>::default());
        let address = listener.address().to_string();
        let server = Self { address, listener, heard, connections };
        let (listener, heard) = (Arc::clone(&server.listener), Arc::clone(&server.heard));
        let connections = Arc::clone(&server.connections);
        std::thread::spawn(move || {
            while let Ok(Some(arrival)) = listener.accept() {
                let (heard, connections) = (Arc::clone(&heard), Arc::clone(&connections));
                std::thread::spawn(move || {
                    let Ok(endpoint) = arrival.greet(|| true) else { return };
                    connections.lock().expect("no panic").push(Arc::clone(&endpoint));
                    serve(&endpoint, &heard);
                    connections.lock().expect("no panic").retain(|other| !Arc::ptr_eq(other, &endpoint));
                });
            }
        });
        server
    }

    pub(crate) fn echoing(kind: impl Into<Kind>) -> Self {
        Self::with(kind, &Settings::default(), echo)
    }

    pub(crate) fn writing(kind: impl Into<Kind>) -> Self {
        Self::with(kind, &Settings::default(), write)
    }

    pub(crate) fn reading(kind: impl Into<Kind>) -> Self {
        Self::with(kind, &Settings::default(), read)
    }

    /// One that hears and says nothing.
    pub(crate) fn silent(kind: impl Into<Kind>) -> Self {
        Self::with(kind, &Settings::default(), |endpoint, heard| {
            while let Some(events) = next(endpoint) {
                heard.fetch_add(events.len(), Ordering::SeqCst);
            }
        })
    }

    /// One that does not even hear.
    pub(crate) fn deaf(kind: impl Into<Kind>) -> Self {
        Self::with(kind, &Settings::default(), |_, _| std::thread::sleep(Duration::from_secs(20)))
    }

    /// How many requests have come.
    pub(crate) fn has_heard(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }

    /// Waits until so many requests have come.
    pub(crate) fn heard(&self, count: usize) {
        let deadline = soon();
        while self.heard.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < deadline, "the requests do not arrive");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.listener.close();
        self.connections.lock().expect("no panic").iter().for_each(|endpoint| endpoint.close());
    }
}

fn next(endpoint: &Arc<dyn Endpoint>) -> Option<Vec<Event>> {
    let mut events = Vec::new();
    endpoint.receive(&mut events, Wait::Until(soon())).ok()?;
    Some(events)
}

/// Sends every message back.
pub(crate) fn echo(endpoint: &Arc<dyn Endpoint>, _: &AtomicUsize) {
    while let Some(events) = next(endpoint) {
        let batch: Vec<_> = events
            .iter()
            .map(|event| match event {
                Event::Request { id, bytes } => Outgoing::Reply { id: *id, credits: 1, bytes },
                other => panic!("{other:?}"),
            })
            .collect();
        if endpoint.send(&batch).is_err() {
            return;
        }
    }
}

/// A request to [`write`].
pub(crate) fn write_request(key: RegionKey, offset: u64, length: u32, byte: u8) -> Vec<u8> {
    [&key.0[..], &offset.to_le_bytes(), &length.to_le_bytes(), &[byte]].concat()
}

/// Writes so many equal bytes where the request says.
fn write(endpoint: &Arc<dyn Endpoint>, _: &AtomicUsize) {
    while let Some(events) = next(endpoint) {
        for event in events {
            let Event::Request { id, bytes } = event else { panic!("a request") };
            let key = RegionKey(bytes[..16].try_into().expect("a key"));
            let offset = u64::from_le_bytes(bytes[16..24].try_into().expect("an offset"));
            let length = u32::from_le_bytes(bytes[24..28].try_into().expect("a length"));
            let content = vec![bytes[28]; length as usize];
            let target = Target { key, offset };
            let write = Outgoing::Write { id, target, bytes: &content, completes: Some(1) };
            if endpoint.send(&[write]).is_err() {
                return;
            }
        }
    }
}

/// Gives its region's key away and sums up what is in it.
fn read(endpoint: &Arc<dyn Endpoint>, _: &AtomicUsize) {
    let region: Region = endpoint.register(AlignedBuffer::zeroed(1 << 20)).expect("registered");
    while let Some(events) = next(endpoint) {
        for event in events {
            let Event::Request { id, bytes } = event else { panic!("a request") };
            let answer = if &bytes[..] == b"key" {
                region.key().0.to_vec()
            } else {
                let sum: u64 = region.memory().expect("it is there").iter().map(|&byte| u64::from(byte)).sum();
                sum.to_le_bytes().to_vec()
            };
            if endpoint.send(&[Outgoing::Reply { id, credits: 1, bytes: &answer }]).is_err() {
                return;
            }
        }
    }
}

pub(crate) fn connected(server: &Server, kind: impl Into<Kind>) -> Arc<dyn Endpoint> {
    let kind = kind.into();
    connect(&server.address, &kind.settings(), &kind.security).expect("connected")
}

pub(crate) fn caller(server: &Server, kind: impl Into<Kind>) -> Arc<Caller> {
    Caller::new(connected(server, kind), Duration::from_secs(10))
}

/// Both ends of a connection.
pub(crate) fn pair(kind: impl Into<Kind>) -> (Arc<dyn Endpoint>, Arc<dyn Endpoint>) {
    pair_with(kind, &Settings::default())
}

/// The same with other settings of the listening side's.
pub(crate) fn pair_with(kind: impl Into<Kind>, settings: &Settings) -> (Arc<dyn Endpoint>, Arc<dyn Endpoint>) {
    let kind = kind.into();
    let settings = Settings { fabric: kind.fabric.clone(), ..settings.clone() };
    let listener = Listener::bind("127.0.0.1:0", settings, kind.security.clone()).expect("bound");
    let address = listener.address().to_string();
    std::thread::scope(|scope| {
        let server =
            scope.spawn(|| listener.accept().expect("accepted").expect("open").greet(|| true).expect("greeted"));
        let client = connect(&address, &kind.settings(), &kind.security).expect("connected");
        (client, server.join().expect("no panic"))
    })
}

/// A kind of connection: what carries it, and who may use it.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) security: Security,
    pub(crate) fabric: Fabric,
}

impl Kind {
    /// With a deadline that a busy machine keeps, too.
    pub(crate) fn settings(&self) -> Settings {
        Settings { fabric: self.fabric.clone(), connect: Duration::from_secs(30), ..Settings::default() }
    }
}

impl From<&Security> for Kind {
    fn from(security: &Security) -> Self {
        Self { security: security.clone(), fabric: Fabric::Tcp }
    }
}

impl From<&Self> for Kind {
    fn from(kind: &Self) -> Self {
        kind.clone()
    }
}

/// Every transport that there is on this host, without authentication.
pub(crate) fn transports() -> Vec<Kind> {
    transports_of(&PROVIDERS)
}

/// TCP, and those of these providers that there are.
pub(crate) fn transports_of(providers: &[&str]) -> Vec<Kind> {
    let mut kinds = vec![Kind::from(&Security::Open)];
    let Some(libfabric) = Libfabric::probe().expect("a library that can be used") else {
        println!("SKIPPED: there is no libfabric (Debian: libfabric1); only TCP is tested");
        return kinds;
    };
    for &provider in providers {
        if libfabric.has(provider) {
            let fabric = Fabric::Libfabric { provider: provider.to_owned() };
            kinds.push(Kind { security: Security::Open, fabric });
        } else {
            println!("SKIPPED: libfabric has no provider {provider} here");
        }
    }
    kinds
}

/// The providers that need no hardware and join two ends within one process.
pub(crate) const PROVIDERS: [&str; 2] = ["tcp", "net"];

/// Every transport, and every kind of security over TCP and over libfabric's first provider.
pub(crate) fn kinds() -> Vec<Kind> {
    let mut kinds = transports();
    let fabrics: Vec<_> = kinds.iter().take(2).map(|kind| kind.fabric.clone()).collect();
    let guarded = securities().into_iter().skip(1);
    kinds.extend(guarded.flat_map(|security| {
        fabrics.clone().into_iter().map(move |fabric| Kind { security: security.clone(), fabric })
    }));
    kinds
}

/// Every kind of security.
pub(crate) fn securities() -> [Security; 3] {
    [Security::Open, Security::Token(Token::new(b"a token for the tests").expect("long enough")), tls()]
}

/// An authority made for the purpose.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("signed").pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Who has a certificate of this authority and believes those of `trusted`.
    pub(crate) fn member(&self, trusted: &Self) -> Security {
        let folder = tempfile::tempdir().expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let names = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).expect("names");
        let certificate = names.signed_by(&key, &self.issuer).expect("signed");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            path
        };
        let files = TlsFiles {
            authorities: file("authorities.pem", &trusted.certificate),
            certificate: file("certificate.pem", &certificate.pem()),
            key: file("key.pem", &key.serialize_pem()),
        };
        Security::Tls(Tls::from_files(&files).expect("good files"))
    }
}

/// Certificates for both sides.
pub(crate) fn tls() -> Security {
    let authority = Authority::new();
    authority.member(&authority)
}

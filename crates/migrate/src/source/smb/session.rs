//! How a connection begins: the dialect is agreed on, the account logs in, the share is connected.
//!
//! *What guards it.* A server that an attacker made to speak an older dialect is noticed: from 3.1.1 on all keys are made of all that was said,
//! and with older dialects the server is asked under signature what it was offered. An account's password is not followed by a guest's
//! session: the server must know the account.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

use super::address::Address;
use super::answer::{self, Answer, SIGNED, Trouble};
use super::bytes::{Body, Fields, Malformed};
use super::connection::{self, Session};
use super::credentials::Credentials;
use super::keys::{AES128_CCM, Basis, CIPHERS, CMAC, SEALED, SIGNINGS, Sealing, Signing};
use super::request::{self, HEADER, NEGOTIATE, OPENED, Request, SESSION_SETUP, TREE_CONNECT};
use super::status::{MORE_PROCESSING, SUCCESS, Status};
use super::{LARGEST, name, ntlm, time};
use crate::source::{Cancel, Error, ErrorKind};

/// The dialects that are spoken: 2.1, 3.0, 3.0.2, 3.1.1.
const DIALECTS: [u16; 4] = [0x0210, 0x0300, 0x0302, NEWEST];
const NEWEST: u16 = 0x0311;
/// Parts of an offer.
const PREAUTH: u16 = 1;
const ENCRYPTION: u16 = 2;
const SIGNING: u16 = 8;
const SHA512: u16 = 1;
/// We sign, and want the server to.
const SIGNS: u16 = 3;
/// Large reads, encryption.
const LARGE_MTU: u32 = 4;
const ENCRYPTS: u32 = 0x40;
/// What a session is.
const GUEST: u16 = 1;
const NULL: u16 = 2;
const ENCRYPTED: u16 = 4;
/// What a share is.
const DISK: u8 = 1;
const SHARE_ENCRYPTED: u32 = 0x8000;
/// Messages of one log-in.
const ROUNDS: usize = 8;
/// How often the caller's [`Cancel`] is looked at.
const TICK: Duration = Duration::from_millis(50);

/// Begins on a new connection, within that time.
pub(super) fn begin(
    stream: &TcpStream,
    address: &Address,
    credentials: &Credentials,
    limit: Duration,
    cancel: &Cancel,
) -> Result<Session, Trouble> {
    let wait = stream.read_timeout().map_err(lost)?;
    stream.set_read_timeout(Some(TICK)).map_err(lost)?;
    let mut random = [0; 32 + 16 + 8];
    SystemRandom::new().fill(&mut random).map_err(|_| unavailable("this host has no random numbers"))?;
    let door = Door { stream, cancel, until: Instant::now() + limit, next: 0, credits: 1, said: [0; 64] };
    let session = Beginning { door, address, credentials, random }.run()?;
    stream.set_read_timeout(wait).map_err(lost)?;
    Ok(session)
}

#[allow(clippy::needless_pass_by_value, reason = "it maps errors")]
fn lost(error: io::Error) -> Trouble {
    unavailable(&format!("the connection: {error}"))
}

fn unavailable(why: &str) -> Trouble {
    Error::new(ErrorKind::Unavailable, why).into()
}

fn invalid(why: String) -> Trouble {
    Error::new(ErrorKind::Invalid, why).into()
}

/// What the server chose.
struct Chosen {
    dialect: u16,
    guid: [u8; 16],
    capabilities: u32,
    mode: u16,
    signing: u16,
    cipher: Option<u16>,
    read: u32,
    transact: u32,
}

/// One request at a time, before there is a thread that reads.
struct Door<'a> {
    stream: &'a TcpStream,
    cancel: &'a Cancel,
    until: Instant,
    next: u64,
    credits: u32,
    /// The hash of all that was said, as keys of 3.1.1 are made of it.
    said: [u8; 64],
}

/// Who asks: numbers and keys, as far as there are any.
#[derive(Clone, Copy, Default)]
struct Who<'a> {
    session: u64,
    tree: u32,
    signing: Option<&'a Signing>,
    sealing: Option<&'a Sealing>,
}

impl Door<'_> {
    fn hear(&mut self, message: &[u8]) {
        let digest = digest::digest(&digest::SHA512, &[&self.said[..], message].concat());
        self.said.copy_from_slice(digest.as_ref());
    }

    /// Sends a request, encrypted or signed where there are keys; what went out before encryption.
    fn send(&mut self, request: &Request, who: Who<'_>) -> Result<Vec<u8>, Trouble> {
        let charge = request.charge();
        let signing = who.signing.filter(|_| who.sealing.is_none());
        let flags = if signing.is_some() { SIGNED } else { 0 };
        let mut message = connection::encoded(request, self.next, 64, flags, who.session, who.tree).0;
        if let Some(signing) = signing {
            signing.sign(&mut message);
        }
        self.next += u64::from(charge);
        self.credits = self.credits.saturating_sub(u32::from(charge));
        let sent = match who.sealing {
            Some(sealing) => sealing.seal(message.clone()).ok_or_else(|| unavailable("encryption fails"))?,
            None => message.clone(),
        };
        let mut stream = self.stream;
        stream.write_all(&connection::frame(&sent)).map_err(lost)?;
        Ok(message)
    }

    fn receive(&mut self, who: Who<'_>) -> Result<Answer, Trouble> {
        loop {
            let message = connection::message(&mut Impatient(self)).map_err(lost)?;
            let message = match who.sealing {
                Some(sealing) if message.starts_with(&SEALED) => sealing.open(message)?,
                Some(_) => return Err(Malformed("it is not encrypted").into()),
                None => message,
            };
            let answer = Answer::split(message)?.remove(0);
            self.credits = self.credits.saturating_add(u32::from(answer.credits()));
            if answer.is_interim() || answer.number() == u64::MAX {
                continue;
            }
            let signing = who.signing.filter(|_| who.sealing.is_none());
            if signing.is_some_and(|signing| !signing.is_signed(answer.bytes())) {
                return Err(Malformed("it is not signed by the server").into());
            }
            return Ok(answer);
        }
    }

    fn ask(&mut self, request: &Request, who: Who<'_>) -> Result<Answer, Trouble> {
        self.send(request, who)?;
        self.receive(who)
    }
}

/// Reads until the time is over or the caller has enough.
struct Impatient<'a, 'b>(&'b Door<'a>);

impl Read for Impatient<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut stream = self.0.stream;
            match stream.read(buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Ok(0) if !buffer.is_empty() => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed it"));
                }
                read => return read,
            }
            if self.0.cancel.is_cancelled() {
                // `read_exact` goes on after an interruption; this ends it.
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cancelled"));
            }
            if self.0.until <= Instant::now() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer"));
            }
        }
    }
}

struct Beginning<'a> {
    door: Door<'a>,
    address: &'a Address,
    credentials: &'a Credentials,
    random: [u8; 32 + 16 + 8],
}

impl Beginning<'_> {
    fn run(mut self) -> Result<Session, Trouble> {
        let outcome = self.steps();
        if self.door.cancel.is_cancelled() { Err(Error::cancelled().into()) } else { outcome }
    }

    fn steps(&mut self) -> Result<Session, Trouble> {
        let chosen = self.negotiate()?;
        if self.address.encrypt && chosen.cipher.is_none() {
            let why = "the server can not encrypt (that takes SMB 3); leave out encrypt=yes to read without";
            return Err(invalid(why.to_owned()));
        }
        let (id, flags, signing, sealing) = self.log_in(&chosen)?;
        let whole = self.address.encrypt || flags & ENCRYPTED != 0;
        if whole && sealing.is_none() {
            return Err(invalid("a guest's session can not be encrypted; name an account by `credentials`".to_owned()));
        }
        let who = Who { session: id, tree: 0, signing: signing.as_ref(), sealing: sealing.as_ref().filter(|_| whole) };
        let (tree, share) = self.connect(who)?;
        let encrypts = whole || share & SHARE_ENCRYPTED != 0;
        if encrypts && sealing.is_none() {
            return Err(invalid("the share is encrypted, and a guest or this dialect can not".to_owned()));
        }
        let who = Who { tree, sealing: sealing.as_ref().filter(|_| encrypts), ..who };
        if chosen.dialect < NEWEST && signing.is_some() {
            self.validate(&chosen, who)?;
        }
        let (next, credits) = (self.door.next, self.door.credits);
        let (read, transact) = (chosen.read, chosen.transact);
        Ok(Session { id, tree, signing, sealing: sealing.filter(|_| encrypts), read, transact, next, credits })
    }

    fn guid(&self) -> &[u8] {
        &self.random[32..48]
    }

    fn negotiate(&mut self) -> Result<Chosen, Trouble> {
        let body = Body::default().u16(36).u16(DIALECTS.len() as u16).u16(SIGNS).u16(0).u32(LARGE_MTU | ENCRYPTS);
        let body = DIALECTS.iter().fold(body.bytes(self.guid()).u32(0).u16(3).u16(0), |body, one| body.u16(*one));
        let mut body = body.padded();
        let at = (HEADER + body.0.len()) as u32;
        body.0[28..32].copy_from_slice(&at.to_le_bytes());
        let list = |numbers: &[u16]| {
            numbers.iter().fold(Body::default().u16(numbers.len() as u16), |body, one| body.u16(*one)).0
        };
        let preauth = Body::default().u16(1).u16(32).u16(SHA512).bytes(&self.random[..32]).0;
        for (kind, data) in [(PREAUTH, preauth), (ENCRYPTION, list(&CIPHERS)), (SIGNING, list(&SIGNINGS))] {
            body = body.padded().u16(kind).u16(data.len() as u16).u32(0).bytes(&data);
        }
        let asked = self.door.send(&Request::new(NEGOTIATE, body, 0), Who::default())?;
        let answer = self.door.receive(Who::default())?;
        self.door.hear(&asked);
        self.door.hear(answer.bytes());
        match answer.status() {
            SUCCESS => chosen(&answer),
            // What a server says that speaks none of the dialects.
            Status(0xc000_00bb) => Err(invalid(
                "the server speaks neither SMB 2.1 nor SMB 3; mount the share and give the path".to_owned(),
            )),
            status => Err(Trouble::Status(status)),
        }
    }

    /// The session's number and what it is, and its keys.
    fn log_in(&mut self, chosen: &Chosen) -> Result<(u64, u16, Option<Signing>, Option<Sealing>), Trouble> {
        let first = ntlm::negotiate();
        let mut token = first.clone();
        let (mut session, mut key) = (0, None);
        for _ in 0..ROUNDS {
            let body = Body::default().u16(25).u8(0).u8(SIGNS as u8).u32(0).u32(0).u16((HEADER + 24) as u16);
            let body = body.u16(token.len() as u16).u64(0).bytes(&token);
            let who = Who { session, ..Who::default() };
            let asked = self.door.send(&Request::new(SESSION_SETUP, body, 0), who)?;
            let answer = self.door.receive(Who::default())?;
            self.door.hear(&asked);
            session = answer.session();
            match answer.status() {
                MORE_PROCESSING => {
                    self.door.hear(answer.bytes());
                    let at = (answer.body().u16(4)?, answer.body().u16(6)?);
                    let challenge = answer.part(usize::from(at.0), usize::from(at.1))?;
                    let random = Fields(&self.random).array(48)?;
                    let now = time::of(SystemTime::now());
                    let proof = ntlm::authenticate(self.credentials, &first, challenge, now, random)?;
                    (token, key) = (proof.message, proof.key);
                }
                SUCCESS => return self.keys(chosen, key, &answer),
                status => return Err(Trouble::Status(status)),
            }
        }
        Err(Malformed("logging in does not end").into())
    }

    fn keys(
        &self,
        chosen: &Chosen,
        key: Option<[u8; 16]>,
        answer: &Answer,
    ) -> Result<(u64, u16, Option<Signing>, Option<Sealing>), Trouble> {
        let (session, flags) = (answer.session(), answer.body().u16(2)?);
        let Some(key) = key else { return Ok((session, flags, None, None)) };
        if flags & (GUEST | NULL) != 0 {
            let user = &self.credentials.user;
            let why =
                format!("the server does not know the user {user} and takes it for a guest; correct the credentials");
            return Err(invalid(why));
        }
        let basis = Basis { dialect: chosen.dialect, key, said: &self.door.said };
        let none = || invalid("the server chose a way of signing or encryption that was not offered".to_owned());
        let signing = Signing::new(&basis, chosen.signing).ok_or_else(none)?;
        if (chosen.dialect >= NEWEST || answer.is_signed()) && !signing.is_signed(answer.bytes()) {
            return Err(Malformed("the end of logging in is not signed by the server").into());
        }
        let sealing = chosen.cipher.map(|way| Sealing::new(&basis, way, session).ok_or_else(none)).transpose()?;
        Ok((session, flags, Some(signing), sealing))
    }

    /// The number of the share, and what it is.
    fn connect(&mut self, who: Who<'_>) -> Result<(u32, u32), Trouble> {
        let Address { host, share, .. } = self.address;
        let path: Vec<u16> = format!("\\\\{host}\\{share}").encode_utf16().collect();
        let path = name::bytes_of(&path);
        let body = Body::default().u16(9).u16(0).u16((HEADER + 8) as u16).u16(path.len() as u16).bytes(&path);
        let answer = self.door.ask(&Request::new(TREE_CONNECT, body, 0), who)?;
        if answer.status() != SUCCESS {
            return Err(Trouble::Status(answer.status()));
        }
        if answer.body().bytes(2, 1)?[0] != DISK {
            return Err(invalid(format!("{share} is no share of files")));
        }
        Ok((answer.tree(), answer.body().u32(4)?))
    }

    /// Asks under signature what was offered and chosen without ([MS-SMB2] 3.2.5.5).
    fn validate(&mut self, chosen: &Chosen, who: Who<'_>) -> Result<(), Trouble> {
        let offer = Body::default().u32(LARGE_MTU | ENCRYPTS).bytes(self.guid()).u16(SIGNS).u16(DIALECTS.len() as u16);
        let offer = DIALECTS.iter().fold(offer, |offer, one| offer.u16(*one)).0;
        let answer = self.door.ask(&request::control(&OPENED, request::VALIDATE_NEGOTIATE, &offer, 24), who)?;
        // Servers of 2.1 alone do not know the question, and say so under signature.
        if answer.status() != SUCCESS && chosen.dialect < 0x0300 {
            return Ok(());
        }
        let told = Fields(answer::controlled(&answer)?);
        let right = told.u32(0)? == chosen.capabilities
            && told.array(4)? == chosen.guid
            && told.u16(20)? == chosen.mode
            && told.u16(22)? == chosen.dialect;
        if right { Ok(()) } else { Err(Malformed("what was agreed on was changed on the way").into()) }
    }
}

fn chosen(answer: &Answer) -> Result<Chosen, Trouble> {
    let body = answer.body();
    let (mode, dialect, capabilities) = (body.u16(2)?, body.u16(4)?, body.u32(24)?);
    if !DIALECTS.contains(&dialect) {
        return Err(Malformed("it chose a dialect that was not offered").into());
    }
    let limit = |at: usize| Ok::<u32, Malformed>(body.u32(at)?.clamp(64 << 10, LARGEST as u32));
    let mut chosen = Chosen {
        dialect,
        guid: body.array(8)?,
        capabilities,
        mode,
        signing: CMAC,
        cipher: ((0x0300..NEWEST).contains(&dialect) && capabilities & ENCRYPTS != 0).then_some(AES128_CCM),
        transact: limit(28)?,
        read: limit(32)?,
    };
    if capabilities & LARGE_MTU == 0 {
        (chosen.read, chosen.transact) = (64 << 10, 64 << 10);
    }
    if dialect < NEWEST {
        return Ok(chosen);
    }
    let message = Fields(answer.bytes());
    let mut at = body.u32(60)? as usize;
    for _ in 0..body.u16(6)? {
        let (kind, size) = (message.u16(at)?, usize::from(message.u16(at + 2)?));
        let data = Fields(message.bytes(at + 8, size)?);
        match kind {
            PREAUTH if data.u16(4)? != SHA512 => return Err(Malformed("it chose an unknown hash").into()),
            ENCRYPTION => chosen.cipher = Some(data.u16(2)?).filter(|cipher| CIPHERS.contains(cipher)),
            SIGNING => chosen.signing = data.u16(2)?,
            _ => {}
        }
        at = (at + 8 + size).next_multiple_of(8);
    }
    Ok(chosen)
}

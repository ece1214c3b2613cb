//! Two hosts out of one, for a storage node and its clients: a network of its own for the node, a link of a given speed to
//! there, and processors for each side.
//!
//! ```text
//!   here: this process ── isg…h ═══ veth ═══ isg…t ── there: a network namespace
//!   first half of the processors              the other half
//!            └── tc tbf: what is sent ──┘
//! ```
//!
//! What runs there is a process of its own that shares nothing with this one but kernel, memory and disk. Takes root, `ip`
//! and `tc` (iproute2) and `taskset` (util-linux). All of it is gone when this is dropped, or when this process is killed. What is
//! left where all processes end at once is called `isg` and the process's number, and the next one that makes such hosts deletes it.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::caretaker::Caretaker;
use crate::{Error, Result};

/// How fast a link is in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// So many bits a second.
    Bits(u64),
    /// As fast as the machine is.
    Unshaped,
}

/// As in `1 Gbit/s`.
impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unshaped => f.write_str("unshaped"),
            Self::Bits(bits) => {
                let units = [("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1000)];
                let (unit, size) = units.into_iter().find(|(_, size)| bits >= *size).unwrap_or(("bit/s", 1));
                write!(f, "{} {unit}", bits as f64 / size as f64)
            }
        }
    }
}

/// Of `1Gbit`, `100Mbit` or `none`.
impl FromStr for Speed {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let lower = text.to_lowercase();
        if ["none", "unshaped"].contains(&lower.as_str()) {
            return Ok(Self::Unshaped);
        }
        let (number, unit) = lower.split_at(lower.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(lower.len()));
        let size = match unit {
            "gbit" => 1_000_000_000,
            "mbit" => 1_000_000,
            "kbit" => 1000,
            _ => 0,
        };
        let bits = number.parse::<u64>().ok().and_then(|number| number.checked_mul(size)).filter(|bits| *bits > 0);
        bits.map(Self::Bits).ok_or_else(|| Error::Invalid {
            setting: "link",
            reason: format!("`{text}` is no speed; give one as in 1Gbit or 100Mbit, or none"),
        })
    }
}

/// The other host, and the way there.
#[derive(Debug)]
pub struct Hosts {
    /// Of the namespace, and the beginning of the devices' names.
    name: String,
    here: Ipv4Addr,
    there: Ipv4Addr,
    /// Lists as `taskset` takes them, if there are enough for both.
    processors: Option<[String; 2]>,
    /// All that this process had.
    all_processors: String,
    token: PathBuf,
    // Sent away when all is gone.
    _caretaker: Caretaker,
}

impl Hosts {
    /// Makes them, with a link that is not shaped. What is missing for that is told.
    pub fn new() -> Result<Self> {
        delete_left();
        let number = std::process::id();
        // Of the addresses that are set aside for measuring networks (RFC 2544), four for each process.
        let [high, low] = ((number % 0x4000) as u16 * 4).to_be_bytes();
        let name = format!("isg{number}");
        let token = std::env::temp_dir().join(format!("{name}.token"));
        let all_processors = allowed()?;
        let script = r#"ip netns delete "$1"; rm -f "$2""#;
        let caretaker = Caretaker::start(script, &[name.as_ref(), token.as_ref()])?;
        let hosts = Self {
            name,
            here: Ipv4Addr::new(198, 18, high, low + 1),
            there: Ipv4Addr::new(198, 18, high, low + 2),
            processors: halves(&all_processors),
            all_processors,
            token,
            _caretaker: caretaker,
        };
        hosts.make()?;
        Ok(hosts)
    }

    fn make(&self) -> Result<()> {
        self.write_token()?;
        let (name, [here, there]) = (self.name.as_str(), self.devices());
        let address = |of: Ipv4Addr| format!("{of}/30");
        run("ip", &["netns", "add", name])?;
        run("ip", &["link", "add", &here, "type", "veth", "peer", "name", &there, "netns", name])?;
        run("ip", &["address", "add", &address(self.here), "dev", &here])?;
        run("ip", &["link", "set", &here, "up"])?;
        run("ip", &["-n", name, "address", "add", &address(self.there), "dev", &there])?;
        run("ip", &["-n", name, "link", "set", "lo", "up"])?;
        run("ip", &["-n", name, "link", "set", &there, "up"])?;
        if self.processors.is_some() {
            run("taskset", &["--version"])?;
        }
        Ok(())
    }

    /// Drawn anew, since a node that others can reach takes nobody without one.
    fn write_token(&self) -> Result<()> {
        let failed = |source| Error::Io { path: self.token.clone(), operation: "writing a token", source };
        let mut random = [0; 16];
        fs::File::open("/dev/urandom").and_then(|mut from| from.read_exact(&mut random)).map_err(failed)?;
        let text = format!("{:032x}", u128::from_le_bytes(random));
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&self.token);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)
    }

    fn devices(&self) -> [String; 2] {
        [format!("{}h", self.name), format!("{}t", self.name)]
    }

    /// What the other host is called by this one.
    pub fn address(&self) -> Ipv4Addr {
        self.there
    }

    /// What this host is called by the other one.
    pub fn here(&self) -> Ipv4Addr {
        self.here
    }

    /// A file with a secret for both sides.
    pub fn token(&self) -> &Path {
        &self.token
    }

    /// How many processors each side has, and whether they are its own.
    pub fn processors(&self) -> String {
        let Some(lists) = &self.processors else { return "all for both".to_owned() };
        let count = |list: &str| list.split(',').count();
        format!("{} here, {} there", count(&lists[0]), count(&lists[1]))
    }

    /// From now on the link has that speed in each direction.
    pub fn shape(&self, speed: Speed) -> Result<()> {
        let [here, there] = self.devices();
        for (side, device) in [(None, here), (Some(self.name.as_str()), there)] {
            let within: Vec<&str> = side.map_or_else(Vec::new, |name| vec!["-n", name]);
            let rate;
            let what: &[&str] = match speed {
                Speed::Unshaped => &["noqueue"],
                Speed::Bits(bits) => {
                    rate = format!("{bits}bit");
                    &["tbf", "rate", &rate, "burst", "256kb", "latency", "50ms"]
                }
            };
            let begin = ["qdisc", "replace", "dev", &device, "root"];
            run("tc", &[&within[..], &begin[..], what].concat())?;
        }
        Ok(())
    }

    /// What runs a program there: words that come before its own.
    pub fn there(&self) -> Vec<String> {
        let mut words = ["ip", "netns", "exec", &self.name].map(str::to_owned).to_vec();
        if let Some([_, there]) = &self.processors {
            words.extend(["taskset", "-c", there].map(str::to_owned));
        }
        words
    }

    /// Keeps this process to the processors of its side; those of its threads that are there, and those that they start.
    pub fn stay_here(&self) -> Result<Stay<'_>> {
        let [here, _] = match &self.processors {
            Some(lists) => lists.each_ref().map(String::as_str),
            None => [self.all_processors.as_str(); 2],
        };
        bind(here)?;
        Ok(Stay { hosts: self })
    }

    /// Takes the other side's processors: so many processes for each of them that do nothing but count time.
    pub fn spin(&self, for_each: usize) -> Result<Spinning> {
        let cores = self.processors.as_ref().map_or(&self.all_processors, |lists| &lists[1]);
        let words = self.there();
        let mut spinning = Spinning(Vec::new());
        for _ in 0..for_each * list(cores).len() {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).args(["sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            let failed = |error: std::io::Error| Error::Process { what: "other work", reason: error.to_string() };
            spinning.0.push(command.spawn().map_err(failed)?);
        }
        Ok(spinning)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // The devices go with the namespace; one that was never made is gone already.
        let _ = run("ip", &["netns", "delete", &self.name]);
        let _ = fs::remove_file(&self.token);
    }
}

/// This process keeps to its processors as long as this is there.
#[derive(Debug)]
pub struct Stay<'a> {
    hosts: &'a Hosts,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        let _ = bind(&self.hosts.all_processors);
    }
}

/// Processes that take processor time until this is dropped.
#[derive(Debug)]
pub struct Spinning(Vec<Child>);

impl Drop for Spinning {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Deletes the namespaces of processes that are gone, with their devices and tokens.
fn delete_left() {
    let Ok(entries) = fs::read_dir("/run/netns") else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix("isg").and_then(|number| number.parse::<u32>().ok());
        if number.is_some_and(|number| !Path::new("/proc").join(number.to_string()).exists()) {
            let _ = run("ip", &["netns", "delete", &name]);
            let _ = fs::remove_file(std::env::temp_dir().join(format!("{name}.token")));
        }
    }
}

/// Keeps all threads of this process to these processors, and those that they start.
///
/// `taskset --all-tasks` does not do: it gives up where a thread has just ended, and does not see one that was just started.
fn bind(processors: &str) -> Result<()> {
    let failed = |reason: String| Error::Hosts { command: format!("binding this process to {processors}"), reason };
    let mut wanted = CpuSet::new();
    for number in list(processors) {
        let number = number as usize;
        if number >= CpuSet::MAX_CPU {
            return Err(failed(format!("processors from {} on can not be told apart", CpuSet::MAX_CPU)));
        }
        wanted.set(number);
    }
    loop {
        let mut all_are = true;
        for thread in fs::read_dir("/proc/self/task").map_err(|error| failed(error.to_string()))? {
            let thread = thread.map_err(|error| failed(error.to_string()))?.file_name();
            let Some(thread) = thread.to_str().and_then(|name| Pid::from_raw(name.parse().ok()?)) else { continue };
            match sched_getaffinity(Some(thread)) {
                Ok(has) if has == wanted => continue,
                Err(Errno::SRCH) => continue,
                _ => all_are = false,
            }
            match sched_setaffinity(Some(thread), &wanted) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        if all_are {
            return Ok(());
        }
    }
}

/// Runs a tool to its end; what it says if it fails.
fn run(tool: &'static str, arguments: &[&str]) -> Result<()> {
    let failed = |reason: String| Error::Hosts { command: format!("{tool} {}", arguments.join(" ")), reason };
    let done = Command::new(tool).args(arguments).stdin(Stdio::null()).output();
    let done = done.map_err(|error| failed(error.to_string()))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(failed(if said.is_empty() { done.status.to_string() } else { said }))
}

/// Processors that this process may use, as the kernel lists them.
fn allowed() -> Result<String> {
    let path = Path::new("/proc/self/status");
    let failed = |source| Error::Io { path: path.to_owned(), operation: "reading", source };
    let status = fs::read_to_string(path).map_err(failed)?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Ok(list.unwrap_or("0").trim().to_owned())
}

/// The numbers of a list as in `0-2,5`.
fn list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// The first and the second half; nothing if there is but one.
fn halves(text: &str) -> Option<[String; 2]> {
    let all = list(text);
    let (first, second) = all.split_at(all.len() / 2);
    let join = |half: &[u32]| half.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    (!first.is_empty()).then(|| [join(first), join(second)])
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Held by a test that asks for this process's processors, or takes some away.
    static PROCESSORS: Mutex<()> = Mutex::new(());

    #[test]
    fn a_speed_reads_as_people_say_it_and_nothing_else() {
        for (text, shown) in [("1Gbit", "1 Gbit/s"), ("250Mbit", "250 Mbit/s"), ("1500kbit", "1.5 Mbit/s")] {
            assert_eq!(text.parse::<Speed>().expect(text).to_string(), shown);
        }
        assert_eq!("None".parse::<Speed>().expect("none"), Speed::Unshaped);
        for text in ["", "1", "Gbit", "0Gbit", "1GB", "-1Gbit", "99999999999999Gbit"] {
            let error = text.parse::<Speed>().expect_err(text).to_string();
            assert!(error.contains("as in 1Gbit"), "{error}");
        }
    }

    #[test]
    fn each_side_has_half_of_the_processors() {
        assert_eq!(halves("0-1"), Some(["0".to_owned(), "1".to_owned()]));
        assert_eq!(halves("0,2-5"), Some(["0,2".to_owned(), "3,4,5".to_owned()]));
        assert_eq!(halves("3"), None);
    }

    #[test]
    fn a_process_whose_threads_come_and_go_keeps_to_its_processors() {
        let _alone = PROCESSORS.lock();
        let stop = AtomicBool::new(false);
        let all = allowed().expect("reads");
        let first = list(&all)[0].to_string();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let _ = std::thread::spawn(|| {}).join();
                    }
                });
            }
            let bound: Result<()> = (0..50).try_for_each(|_| bind(&first));
            stop.store(true, Ordering::Relaxed);
            bound.expect("a thread that has ended needs no processor");
        });
        let status = fs::read_to_string("/proc/thread-self/status").expect("reads");
        assert!(status.contains(&format!("Cpus_allowed_list:\t{first}\n")), "{status}");
        bind(&all).expect("binds");
        assert_eq!(allowed().expect("reads"), all);
    }

    #[test]
    fn what_a_killed_process_has_left_is_deleted() {
        let mut gone = Command::new("sh").args(["-c", ""]).spawn().expect("runs");
        gone.wait().expect("ends");
        let name = format!("isg{}", gone.id());
        if let Err(error) = run("ip", &["netns", "add", &name]) {
            eprintln!("SKIPPED: a network namespace needs root and ip: {error}");
            return;
        }
        delete_left();
        assert!(!Path::new("/run/netns").join(&name).exists());
    }

    #[test]
    fn what_runs_there_is_reached_by_the_link_alone_and_nothing_is_left() {
        let _alone = PROCESSORS.lock();
        let hosts = match Hosts::new() {
            Ok(hosts) => hosts,
            Err(error) => {
                eprintln!("SKIPPED: two hosts need root, ip and tc: {error}");
                return;
            }
        };
        let (name, address) = (hosts.name.clone(), hosts.address());
        let there = |program: &[&str]| {
            let words = hosts.there();
            let done = Command::new(&words[0]).args(&words[1..]).args(program).output().expect("runs");
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        hosts.shape(Speed::Bits(1_000_000_000)).expect("shaped");
        assert!(there(&["tc", "qdisc", "show"]).contains("tbf"), "{}", there(&["tc", "qdisc", "show"]));
        hosts.shape(Speed::Unshaped).expect("not shaped");
        assert!(!there(&["tc", "qdisc", "show"]).contains("tbf"));
        let shown = there(&["ip", "-4", "address", "show"]);
        assert!(shown.contains(&format!("{address}/30")) && shown.matches("inet ").count() <= 2, "{shown}");
        if let Some([_, processors]) = &hosts.processors {
            let status = there(&["cat", "/proc/self/status"]);
            let own = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(str::trim);
            assert_eq!(own.map(list), Some(list(processors)));
        }
        drop(hosts);
        let left = Command::new("ip").args(["netns", "list"]).output().expect("runs").stdout;
        assert!(!String::from_utf8_lossy(&left).contains(&name));
    }
}

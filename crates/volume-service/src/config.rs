//! Where a pool is, and which volume has which door: `volumes.toml`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_device::{Place, check_name};
use ishigaki_prefetch::Limits;
use ishigaki_tier::{OnDemand, Settings};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::{Error, Result};

/// Threads that work on the requests of a socket, where nothing else is said.
const THREADS: usize = 16;
/// Queues of a socket at most.
const MOST_QUEUES: u16 = 64;
/// Queues of a socket, where nothing else is said: a machine has as many as processors, and no more than these.
const QUEUES: u16 = 16;
const MOST_THREADS: usize = 512;
/// Chunks that come together, where nothing else is said, and at most.
const UNIT: usize = 2;
const MOST_UNIT: usize = 64;
/// Seconds of a window, where nothing else is said, and at most.
const WINDOW: u64 = 10;
const MOST_WINDOW: u64 = 3600;

/// How a volume is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// By a virtual machine, over a socket.
    Socket,
    /// By the host's programs, as a block device.
    Block,
    /// Not at all.
    None,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Socket => "socket",
            Self::Block => "block",
            Self::None => "none",
        })
    }
}

/// For which share of the time hot chunks are brought to the fast device before they are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prefetch {
    /// For none.
    None,
    /// For always the same.
    Fixed(f64),
    /// For one that rises while that pays, and falls when it does not.
    Adaptive,
}

impl FromStr for Prefetch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "adaptive" => Ok(Self::Adaptive),
            _ => match text.parse::<f64>() {
                Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self::Fixed(share)),
                _ => Err(format!("there is no prefetch `{text}`")),
            },
        }
    }
}

/// What the configuration says of one volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfVolume {
    /// Its door.
    pub door: Option<Kind>,
    /// By what its uses count more than those of others when chunks are brought.
    pub weight: f64,
    /// Bytes of the fast device for which it comes first, however cold it is.
    pub floor: ByteSize,
    /// Bytes of the fast device that are brought for it at most.
    pub cap: Option<ByteSize>,
}

/// A pool of volumes, and how it is served.
///
/// ```
/// use std::path::Path;
/// use ishigaki_volume_service::{Config, Kind};
///
/// let text = r#"
///     map = "/var/lib/ishigaki/volumes"
///     fast = "/dev/nvme0n1p4"
///     slow = "/srv/disk"
///
///     [[volume]]
///     name = "scratch"
///     door = "block"
/// "#;
/// let config = Config::parse(text, Path::new("/etc/ishigaki/volumes.toml"))?;
/// assert_eq!(config.kind("scratch"), Kind::Block);
/// assert_eq!(config.kind("orders"), Kind::Socket);
/// # Ok::<(), ishigaki_volume_service::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The configuration's own file, for messages.
    pub path: PathBuf,
    /// The directory of the pool's map, and of the control socket.
    pub map: PathBuf,
    /// The fast device: a raw one, or a file.
    pub fast: PathBuf,
    /// The directory in which the volumes lie, each as a file of its name.
    pub slow: Place,
    /// Of the pool.
    pub settings: Settings,
    /// The folder of the sockets for virtual machines, `NAME.sock` each.
    pub sockets: PathBuf,
    /// The folder of the block devices, a link `NAME` to each.
    pub blocks: PathBuf,
    /// The door of volumes that are not named.
    pub door: Kind,
    /// What is said of those that are.
    pub volumes: BTreeMap<String, OfVolume>,
    /// How much is brought before it is asked for.
    pub prefetch: Prefetch,
    /// Chunks that come together.
    pub unit: usize,
    /// The time of which prefetch takes its share, and after which it looks again.
    pub window: Duration,
    /// Threads that work on the requests of a socket.
    pub threads: usize,
    /// Queues of a socket.
    pub queues: u16,
    /// Where agents in guests tell what they know: `HOST:PORT`.
    pub agents: Option<String>,
    /// Where Prometheus finds figures: `HOST:PORT`.
    pub metrics: Option<String>,
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    map: PathBuf,
    fast: PathBuf,
    slow: String,
    chunk: Option<ByteSizeText>,
    log: Option<ByteSizeText>,
    eviction: Option<String>,
    on_demand: Option<bool>,
    bypass: Option<ByteSizeText>,
    endurance: Option<ByteSizeText>,
    sockets: Option<PathBuf>,
    blocks: Option<PathBuf>,
    door: Option<Kind>,
    threads: Option<usize>,
    queues: Option<u16>,
    agents: Option<String>,
    metrics: Option<String>,
    prefetch: Option<String>,
    unit: Option<usize>,
    window: Option<u64>,
    #[serde(default)]
    volume: Vec<Spanned<WrittenVolume>>,
}

/// A number of bytes as it is written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a number of bytes, as \"4MiB\"")]
enum ByteSizeText {
    Text(String),
    Number(u64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenVolume {
    name: String,
    door: Option<Kind>,
    weight: Option<f64>,
    floor: Option<ByteSizeText>,
    cap: Option<ByteSizeText>,
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    ///
    /// [`Error::NoConfig`] if it is not there, [`Error::File`] if it can not be read; those of [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self> {
        let failed =
            |error: std::io::Error| Error::File { path: path.to_owned(), line: None, reason: error.to_string() };
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::NoConfig(path.to_owned()),
            _ => failed(error),
        })?;
        Self::parse(&text, &std::path::absolute(path).map_err(failed)?)
    }

    /// Reads the text of a configuration file. Relative paths begin where the file is.
    ///
    /// # Errors
    ///
    /// [`Error::File`] for what is no TOML or has a key that there is not; [`Error::Setting`] for a value that can not be.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let line = |at: usize| text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1;
        let wrong = |field, reason: String, remedy| Error::Setting { path: path.to_owned(), field, reason, remedy };
        let written: Written = toml::from_str(text).map_err(|error: toml::de::Error| Error::File {
            path: path.to_owned(),
            line: error.span().map(|span| line(span.start)),
            reason: error.message().replace('\n', ", "),
        })?;
        let size = |field, text: Option<ByteSizeText>, usual: ByteSize| match text {
            None => Ok(usual),
            Some(ByteSizeText::Number(bytes)) => Ok(ByteSize(bytes)),
            Some(ByteSizeText::Text(text)) => text
                .parse()
                .map_err(|_| wrong(field, format!("`{text}` is no number of bytes"), "write it as 1MiB or 4MiB")),
        };
        let base = path.parent().unwrap_or(Path::new(""));
        let usual = Settings::default();
        let eviction = match &written.eviction {
            None => usual.eviction,
            Some(text) => text.parse().map_err(|error: ishigaki_tier::Error| {
                wrong("eviction", error.to_string(), "write s3-fifo or lru, or leave it out")
            })?,
        };
        let prefetch = match &written.prefetch {
            None => Prefetch::Adaptive,
            Some(text) => text
                .parse()
                .map_err(|reason| wrong("prefetch", reason, "write adaptive, none, or a share as \"0.4\""))?,
        };
        let on_demand = match written.on_demand {
            Some(false) => OnDemand::Never,
            // What is hot was chosen: what is read once does not drive it out.
            None if prefetch != Prefetch::None => OnDemand::WhereFree,
            Some(true) | None => OnDemand::Always,
        };
        let settings = Settings {
            chunk: size("chunk", written.chunk, usual.chunk)?,
            log: size("log", written.log, usual.log)?,
            bypass: size("bypass", written.bypass, usual.bypass)?,
            endurance: written.endurance.map(|text| size("endurance", Some(text), ByteSize(0))).transpose()?,
            eviction,
            on_demand,
            ..usual
        };
        let slow = written
            .slow
            .parse::<Place>()
            .map_err(|error| wrong("slow", error.to_string(), "give the directory in which the volumes are to lie"))?;
        let mut volumes = BTreeMap::new();
        for volume in written.volume {
            let at = line(volume.span().start);
            let WrittenVolume { name, door, weight, floor, cap } = volume.into_inner();
            let weight = weight.unwrap_or(1.0);
            if !(weight > 0.0 && weight.is_finite()) {
                return Err(wrong("weight", format!("{weight} can not be"), "give a number above 0, as 1 or 2.5"));
            }
            let cap = cap.map(|cap| size("cap", Some(cap), ByteSize(0))).transpose()?;
            let floor = size("floor", floor, ByteSize(0))?;
            if cap.is_some_and(|cap| cap < floor) {
                return Err(wrong(
                    "floor",
                    format!("{floor} is above the cap"),
                    "give a floor that the cap has room for",
                ));
            }
            let of_volume = OfVolume { door, weight, floor, cap };
            if volumes.insert(name.clone(), of_volume).is_some() {
                let reason = format!("volume `{name}` is named twice");
                return Err(Error::File { path: path.to_owned(), line: Some(at), reason });
            }
        }
        let config = Self {
            path: path.to_owned(),
            map: base.join(written.map),
            fast: base.join(written.fast),
            slow: below(base, slow),
            settings,
            sockets: base.join(written.sockets.unwrap_or_else(|| "/run/ishigaki/volumes".into())),
            blocks: base.join(written.blocks.unwrap_or_else(|| "/run/ishigaki/blocks".into())),
            door: written.door.unwrap_or(Kind::Socket),
            volumes,
            threads: written.threads.unwrap_or(THREADS),
            queues: written.queues.unwrap_or(QUEUES),
            agents: written.agents,
            metrics: written.metrics,
            prefetch,
            unit: written.unit.unwrap_or(UNIT),
            window: Duration::from_secs(written.window.unwrap_or(WINDOW)),
        };
        config.validate()?;
        Ok(config)
    }

    fn validate(&self) -> Result<()> {
        let wrong =
            |field, reason: String, remedy| Err(Error::Setting { path: self.path.clone(), field, reason, remedy });
        if !(1..=MOST_THREADS).contains(&self.threads) {
            return wrong("threads", format!("{} can not be", self.threads), "give 1 to 512, or leave it out");
        }
        if !(1..=MOST_QUEUES).contains(&self.queues) {
            return wrong("queues", format!("{} can not be", self.queues), "give 1 to 64, or leave it out");
        }
        if !(ByteSize::kib(256)..=ByteSize::gib(64)).contains(&self.settings.log) {
            return wrong("log", format!("{} can not be", self.settings.log), "give 256KiB to 64GiB, or leave it out");
        }
        if !(1..=MOST_UNIT).contains(&self.unit) {
            return wrong("unit", format!("{} chunks can not be", self.unit), "give 1 to 64, or leave it out");
        }
        if !(1..=MOST_WINDOW).contains(&self.window.as_secs()) {
            let reason = format!("{} seconds can not be", self.window.as_secs());
            return wrong("window", reason, "give 1 to 3600, or leave it out");
        }
        for (field, address) in [("agents", &self.agents), ("metrics", &self.metrics)] {
            let is_one = |address: &String| {
                address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
            };
            if let Some(address) = address.as_ref().filter(|address| !is_one(address)) {
                return wrong(field, format!("`{address}` is no address"), "write it as 127.0.0.1:9117");
            }
        }
        if let Some((name, error)) = self.volumes.keys().find_map(|name| Some((name, check_name(name).err()?))) {
            return wrong(
                "name",
                format!("there can be no volume `{name}` ({error})"),
                "name a file of the slow directory",
            );
        }
        if let Place::File(slow) | Place::Ring(slow) = &self.slow {
            if self.map.starts_with(slow) || slow.starts_with(&self.map) {
                let reason = format!("{} and the map {} lie in each other", slow.display(), self.map.display());
                return wrong("slow", reason, "give each a directory of its own");
            }
            if self.fast.starts_with(slow) {
                let reason = format!("{} lies in it", self.fast.display());
                return wrong("slow", reason, "the fast device is to lie elsewhere");
            }
        }
        if matches!(self.slow, Place::Memory | Place::Modelled(_)) {
            return wrong("slow", "what is in memory does not last".to_owned(), "give a directory or a raw device");
        }
        Ok(())
    }

    /// The door of a volume.
    pub fn kind(&self, name: &str) -> Kind {
        self.volumes.get(name).and_then(|volume| volume.door).unwrap_or(self.door)
    }

    /// What a volume may have of the fast device, in chunks of so many bytes.
    pub(crate) fn limits(&self, name: &str, chunk: u64) -> Limits {
        let chunks = |size: ByteSize| usize::try_from(size.0 / chunk).unwrap_or(usize::MAX);
        self.volumes.get(name).map_or_else(Limits::default, |volume| Limits {
            weight: volume.weight,
            floor: chunks(volume.floor),
            cap: volume.cap.map_or(usize::MAX, chunks),
        })
    }
}

fn below(base: &Path, place: Place) -> Place {
    match place {
        Place::File(path) => Place::File(base.join(path)),
        Place::Ring(path) => Place::Ring(base.join(path)),
        Place::Raw(path) => Place::Raw(base.join(path)),
        Place::RawRing(path) => Place::RawRing(base.join(path)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(more: &str) -> Result<Config> {
        let text = format!("map = \"map\"\nfast = \"/dev/fast\"\nslow = \"disk\"\n{more}");
        Config::parse(&text, Path::new("/etc/ishigaki/volumes.toml"))
    }

    #[test]
    fn paths_begin_where_the_file_is_and_the_rest_has_defaults() {
        let config = parse("").unwrap();
        assert_eq!(config.map, Path::new("/etc/ishigaki/map"));
        assert_eq!(config.slow, Place::File("/etc/ishigaki/disk".into()));
        assert_eq!(config.settings, Settings { on_demand: OnDemand::WhereFree, ..Settings::default() });
        assert_eq!(parse("prefetch = \"none\"").unwrap().settings, Settings::default());
        assert_eq!(parse("on_demand = true").unwrap().settings.on_demand, OnDemand::Always);
        assert_eq!(parse("on_demand = false").unwrap().settings.on_demand, OnDemand::Never);
        assert_eq!((config.threads, config.queues, config.kind("any")), (16, 16, Kind::Socket));
        assert_eq!((config.prefetch, config.unit, config.window.as_secs()), (Prefetch::Adaptive, 2, 10));
        let config = parse("prefetch = \"0.4\"\n[[volume]]\nname = \"a\"\nweight = 2.0\nfloor = \"8MiB\"").unwrap();
        assert_eq!(config.prefetch, Prefetch::Fixed(0.4));
        assert_eq!(config.limits("a", 1 << 20), Limits { weight: 2.0, floor: 8, cap: usize::MAX });
    }

    #[test]
    fn what_can_not_be_is_refused_with_its_place() {
        for (more, told) in [
            ("chunk = \"much\"", "`chunk`: `much` is no number of bytes"),
            ("eviction = \"mru\"", "`eviction`"),
            ("threads = 0", "`threads`: 0 can not be"),
            ("queues = 65", "`queues`: 65 can not be"),
            ("prefetch = \"1.5\"", "`prefetch`: there is no prefetch `1.5`"),
            ("prefetch = \"much\"", "`prefetch`: there is no prefetch `much`"),
            ("log = \"1KiB\"", "`log`: 1"),
            ("[[volume]]\nname = \"a\"\nfloor = \"2MiB\"\ncap = \"1MiB\"", "`floor`: 2"),
            ("unit = 0", "`unit`: 0 chunks can not be"),
            ("window = 0", "`window`: 0 seconds can not be"),
            ("[[volume]]\nname = \"a\"\nweight = 0.0", "`weight`: 0 can not be"),
            ("[[volume]]\nname = \"a\"\nfloor = \"some\"", "`floor`: `some` is no number of bytes"),
            ("colour = \"red\"", ":4: unknown field `colour`"),
            ("[[volume]]\nname = \"a\"\ndoor = \"window\"", "unknown variant `window`"),
            (
                "[[volume]]\nname = \"a\"\ndoor = \"none\"\n[[volume]]\nname = \"a\"\ndoor = \"none\"",
                ":7: volume `a` is named twice",
            ),
        ] {
            let error = parse(more).unwrap_err().to_string();
            assert!(error.contains(told), "{more}: {error}");
        }
        let text = "map = \"disk/map\"\nfast = \"f\"\nslow = \"disk\"";
        assert!(Config::parse(text, Path::new("/v.toml")).unwrap_err().to_string().contains("lie in each other"));
        let text = "map = \"map\"\nfast = \"disk/f\"\nslow = \"disk\"";
        assert!(Config::parse(text, Path::new("/v.toml")).unwrap_err().to_string().contains("lies in it"));
        let text = "map = \"map\"\nfast = \"f\"\nslow = \"mem\"";
        assert!(Config::parse(text, Path::new("/v.toml")).unwrap_err().to_string().contains("does not last"));
    }
}

//! Where a directory is, in one word: `file:DIR`, `ring:DIR`, `raw:PATH`, `mem`, `ssd`, `hdd`, `nvm:500ns`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use crate::{
    Directory, Error, FileDevice, FileDirectory, Medium, MemoryDirectory, ModelledDirectory, Pace, RawDirectory,
    Result, RingDevice, RingDirectory,
};

/// A place that holds a directory, as people write it.
///
/// | Text | Place |
/// |---|---|
/// | `DIR`, `file:DIR` | a directory of a file system, made if it is missing |
/// | `ring:DIR` | the same, several writes at once by `io_uring` |
/// | `raw:PATH` | a formatted block device or file ([`RawDirectory`]) |
/// | `raw-ring:PATH` | the same, several writes at once by `io_uring` |
/// | `mem` | memory |
/// | `ssd`, `hdd`, `nvm:500ns` | memory with the timing of a [`Medium`], in real time |
///
/// A directory whose name is one of these words, or begins with one and a colon, is written `./ssd` or `file:ssd`.
///
/// ```
/// use ishigaki_device::{Place, open_place};
///
/// open_place("mem")?.create("log", 4096)?;
/// assert_eq!("ring:/srv/data".parse::<Place>()?, Place::Ring("/srv/data".into()));
/// assert!("tape:/dev/st0".parse::<Place>().is_err());
/// # Ok::<(), ishigaki_device::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// A directory of a file system.
    File(PathBuf),
    /// The same by `io_uring`.
    Ring(PathBuf),
    /// One device with a table of names.
    Raw(PathBuf),
    /// The same by `io_uring`.
    RawRing(PathBuf),
    /// Memory.
    Memory,
    /// Memory with the timing of a medium.
    Modelled(Medium),
}

/// Opens the directory at a place that is written as [`Place`] says.
pub fn open_place(text: &str) -> Result<Arc<dyn Directory>> {
    text.parse::<Place>()?.open()
}

impl Place {
    /// Opens the directory. Memory, modelled or not, is a new and empty one each time.
    pub fn open(&self) -> Result<Arc<dyn Directory>> {
        Ok(match self {
            Self::File(path) => Arc::new(FileDirectory::open(path)?),
            Self::Ring(path) => Arc::new(RingDirectory::open(path)?),
            Self::Raw(path) => Arc::new(RawDirectory::open(Arc::new(FileDevice::open_path(path)?))?),
            Self::RawRing(path) => Arc::new(RawDirectory::open(Arc::new(RingDevice::open_path(path)?))?),
            Self::Memory => Arc::new(MemoryDirectory::new()),
            Self::Modelled(medium) => Arc::new(ModelledDirectory::in_memory(medium.clone(), Pace::Real)),
        })
    }
}

impl Place {
    /// Opens a directory that is there already, for reading alone: nothing of it is changed.
    pub fn open_to_read(&self) -> Result<Arc<dyn Directory>> {
        Ok(match self {
            Self::File(path) | Self::Ring(path) => Arc::new(FileDirectory::to_read(path)?),
            Self::Raw(path) | Self::RawRing(path) => {
                Arc::new(RawDirectory::open(Arc::new(FileDevice::open_path_to_read(path)?))?)
            }
            Self::Memory | Self::Modelled(_) => self.open()?,
        })
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = |reason: &str| Err(Error::Invalid { name: format!("`{text}`"), reason: reason.to_owned() });
        let path = |place: fn(PathBuf) -> Self, path: &str| match path {
            "" => invalid("a path is missing"),
            path => Ok(place(PathBuf::from(path))),
        };
        match text.split_once(':') {
            Some(("file", rest)) => path(Self::File, rest),
            Some(("ring", rest)) => path(Self::Ring, rest),
            Some(("raw", rest)) => path(Self::Raw, rest),
            Some(("raw-ring", rest)) => path(Self::RawRing, rest),
            Some(("nvm", _)) => text.parse().map(Self::Modelled),
            Some((word, _)) if !word.contains('/') => invalid(
                "there is no such kind of place; there are file:DIR, ring:DIR, raw:PATH, raw-ring:PATH, mem, ssd, hdd and \
                 nvm:TIME; for a directory of that name write ./ before it",
            ),
            None if text == "mem" => Ok(Self::Memory),
            None if text == "ssd" || text == "hdd" => text.parse().map(Self::Modelled),
            None if text == "nvm" => invalid("a time is missing, as in nvm:500ns; for a directory write ./nvm"),
            _ => path(Self::File, text),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Ring(path) => write!(f, "ring:{}", path.display()),
            Self::Raw(path) => write!(f, "raw:{}", path.display()),
            Self::RawRing(path) => write!(f, "raw-ring:{}", path.display()),
            Self::Memory => f.write_str("mem"),
            Self::Modelled(medium) => medium.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBuffer;

    #[test]
    fn every_place_is_read_as_it_is_written() {
        for text in ["file:/srv/data", "ring:data", "raw:/dev/sdb", "raw-ring:disk", "mem", "ssd", "hdd", "nvm:500ns"] {
            assert_eq!(text.parse::<Place>().expect("a place").to_string(), text);
        }
        for (text, path) in [("data", "data"), ("./ssd", "./ssd"), ("/srv/a:b", "/srv/a:b"), ("file:a:b", "a:b")] {
            assert_eq!(text.parse::<Place>().expect("a directory"), Place::File(path.into()));
        }
    }

    #[test]
    fn what_is_no_place_is_told_with_the_remedy() {
        for (text, words) in [
            ("tape:/dev/st0", "raw:PATH"),
            ("memory:", "mem"),
            ("mem:1", "no such kind"),
            ("nvm", "nvm:500ns"),
            ("nvm:5", "500ns"),
            ("", "path is missing"),
            ("ring:", "path is missing"),
        ] {
            let error = text.parse::<Place>().expect_err(text).to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn every_kind_of_place_opens() {
        let place = tempfile::tempdir().expect("a place for temporary files");
        let path = |name| place.path().join(name).display().to_string();
        std::fs::File::create(path("disk")).and_then(|file| file.set_len(1 << 20)).expect("a file");
        let disk = || FileDevice::open_path(path("disk")).expect("opened");
        assert!(open_place(&format!("raw:{}", path("disk"))).is_err(), "it was never formatted");
        RawDirectory::format(Arc::new(disk())).expect("formatted");
        let texts = [path("files"), format!("file:{}", path("files")), format!("raw:{}", path("disk")), "mem".into()];
        let rings = [format!("ring:{}", path("rings")), format!("raw-ring:{}", path("disk"))];
        for text in texts.into_iter().chain(rings).chain(["ssd", "hdd", "nvm:500ns"].map(str::to_owned)) {
            let directory = match open_place(&text) {
                Err(Error::NoRing { .. }) if text.contains("ring") => continue,
                opened => opened.expect(&text),
            };
            let name = format!("d{}", directory.list().expect("listed").len());
            let device = directory.create(&name, 4096).expect("created");
            device.write_durable(0, &AlignedBuffer::zeroed(512)).expect("written");
            directory.sync().expect("synced");
        }
        assert_eq!(FileDirectory::open(path("files")).expect("opened").list().expect("listed"), ["d0", "d1"]);
        assert!(matches!(open_place(&format!("raw:{}", path("none"))), Err(Error::NotFound { .. })));
    }
}

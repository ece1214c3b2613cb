//! What the small files beside a disk say, and what is said to them.

use std::fs;
use std::io;
use std::path::Path;

use ishigaki_base::random::Seed;
use ishigaki_device::Drive;

use crate::{Error, Result};

/// The name of the file that switches the power.
pub(crate) const POWER: &str = "power";

/// The name of the file that tells what was asked for.
pub(crate) const STATUS: &str = "status";

/// Cuts the power of the disk that is emulated on that folder, by whatever process: what was not flushed survives or not, by the
/// seed, and every request fails from then on.
pub fn cut_power(at: &Path, seed: Seed) -> Result<()> {
    say(at, &format!("cut {seed}"))
}

/// Turns the power of the disk on that folder on again.
///
/// File systems that were mounted when it was cut are to be unmounted before: what they hold of the disk in memory is not what
/// is on it any more.
pub fn restore_power(at: &Path) -> Result<()> {
    say(at, "on")
}

fn say(at: &Path, word: &str) -> Result<()> {
    // Not created: elsewhere there is no such file.
    let opened = fs::OpenOptions::new().write(true).open(at.join(POWER));
    let said = opened.and_then(|mut file| io::Write::write_all(&mut file, word.as_bytes()));
    said.map_err(|cause| Error::NotThere { path: at.to_owned(), cause })
}

/// What is written to the power's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    Cut(Seed),
    On,
}

impl Switch {
    /// Reads `cut`, `cut SEED` or `on`.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split_whitespace();
        let switch = match (words.next()?, words.next()) {
            ("on", None) => Self::On,
            ("cut", None) => Self::Cut(Seed::from_entropy()),
            ("cut", Some(seed)) => Self::Cut(seed.parse().ok()?),
            _ => return None,
        };
        words.next().is_none().then_some(switch)
    }

    pub(crate) fn apply(self, drive: &Drive) {
        match self {
            Self::Cut(seed) => {
                let lost = drive.cut_power(seed);
                tracing::info!(%seed, lost, "the power is cut; sectors have lost what was written last");
            }
            Self::On => {
                drive.restore_power();
                tracing::info!("the power is on");
            }
        }
    }
}

/// What the power's file reads as.
pub(crate) fn power_text(drive: &Drive) -> String {
    if drive.is_on() { "on\n" } else { "off\n" }.to_owned()
}

/// What the status reads as.
pub(crate) fn status_text(drive: &Drive) -> String {
    let counts = drive.counts();
    let lines = [
        ("reads", counts.reads),
        ("bytes_read", counts.bytes_read),
        ("writes", counts.writes),
        ("bytes_written", counts.bytes_written),
        ("flushes", counts.flushes),
        ("trims", counts.trims),
        ("power_cuts", counts.power_cuts),
        ("memory", drive.memory().as_u64()),
    ];
    lines.map(|(word, number)| format!("{word} {number}\n")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_is_switched_by_words() {
        assert_eq!(Switch::read(b"on\n"), Some(Switch::On));
        assert_eq!(Switch::read(b" cut 0x2a \n"), Some(Switch::Cut(Seed(42))));
        assert!(matches!(Switch::read(b"cut\n"), Some(Switch::Cut(_))));
        for wrong in [&b""[..], b"off", b"cut it", b"cut 1 2", b"on 1", b"\xff"] {
            assert_eq!(Switch::read(wrong), None, "{wrong:?}");
        }
    }
}

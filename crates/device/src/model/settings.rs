//! What is known about a medium: the figures that a vendor publishes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ishigaki_base::ByteSize;

use crate::Error;

/// A kind of medium with its figures. Reads from text as `ssd`, `hdd` or `nvm:500ns`.
#[derive(Clone, Debug, PartialEq)]
pub enum Medium {
    /// Memory that keeps its content.
    Nvm(NvmSettings),
    /// Flash behind channels.
    Ssd(SsdSettings),
    /// A disk that turns.
    Hdd(HddSettings),
}

/// Non-volatile memory: every request takes a fixed time and waits for nobody.
///
/// Emulating such memory by spinning for a fixed time per log write is the method of P2.5, which uses 500 ns, 5 us and
/// 50 us.
#[derive(Clone, Debug, PartialEq)]
pub struct NvmSettings {
    /// The time of one read. 0: as fast as memory.
    pub read: Duration,
    /// The time of one write, durable or not.
    pub write: Duration,
    /// The time of one sync.
    pub sync: Duration,
}

impl NvmSettings {
    /// Every write and every sync takes this long, reads take no time.
    pub fn of(latency: Duration) -> Self {
        Self { read: Duration::ZERO, write: latency, sync: latency }
    }
}

impl Default for NvmSettings {
    /// 500 ns, the fastest of the three latencies of P2.5.
    fn default() -> Self {
        Self::of(Duration::from_nanos(500))
    }
}

/// A solid-state drive: channels that work beside each other, each on one request at a time.
///
/// A write goes to a channel that is free, or to the one that is free first: flash is written anew elsewhere, so the drive
/// chooses. A read goes to the channel that its address belongs to. There is no volatile cache: a write is answered when
/// its pages are programmed, so a durable write costs no more than another. Garbage collection is not modelled, and
/// trimming changes nothing.
///
/// The defaults are those of a SATA drive for servers with eight channels, Intel's SSD DC S3700 of 800 GB: 65 us for a
/// write alone, 50 us for a read alone, 460 MB/s for sequential writes with 32 in flight. A model with one figure per page
/// meets the two about writing within 10% by 70 us.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdSettings {
    /// Channels; at least 1.
    pub channels: usize,
    /// The unit of programming and reading; a part of it takes as long as the whole.
    pub page: ByteSize,
    /// Consecutive bytes of one request that go to the same channel. A larger request spreads over several; at least
    /// a page.
    pub stripe: ByteSize,
    /// The time that a page takes its channel to write.
    pub program: Duration,
    /// The time that a page takes its channel to read.
    pub read: Duration,
    /// The time that a sync takes (the drive's FLUSH and the file system's part), beside the channels' work.
    pub sync: Duration,
}

impl Default for SsdSettings {
    /// 8 channels, pages of 4 KiB, 64 KiB of a request per channel, 70 us to program, 50 us to read, 100 us to sync.
    fn default() -> Self {
        Self {
            channels: 8,
            page: ByteSize::kib(4),
            stripe: ByteSize::kib(64),
            program: Duration::from_micros(70),
            read: Duration::from_micros(50),
            sync: Duration::from_micros(100),
        }
    }
}

/// A hard disk: one arm, one rotation, a write cache that loses power, and read-ahead.
///
/// The defaults are the published typical figures of a 7200 rpm drive for servers, Western Digital's Ultrastar DC HC310 of
/// 6 TB (OEM specification, "Performance characteristics"; sustained rate and buffer from its data sheet).
///
/// A seek over the share `d` of all tracks takes `a + b * sqrt(d)`, where `a` is the time to the next track and `b`
/// follows from the average: two random places are `sqrt(d) = 8/15` apart on average. All tracks are of the same length
/// (a real drive's inner ones are shorter), such that reading on without end, with the change of tracks, gives the
/// sustained rate.
#[derive(Clone, Debug, PartialEq)]
pub struct HddSettings {
    /// All bytes of the disk. Devices of a directory lie one behind the other from its beginning.
    pub capacity: ByteSize,
    /// Revolutions per minute.
    pub rpm: u32,
    /// The average seek for reading, without rotation and transfer.
    pub seek_average: Duration,
    /// The seek to the next track for reading.
    pub seek_track: Duration,
    /// How much longer a seek takes for writing, because the head must be steadier.
    pub write_settle: Duration,
    /// Bytes in a second, reading or writing on without end.
    pub sustained: ByteSize,
    /// Bytes in a second between host and buffer.
    pub interface: ByteSize,
    /// What the drive's electronics take for each command.
    pub overhead: Duration,
    /// The volatile write cache. [`Device::write_at`](crate::Device::write_at) is answered when its bytes are there, and
    /// [`Device::sync`](crate::Device::sync) drains it; 0 turns it off. A durable write goes past it.
    pub write_cache: ByteSize,
    /// How far the drive reads on into its buffer after a read.
    pub read_ahead: ByteSize,
}

impl Default for HddSettings {
    /// 6 TB, 7200 rpm, 7.4 ms average seek (0.23 ms to the next track, writes 0.8 ms more), 255 MB/s sustained, 600 MB/s
    /// interface, 256 MiB of buffer, 2 MiB of it for reading ahead. The 50 us of overhead are an assumption.
    fn default() -> Self {
        Self {
            capacity: ByteSize::tb(6),
            rpm: 7200,
            seek_average: Duration::from_micros(7400),
            seek_track: Duration::from_micros(230),
            write_settle: Duration::from_micros(800),
            sustained: ByteSize::mb(255),
            interface: ByteSize::mb(600),
            overhead: Duration::from_micros(50),
            write_cache: ByteSize::mib(254),
            read_ahead: ByteSize::mib(2),
        }
    }
}

impl FromStr for Medium {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let latency = |text: &str| {
            let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
            let (number, unit) = text.split_at(digits);
            let number: u64 = number.parse().ok()?;
            match unit {
                "ns" => Some(Duration::from_nanos(number)),
                "us" => Some(Duration::from_micros(number)),
                "ms" => Some(Duration::from_millis(number)),
                _ => None,
            }
        };
        match text {
            "ssd" => return Ok(Self::Ssd(SsdSettings::default())),
            "hdd" => return Ok(Self::Hdd(HddSettings::default())),
            _ => {}
        }
        text.strip_prefix("nvm:").and_then(latency).map(|latency| Self::Nvm(NvmSettings::of(latency))).ok_or_else(
            || {
                let reason = "no modelled medium; there are `ssd`, `hdd` and `nvm:TIME` with a time as in 500ns or 5us";
                Error::Invalid { name: text.to_owned(), reason: reason.to_owned() }
            },
        )
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nvm(nvm) => {
                let time = nvm.write.as_nanos();
                let units = [("ms", 1_000_000), ("us", 1000), ("ns", 1)];
                let (unit, size) = units.into_iter().find(|(_, size)| time.is_multiple_of(*size)).unwrap_or(("ns", 1));
                write!(f, "nvm:{}{unit}", time / size)
            }
            Self::Ssd(_) => f.write_str("ssd"),
            Self::Hdd(_) => f.write_str("hdd"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_named_as_on_a_command_line() {
        for text in ["ssd", "hdd", "nvm:500ns", "nvm:5us", "nvm:1500us", "nvm:20ms"] {
            assert_eq!(text.parse::<Medium>().expect("a medium").to_string(), text);
        }
        assert_eq!("nvm:50000ns".parse::<Medium>().expect("a medium").to_string(), "nvm:50us");
        assert_eq!(
            "nvm:5us".parse::<Medium>().expect("a medium"),
            Medium::Nvm(NvmSettings::of(Duration::from_micros(5)))
        );
        for bad in ["", "nvm", "nvm:", "nvm:5", "nvm:ns", "nvm:-1ns", "tape"] {
            assert!(bad.parse::<Medium>().is_err(), "{bad}");
        }
    }
}

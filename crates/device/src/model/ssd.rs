//! When a solid-state drive has served a request.

use std::time::Duration;

use super::{Kind, Request, SsdSettings};

/// The channels and until when each is busy.
#[derive(Debug)]
pub(super) struct Ssd {
    settings: SsdSettings,
    free_at: Vec<Duration>,
}

impl Ssd {
    pub(super) fn new(settings: SsdSettings) -> Self {
        Self { free_at: vec![Duration::ZERO; settings.channels.max(1)], settings }
    }

    /// The completion of a request that arrives now.
    pub(super) fn serve(&mut self, now: Duration, request: Request) -> Duration {
        if request.kind == Kind::Sync {
            return now + self.settings.sync;
        }
        let page = self.settings.page.as_u64().max(1);
        let stripe = self.settings.stripe.as_u64().max(page);
        let mut done = now;
        let (mut position, end) = (request.position, request.position + request.length);
        while position < end {
            // Up to the end of the stripe, so that equal addresses always belong to equal channels.
            let next = (position - position % stripe + stripe).min(end);
            let pages = (next - position).div_ceil(page) as u32;
            let (channel, each) = if request.kind == Kind::Read {
                ((position / stripe % self.free_at.len() as u64) as usize, self.settings.read)
            } else {
                (self.channel_for_writing(now), self.settings.program)
            };
            let free_at = &mut self.free_at[channel];
            *free_at = now.max(*free_at) + each * pages;
            done = done.max(*free_at);
            position = next;
        }
        done
    }

    /// Of the channels that are free the one that became so last, so that a writer alone keeps to its channel and leaves
    /// the past of the others to threads whose time is behind; if none is free, the first that will be.
    fn channel_for_writing(&self, now: Duration) -> usize {
        let channels = || self.free_at.iter().enumerate();
        let free = channels().filter(|(_, free_at)| **free_at <= now).max_by_key(|(_, free_at)| **free_at);
        let first = || channels().min_by_key(|(_, free_at)| **free_at);
        free.or_else(first).map_or(0, |(channel, _)| channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: Duration = Duration::from_micros(70);

    fn write(length: u64) -> Request {
        Request { kind: Kind::Write, position: 0, length }
    }

    #[test]
    fn as_many_writes_as_channels_take_no_longer_than_one() {
        let mut ssd = Ssd::new(SsdSettings::default());
        for _ in 0..8 {
            assert_eq!(ssd.serve(Duration::ZERO, write(4096)), PROGRAM);
        }
        assert_eq!(ssd.serve(Duration::ZERO, write(512)), PROGRAM * 2, "the ninth waits");
    }

    #[test]
    fn a_write_pays_for_each_page_until_it_is_large_enough_to_spread() {
        let mut ssd = Ssd::new(SsdSettings::default());
        assert_eq!(ssd.serve(Duration::ZERO, write(4097)), PROGRAM * 2);
        let mut ssd = Ssd::new(SsdSettings::default());
        assert_eq!(ssd.serve(Duration::ZERO, write(8 * 65536)), PROGRAM * 16);
    }

    #[test]
    fn reads_of_one_place_wait_for_each_other() {
        let mut ssd = Ssd::new(SsdSettings::default());
        let mut read = |position| ssd.serve(Duration::ZERO, Request { kind: Kind::Read, position, length: 4096 });
        assert_eq!(read(0), Duration::from_micros(50));
        assert_eq!(read(65536), Duration::from_micros(50));
        assert_eq!(read(4096), Duration::from_micros(100));
    }

    #[test]
    fn published_write_latency_and_bandwidth_are_met_within_a_tenth() {
        let mut ssd = Ssd::new(SsdSettings::default());
        let alone = ssd.serve(Duration::ZERO, write(4096)).as_secs_f64();
        assert!((alone / 65e-6 - 1.0).abs() < 0.1, "{alone} s");
        let mut ssd = Ssd::new(SsdSettings::default());
        let (mut done, count, size) = ([Duration::ZERO; 32], 4000, 128 * 1024);
        for turn in 0..count {
            let slot = turn % done.len();
            done[slot] = ssd.serve(done[slot], write(size));
        }
        let rate = (count as u64 * size) as f64 / done.iter().max().expect("32 of them").as_secs_f64();
        assert!((rate / 460e6 - 1.0).abs() < 0.1, "{rate} B/s");
    }
}

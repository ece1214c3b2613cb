//! When a hard disk has served a request.
//!
//! Requests that need the head wait for it in the order of their arrival. A write goes to the write cache and is answered
//! from there; the drive empties the cache while the head has nothing else to do, upwards from where it stands, and a sync
//! waits until the cache is empty. A durable write goes to the disk itself and leaves the cache alone. After a read the
//! drive reads on, until the buffer for it is full or the head is wanted elsewhere; a read that goes on where the last one
//! ended is served from there.

use std::time::Duration;

use super::{HddSettings, Kind, Request};
use cache::Dirty;
use mechanics::{Mechanics, Use};

mod cache;
mod mechanics;

/// One disk with its only head.
#[derive(Debug)]
pub(super) struct Hdd {
    settings: HddSettings,
    mechanics: Mechanics,
    /// When the head has done what it was last asked for.
    head_free_at: Duration,
    /// Where it will be then.
    head: u64,
    /// When the way from the host is free.
    wire_free_at: Duration,
    dirty: Dirty,
    /// When the write cache last got something after it was empty.
    filled_at: Duration,
    /// When the last byte left it for the disk.
    drained_at: Duration,
    ahead: Option<Ahead>,
}

/// What reading on has brought into the buffer.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// The first byte that is there.
    begin: u64,
    /// Where the head was at the moment `when`, going on from there.
    at: u64,
    when: Duration,
    /// Where it stops.
    limit: u64,
}

impl Hdd {
    pub(super) fn new(settings: HddSettings) -> Self {
        Self {
            mechanics: Mechanics::new(&settings),
            settings,
            head_free_at: Duration::ZERO,
            head: 0,
            wire_free_at: Duration::ZERO,
            dirty: Dirty::default(),
            filled_at: Duration::ZERO,
            drained_at: Duration::ZERO,
            ahead: None,
        }
    }

    /// The completion of a request that arrives now.
    pub(super) fn serve(&mut self, now: Duration, request: Request) -> Duration {
        let now = now + self.settings.overhead;
        let Request { kind, position, length } = request;
        if kind == Kind::Read && self.dirty.holds(position, position + length) {
            return now + self.over_the_wire(length);
        }
        self.drain_until(now);
        match kind {
            Kind::Read => self.read(now, position, length),
            Kind::Write if length <= self.settings.write_cache.as_u64() => self.write_to_cache(now, position, length),
            Kind::Write | Kind::WriteDurable => self.move_head(now, position, length, Use::Writing),
            Kind::Sync => {
                self.drain_to(now, 0);
                now.max(self.drained_at)
            }
        }
    }

    fn read(&mut self, now: Duration, position: u64, length: u64) -> Duration {
        let end = position + length;
        let done = match self.ahead {
            Some(ahead) if position >= ahead.begin && position <= self.buffered(ahead, now) => {
                self.read_from_buffer(now, ahead, end)
            }
            _ => {
                let done = self.move_head(now, position, length, Use::Reading);
                self.read_on(position, end, done);
                done
            }
        };
        // The wire works while the head does; only the last bytes come after it.
        done.max(now + self.over_the_wire(length))
    }

    /// A read that begins within the buffer: waits for what the head has yet to pass.
    fn read_from_buffer(&mut self, now: Duration, ahead: Ahead, end: u64) -> Duration {
        let stopped = self.buffered(ahead, now) >= ahead.limit;
        if stopped && end > ahead.limit {
            // That place has to come round before the head can go on.
            let done = self.move_head(now, ahead.limit, end - ahead.limit, Use::Reading);
            self.read_on(ahead.begin, end, done);
            return done;
        }
        if end <= ahead.at || stopped {
            self.ahead = Some(Ahead { begin: self.oldest(ahead.begin, end), ..ahead });
            return now.max(ahead.when);
        }
        let done = ahead.when + self.mechanics.reading_on(ahead.at, end);
        self.read_on(ahead.begin, end, done);
        self.head_free_at = self.head_free_at.max(done);
        self.head = end;
        self.mechanics.stand_at(end);
        done.max(now)
    }

    /// The head goes on behind a read that has just ended.
    fn read_on(&mut self, begin: u64, end: u64, when: Duration) {
        self.ahead = Some(Ahead { begin: self.oldest(begin, end), at: end, when, limit: self.limit_after(end) });
    }

    fn limit_after(&self, end: u64) -> u64 {
        (end + self.settings.read_ahead.as_u64()).min(self.settings.capacity.as_u64().max(end))
    }

    /// The buffer keeps no more behind the reader than it reads ahead of it.
    fn oldest(&self, begin: u64, end: u64) -> u64 {
        begin.max(end.saturating_sub(self.settings.read_ahead.as_u64()))
    }

    /// Up to where the buffer is filled at that time.
    fn buffered(&self, ahead: Ahead, now: Duration) -> u64 {
        self.mechanics.reached(ahead.at, now.saturating_sub(ahead.when)).min(ahead.limit)
    }

    fn write_to_cache(&mut self, now: Duration, position: u64, length: u64) -> Duration {
        let begin = self.drain_to(now.max(self.wire_free_at), self.settings.write_cache.as_u64() - length);
        let done = begin + self.over_the_wire(length);
        if self.dirty.bytes() == 0 {
            self.filled_at = done;
        }
        self.dirty.add(position, position + length);
        self.wire_free_at = done;
        // The buffer would show what was there before.
        self.ahead = self.ahead.filter(|ahead| position + length <= ahead.begin || position >= ahead.limit);
        done
    }

    fn over_the_wire(&self, length: u64) -> Duration {
        Duration::from_secs_f64(length as f64 / self.settings.interface.as_u64().max(1) as f64)
    }

    /// The head takes the run as soon as it is free.
    fn move_head(&mut self, now: Duration, position: u64, length: u64, usage: Use) -> Duration {
        let done = self.mechanics.pass(now.max(self.head_free_at), position, length, usage);
        self.head_free_at = done;
        self.head = position + length;
        self.ahead = None;
        done
    }

    /// Empties the cache in the time that the head had nothing to do.
    fn drain_until(&mut self, now: Duration) {
        while self.head_free_at.max(self.filled_at) < now && self.drain_one(self.filled_at) {}
    }

    /// Empties the cache down to so many bytes; returns when that is done.
    fn drain_to(&mut self, now: Duration, bytes: u64) -> Duration {
        let mut done = now;
        while self.dirty.bytes() > bytes && self.drain_one(now) {
            done = self.head_free_at;
        }
        done
    }

    /// Writes one run from the cache, not before that time. False if there is none.
    fn drain_one(&mut self, earliest: Duration) -> bool {
        let Some((begin, end)) = self.dirty.take(self.head, self.mechanics.track) else { return false };
        self.drained_at = self.move_head(earliest, begin, end - begin, Use::Writing);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::ByteSize;
    use ishigaki_base::random::Seed;

    const MS: Duration = Duration::from_millis(1);

    fn disk() -> Hdd {
        Hdd::new(HddSettings::default())
    }

    fn request(kind: Kind, position: u64, length: u64) -> Request {
        Request { kind, position, length }
    }

    /// The average over random places of one request after another.
    fn average(kind: Kind) -> f64 {
        let (mut disk, mut random, count) = (disk(), Seed(1).generator(), 4000);
        let sectors = disk.settings.capacity.as_u64() / 512 - 8;
        let (mut now, mut total) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..count {
            let done = disk.serve(now, request(kind, random.u64(0..sectors) * 512, 4096));
            total += done.saturating_sub(now);
            // Thinking for a moment, so that the rotation is nowhere in particular.
            now = done + Duration::from_nanos(random.u64(0..10_000_000));
        }
        total.as_secs_f64() / f64::from(count)
    }

    #[test]
    fn random_access_meets_the_published_seek_and_latency_within_a_tenth() {
        let published = 7.4e-3 + 4.16e-3;
        let read = average(Kind::Read);
        assert!((read / published - 1.0).abs() < 0.1, "{read} s");
        let (published, write) = (8.2e-3 + 4.16e-3, average(Kind::WriteDurable));
        assert!((write / published - 1.0).abs() < 0.1, "{write} s");
    }

    #[test]
    fn sequential_transfer_meets_the_published_rate_within_a_tenth() {
        for (kind, size) in [(Kind::Read, 65536), (Kind::Read, 1 << 20), (Kind::Write, 1 << 20)] {
            let (mut disk, mut now, total) = (disk(), Duration::ZERO, 2_000_000_000_u64);
            for turn in 0..total / size {
                now = disk.serve(now, request(kind, turn * size, size));
            }
            now = disk.serve(now, request(Kind::Sync, 0, 0));
            let rate = total as f64 / now.as_secs_f64();
            assert!((rate / 255e6 - 1.0).abs() < 0.1, "{kind:?} of {size}: {rate} B/s");
        }
    }

    #[test]
    fn a_synchronous_append_waits_for_a_whole_turn() {
        let mut disk = disk();
        let first = disk.serve(Duration::ZERO, request(Kind::WriteDurable, 0, 4096));
        let second = disk.serve(first, request(Kind::WriteDurable, 4096, 4096)).saturating_sub(first);
        assert!(second > 8 * MS && second < 9 * MS, "{second:?}");
    }

    #[test]
    fn cached_writes_are_answered_at_once_and_a_sync_waits_for_them() {
        let (mut disk, mut random, mut now) = (disk(), Seed(2).generator(), Duration::ZERO);
        for _ in 0..100 {
            now = disk.serve(now, request(Kind::Write, random.u64(0..1 << 30) * 4096, 4096));
        }
        assert!(now < 10 * MS, "{now:?}");
        let drained = disk.serve(now, request(Kind::Sync, 0, 0));
        let each = drained.saturating_sub(now) / 100;
        assert!(each > 3 * MS && each < 10 * MS, "in the order of their places, each took {each:?}");
        let again = disk.serve(drained, request(Kind::Sync, 0, 0)).saturating_sub(drained);
        assert!(again < MS, "there is nothing left: {again:?}");
    }

    #[test]
    fn the_cache_empties_itself_when_the_disk_is_idle() {
        let mut disk = disk();
        let now = disk.serve(Duration::ZERO, request(Kind::Write, 1 << 40, 4096)) + 100 * MS;
        assert!(disk.serve(now, request(Kind::Sync, 0, 0)).saturating_sub(now) < MS);
    }

    #[test]
    fn a_full_cache_makes_writers_wait_for_the_head() {
        let mut disk = Hdd::new(HddSettings { write_cache: ByteSize::kib(64), ..HddSettings::default() });
        let (mut random, mut now) = (Seed(3).generator(), Duration::ZERO);
        for _ in 0..116 {
            now = disk.serve(now, request(Kind::Write, random.u64(0..1 << 30) * 4096, 4096));
        }
        assert!(now > 300 * MS, "{now:?}");
    }

    #[test]
    fn a_cached_write_reads_back_without_the_head_and_replaces_what_was_read_ahead() {
        let mut disk = disk();
        let now = disk.serve(Duration::ZERO, request(Kind::Read, 0, 4096));
        let now = disk.serve(now, request(Kind::Write, 8192, 4096));
        let read = disk.serve(now, request(Kind::Read, 8192, 4096)).saturating_sub(now);
        assert!(read < MS, "{read:?}");
        assert!(disk.ahead.is_none());
    }
}

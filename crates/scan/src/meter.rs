//! The link, measured by what goes over it anyway.
//!
//! Each transfer is one round trip and its bytes. Short ones tell the latency, long ones the bandwidth; in both the
//! newer count more. Transfers at the same time share the link, so a bandwidth is measured over all of them.

use std::time::Duration;

use ishigaki_base::ByteSize;

use crate::Link;

/// How much a new observation counts against those before it.
const WEIGHT: f64 = 0.2;
/// What is at most as long as this tells the latency.
const SHORT: ByteSize = ByteSize(4096);
/// What is at least as long as this tells the bandwidth.
const LONG: ByteSize = ByteSize(64 << 10);

/// Measures a link. Before the first observation it says what it was made with.
#[derive(Clone, Copy, Debug)]
pub struct LinkMeter {
    link: Link,
    saw_latency: bool,
    saw_bandwidth: bool,
}

impl LinkMeter {
    /// Begins with what is assumed.
    pub fn new(assumed: Link) -> Self {
        Self { link: assumed, saw_latency: false, saw_bandwidth: false }
    }

    /// The link as it is known now.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Takes in that `bytes` crossed in `time`, from the first request to the last byte: one transfer, or several at
    /// the same time.
    pub fn observe(&mut self, bytes: ByteSize, time: Duration) {
        if bytes <= SHORT {
            let seconds = blend(self.link.latency.as_secs_f64(), time.as_secs_f64(), &mut self.saw_latency);
            self.link.latency = Duration::try_from_secs_f64(seconds).unwrap_or(self.link.latency);
        } else if bytes >= LONG {
            // What is left when the request is on its way; never nothing, however the latency was measured.
            let crossing = time.saturating_sub(self.link.latency).max(time / 4).max(Duration::from_nanos(1));
            let rate = bytes.as_u64() as f64 / crossing.as_secs_f64();
            // Rates are averaged as times, or one lucky transfer would count for many slow ones.
            let per_byte = blend(1.0 / self.link.bandwidth, 1.0 / rate, &mut self.saw_bandwidth);
            self.link.bandwidth = 1.0 / per_byte;
        }
    }
}

/// The first observation replaces what was assumed, later ones count by their weight.
fn blend(before: f64, now: f64, seen: &mut bool) -> f64 {
    let weight = if std::mem::replace(seen, true) { WEIGHT } else { 1.0 };
    before + weight * (now - before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> LinkMeter {
        LinkMeter::new(Link { bandwidth: 1e9, latency: Duration::from_millis(5), in_flight: 8 })
    }

    #[test]
    fn short_transfers_tell_the_latency_and_long_ones_the_bandwidth() {
        let mut meter = meter();
        meter.observe(ByteSize(100), Duration::from_micros(200));
        assert_eq!(meter.link().latency, Duration::from_micros(200));
        assert_eq!(meter.link().bandwidth.to_bits(), 1e9_f64.to_bits());
        meter.observe(ByteSize::mb(125), Duration::from_micros(1_000_200));
        assert!((meter.link().bandwidth / 125e6 - 1.0).abs() < 1e-9, "{:?}", meter.link());
        meter.observe(ByteSize(20_000), Duration::from_secs(9));
        assert_eq!(meter.link().latency, Duration::from_micros(200), "neither short nor long");
    }

    #[test]
    fn a_link_that_changes_is_followed_and_one_outlier_is_not() {
        let mut meter = meter();
        let mut send = |mega: u64, seconds: f64, times: usize| {
            (0..times).for_each(|_| meter.observe(ByteSize::mb(mega), Duration::from_secs_f64(seconds)));
            meter.link().bandwidth / 1e6
        };
        assert!((send(100, 1.005, 5) - 100.0).abs() < 0.1);
        assert!(send(100, 0.010, 1) < 130.0, "one lucky transfer");
        assert!((send(10, 1.005, 30) - 10.0).abs() < 1.0, "ten times slower");
    }

    #[test]
    fn no_observation_makes_the_link_useless() {
        // Faster than the latency that is assumed.
        let mut quick = meter();
        quick.observe(ByteSize::mb(1), Duration::from_millis(1));
        assert!(quick.link().bandwidth < 4.1e9, "{:?}", quick.link());
        let mut meter = meter();
        meter.observe(ByteSize::gb(1), Duration::ZERO);
        meter.observe(ByteSize(0), Duration::ZERO);
        let link = meter.link();
        assert!(link.bandwidth.is_finite() && link.bandwidth > 0.0, "{link:?}");
        meter.observe(ByteSize::mb(1), Duration::MAX);
        assert!(meter.link().bandwidth > 0.0);
    }
}

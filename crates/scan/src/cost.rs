//! How long a scan takes in each placement.
//!
//! A scan is a pipeline over pages: storage, the node's processors, the link and this machine's processors work on
//! different pages at the same time. So it takes as long as its slowest stage, the *bottleneck*, and one round trip to
//! begin with.
//!
//! ```text
//!             storage        node's processors     link              client's processors
//!   local     here           –                     –                 decode, filter, aggregate
//!   fetch     of the node    –                     whole pages       decode, filter, aggregate
//!   push      of the node    decode, filter, …     results           take results in
//! ```
//!
//! Pages that this machine has in its cache cost neither storage nor link when they are fetched. A processor that
//! others use, too, gives what is left: of *c* cores with *r* others ready to run, *t* threads get *c / (r + t)* each,
//! and never more than a core.

use std::fmt;
use std::time::Duration;

use ishigaki_base::ByteSize;

use crate::Placement;

/// What is to be done, as the plan and the zone maps tell it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan {
    /// Pages that are not skipped.
    pub pages: u64,
    /// The size of a page.
    pub page_size: ByteSize,
    /// Which part of them this machine has in its cache, from 0 to 1.
    pub cached: f64,
    /// What the work on all pages takes one core of this model's usual speed: decoding, filter, aggregates.
    pub work: Duration,
    /// What comes back when the work is pushed: matching rows, or partial aggregates.
    pub results: ByteSize,
    /// What it takes one core here to take these results in.
    pub results_work: Duration,
}

/// What the way between client and node gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bytes a second, of large transfers.
    pub bandwidth: f64,
    /// A round trip.
    pub latency: Duration,
    /// How many requests are under way at a time.
    pub in_flight: u32,
}

/// One of the two machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Side {
    /// Processor cores.
    pub cores: f64,
    /// Threads of others that are running or ready to run.
    pub others: f64,
    /// How fast a core is, measured against the model's usual speed.
    pub speed: f64,
    /// Bytes a second that its storage reads; infinite where pages lie in memory.
    pub storage: f64,
}

/// Everything around a scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surroundings {
    /// The way between them.
    pub link: Link,
    /// Where the pages are.
    pub node: Side,
    /// This machine.
    pub client: Side,
}

/// What a scan may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Where the pages lie.
    Storage,
    /// The node's processors.
    NodeProcessors,
    /// The way between.
    Link,
    /// This machine's processors.
    ClientProcessors,
}

/// What a placement is estimated to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The placement.
    pub placement: Placement,
    /// From the first request to the last result.
    pub time: Duration,
    /// What crosses the link.
    pub network: ByteSize,
    /// What it waits for.
    pub bottleneck: Resource,
}

impl Side {
    /// How many cores of usual speed a scan gets that uses a thread for each core.
    pub fn power(&self) -> f64 {
        let share = self.cores / (self.others.max(0.0) + self.cores);
        self.cores * self.speed * share.min(1.0)
    }
}

impl fmt::Display for Estimate {
    /// As for `EXPLAIN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits_for = match self.bottleneck {
            Resource::Storage => "storage",
            Resource::NodeProcessors => "the node's processors",
            Resource::Link => "the link",
            Resource::ClientProcessors => "this machine's processors",
        };
        write!(f, "{}: {:.1?}, {} over the link, waits for {waits_for}", self.placement, self.time, self.network)
    }
}

/// What a placement would take.
pub fn estimate(placement: Placement, scan: &Scan, around: &Surroundings) -> Estimate {
    let all = scan.pages as f64 * scan.page_size.as_u64() as f64;
    let missing = all * (1.0 - scan.cached.clamp(0.0, 1.0));
    let work = scan.work.as_secs_f64();
    let (storage, on_node, crossing, here) = match placement {
        Placement::Local => (all / around.client.storage, 0.0, 0.0, work),
        Placement::Fetch => (missing / around.node.storage, 0.0, missing, work),
        Placement::Push => {
            (all / around.node.storage, work, scan.results.as_u64() as f64, scan.results_work.as_secs_f64())
        }
    };
    let stages = [
        (Resource::Storage, storage),
        (Resource::NodeProcessors, on_node / around.node.power()),
        (Resource::Link, time_on_link(placement, crossing, scan, &around.link)),
        (Resource::ClientProcessors, here / around.client.power()),
    ];
    let (bottleneck, slowest) = stages.into_iter().fold(stages[0], |slowest, stage| {
        // A stage that can not be done takes for ever, and compares as such.
        if stage.1.total_cmp(&slowest.1).is_gt() { stage } else { slowest }
    });
    let start = if placement == Placement::Local { Duration::ZERO } else { around.link.latency };
    let time = Duration::try_from_secs_f64(slowest).unwrap_or(Duration::MAX).saturating_add(start);
    Estimate { placement, time, network: ByteSize(crossing as u64), bottleneck }
}

/// How long bytes take to cross, in seconds. Pages that are fetched are asked for one by one, several at a time.
fn time_on_link(placement: Placement, bytes: f64, scan: &Scan, link: &Link) -> f64 {
    let streaming = if bytes > 0.0 { bytes / link.bandwidth } else { 0.0 };
    if placement != Placement::Fetch {
        return streaming;
    }
    let requests = bytes / scan.page_size.as_u64() as f64;
    let waiting = requests * link.latency.as_secs_f64() / f64::from(link.in_flight.max(1));
    streaming.max(waiting)
}

/// The faster one of fetching and pushing. Of two alike it is pushing, which leaves the link to others.
pub fn choose(scan: &Scan, around: &Surroundings) -> Estimate {
    let [fetch, push] = [Placement::Fetch, Placement::Push].map(|placement| estimate(placement, scan, around));
    if fetch.time < push.time { fetch } else { push }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gigabyte in pages of 128 KiB that takes a core a second, and gives a megabyte.
    fn scan() -> Scan {
        Scan {
            pages: 8000,
            page_size: ByteSize(125_000),
            cached: 0.0,
            work: Duration::from_secs(1),
            results: ByteSize::mb(1),
            results_work: Duration::from_millis(1),
        }
    }

    fn around(bandwidth: f64) -> Surroundings {
        let side = Side { cores: 2.0, others: 0.0, speed: 1.0, storage: 4e9 };
        Surroundings {
            link: Link { bandwidth, latency: Duration::from_micros(100), in_flight: 64 },
            node: side,
            client: side,
        }
    }

    fn millis(placement: Placement, scan: &Scan, around: &Surroundings) -> u128 {
        estimate(placement, scan, around).time.as_millis()
    }

    #[test]
    fn over_a_slow_link_the_work_travels() {
        let (scan, slow) = (scan(), around(125e6));
        let best = choose(&scan, &slow);
        assert_eq!((best.placement, best.network), (Placement::Push, ByteSize::mb(1)));
        let fetch = estimate(Placement::Fetch, &scan, &slow);
        assert_eq!((fetch.bottleneck, fetch.network), (Resource::Link, ByteSize::gb(1)));
        assert_eq!((millis(Placement::Fetch, &scan, &slow), millis(Placement::Push, &scan, &slow)), (8000, 500));
    }

    #[test]
    fn a_busy_node_is_spared_when_the_link_allows_it() {
        let (scan, mut around) = (scan(), around(3e9));
        assert_eq!(choose(&scan, &around).placement, Placement::Push, "idle, both take as long");
        around.node.others = 6.0;
        assert_eq!(millis(Placement::Push, &scan, &around), 2000, "a quarter of two cores");
        assert_eq!(choose(&scan, &around).placement, Placement::Fetch);
        around.link.bandwidth = 125e6;
        assert_eq!(choose(&scan, &around).placement, Placement::Push, "over a slow link even then");
    }

    #[test]
    fn a_busy_client_lets_the_node_work() {
        let (mut scan, mut around) = (scan(), around(3e9));
        scan.cached = 1.0;
        around.client.others = 2.0;
        assert_eq!(choose(&scan, &around).placement, Placement::Push);
    }

    #[test]
    fn what_is_in_the_cache_is_fetched_for_nothing() {
        let (mut scan, slow) = (scan(), around(125e6));
        scan.cached = 0.99;
        let fetch = estimate(Placement::Fetch, &scan, &slow);
        assert_eq!(fetch.network.as_u64(), 10_000_000);
        assert_eq!(fetch.bottleneck, Resource::ClientProcessors);
    }

    #[test]
    fn a_scan_that_keeps_everything_is_not_pushed_at_any_price() {
        let (mut scan, around) = (scan(), around(1e9));
        // Decoded rows are larger than the pages that they were in.
        scan.results = ByteSize::gb(3);
        assert_eq!(choose(&scan, &around).placement, Placement::Fetch);
    }

    #[test]
    fn small_pages_over_a_long_way_wait_for_their_requests() {
        let (mut scan, mut around) = (scan(), around(3e9));
        (scan.pages, scan.page_size) = (244_140, ByteSize::kib(4));
        around.link.latency = Duration::from_millis(1);
        let fetch = estimate(Placement::Fetch, &scan, &around);
        assert_eq!(fetch.bottleneck, Resource::Link);
        assert_eq!(millis(Placement::Fetch, &scan, &around), 3815);
        around.link.in_flight = 1024;
        assert!(millis(Placement::Fetch, &scan, &around) < 600);
    }

    #[test]
    fn what_can_not_be_done_takes_for_ever_and_nothing_takes_no_time() {
        let (mut scan, mut around) = (scan(), around(0.0));
        assert_eq!(estimate(Placement::Fetch, &scan, &around).time, Duration::MAX);
        assert_eq!(choose(&scan, &around).placement, Placement::Push);
        scan.results = ByteSize(0);
        around.node.storage = f64::INFINITY;
        scan.pages = 0;
        scan.work = Duration::ZERO;
        scan.results_work = Duration::ZERO;
        for placement in [Placement::Fetch, Placement::Push] {
            assert_eq!(estimate(placement, &scan, &around).time, around.link.latency);
        }
        assert_eq!(estimate(Placement::Local, &scan, &around).time, Duration::ZERO);
    }

    #[test]
    fn an_estimate_reads_well() {
        let text = estimate(Placement::Push, &scan(), &around(125e6)).to_string();
        assert_eq!(text, "push: 500.1ms, 976.6 KiB over the link, waits for the node's processors");
    }
}

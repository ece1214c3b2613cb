//! What the authors of paper 1 measured (Kamiya, Kawashima, Hoshino, Tatebe: P-WAL, 2017; sections 5.3 to 5.5).

/// Where they measured.
pub(super) const MACHINE: &str =
    "2 x Intel Xeon E5-2665 (16 cores), 64 GB, Dell ioDrive (SLC flash, PCI Express), CentOS 6.8, Linux 2.6.32";

/// One workload, at the number of workers where it was best.
#[derive(Clone, Copy, Debug)]
pub(super) struct Best {
    /// As our cases call it.
    pub(super) workload: &'static str,
    /// As the paper calls it.
    pub(super) name: &'static str,
    /// What a transaction does.
    pub(super) does: &'static str,
    pub(super) workers: usize,
    /// Transactions in a second, of the parallel log.
    pub(super) throughput: f64,
    /// That, divided by the best of the serial log.
    pub(super) over_serial: f64,
    /// Bytes in a second.
    pub(super) bandwidth: f64,
    /// That, divided by what the device test gave.
    pub(super) share_of_device: f64,
    /// Until a commit is known, in seconds.
    pub(super) latency: Option<f64>,
    /// The part of it after the record was flushed.
    pub(super) share_of_waiting: Option<f64>,
    /// Latency of the parallel log over the serial one's, at 16 threads.
    pub(super) latency_over_serial: Option<f64>,
}

const MIB: f64 = 1_048_576.0;

/// U-1, U-10 and New-Order; of U-10 they give no latency. The bandwidth of New-Order is that of 15 workers.
pub(super) const BEST: [Best; 3] = [
    Best {
        workload: "u1",
        name: "U-1",
        does: "one update a transaction",
        workers: 16,
        throughput: 1.82e6,
        over_serial: 10.0,
        bandwidth: 776.0 * MIB,
        share_of_device: 0.97,
        latency: Some(330e-6),
        share_of_waiting: Some(0.44),
        latency_over_serial: Some(1.8),
    },
    Best {
        workload: "u10",
        name: "U-10",
        does: "ten updates a transaction",
        workers: 15,
        throughput: 0.40e6,
        over_serial: 7.3,
        bandwidth: 710.0 * MIB,
        share_of_device: 0.89,
        latency: None,
        share_of_waiting: None,
        latency_over_serial: None,
    },
    Best {
        workload: "tpcc",
        name: "TPC-C",
        does: "New-Order, 8 warehouses, 4.4 KB a transaction",
        workers: 16,
        throughput: 67.8e3,
        over_serial: 2.3,
        bandwidth: 508.0 * MIB,
        share_of_device: 0.64,
        latency: Some(4.7e-3),
        share_of_waiting: Some(0.55),
        latency_over_serial: Some(4.8),
    },
];

/// The device test with 16 threads: bytes of a write, and bytes in a second.
pub(super) const DEVICE: [(u64, f64); 3] = [(8 << 10, 801.0 * MIB), (32 << 10, 796.0 * MIB), (64 << 10, 806.0 * MIB)];

//! What the author of paper 3 found (Kato, master's thesis 2022; chapters 3 to 5).

/// Where they measured.
pub(super) const MACHINE: &str = "two servers with an SSD each, joined by InfiniBand (RDMA, reliable connections)";

/// Remote reads over local ones, by bytes of a read (P3.3).
pub(super) const REMOTE_OVER_LOCAL: [(u64, f64); 4] = [(512, 0.85), (4096, 0.55), (16384, 0.55), (65536, 0.62)];

/// The most remote reads in a second, of 512 bytes.
pub(super) const MOST: f64 = 4.3e6;

/// The most with a thread for each request.
pub(super) const MOST_DYNAMIC: f64 = 70e3;

/// The queries, and the share of rows that their condition lets pass there (P3.5).
pub(super) const SELECTIVITY: [(u64, f64); 3] = [(1, 0.97), (6, 0.013), (15, 0.15)];

//! What the authors of paper 2 found (Nakamura, Kawashima, Tatebe: TicToc with parallel WAL on TPC-C; section 5.1).

/// Where they measured.
pub(super) const MACHINE: &str =
    "2 x Intel Xeon E5-2695 v2 (24 cores), 64 GB, CentOS 6.8; no device, a log write spins for the latency";

/// The latencies of a log write, as our media are called.
pub(super) const SHORTEST: &str = "nvm:500ns";
pub(super) const MIDDLE: &str = "nvm:5us";
pub(super) const LONGEST: &str = "nvm:50us";

/// Of early release, throughput with groups over that without, with one warehouse.
pub(super) const GROUP_OVER_NONE: [(&str, f64); 2] = [(SHORTEST, 1.0), (LONGEST, 2.25)];

/// The most transactions in a second, with ten warehouses.
pub(super) const MOST: f64 = 2.5e6;

/// What the four variants are called: our release and group, and their name.
pub(super) const VARIANTS: [(&str, u64, &str); 4] = [
    ("normal", 1, "TT (NLR) + PWAL (NoGroup)"),
    ("normal", 16, "TT (NLR) + PWAL (Group)"),
    ("early", 1, "TT (ELR) + PWAL (NoGroup)"),
    ("early", 16, "TT (ELR) + PWAL (Group)"),
];

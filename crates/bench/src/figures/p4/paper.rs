//! What the authors of paper 4 found (Saito and Yamada: one log for consolidated database servers; section 6).

/// Where they measured.
pub(super) const MACHINE: &str = "Intel Xeon E3-1270 V2 (4 cores), 16 GB; Xen 4.2.1, a virtual machine for each MySQL 5.6.17; a hard disk and an SSD";

/// What one log takes of the separate logs' time: on a disk, with so many servers, at best (figures 5 and 6).
pub(super) const AT_BEST: [(&str, u64, f64); 2] = [("hdd", 4, 0.28), ("ssd", 8, 0.93)];

/// The same with one server, at worst.
pub(super) const ALONE: [(&str, f64); 2] = [("hdd", 1.15), ("ssd", 1.02)];

/// What a delay saves of the time on a hard disk, at most.
pub(super) const DELAY_SAVES: f64 = 0.08;

/// What the sides are called there.
pub(super) const SIDES: [(&str, &str); 5] = [
    ("separate", "vanilla"),
    ("sleep", "proposal"),
    ("poll", "proposal + polling"),
    ("delay", "proposal + delay"),
    ("poll+delay", "proposal + polling + delay"),
];

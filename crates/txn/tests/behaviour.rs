//! What the API promises, call by call, under every protocol.

#![allow(clippy::duplicate_mod, reason = "the same tests, under each protocol")]

#[path = "behaviour/kit.rs"]
mod kit;

#[path = "behaviour"]
mod under_locking {
    #[path = "anomalies.rs"]
    mod anomalies;
    #[path = "calls.rs"]
    mod calls;
    #[path = "checkpoint.rs"]
    mod checkpoint;
    #[path = "concurrency.rs"]
    mod concurrency;
    #[path = "durability.rs"]
    mod durability;
    #[path = "kept.rs"]
    mod kept;
    #[path = "locking.rs"]
    mod locking;
    #[path = "memory.rs"]
    mod memory;
    #[path = "release.rs"]
    mod release;
    #[path = "snapshots.rs"]
    mod snapshots;
    #[path = "tables.rs"]
    mod tables;

    use crate::kit::*;

    fn settings() -> Settings {
        under(ProtocolKind::Locking)
    }

    /// Settings under which nobody waits: two transactions of one thread then conflict at once.
    fn impatient() -> Settings {
        Settings { lock_wait: Duration::ZERO, ..settings() }
    }
}

#[path = "behaviour"]
mod under_tictoc {
    #[path = "anomalies.rs"]
    mod anomalies;
    #[path = "calls.rs"]
    mod calls;
    #[path = "checkpoint.rs"]
    mod checkpoint;
    #[path = "concurrency.rs"]
    mod concurrency;
    #[path = "durability.rs"]
    mod durability;
    #[path = "groups.rs"]
    mod groups;
    #[path = "kept.rs"]
    mod kept;
    #[path = "memory.rs"]
    mod memory;
    #[path = "optimistic.rs"]
    mod optimistic;
    #[path = "release.rs"]
    mod release;
    #[path = "snapshots.rs"]
    mod snapshots;
    #[path = "tables.rs"]
    mod tables;

    use crate::kit::*;

    fn settings() -> Settings {
        under(ProtocolKind::TicToc)
    }

    /// Settings under which nobody waits: two transactions of one thread then conflict at once.
    fn impatient() -> Settings {
        Settings { lock_wait: Duration::ZERO, ..settings() }
    }
}

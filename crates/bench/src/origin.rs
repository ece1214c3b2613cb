//! Where figures come from: machine, source and seed.

use std::fs;

use ishigaki_base::random::Seed;

/// What must be known about a run beside its figures.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Processor, cores, kernel.
    pub machine: String,
    /// The commit of the source that was measured; `unknown` where the caller can not tell.
    pub commit: String,
    /// The seed of everything random in the run.
    pub seed: Seed,
}

impl Origin {
    /// On this machine.
    pub fn here(commit: impl Into<String>, seed: Seed) -> Self {
        Self { machine: machine(), commit: commit.into(), seed }
    }
}

/// For example `AMD EPYC 7402 24-Core Processor, 48 cores, Linux 6.1.0`; parts that the system does not tell are left out.
fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, model)| model);
    let cores = std::thread::available_parallelism().ok().map(|cores| format!("{cores} cores"));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let kernel = kernel.map(|release| format!("Linux {}", release.trim()));
    let parts: Vec<String> = [model.map(str::to_owned), cores, kernel].into_iter().flatten().collect();
    parts.join(", ")
}

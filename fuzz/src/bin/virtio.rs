//! What a virtual machine has in its memory, and its hypervisor in the account of its requests: queues, chains, and requests to a block device.

#![no_main]

use ishigaki_fuzz::seeds::plant;
use ishigaki_virtio::fuzz::{ACCOUNT, requests, sample};
use libfuzzer_sys::fuzz_target;

fn accepts(bytes: &[u8]) -> bool {
    requests(bytes) > 0
}

fn seeds() -> Vec<Vec<u8>> {
    // The same with an account, by which the first request was taken before.
    let mut taken = sample();
    taken[8] = 1;
    taken[10] = 8;
    taken[16] = 1;
    assert!(taken.len() > ACCOUNT);
    vec![sample(), taken]
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});

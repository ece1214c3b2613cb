//! What a migration keeps on the destination: the record of a stub, and the engine's log. The first byte chooses.

#![no_main]

use ishigaki_fuzz::seeds::plant;
use ishigaki_migrate::{engine, record};
use libfuzzer_sys::fuzz_target;

fn accepts(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((0, rest)) => record::fuzz::record(rest),
        Some((1, rest)) => engine::fuzz::log(rest),
        _ => false,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let tagged = |tag: u8, samples: Vec<Vec<u8>>| samples.into_iter().map(move |sample| [&[tag], &sample[..]].concat());
    tagged(0, record::fuzz::records()).chain(tagged(1, engine::fuzz::logs())).collect()
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});

//! The fixed headers of the log: chunk, record, control block. The first byte of an input says which.

#![no_main]

use ishigaki_fuzz::seeds::plant;
use ishigaki_wal::fuzz;
use libfuzzer_sys::fuzz_target;

fn accepts(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((0, sector)) => fuzz::chunk(sector),
        Some((1, header)) => fuzz::record(header),
        Some((2, sector)) => fuzz::control(sector),
        _ => false,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let tagged = |tag: u8, samples: Vec<Vec<u8>>| samples.into_iter().map(move |sample| [&[tag], &sample[..]].concat());
    tagged(0, fuzz::chunks()).chain(tagged(1, fuzz::records())).chain(tagged(2, fuzz::controls())).collect()
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});

//! What comes in over a connection: greetings and frames, in whatever pieces they arrive.
//!
//! The first byte chooses: 0 a greeting, anything else a stream of frames.

#![no_main]

use ishigaki_fabric::fuzz;
use ishigaki_fuzz::seeds::plant;
use libfuzzer_sys::fuzz_target;

fn accepts(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((0, greeting)) => fuzz::greeting(greeting),
        Some((_, stream)) => fuzz::stream(stream),
        None => false,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    vec![[&[0], &fuzz::encode_greeting()[..]].concat(), [&[1], &fuzz::encode_stream()[..]].concat()]
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});

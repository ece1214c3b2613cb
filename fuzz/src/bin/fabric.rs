//! What comes in over a connection: greetings and frames, in whatever pieces they arrive.
//!
//! The first byte chooses: 0 a greeting, 2 an offer of libfabric's, 3 messages and writes over it, anything else a stream of
//! frames.

#![no_main]

use ishigaki_fabric::fuzz;
use ishigaki_fuzz::seeds::plant;
use libfuzzer_sys::fuzz_target;

fn accepts(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((0, greeting)) => fuzz::greeting(greeting),
        Some((2, offer)) => fuzz::offer(offer),
        Some((3, messages)) => fuzz::messages(messages),
        Some((_, stream)) => fuzz::stream(stream),
        None => false,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let samples = [fuzz::encode_greeting(), fuzz::encode_stream(), fuzz::encode_offer(), fuzz::encode_messages()];
    (0..).zip(samples).map(|(kind, sample)| [&[kind], &sample[..]].concat()).collect()
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});

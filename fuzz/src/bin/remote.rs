//! What clients and storage nodes say to each other.
//!
//! The first byte chooses: 0 a request, 1 an answer, anything else a notice.

#![no_main]

use ishigaki_fuzz::seeds::plant;
use ishigaki_remote::fuzz;
use libfuzzer_sys::fuzz_target;

fn accepts(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((0, request)) => fuzz::request(request),
        Some((1, answer)) => fuzz::answer(answer),
        Some((_, notice)) => fuzz::notice(notice),
        None => false,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let tagged = |tag: u8, bytes: Vec<u8>| [&[tag], &bytes[..]].concat();
    let requests = fuzz::encode_requests().into_iter().map(|bytes| tagged(0, bytes));
    let answers = fuzz::encode_answers().into_iter().map(|bytes| tagged(1, bytes));
    requests.chain(answers).chain([tagged(2, fuzz::encode_notice())]).collect()
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});

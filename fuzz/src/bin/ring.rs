//! What comes from the other side of a ring. The first byte says what it is: a request, an answer, what a device is, a greeting, or
//! the runs of a write.

#![no_main]

use ishigaki_fuzz::seeds::plant;
use ishigaki_shm::fuzz;
use libfuzzer_sys::fuzz_target;

fn accepts(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((0, request)) => fuzz::request(request),
        Some((1, answer)) => fuzz::answer(answer),
        Some((2, opened)) => fuzz::opened(opened),
        Some((3, greeting)) => fuzz::greeting(greeting),
        Some((_, write)) => fuzz::write_all(write),
        None => false,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    (0..).zip(fuzz::samples()).map(|(kind, sample)| [&[kind], &sample[..]].concat()).collect()
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});

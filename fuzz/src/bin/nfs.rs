//! What an NFS server answers: attributes, handles, listings, bytes of files, exports, access lists, and the records that carry them.
//!
//! The first byte chooses.

#![no_main]

use ishigaki_fuzz::seeds::plant;
use ishigaki_migrate::source::nfs::fuzz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant(&fuzz::samples(), fuzz::answer), |bytes: &[u8]| {
    fuzz::answer(bytes);
});

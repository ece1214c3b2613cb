//! The redo record, as recovery decodes it.

#![no_main]

use ishigaki_fuzz::seeds::plant;
use ishigaki_txn::fuzz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant(&fuzz::records(), fuzz::redo), |record: &[u8]| {
    fuzz::redo(record);
});

//! The inputs that a run begins with: made of valid encodings, so that the fuzzer need not invent the formats.

use std::fs;
use std::path::PathBuf;

/// The environment variable that names the folder to put seeds into.
pub const FOLDER: &str = "ISHIGAKI_FUZZ_SEEDS";

/// Checks that the target takes every seed for valid, and puts them into the folder that [`FOLDER`] names, if it is set.
/// For a target's initialization, which is before its inputs are read. Were seeds refused, the fuzzer would only ever see
/// the outermost checks.
pub fn plant(seeds: &[Vec<u8>], accepts: impl Fn(&[u8]) -> bool) {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    for (number, seed) in seeds.iter().enumerate() {
        assert!(accepts(seed), "seed {number} is refused");
        if let Some(folder) = &folder {
            fs::write(folder.join(format!("seed-{number:02}")), seed).expect("the folder for seeds can be written");
        }
    }
}

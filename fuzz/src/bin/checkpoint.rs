//! Checkpoints: a page, a manifest, a whole database that is opened from one, or the note of a log that lies apart. The first byte of
//! an input says which.
//!
//! A whole database is a log's script, a manifest (each with its length before it, in 2 bytes) and the pages of one part.
//! What was opened can be opened again, and then has the same in it.

#![no_main]

use std::sync::Arc;

use ishigaki_device::MemoryDirectory;
use ishigaki_fuzz::contents::{self, contents};
use ishigaki_fuzz::image::{build, load, script_of, store};
use ishigaki_fuzz::input::Input;
use ishigaki_fuzz::seeds::plant;
use ishigaki_txn::fuzz;
use libfuzzer_sys::fuzz_target;

const MANIFEST: &str = "checkpoint";

/// Where a manifest has the number of the checkpoint, of which its parts have their names.
const NUMBER: std::ops::Range<usize> = 16..24;

fn part_name(manifest: &[u8]) -> String {
    let number = manifest.get(NUMBER).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    format!("checkpoint-{number:08}-000000")
}

fn accepts(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((0, page)) => fuzz::page(page),
        Some((1, manifest)) => fuzz::manifest(manifest),
        Some((2, whole)) => opens(Input(whole)),
        Some((3, note)) => fuzz::note(note),
        _ => false,
    }
}

fn opens(mut input: Input<'_>) -> bool {
    let mut run = || {
        let length = input.short();
        input.run(length.into())
    };
    let directory = build(run());
    let mut manifest = run().to_vec();
    fuzz::seal_manifest(&mut manifest);
    let mut pages = input.0.to_vec();
    fuzz::seal_pages(&mut pages);
    store(&directory, MANIFEST, &manifest);
    store(&directory, &part_name(&manifest), &pages);

    let Ok(database) = contents::open(&directory) else { return false };
    let before = contents(&database).expect("nobody else");
    database.close().expect("memory never fails");
    let database = contents::open(&directory).expect("it was closed");
    assert_eq!(contents(&database).expect("nobody else"), before);
    true
}

/// A database with and without something behind its checkpoint.
fn seeds() -> Vec<Vec<u8>> {
    let tagged = |tag: u8, samples: Vec<Vec<u8>>| samples.into_iter().map(move |sample| [&[tag], &sample[..]].concat());
    let small = tagged(0, fuzz::pages()).chain(tagged(1, fuzz::manifests()));
    let mut seeds: Vec<_> = small.chain(tagged(3, fuzz::notes())).collect();
    let directory = Arc::new(MemoryDirectory::new());
    for behind in [false, true] {
        let database = contents::open(&directory).expect("valid");
        let mut txn = database.session().begin().expect("open");
        let table = txn.create_table(&format!("behind {behind}")).expect("a new one");
        txn.put(table, b"key", &[7; 50]).expect("nobody else");
        txn.commit().expect("nobody else").wait().expect("memory never fails");
        if !behind {
            database.checkpoint().expect("memory never fails");
        }
        database.close().expect("memory never fails");
        let (script, manifest) = (script_of(directory.as_ref()), load(directory.as_ref(), MANIFEST));
        let mut pages = load(directory.as_ref(), &part_name(&manifest));
        // Behind the pages the last block is zero, and rows here are not.
        pages.truncate(pages.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        let mut seed = vec![2];
        for run in [&script, &manifest] {
            seed.extend_from_slice(&(run.len() as u16).to_le_bytes());
            seed.extend_from_slice(run);
        }
        seeds.push([seed, pages].concat());
    }
    seeds
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});

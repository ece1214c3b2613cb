//! A pool: an entry, a ledger, a copy of a checkpoint area, a roster, or a whole pool over entries that somebody else has
//! written. The first byte of an input says which.
//!
//! A whole pool is a row of entries (length in 2 bytes, bytes), appended to a sound log. What was opened can be brought home,
//! closed, rebuilt offline and opened again, and then has the same in it.

#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_device::{Directory, MemoryDirectory};
use ishigaki_fuzz::input::Input;
use ishigaki_fuzz::seeds::plant;
use ishigaki_logpool::{
    Durability, Error, Homes, Kind, MemberSettings, Pool, Profile, Quota, Result, Sink, fuzz, rebuild,
};
use ishigaki_wal::{CommitRule, Log};
use libfuzzer_sys::fuzz_target;

/// Paths with bytes; a directory has none.
type Contents = BTreeMap<String, Option<Vec<u8>>>;

#[derive(Debug)]
struct Here(Arc<MemoryDirectory>);

impl Homes for Here {
    fn directory(&self, _: &str) -> ishigaki_device::Result<Arc<dyn Directory>> {
        Ok(self.0.clone())
    }
}

#[derive(Default)]
struct Collector(Contents, String);

impl Sink for Collector {
    fn directory(&mut self, path: &str) -> Result<()> {
        self.0.insert(path.to_owned(), None);
        Ok(())
    }

    fn file(&mut self, path: &str, length: u64) -> Result<()> {
        self.0.insert(path.to_owned(), Some(vec![0; length as usize]));
        path.clone_into(&mut self.1);
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.0.get_mut(&self.1).and_then(Option::as_mut).expect("the file comes first");
        file[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

fn accepts(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((0, entry)) => fuzz::entry(entry),
        Some((1, body)) => fuzz::ledger(body),
        Some((2, body)) => fuzz::slot(body),
        Some((3, body)) => fuzz::roster(body),
        Some((4, entries)) => opens(Input(entries)),
        _ => false,
    }
}

fn open(directory: &Arc<MemoryDirectory>) -> Result<Pool> {
    Pool::open_together(directory.clone(), fuzz::settings())
}

fn contents(pool: &Pool) -> Contents {
    let member = pool.member("a").expect("it was added");
    let (mut found, mut directories) = (Contents::new(), vec![None]);
    while let Some(directory) = directories.pop() {
        for (name, kind) in member.list(directory.as_deref()).expect("it is there") {
            let path = directory.as_ref().map_or(name.clone(), |directory| format!("{directory}/{name}"));
            let bytes = (kind == Kind::File).then(|| {
                let file = member.open(&path).expect("it is there");
                let mut bytes = vec![0; file.length().expect("it is open") as usize];
                file.read(0, &mut bytes).expect("memory never fails");
                bytes
            });
            if bytes.is_none() {
                directories.push(Some(path.clone()));
            }
            found.insert(path, bytes);
        }
    }
    found
}

fn opens(mut input: Input<'_>) -> bool {
    let directory = Arc::new(MemoryDirectory::new());
    let pool = open(&directory).expect("a new one");
    let quota = Quota { share: ByteSize::kib(64), home: ByteSize::kib(256), files: 16 };
    pool.add("a", MemberSettings { profile: Profile::MARIADB, quota }).expect("the first one");
    pool.close().expect("memory never fails");
    drop(pool);
    let settings = ishigaki_wal::Settings {
        segment: ByteSize::kib(128),
        relief: 0,
        ..ishigaki_fuzz::settings(1, CommitRule::Watermark)
    };
    let (log, _) = Log::open(directory.clone(), settings, &mut |_, _| Ok(())).expect("it was closed");
    let stream = log.assign();
    while !input.is_empty() {
        let length = input.short();
        stream.append(input.run(length.into())).expect("memory never fails");
    }
    log.close().expect("memory never fails");
    drop((stream, log));

    let Ok(pool) = open(&directory) else { return false };
    if !pool.quarantined().is_empty() {
        return false;
    }
    let before = contents(&pool);
    pool.bring_home().expect("there is room for what was accepted");
    assert_eq!(contents(&pool), before);
    if let Ok(file) = pool.member("a").expect("it was added").create("one more") {
        match file.write(5000, b"bytes", Durability::Now) {
            // What was restored may take all that the member may have.
            Ok(()) | Err(Error::Full { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let before = contents(&pool);
    pool.close().expect("memory never fails");
    drop(pool);
    let mut collector = Collector::default();
    rebuild(directory.as_ref(), &Here(directory.clone()), "a", &mut collector).expect("it was opened");
    assert_eq!(collector.0, before);
    assert_eq!(contents(&open(&directory).expect("it was closed")), before);
    true
}

fn seeds() -> Vec<Vec<u8>> {
    let tagged = |tag: u8, samples: Vec<Vec<u8>>| samples.into_iter().map(move |sample| [&[tag], &sample[..]].concat());
    let row: Vec<u8> =
        fuzz::entries().iter().flat_map(|entry| [&(entry.len() as u16).to_le_bytes()[..], entry].concat()).collect();
    let small = tagged(0, fuzz::entries()).chain(tagged(1, fuzz::ledgers()));
    let large = tagged(2, fuzz::slots()).chain(tagged(3, fuzz::rosters()));
    small.chain(large).chain(tagged(4, vec![row, Vec::new()])).collect()
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});

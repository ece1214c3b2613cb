//! What a door costs: the same operations on a directory and through a door on it.
//!
//! `cargo run --release -p ishigaki-migrate-fs --example door_overhead -- DESTINATION FOLDER`, both empty; takes root. Prints microseconds for
//! each operation: on the directory, through the door, and their quotient; of reads and writes also those of a file that is served.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_fs::{Act, Arrivals, Change, Door, Object};

/// Nothing is missing, but of files whose size is odd it is not said.
struct OddIsServed;

impl Arrivals for OddIsServed {
    fn is_over(&self) -> bool {
        false
    }

    fn is_normal(&self, object: Object<'_>) -> io::Result<bool> {
        Ok(rustix::fs::statx(object, c"", rustix::fs::AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::SIZE)?.stx_size % 2
            == 0)
    }

    fn names_needed(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn names_change(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn moving(&self, act: Act<'_>) -> io::Result<()> {
        act()
    }

    fn seen(&self, _: Object<'_>, _: &mut rustix::fs::Statx) -> io::Result<()> {
        Ok(())
    }

    fn extras_needed(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn attributes_change(&self, _: Object<'_>, _: &Cancel, act: Act<'_>) -> io::Result<()> {
        act()
    }

    fn bytes_needed(&self, _: Object<'_>, _: Range<u64>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn change(&self, _: Object<'_>, _: &Change, _: &Cancel, act: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        act()
    }

    fn next_data(&self, _: Object<'_>, offset: u64) -> io::Result<Option<Range<u64>>> {
        Ok(Some(offset..u64::MAX))
    }

    fn hides_name(&self, name: &[u8]) -> bool {
        name == b".hidden"
    }

    fn hides_extra(&self, _: &[u8]) -> bool {
        false
    }
}

const BLOCK: usize = 4096;
const FILE: u64 = 64 << 20;

/// Microseconds for one of so many calls, the best of three rounds.
fn measure(times: u32, mut call: impl FnMut(u32) -> io::Result<()>) -> io::Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        for number in 0..times {
            call(number)?;
        }
        best = best.min(began.elapsed().as_secs_f64() * 1e6 / f64::from(times));
    }
    Ok(best)
}

fn place(number: u32) -> u64 {
    u64::from(number.wrapping_mul(2_654_435_761)) % (FILE / BLOCK as u64) * BLOCK as u64
}

fn rows(folder: &Path, file: &str) -> io::Result<Vec<(&'static str, f64)>> {
    let open = || OpenOptions::new().read(true).write(true).open(folder.join(file));
    let mut block = [7; BLOCK];
    let opened = open()?;
    let mut rows = vec![
        ("read of 4 KiB", measure(10_000, |number| opened.read_exact_at(&mut block, place(number)))?),
        ("write of 4 KiB", measure(10_000, |number| opened.write_all_at(&block, place(number)))?),
        ("open and close", measure(1_000, |_| open().map(drop))?),
    ];
    drop(opened);
    let mut large = vec![0; 1 << 20];
    let opened = open()?;
    rows.push(("read of 1 MiB", measure(64, |number| opened.read_exact_at(&mut large, u64::from(number) << 20))?));
    Ok(rows)
}

fn names(folder: &Path) -> io::Result<Vec<(&'static str, f64)>> {
    let directory = folder.join("names");
    fs::create_dir(&directory)?;
    let name = |number: u32| directory.join(number.to_string());
    let mut rows = vec![(
        "create and unlink",
        measure(1_000, |number| {
            File::create(name(number))?;
            fs::remove_file(name(number))
        })?,
    )];
    for number in 0..2_000 {
        fs::write(name(number), b"x")?;
    }
    rows.push(("stat, known to the kernel", measure(2_000, |_| fs::symlink_metadata(name(7)).map(drop))?));
    let list = |_| {
        for entry in fs::read_dir(&directory)? {
            entry?.metadata()?;
        }
        Ok(())
    };
    rows.push(("list and stat 2,000", measure(3, list)?));
    rows.push((
        "make and remove a directory",
        measure(2_000, |number| {
            let path = directory.join(format!("d{number}"));
            fs::create_dir(&path)?;
            fs::remove_dir(&path)
        })?,
    ));
    rows.push((
        "rename",
        measure(2_000, |number| {
            let [one, two] = ["one", "two"].map(|name| directory.join(name));
            if number == 0 {
                fs::write(&one, b"")?;
            }
            if number % 2 == 0 { fs::rename(&one, &two) } else { fs::rename(&two, &one) }
        })?,
    ));
    fs::remove_dir_all(&directory)?;
    Ok(rows)
}

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [destination, folder] = &paths[..] else {
        println!("usage: door_overhead DESTINATION FOLDER");
        return if paths.is_empty() { Ok(()) } else { Err("give the destination and the folder".into()) };
    };
    let bytes = vec![1; FILE as usize];
    fs::write(destination.join("even"), &bytes)?;
    fs::write(destination.join("odd"), [&bytes[..], &[1]].concat())?;
    let door = Door::open(destination, folder, Arc::new(OddIsServed))?;
    let (bare, passed, served) = (rows(destination, "even")?, rows(folder, "even")?, rows(folder, "odd")?);
    println!("{:30}{:>10}{:>10}{:>10}{:>8}", "microseconds", "bare", "door", "served", "door/bare");
    for ((bare, passed), served) in bare.iter().zip(&passed).zip(&served) {
        println!("{:30}{:10.2}{:10.2}{:10.2}{:8.2}", bare.0, bare.1, passed.1, served.1, passed.1 / bare.1);
    }
    eprintln!("names");
    for (bare, door) in names(destination)?.iter().zip(&names(folder)?) {
        println!("{:30}{:10.2}{:10.2}{:>10}{:8.2}", bare.0, bare.1, door.1, "", door.1 / bare.1);
    }
    println!("{:?}", door.counts());
    Ok(())
}

//! What is measured: each operation gives the microseconds that one of it took.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

const BLOCK: usize = 4096;
const LARGE: usize = 1 << 20;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Bytes of the file that is read and written.
    pub(crate) file: u64,
    /// Names of the directory that is listed.
    pub(crate) names: u32,
    /// Calls of an operation in a round.
    pub(crate) calls: u32,
    /// Files of the mix, and how many rounds each thread makes over its part of them.
    pub(crate) mix: (u32, u32),
}

/// A folder that is measured: the bare directory, or the door on another one.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) folder: PathBuf,
    pub(crate) sizes: Sizes,
}

/// An operation on a folder.
pub(crate) type Operation = fn(&Side) -> io::Result<f64>;

/// All of them; the mix is last.
pub(crate) const OPERATIONS: [(&str, Operation); 14] = [
    ("statfs, a request with next to no work", ask),
    ("statfs, 4 threads", ask_by_threads),
    ("open and close", open),
    ("stat", stat),
    ("create, write 16 KiB, close, unlink", create),
    ("create and unlink", create_empty),
    ("rename", rename),
    ("make and remove a directory", directory),
    ("list 1,000 names", list),
    ("list and stat 1,000", list_and_stat),
    ("read 1 MiB, in sequence", read_in_sequence),
    ("read of 4 KiB, anywhere", read_anywhere),
    ("write of 4 KiB, anywhere", write_anywhere),
    ("file server's mix, 4 threads", crate::mix::mix),
];

/// Makes what the operations work on.
pub(crate) fn prepare(directory: &Path, sizes: Sizes) -> io::Result<()> {
    let mut file = File::create(directory.join("file"))?;
    let bytes = vec![7; LARGE];
    for _ in 0..sizes.file / LARGE as u64 {
        file.write_all(&bytes)?;
    }
    fs::create_dir(directory.join("names"))?;
    for number in 0..sizes.names {
        fs::write(directory.join(format!("names/{number}")), b"some bytes")?;
    }
    fs::create_dir(directory.join("made"))
}

/// Microseconds for one of so many calls.
pub(crate) fn timed(calls: u32, mut call: impl FnMut(u32) -> io::Result<()>) -> io::Result<f64> {
    let began = Instant::now();
    for number in 0..calls {
        call(number)?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(calls.max(1)))
}

impl Side {
    fn name(&self, number: u32) -> PathBuf {
        self.folder.join(format!("names/{}", number % self.sizes.names))
    }

    fn new_name(&self, number: u32) -> PathBuf {
        self.folder.join(format!("made/{number}"))
    }

    fn file(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.folder.join("file"))
    }

    fn place(&self, number: u32) -> u64 {
        u64::from(number.wrapping_mul(2_654_435_761)) % (self.sizes.file / BLOCK as u64) * BLOCK as u64
    }
}

fn ask(side: &Side) -> io::Result<f64> {
    timed(side.sizes.calls * 5, |_| rustix::fs::statvfs(&side.folder).map(drop).map_err(io::Error::from))
}

/// For each of all, in the time that they take together.
fn ask_by_threads(side: &Side) -> io::Result<f64> {
    let threads = [(); 4];
    let each = std::thread::scope(|scope| {
        let running: Vec<_> = threads.iter().map(|()| scope.spawn(|| ask(side))).collect();
        let ended =
            running.into_iter().map(|thread| thread.join().map_err(|_| io::Error::other("a thread panicked"))?);
        ended.collect::<io::Result<Vec<_>>>()
    })?;
    Ok(each.iter().sum::<f64>() / (each.len() * each.len()) as f64)
}

fn open(side: &Side) -> io::Result<f64> {
    timed(side.sizes.calls, |number| File::open(side.name(number)).map(drop))
}

fn stat(side: &Side) -> io::Result<f64> {
    timed(side.sizes.calls, |number| fs::symlink_metadata(side.name(number)).map(drop))
}

fn create(side: &Side) -> io::Result<f64> {
    let bytes = [3; 16 << 10];
    timed(side.sizes.calls, |number| {
        fs::write(side.new_name(number), bytes)?;
        fs::remove_file(side.new_name(number))
    })
}

fn create_empty(side: &Side) -> io::Result<f64> {
    timed(side.sizes.calls, |number| {
        File::create(side.new_name(number))?;
        fs::remove_file(side.new_name(number))
    })
}

fn rename(side: &Side) -> io::Result<f64> {
    let [one, two] = ["made/one", "made/two"].map(|name| side.folder.join(name));
    fs::write(&one, b"")?;
    let took =
        timed(
            side.sizes.calls / 2 * 2,
            |number| {
                if number % 2 == 0 { fs::rename(&one, &two) } else { fs::rename(&two, &one) }
            },
        )?;
    fs::remove_file(&one)?;
    Ok(took)
}

fn directory(side: &Side) -> io::Result<f64> {
    timed(side.sizes.calls, |number| {
        fs::create_dir(side.new_name(number))?;
        fs::remove_dir(side.new_name(number))
    })
}

fn list(side: &Side) -> io::Result<f64> {
    timed(10, |_| {
        for entry in fs::read_dir(side.folder.join("names"))? {
            entry?;
        }
        Ok(())
    })
}

fn list_and_stat(side: &Side) -> io::Result<f64> {
    timed(5, |_| {
        for entry in fs::read_dir(side.folder.join("names"))? {
            entry?.metadata()?;
        }
        Ok(())
    })
}

fn read_in_sequence(side: &Side) -> io::Result<f64> {
    let (mut file, mut bytes) = (side.file()?, vec![0; LARGE]);
    timed((side.sizes.file / LARGE as u64) as u32, |_| file.read_exact(&mut bytes))
}

fn read_anywhere(side: &Side) -> io::Result<f64> {
    let (file, mut bytes) = (side.file()?, [0; BLOCK]);
    timed(side.sizes.calls * 10, |number| file.read_exact_at(&mut bytes, side.place(number)))
}

fn write_anywhere(side: &Side) -> io::Result<f64> {
    let (file, bytes) = (side.file()?, [5; BLOCK]);
    timed(side.sizes.calls * 10, |number| file.write_all_at(&bytes, side.place(number)))
}

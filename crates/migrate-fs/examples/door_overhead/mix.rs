//! What a file server does all day, as filebench's `fileserver` has it: threads that create, append, read whole, remove and look.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::operations::Side;

const THREADS: u32 = 4;
/// Files in a directory.
const WIDTH: u32 = 20;
/// Bytes of a file, on average, and of what is appended.
const FILE: usize = 128 << 10;
const APPENDED: usize = 16 << 10;

/// Files of one thread, which no other one touches.
struct Own<'a> {
    folder: &'a Path,
    files: u32,
    rng: fastrand::Rng,
    bytes: Vec<u8>,
}

impl Own<'_> {
    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{}/{number}", number / WIDTH))
    }

    /// A file that is there: all are, but for the one that a round has just removed.
    fn any(&mut self, but: u32) -> PathBuf {
        let number = self.rng.u32(1..self.files);
        self.path((but + number) % self.files)
    }

    fn write(&mut self, number: u32) -> io::Result<()> {
        let length = self.rng.usize(FILE / 2..FILE * 3 / 2);
        File::create(self.path(number))?.write_all(&self.bytes[..length])
    }

    fn round(&mut self, number: u32) -> io::Result<()> {
        let path = self.path(number);
        fs::remove_file(&path)?;
        let read = self.any(number);
        self.write(number)?;
        let length = self.rng.usize(1..APPENDED * 2);
        OpenOptions::new().append(true).open(&path)?.write_all(&self.bytes[..length])?;
        let mut whole = Vec::new();
        File::open(read)?.read_to_end(&mut whole)?;
        let seen = self.any(number);
        fs::metadata(seen)?;
        Ok(())
    }
}

/// Microseconds for a round, of all threads together.
pub(crate) fn mix(side: &Side) -> io::Result<f64> {
    let (files, rounds) = side.sizes.mix;
    let folder = side.folder.join("mix");
    let threads = (0..THREADS).map(|thread| {
        let folder = folder.join(thread.to_string());
        let files = (files / THREADS).max(2);
        for directory in 0..files.div_ceil(WIDTH) {
            fs::create_dir_all(folder.join(directory.to_string()))?;
        }
        let mut own =
            Own { folder: &folder, files, rng: fastrand::Rng::with_seed(thread.into()), bytes: vec![9; 2 * FILE] };
        for number in 0..files {
            own.write(number)?;
        }
        Ok((folder.clone(), files))
    });
    let threads = threads.collect::<io::Result<Vec<_>>>()?;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let running: Vec<_> = threads
            .iter()
            .zip(0_u64..)
            .map(|((folder, files), seed)| {
                scope.spawn(move || {
                    let rng = fastrand::Rng::with_seed(seed);
                    let mut own = Own { folder, files: *files, rng, bytes: vec![9; 2 * FILE] };
                    (0..rounds).try_for_each(|_| (0..*files).try_for_each(|number| own.round(number)))
                })
            })
            .collect();
        running.into_iter().try_for_each(|thread| thread.join().map_err(|_| io::Error::other("a thread panicked"))?)
    })?;
    let took = began.elapsed().as_secs_f64() * 1e6;
    let done: u32 = threads.iter().map(|(_, files)| files * rounds).sum();
    fs::remove_dir_all(&folder)?;
    Ok(took / f64::from(done.max(1)))
}

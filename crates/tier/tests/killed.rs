//! A process that is killed while it writes, on files and with memory of this host: what it had answered is there, synced or not.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, Device, Directory, FileDirectory};
use ishigaki_testkit::seeded_runs;
use ishigaki_tier::{BLOCK, Memory, Mode, Pool, Settings, Volume};

/// Where a process of this program writes, told by a variable of its environment.
const TASK: &str = "ISHIGAKI_TEST_KILLED";

const CHUNK: u64 = 256 << 10;
/// Blocks of the volume; the fast device has room for a quarter of them.
const BLOCKS: u64 = 32 * CHUNK / BLOCK;

fn open(place: &Path) -> (Pool, Volume) {
    let directory = Arc::new(FileDirectory::open(place).unwrap());
    let fast = directory.open("fast").or_else(|_| directory.create("fast", 9 * CHUNK)).unwrap();
    let settings =
        Settings { chunk: ByteSize(CHUNK), log: ByteSize::mib(8), bypass: ByteSize(0), ..Settings::default() };
    let memory = Memory::in_folder(place.join("memory"));
    let pool = Pool::open(directory.clone(), fast, directory, Some(&memory), &settings).unwrap();
    let volume = pool.volume("volume");
    let volume = volume.or_else(|_| pool.create("volume", BLOCKS * BLOCK, Mode::WriteBack)).unwrap();
    (pool, volume)
}

fn page(value: u64) -> AlignedBuffer {
    let mut page = AlignedBuffer::zeroed(BLOCK as usize);
    page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
    page
}

/// No test of its own: what the other process does. It tells of each block before it writes it, and when it was answered.
#[test]
fn writes_until_it_is_killed() {
    let Some(place) = std::env::var_os(TASK).map(PathBuf::from) else { return };
    let (_pool, volume) = open(&place);
    let mut random = fastrand::Rng::new();
    let mut out = std::io::stdout();
    for value in random.u64(..1 << 60).. {
        let block = random.u64(..BLOCKS);
        writeln!(out, "to {block} {value}").unwrap();
        volume.write_at(block * BLOCK, &page(value)).unwrap();
        writeln!(out, "is {block} {value}").unwrap();
        if random.u8(..) == 0 {
            volume.sync().unwrap();
        }
    }
}

fn kills(seed: Seed) {
    // Of the memory, the whole folder: the test is of processes, not of disks.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::create_dir(folder.path().join("memory")).unwrap();
    // What each block may be: what was answered last, or what was not answered.
    let mut model: Vec<Vec<u64>> = vec![vec![0]; BLOCKS as usize];
    for kill in 0..5 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "writes_until_it_is_killed", "--nocapture"]).env(TASK, folder.path());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let told = BufReader::new(process.stdout.take().unwrap());
        let listening = std::thread::spawn(move || told.lines().map_while(Result::ok).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(50 + seed.derive(kill).0 % 400));
        process.kill().unwrap();
        process.wait().unwrap();
        let mut answered = 0;
        for line in listening.join().unwrap() {
            let Ok([what, block, value]) = <[&str; 3]>::try_from(line.split(' ').collect::<Vec<_>>()) else { continue };
            let (Ok(block), Ok(value)) = (block.parse::<usize>(), value.parse()) else { continue };
            match what {
                "to" => model[block].push(value),
                "is" => model[block] = vec![value],
                _ => continue,
            }
            answered += u64::from(what == "is");
        }
        let (_pool, volume) = open(folder.path());
        let mut found = AlignedBuffer::zeroed(BLOCK as usize);
        for (block, values) in model.iter_mut().enumerate() {
            volume.read_at(block as u64 * BLOCK, &mut found).unwrap();
            let is_there = values.iter().find(|&&value| found[..] == page(value)[..]);
            let Some(&value) = is_there else { panic!("block {block} is none of {values:?}, after {answered} writes") };
            *values = vec![value];
        }
    }
}

#[test]
fn what_a_killed_process_has_written_is_there() {
    seeded_runs("what_a_killed_process_has_written_is_there", 4, kills);
}

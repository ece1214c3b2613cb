//! Random reads of a file: local, and from a storage node of the same host over TCP, in turns.
//!
//! `cargo run --release -p ishigaki-remote --example remote_reads -- DIRECTORY [SECONDS] [ROUNDS] [SIZE:DEPTH]`
//!
//! The node is a process of its own: this program, started again.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, Device, Directory, FileDevice, FileDirectory, Reads};
use ishigaki_fabric::Security;
use ishigaki_remote::{Client, ClientSettings, Export, Mode, NodeSettings, ReadQueue, RemoteDevice, StorageNode};

const LENGTH: u64 = 128 << 20;
const MODES: [Mode; 3] = [Mode::Dynamic, Mode::Static, Mode::Ring];

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [node, place, mode] = &arguments[..]
        && node == "node"
    {
        return serve(Path::new(place), mode.parse()?);
    }
    let place = arguments.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let number = |at: usize, default| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (time, rounds) = (Duration::from_secs_f64(number(1, 0.1)), number(2, 3.0) as usize);
    let place = place.join(format!("remote-reads-{}", std::process::id()));
    let case =
        |text: &String| text.split_once(':').and_then(|(size, depth)| Some((size.parse().ok()?, depth.parse().ok()?)));
    let all = vec![(4096, 1), (4096, 64), (65536, 1), (65536, 16)];
    let cases = arguments.get(3).and_then(case).map_or(all, |case| vec![case]);
    let outcome = compare(&place, time, rounds, &cases);
    // Nothing more can be done about what can not be removed.
    let _ = std::fs::remove_dir_all(&place);
    outcome
}

/// The node: says where it listens, and serves until its standard input ends.
fn serve(place: &Path, mode: Mode) -> Outcome<()> {
    let settings = NodeSettings { listen: "127.0.0.1:0".to_owned(), mode, ..NodeSettings::default() };
    let node = StorageNode::start(&Export::Folder(place.to_owned()), settings, Security::Open)?;
    println!("{}", node.address());
    std::io::stdin().lines().for_each(drop);
    Ok(())
}

struct Node {
    process: Child,
    mode: Mode,
    client: Client,
    device: Arc<RemoteDevice>,
}

impl Node {
    fn start(place: &Path, mode: Mode) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("node")
            .arg(place)
            .arg(mode.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        let said = process.stdout.take().ok_or("the node says nothing")?;
        std::io::BufReader::new(said).read_line(&mut address)?;
        let client = Client::connect(address.trim(), &ClientSettings::default(), &Security::Open)?;
        let device = Arc::new(client.directory("").open_device("pages")?);
        Ok(Self { process, mode, client, device })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

fn compare(place: &Path, time: Duration, rounds: usize, cases: &[(usize, u32)]) -> Outcome<()> {
    fill(place)?;
    let local = Arc::new(FileDevice::open_path(place.join("pages"))?);
    let nodes = MODES.iter().map(|&mode| Node::start(place, mode)).collect::<Outcome<Vec<_>>>()?;
    println!(
        "{:>6} {:>4} {:>9} {:>10} {:>10} {:>6} {:>6}",
        "size", "QD", "side", "median/s", "best/s", "ratio", "best"
    );
    for &(size, depth) in cases {
        let mut here = Vec::new();
        let mut there = vec![Vec::new(); nodes.len()];
        for round in 0..rounds {
            let seed = Seed(round as u64);
            here.push(if depth == 1 {
                one_by_one(local.as_ref(), size, time, seed)?
            } else {
                in_flight_here(&local, size, depth, time, seed)?
            });
            for (node, rates) in nodes.iter().zip(&mut there) {
                rates.push(if depth == 1 {
                    one_by_one(node.device.as_ref(), size, time, seed)?
                } else {
                    in_flight_there(&node.device, size, depth, time, seed)?
                });
            }
        }
        let (base, most) = (median(&mut here), best(&here));
        println!("{size:>6} {depth:>4} {:>9} {base:>10.0} {most:>10.0}", "local");
        for (node, rates) in nodes.iter().zip(&mut there) {
            let (rate, best, mode) = (median(rates), best(rates), node.mode.to_string());
            let (ratio, of_best) = (rate / base, best / most);
            println!("{size:>6} {depth:>4} {mode:>9} {rate:>10.0} {best:>10.0} {ratio:>6.2} {of_best:>6.2}");
        }
    }
    for node in &nodes {
        let mut times = (0..2000).map(|_| Ok(node.client.blank(4096)?.as_secs_f64())).collect::<Outcome<Vec<_>>>()?;
        println!("network alone, 4096 bytes, {}: {:.1} us", node.mode, median(&mut times) * 1e6);
    }
    Ok(())
}

fn fill(place: &Path) -> Outcome<()> {
    let device = FileDirectory::open(place)?.create("pages", LENGTH)?;
    let mut buffer = AlignedBuffer::zeroed(1 << 20);
    for offset in (0..LENGTH).step_by(1 << 20) {
        for (block, bytes) in buffer.chunks_mut(4096).enumerate() {
            bytes[..8].copy_from_slice(&(offset + block as u64 * 4096).to_le_bytes());
        }
        device.write_at(offset, &buffer)?;
    }
    Ok(device.sync()?)
}

/// Panics if these are not the bytes of that place.
fn check(offset: u64, bytes: &[u8]) {
    assert_eq!(bytes[..8], offset.to_le_bytes(), "other bytes than were written");
}

fn one_by_one(device: &dyn Device, size: usize, time: Duration, seed: Seed) -> Outcome<f64> {
    let (mut random, mut buffer) = (seed.generator(), AlignedBuffer::zeroed(size));
    let (begin, mut count) = (Instant::now(), 0_u32);
    while begin.elapsed() < time {
        let offset = random.u64(0..LENGTH / size as u64) * size as u64;
        device.read_at(offset, &mut buffer)?;
        check(offset, &buffer);
        count += 1;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

fn in_flight_here(device: &Arc<FileDevice>, size: usize, depth: u32, time: Duration, seed: Seed) -> Outcome<f64> {
    let (mut random, mut reads) = (seed.generator(), Reads::new(depth)?);
    let mut idle: Vec<_> = (0..depth).map(|_| AlignedBuffer::zeroed(size)).collect();
    let (begin, mut count, mut landed) = (Instant::now(), 0_u32, Vec::new());
    while begin.elapsed() < time || reads.in_flight() > 0 {
        while begin.elapsed() < time
            && let Some(buffer) = idle.pop()
        {
            let offset = random.u64(0..LENGTH / size as u64) * size as u64;
            reads.begin(device, offset, buffer, size, offset)?;
        }
        reads.wait(&mut landed, None)?;
        for read in landed.drain(..) {
            read.outcome?;
            check(read.token, &read.buffer);
            idle.push(read.buffer);
            count += 1;
        }
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

fn in_flight_there(device: &Arc<RemoteDevice>, size: usize, depth: u32, time: Duration, seed: Seed) -> Outcome<f64> {
    let (mut random, mut queue) = (seed.generator(), ReadQueue::new(device)?);
    let (begin, mut count) = (Instant::now(), 0_u32);
    while begin.elapsed() < time || queue.in_flight() > 0 {
        while begin.elapsed() < time && queue.in_flight() < depth as usize {
            let offset = random.u64(0..LENGTH / size as u64) * size as u64;
            queue.begin(offset, size, offset)?;
        }
        queue.wait(|offset, bytes| {
            check(offset, bytes?);
            count += 1;
            Ok(())
        })?;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

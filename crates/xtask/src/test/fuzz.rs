//! Fuzzes what reads the medium: builds the targets of `fuzz/` and runs each for a while, as many at a time as there are
//! cores.
//!
//! `libFuzzer` is compiled in by the crate `libfuzzer-sys`. It needs no nightly compiler: the coverage instrumentation is a
//! pass of LLVM that a stable compiler has too, and the sanitizers, which it has not, would watch over `unsafe` code, of
//! which there is none. The flags are for the whole compilation, so this step has a folder of its own.
//!
//! A run begins with the seeds that the target makes of valid encodings, and with what earlier runs found to lead further
//! (`target/fuzz/corpus`). An input that fails stays in `target/fuzz/failures`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::{available_parallelism, scope};
use std::{env, io};

use cargo_metadata::{Message, TargetKind};

use super::cargo::Cargo;
use super::options::Options;
use crate::Failure;

/// What cargo-fuzz asks of the compiler, without the sanitizers. Comparisons are traced so that magic numbers are found.
const INSTRUMENTATION: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Seconds for each target, unless told otherwise.
const SECONDS: u32 = 60;

/// One target, built.
struct Target {
    name: String,
    program: PathBuf,
}

/// Builds the targets and runs them; an error if one finds something.
pub(crate) fn run(cargo: &Cargo, options: &Options) -> Result<(), Failure> {
    let place = cargo.target_directory()?.join("fuzz");
    let targets = build(cargo, &place)?;
    if targets.is_empty() {
        return Err("there is no fuzz target\n    remedy: see `fuzz/src/bin`".into());
    }
    let seconds = options.fuzz_seconds.unwrap_or(SECONDS);
    let waiting = Mutex::new(targets.iter());
    let failed = Mutex::new(Vec::new());
    let lanes = available_parallelism().map_or(1, usize::from).min(targets.len());
    scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    // Released before the target runs.
                    let next = waiting.lock().ok().and_then(|mut waiting| waiting.next());
                    let Some(target) = next else { break };
                    if let Err(error) = fuzz(target, &place, seconds) {
                        println!("{error}");
                        failed.lock().expect("nobody panics with it").push(target.name.clone());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// Builds them all, linted. Naming the platform keeps the flags away from build scripts and macros.
fn build(cargo: &Cargo, place: &Path) -> Result<Vec<Target>, Failure> {
    let manifest = cargo.root().join("fuzz/Cargo.toml");
    cargo.plain().args(["fmt", "--check", "--manifest-path"]).arg(&manifest).run()?;
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    let output = cargo
        .linted()?
        .env("RUSTFLAGS", format!("{flags} {INSTRUMENTATION} -Dwarnings").trim())
        .args(["build", "--release", "--message-format=json-render-diagnostics", "--manifest-path"])
        .arg(&manifest)
        .args(["--target", &host()?, "--target-dir"])
        .arg(place)
        .output()?;
    let mut targets = Vec::new();
    for message in Message::parse_stream(io::Cursor::new(output)) {
        match message.map_err(|error| format!("cargo's messages: {error}"))? {
            Message::CompilerArtifact(artifact) if artifact.target.kind.contains(&TargetKind::Bin) => {
                let target = |program| Target { name: artifact.target.name, program };
                targets.extend(artifact.executable.map(|program| target(program.into())));
            }
            _ => {}
        }
    }
    targets.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(targets)
}

/// The platform that this compiler compiles for.
fn host() -> Result<String, Failure> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().map_err(|error| format!("rustc did not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not name its platform".to_owned())
}

/// Runs one target. What it says goes into a file, since two speak at once.
fn fuzz(target: &Target, place: &Path, seconds: u32) -> Result<(), Failure> {
    let Target { name, program } = target;
    let folder = |kind: &str| place.join(kind).join(name);
    let (corpus, seeds, failures) = (folder("corpus"), folder("seeds"), folder("failures"));
    // Seeds of an earlier format are no seeds.
    let _ = fs::remove_dir_all(&seeds);
    for folder in [&corpus, &seeds, &failures] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let said = folder("said").with_extension("log");
    let file = fs::create_dir_all(place.join("said")).and_then(|()| File::create(&said));
    let file = file.map_err(|error| format!("{}: {error}", said.display()))?;
    let mut command = Command::new(program);
    command
        .args([&corpus, &seeds])
        .arg(if seconds == 0 { "-runs=0".to_owned() } else { format!("-max_total_time={seconds}") })
        .args(["-max_len=8192", "-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1"])
        .arg(format!("-artifact_prefix={}/", failures.display()))
        .env("ISHIGAKI_FUZZ_SEEDS", &seeds)
        .stdin(Stdio::null())
        .stderr(file);
    if let Some(seed) = env::var("ISHIGAKI_SEED").ok().and_then(|seed| seed.parse::<u64>().ok()) {
        // libFuzzer's are shorter, and 0 means any.
        command.arg(format!("-seed={}", (seed as u32).max(1)));
    }
    let status = command.status().map_err(|error| format!("{}: {error}", program.display()))?;
    let said = fs::read(&said).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    if status.success() {
        println!("{name:<10} {}", digest(&said));
        return Ok(());
    }
    let replay = match artifact(&said) {
        Some(input) => format!("    replay: {} {input}\n    then make a test of it", program.display()),
        None => "    it left no input: it failed before the first one".to_owned(),
    };
    Err(format!("{name} ({status}):\n{}\n{replay}", end_of(&said)))
}

/// How far a run came: its inputs, and what they covered.
fn digest(said: &str) -> String {
    let number_behind = |line: &str, word: &str| {
        let words = line.split_whitespace().skip_while(|other| *other != word);
        words.skip(1).find(|word| word.chars().all(|letter| letter.is_ascii_digit())).unwrap_or("?").to_owned()
    };
    let find = |mark: &str| said.lines().rev().find(|line| line.contains(mark)).unwrap_or_default();
    let inputs = number_behind(find("number_of_executed_units:"), "stat::number_of_executed_units:");
    let covered = number_behind(find(" cov: "), "cov:");
    let seed = find("INFO: Seed:").rsplit(' ').next().unwrap_or_default();
    format!("{inputs} inputs, {covered} branches covered, seed {seed}")
}

/// The file that holds the input that failed.
fn artifact(said: &str) -> Option<&str> {
    said.lines().rev().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path.trim())
}

/// From the first complaint on, or the last lines; the fuzzer's own progress is left out.
fn end_of(said: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<_> = said.lines().filter(|line| !line.starts_with(['#', '\t'])).collect();
    let reasons = ["panicked at", "memory allocation of", "ERROR: libFuzzer"];
    let first = lines.iter().position(|line| reasons.iter().any(|reason| line.contains(reason)));
    let start = first.unwrap_or(lines.len().saturating_sub(LINES));
    lines[start..].iter().take(LINES).map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = "\
INFO: Seed: 77
#2	INITED cov: 66 ft: 67 corp: 6/278b exec/s: 0 rss: 27Mb

thread '<unnamed>' (1) panicked at crates/x.rs:1:1:
it is wrong
==1== ERROR: libFuzzer: deadly signal
artifact_prefix='/t/failures/x/'; Test unit written to /t/failures/x/crash-12
Base64: RlVaIQ==";

    #[test]
    fn a_failure_is_told_with_its_reason_and_its_input() {
        assert_eq!(artifact(FAILED), Some("/t/failures/x/crash-12"));
        let end = end_of(FAILED);
        assert!(end.contains("it is wrong") && !end.contains("INITED"), "{end}");
        let too_much = FAILED.replace("panicked at crates/x.rs:1:1:", "memory allocation of 99999 bytes failed");
        assert!(end_of(&too_much).contains("99999"));
    }

    #[test]
    fn a_success_is_told_in_numbers() {
        let said = "INFO: Seed: 77\n#9\tDONE   cov: 100 ft: 152 corp: 35\nstat::number_of_executed_units: 5078";
        assert_eq!(digest(said), "5078 inputs, 100 branches covered, seed 77");
        assert!(artifact(said).is_none());
    }
}

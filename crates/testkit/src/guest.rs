//! Virtual machines: QEMU without hardware support, and Debian's kernel, from the image that `cargo xtask guest` makes. A machine does
//! one task of the image's, and says on its console what the test is to know.
//!
//! Takes `qemu-system-x86_64`, and `strip` for a machine that has a program of the test's own.

#![expect(clippy::missing_panics_doc, reason = "a test that can not have its machine fails")]

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A machine without hardware support takes its time.
const PATIENCE: Duration = Duration::from_mins(5);

/// A machine that is to be started.
#[derive(Debug)]
pub struct Machine {
    name: String,
    image: PathBuf,
    megabytes: u32,
    words: Vec<String>,
    arguments: Vec<String>,
    additions: Vec<Vec<u8>>,
}

impl Machine {
    /// One that does this task, with so much memory. `folder`: the tests' `CARGO_TARGET_TMPDIR`, beside which the image is.
    pub fn new(folder: &str, task: &str, megabytes: u32) -> Self {
        let words = ["console=ttyS0", "quiet", "panic=-1", &format!("task={task}")].map(str::to_owned).to_vec();
        let image = Path::new(folder).join("../guest");
        Self { name: "guest".to_owned(), image, megabytes, words, arguments: Vec::new(), additions: Vec::new() }
    }

    /// How its lines begin in the test's output.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// With this addition to the image.
    #[must_use]
    pub fn with(mut self, part: &str) -> Self {
        self.additions.push(fs::read(self.part(part)).expect("it can be read"));
        self
    }

    /// With that program of this host's as `/bin/program`, without what is for debugging.
    #[must_use]
    pub fn with_program(mut self, program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let stripped = folder.path().join("program");
        let strip = Command::new("strip").arg("-o").arg(&stripped).arg(program).status();
        assert!(strip.expect("strip is there: apt-get install binutils").success(), "{}", program.display());
        let mut archive = Vec::new();
        let bytes = fs::read(&stripped).expect("it can be read");
        archived(&mut archive, "bin", 0o040_755, &[]).expect("into memory");
        archived(&mut archive, "bin/program", 0o100_755, &bytes).expect("into memory");
        archived(&mut archive, "TRAILER!!!", 0, &[]).expect("into memory");
        self.additions.push(archive);
        self
    }

    /// With a word on the kernel's command line; `NAME=VALUE` is in the environment of the task.
    #[must_use]
    pub fn told(mut self, word: &str) -> Self {
        self.words.push(word.to_owned());
        self
    }

    /// With arguments of QEMU's.
    #[must_use]
    pub fn arguments<S: AsRef<str>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// With the file system of the tag `log` that somebody serves on this socket.
    #[must_use]
    pub fn with_log(self, socket: &Path) -> Self {
        let chardev = format!("socket,id=log,path={}", socket.display());
        self.arguments(["-chardev", &chardev, "-device", "vhost-user-fs-pci,chardev=log,tag=log"])
    }

    /// With the disk, `/dev/vda`, that a service has on this socket. When the service ends, QEMU connects to the next one.
    #[must_use]
    pub fn with_volume(self, socket: &Path) -> Self {
        let chardev = format!("socket,id=volume,path={},reconnect=1", socket.display());
        self.arguments(["-chardev", &chardev, "-device", "vhost-user-blk-pci,chardev=volume"])
    }

    /// With a disk, `/dev/vda`. What the guest was told is written is with this host, which may not be durable yet.
    #[must_use]
    pub fn with_disk(self, file: &Path) -> Self {
        let drive = format!("file={},if=virtio,format=raw,cache=writethrough", file.display());
        self.arguments(["-drive", &drive])
    }

    fn part(&self, name: &str) -> PathBuf {
        let path = self.image.join(name);
        assert!(path.exists(), "there is no {}; make it with `cargo xtask guest`", path.display());
        path
    }

    /// Starts it.
    pub fn start(&self) -> Guest {
        // The kernel takes several archives, one behind the other, each from a multiple of four bytes on.
        let mut memory = tempfile::NamedTempFile::new().expect("a file");
        let image = fs::read(self.part("initramfs")).expect("it can be read");
        for part in std::iter::once(&image).chain(&self.additions) {
            let padding = part.len().next_multiple_of(4) - part.len();
            memory.write_all(part).and_then(|()| memory.write_all(&[0; 4][..padding])).expect("it is written");
        }
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-accel", "tcg", "-cpu", "max", "-smp", "1", "-nographic", "-no-reboot", "-nodefaults"]);
        let size = format!("{}M", self.megabytes);
        command.args(["-m", &size, "-machine", "q35,memory-backend=memory"]);
        command.arg("-object").arg(format!("memory-backend-memfd,id=memory,size={size},share=on"));
        command.arg("-kernel").arg(self.part("vmlinuz")).arg("-initrd").arg(memory.path());
        command.arg("-append").arg(self.words.join(" "));
        command.args(&self.arguments).args(["-serial", "stdio", "-monitor", "none"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("QEMU is there: apt-get install qemu-system-x86");
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let (say, said) = channel();
        let (name, begun) = (self.name.clone(), Instant::now());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                println!("{name} {:.1} s: {line}", begun.elapsed().as_secs_f32());
                if let Some((_, line)) = line.split_once("GUEST ")
                    && say.send(line.trim().to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Guest { child, said, _memory: memory }
    }
}

/// Appends a file to an archive as the kernel takes it (cpio, its "newc" format).
fn archived(archive: &mut Vec<u8>, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let (length, links) = (u32::try_from(bytes.len()).map_err(io::Error::other)?, 1);
    let name_length = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
    archive.write_all(b"070701")?;
    for number in [0, mode, 0, 0, links, 0, length, 0, 0, 0, 0, name_length, 0] {
        write!(archive, "{number:08X}")?;
    }
    archive.write_all(name.as_bytes())?;
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.write_all(bytes)?;
    archive.resize(archive.len().next_multiple_of(4), 0);
    Ok(())
}

/// A virtual machine; killed when a test ends, however it does.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    said: Receiver<String>,
    _memory: tempfile::NamedTempFile,
}

impl Guest {
    /// The next thing that it says.
    pub fn hear(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("the guest says something within minutes")
    }

    /// What it says of that kind next; what it says before is passed over.
    ///
    /// # Panics
    ///
    /// When it ends before, or has failed.
    pub fn hear_of(&self, kind: &str) -> String {
        loop {
            let said = self.hear();
            if let Some(rest) = said.strip_prefix(kind) {
                return rest.trim().to_owned();
            }
            assert!(said != "over" && !said.starts_with("failed"), "no word of `{kind}`: {said}");
        }
    }

    /// Kills it. Gives what else it had said.
    pub fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
        self.said.iter().collect()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

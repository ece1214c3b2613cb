//! Rebuilding a member's files offline: into another directory, as plain files (paper 4, section 4.2).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_device::Directory;
use ishigaki_wal::Changes;

use crate::format::Roster;
use crate::image::BLOCK;
use crate::pool::roster;
use crate::recovery::{Homes, Rebuilt, RebuiltMember};
use crate::{Error, Result};

/// Bytes handed to a sink at once.
const PIECE: usize = 1 << 20;

/// What takes the files of a rebuild: directories before what is in them, each file with its bytes behind it.
pub trait Sink {
    /// There will be so many files, of so many bytes together.
    fn begin(&mut self, _files: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }
    /// A directory.
    fn directory(&mut self, path: &str) -> Result<()>;
    /// A file of so many bytes, all zero at first. What is written goes to the last one.
    fn file(&mut self, path: &str, length: u64) -> Result<()>;
    /// Bytes of the file.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// All was given.
    fn finish(&mut self) -> Result<()>;
}

/// Rebuilds the files of a member from its home, its checkpoint file and the log. Nothing of the pool is written, and nobody
/// has it open. Gives the number of files.
///
/// # Errors
///
/// [`Error::NotFound`] for an unknown member; [`Error::Corrupt`] where opening the pool would refuse.
pub fn rebuild(directory: &dyn Directory, homes: &dyn Homes, member: &str, sink: &mut dyn Sink) -> Result<u64> {
    let mut roster = read_roster(directory)?;
    roster.members.retain(|other| other.name == member);
    if roster.members.is_empty() {
        return Err(Error::NotFound { name: member.to_owned() });
    }
    Ok(write_out(&replay(directory, homes, &roster)?, sink)?.0)
}

/// Gives a member's files to a sink; their number, and their bytes. Nothing is given where a block of it is damaged.
pub(crate) fn write_out(member: &RebuiltMember, sink: &mut dyn Sink) -> Result<(u64, u64)> {
    if let Some(path) = check_home(member)?.1.first() {
        return Err(unfit(member, path));
    }
    let lengths = member.image.names.iter().filter_map(|(_, file)| file);
    let lengths = lengths.map(|file| Ok(member.image.contents(file)?.length())).collect::<Result<Vec<_>>>()?;
    let bytes = lengths.iter().sum();
    sink.begin(lengths.len() as u64, bytes)?;
    let mut files = 0;
    for (path, file) in member.image.names.iter() {
        let Some(file) = file else {
            sink.directory(path)?;
            continue;
        };
        files += 1;
        let contents = member.image.contents(file)?;
        sink.file(path, contents.length())?;
        let mut buffer = vec![0; PIECE];
        let mut at = 0;
        while at < contents.length() {
            let piece = &mut buffer[..PIECE.min((contents.length() - at) as usize)];
            let read = contents.read(&member.home, at, piece);
            read.map_err(|unreadable| unreadable.cause.unwrap_or_else(|| unfit(member, path)))?;
            if piece.iter().any(|&byte| byte != 0) {
                sink.write(at, piece)?;
            }
            at += piece.len() as u64;
        }
    }
    sink.finish()?;
    Ok((files, bytes))
}

fn unfit(member: &RebuiltMember, path: &str) -> Error {
    Error::of_member(member.id, &format!("`{path}` at its home does not fit its checksum"))
}

/// The names of a pool's members, without opening it.
pub fn members(directory: &dyn Directory) -> Result<Vec<String>> {
    Ok(read_roster(directory)?.members.into_iter().map(|member| member.name).collect())
}

/// Whether a directory holds a pool.
pub fn is_pool(directory: &dyn Directory) -> Result<bool> {
    Ok(roster::is_there(directory)?)
}

/// The roster of a pool that there must be.
pub(crate) fn read_roster(directory: &dyn Directory) -> Result<Roster> {
    roster::read(directory)?.ok_or_else(|| Error::NotFound { name: "the roster of the pool".to_owned() })
}

/// The only member of that roster, after all that the log has.
pub(crate) fn replay(directory: &dyn Directory, homes: &dyn Homes, roster: &Roster) -> Result<RebuiltMember> {
    let log = ishigaki_wal::inspect(directory)?;
    if log.log != roster.log {
        return Err(Error::corrupt(format!("its roster is that of pool {}, its log is {}", roster.log, log.log)));
    }
    let mut rebuilt = Rebuilt::begin(roster, directory, homes);
    for record in Changes::of(directory, log.start.lsn)? {
        let (position, payload) = record?;
        rebuilt.take(position.lsn(), &payload)?;
    }
    rebuilt.finish();
    rebuilt.only()
}

/// Bytes at home of a member that fit their checksum, and of those that do not, by path.
pub(crate) fn check_home(member: &RebuiltMember) -> Result<(u64, Vec<String>)> {
    let (mut sound, mut damaged) = (0, Vec::new());
    for (path, file) in member.image.names.iter() {
        let Some(file) = file else { continue };
        let contents = member.image.contents(file)?;
        for index in 0..contents.extents().len() as u64 {
            let pieces = contents.home_pieces(index);
            let Some(first) = pieces.first() else { continue };
            let raw = match member.home.raw(first.place()) {
                Err(error @ Error::Device(_)) => return Err(error),
                raw => raw.ok(),
            };
            for piece in &pieces {
                let within = piece.offset() as usize..(piece.offset() + BLOCK) as usize;
                if !piece.is_lost() && raw.as_ref().is_some_and(|raw| piece.fits(&raw[within])) {
                    sound += BLOCK;
                } else {
                    damaged.push(path.to_owned());
                }
            }
        }
    }
    damaged.dedup();
    Ok((sound, damaged))
}

/// A [`Sink`] that makes plain files in a directory of the file system, which must be empty or not there yet. All is
/// durable when the rebuild returns. What it makes is its owner's alone, as in the pool: modes 0600 and 0700.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    last: Option<File>,
    directories: Vec<PathBuf>,
}

impl Folder {
    /// Into that directory.
    pub fn new(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        // Those above it are not only its owner's.
        root.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed(&root))?;
        match DirBuilder::new().mode(0o700).create(&root) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(&root)(error)),
            _ => {}
        }
        if fs::read_dir(&root).map_err(failed(&root))?.next().is_some() {
            return Err(failed(&root)(io::Error::from(io::ErrorKind::DirectoryNotEmpty)));
        }
        Ok(Self { last: None, directories: vec![root.clone()], root })
    }

    fn end_file(&mut self) -> Result<()> {
        self.last.take().map_or(Ok(()), |file| file.sync_all().map_err(failed(&self.root)))
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.display().to_string();
    move |cause| Error::Output { path: path.clone(), cause: Arc::new(cause) }
}

impl Sink for Folder {
    fn directory(&mut self, path: &str) -> Result<()> {
        let path = self.root.join(path);
        DirBuilder::new().mode(0o700).create(&path).map_err(failed(&path))?;
        self.directories.push(path);
        Ok(())
    }

    fn file(&mut self, path: &str, length: u64) -> Result<()> {
        self.end_file()?;
        let path = self.root.join(path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed(&path))?;
        file.set_len(length).map_err(failed(&path))?;
        self.last = Some(file);
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        match &self.last {
            Some(file) => file.write_all_at(bytes, offset).map_err(failed(&self.root)),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.end_file()?;
        let mut directories = self.directories.iter().rev();
        directories.try_for_each(|path| File::open(path).and_then(|file| file.sync_all()).map_err(failed(path)))
    }
}

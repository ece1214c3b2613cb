//! A look at all checksums of a pool: the log's, the ledgers', the checkpoint files', the homes'. Nothing is written.

use ishigaki_device::Directory;
use ishigaki_wal::Inspection;

use crate::Result;
use crate::pool::roster;
use crate::rebuild::{check_home, read_roster, replay};
use crate::recovery::Homes;

/// What was found.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The log, chunk by chunk.
    pub log: Inspection,
    /// Members on the roster.
    pub members: Vec<String>,
    /// Bytes at homes that fit their checksums. What has changed since a home is not compared: the log has it.
    pub home_bytes: u64,
    /// Everything that is wrong, in words. Empty if the pool is sound.
    pub problems: Vec<String>,
}

impl Verification {
    /// Nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Reads everything that recovery would, and checks all checksums. Members are looked at one by one, so that the damage of
/// one does not hide another's.
///
/// # Errors
///
/// Where a medium fails, or there is no pool. Damage is no error: it is what this looks for.
pub fn verify(directory: &dyn Directory, homes: &dyn Homes) -> Result<Verification> {
    let log = ishigaki_wal::inspect(directory)?;
    let roster = read_roster(directory)?;
    let copies = roster::read_copies(directory)?.problems();
    let mut found = Verification { log, members: Vec::new(), home_bytes: 0, problems: Vec::new() };
    found.problems.extend(found.log.problem.iter().map(ToString::to_string));
    found.problems.extend(copies);
    for member in &roster.members {
        found.members.push(member.name.clone());
        let mut alone = roster.clone();
        alone.members = vec![member.clone()];
        let outcome = replay(directory, homes, &alone).and_then(|rebuilt| check_home(&rebuilt));
        match outcome {
            Ok((sound, damaged)) => {
                found.home_bytes += sound;
                let what = |path| format!("member `{}`: `{path}` is damaged at home", member.name);
                found.problems.extend(damaged.into_iter().map(what));
            }
            Err(error) => found.problems.push(format!("member `{}`: {error}", member.name)),
        }
    }
    Ok(found)
}

//! What would go wrong later, looked for before anything is changed: the dry run.
//!
//! Everything is looked at, also when something is wrong already: a person mends all of it at once. The check makes nothing that stays: what it tries,
//! it tries with files that have no name.
//!
//! Parts: `finding` is what is found, `sources` asks the servers, `destination` looks at the new file system, `mount` at the folder, `room` compares sizes; `paths` asks directories of this host.

mod destination;
mod finding;
mod mount;
mod paths;
mod room;
mod sources;

use ishigaki_migrate::source::Cancel;
use serde::{Deserialize, Serialize};

use self::paths::Told;
use self::sources::Asked;
use crate::serving::opening::lock;
use crate::{Config, Error, Result};

pub use finding::{Finding, Severity};
pub use sources::Opened;

/// What a migration of that configuration would meet.
///
/// ```
/// use ishigaki_migrate::source::Cancel;
/// use ishigaki_migrate_service::Config;
/// use ishigaki_migrate_service::check::{Check, Severity};
///
/// let config = Config::new("/nowhere", "/no/destination".into(), "/no/folder".into())?;
/// let check = Check::run(&config, &Cancel::new())?;
/// assert!(!check.is_fit());
/// assert!(check.findings.iter().any(|finding| finding.about == "to" && finding.severity == Severity::Problem));
/// # Ok::<(), ishigaki_migrate_service::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
}

impl Check {
    /// Looks at everything. A server that does not answer is waited for as long as its address says.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] if the configuration itself can not be; [`Error::Cancelled`].
    pub fn run(config: &Config, cancel: &Cancel) -> Result<Self> {
        Self::look(config, Asked::All, cancel).map(|(check, _)| check)
    }

    /// The same for a service that begins next, with the sources that were opened. Those with which the migration goes on are not asked: they may
    /// be away, and what is here is served at once.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); [`Error::InUse`].
    pub fn open(config: &Config, cancel: &Cancel) -> Result<(Self, Opened)> {
        config.validate()?;
        // What another service shows is no trouble of the folder's.
        if let Err(error @ Error::InUse(_)) = lock(config) {
            return Err(error);
        }
        Self::look(config, Asked::New, cancel)
    }

    fn look(config: &Config, asked: Asked, cancel: &Cancel) -> Result<(Self, Opened)> {
        config.validate()?;
        let told = paths::ask(config);
        let (mut check, opened) = Self::of_sides(config, &told, asked, cancel)?;
        mount::look(config, &told, &mut check.findings);
        check.findings.sort_by_key(|finding| finding.severity);
        Ok((check, opened))
    }

    /// The same, of all but the folder: nothing is to be served yet.
    pub(crate) fn ahead(config: &Config, cancel: &Cancel) -> Result<(Self, Opened)> {
        config.validate_sides()?;
        Self::of_sides(config, &paths::ask(config), Asked::All, cancel)
    }

    fn of_sides(config: &Config, told: &[Option<Told>], asked: Asked, cancel: &Cancel) -> Result<(Self, Opened)> {
        let mut findings = Vec::new();
        let opened = sources::look(config, asked, cancel, &mut findings)?;
        destination::look(config, told, &mut findings);
        room::look(config, told, &mut findings);
        findings.sort_by_key(|finding| finding.severity);
        Ok((Self { findings }, opened))
    }

    /// Whether nothing stands in the way.
    pub fn is_fit(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Problem)
    }
}

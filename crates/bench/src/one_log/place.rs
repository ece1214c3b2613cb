//! Servers of one side: copies of the database that was made, with their logs, and the pool if they have one log.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ishigaki_base::ByteSize;
use ishigaki_logpool::Waiting;
use ishigaki_logpool_service::{Reply, Request, ask};
use ishigaki_servers::{Running, Server};

use super::standing::{Fresh, Standing};
use super::usage::{Counts, Pooled};
use super::{Data, Side, Under};
use crate::serving::Serving;
use crate::{Error, Result};

/// A pool's log has so much for each member: their shares are a quarter of it.
const LOG_OF_A_MEMBER: ByteSize = ByteSize::mib(64);

/// What disk and pool were asked for until some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    disk: Option<Counts>,
    pool: Option<Pooled>,
}

impl Usage {
    /// Between an earlier moment and this one, as far as disk and pool tell.
    pub(crate) fn since(self, earlier: Self) -> (Option<Counts>, Option<Pooled>) {
        let disk = self.disk.zip(earlier.disk).map(|(after, before)| after.since(before));
        (disk, self.pool.zip(earlier.pool).map(|(after, before)| after.since(before)))
    }
}

/// Servers with all that they stand on, none of which is left when it is dropped.
pub(crate) struct Place<'a> {
    standing: &'a Standing<'a>,
    pub(crate) servers: Vec<Server>,
    // In the order in which they go.
    pool: Option<(Serving, PathBuf)>,
    _folders: [Fresh; 4],
}

impl<'a> Place<'a> {
    /// Makes them; none runs. Told by the number of each: where its data are, and arguments that it is started with.
    pub(crate) fn new(
        standing: &'a Standing<'a>,
        side: Side,
        shape: impl Fn(usize) -> (Data, &'static [&'static str]),
    ) -> Result<Self> {
        let Under { kind, servers: count, .. } = standing.under;
        let (memory, disk) = (standing.in_memory("servers")?, standing.on_disk("logs")?);
        let (beside, mounts) = (standing.on_disk("data")?, standing.for_mounts("mounts")?);
        let pool = match side {
            Side::Separate => None,
            Side::Pool(waiting) => {
                let pool = disk.0.join("pool");
                Some((serve(standing.under, waiting, &pool, &mounts.0)?, pool))
            }
        };
        let mut servers = Vec::new();
        for number in 0..count {
            let name = member(number);
            let (data, arguments) = shape(number);
            let own = match data {
                Data::Memory => &memory,
                Data::Disk => &beside,
            };
            let own = standing.user.folder(&own.0, &name)?;
            let log = match side {
                Side::Separate => standing.user.folder(&disk.0, &name)?,
                Side::Pool(_) => mounts.0.join(&name),
            };
            let server = Server::new(kind, standing.user, own, log).with(arguments);
            server.copy(&standing.template)?;
            if side == Side::Separate {
                standing.disk.space_out(&disk.0.join(format!("between-{number}")), count)?;
            }
            servers.push(server);
            standing.under.go_on()?;
        }
        standing.disk.settle()?;
        Ok(Self { standing, servers, pool, _folders: [memory, disk, beside, mounts] })
    }

    /// Starts them all; they may still be recovering.
    pub(crate) fn start(&self) -> Result<Vec<Running>> {
        self.servers.iter().map(|server| Ok(server.start()?)).collect()
    }

    pub(crate) fn wait_until_up(&self) -> Result<()> {
        for server in &self.servers {
            server.run_when_up("select 1;\n", &|| self.standing.under.is_stopped())?;
        }
        Ok(())
    }

    /// What disk and pool were asked for until now.
    pub(crate) fn usage(&self) -> Result<Usage> {
        let pool = match &self.pool {
            None => None,
            Some((_, data)) => match ask(data, &Request::Status {})? {
                Reply::Status(status) => Some(Pooled::of(&status)),
                other => {
                    let reason = format!("has answered another question: {other:?}");
                    return Err(Error::Process { what: "the pool", reason });
                }
            },
        };
        Ok(Usage { disk: self.standing.disk.counts(), pool })
    }
}

/// What the server of that number is called.
fn member(number: usize) -> String {
    format!("server-{number}")
}

/// Starts a pool, with its log and all homes in one folder, and a mount for each server.
fn serve(under: Under<'_>, waiting: Waiting, pool: &Path, mounts: &Path) -> Result<Serving> {
    let mut command = Command::new(&under.host.program);
    command.args(["log", "serve", "--json", "--waiting", &waiting.to_string(), "--log"]);
    let members = under.servers.max(4) as u64;
    command.arg(format!("{}MiB", LOG_OF_A_MEMBER.as_u64() / ByteSize::mib(1).as_u64() * members));
    command.arg("--data").arg(pool);
    for number in 0..under.servers {
        let (name, kind) = (member(number), under.kind);
        let folder = mounts.join(&name);
        fs::create_dir(&folder).map_err(|source| Error::Io {
            path: folder.clone(),
            operation: "making a mount's folder",
            source,
        })?;
        let told = format!("{name}:{kind}:{}:{}", folder.display(), kind.user_name());
        command.arg("--member").arg(told);
    }
    command.process_group(0);
    Serving::start(command).map_err(|reason| Error::Process { what: "the pool", reason })
}

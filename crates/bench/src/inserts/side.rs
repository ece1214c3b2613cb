//! One side in one round: its servers are made, do all loads, are killed, and must have everything when they are up again.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ishigaki_base::ByteSize;
use ishigaki_logpool::Waiting;
use ishigaki_logpool_service::{Reply, Request, ask};
use ishigaki_servers::{Running, Server};

use super::load::{self, Acknowledged, Done};
use super::standing::{Fresh, Standing};
use super::usage::{Counts, Pooled};
use super::{Settings, Side, Work};
use crate::serving::Serving;
use crate::{Error, Result};

/// A pool's log has so much for each member: their shares are a quarter of it.
const LOG_OF_A_MEMBER: ByteSize = ByteSize::mib(64);

/// What came of a load, and what it took of disk and pool.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) done: Done,
    pub(super) disk: Option<Counts>,
    pub(super) pool: Option<Pooled>,
}

/// Does all loads on one side; `tell` hears of each before it begins.
pub(super) fn run(
    standing: &Standing,
    settings: &Settings,
    side: Side,
    works: &[Work],
    tell: &mut dyn FnMut(Work),
) -> Result<Vec<Outcome>> {
    let place = Place::new(standing, settings, side)?;
    let mut running = place.start()?;
    let (mut outcomes, mut acknowledged) = (Vec::new(), Vec::new());
    for (number, &work) in works.iter().enumerate() {
        tell(work);
        place.wait_until_up(settings)?;
        standing.disk.settle()?;
        let before = place.usage(standing)?;
        let (done, load) = load::run(settings, &place.servers, work, number)?;
        let after = place.usage(standing)?;
        acknowledged.push(load);
        outcomes.push(Outcome {
            done,
            disk: after.0.zip(before.0).map(|(after, before)| after.since(before)),
            pool: after.1.zip(before.1).map(|(after, before)| after.since(before)),
        });
    }
    // Nothing in memory is of help to one that is killed: all it has is its log.
    running.iter_mut().try_for_each(Running::kill)?;
    drop(running);
    place.see_again(settings, &acknowledged)?;
    Ok(outcomes)
}

/// Servers with all that they stand on, none of which is left when it is dropped.
struct Place {
    servers: Vec<Server>,
    // In the order in which they go.
    pool: Option<(Serving, PathBuf)>,
    _folders: [Fresh; 3],
}

impl Place {
    fn new(standing: &Standing, settings: &Settings, side: Side) -> Result<Self> {
        let count = settings.most_servers();
        let (data, disk) = (standing.in_memory("servers")?, standing.on_disk("logs")?);
        let mounts = standing.for_mounts("mounts")?;
        let pool = match side {
            Side::Separate => None,
            Side::Pool(waiting) => {
                let pool = disk.0.join("pool");
                Some((serve(settings, waiting, &pool, &mounts.0, count)?, pool))
            }
        };
        let mut servers = Vec::new();
        for number in 0..count {
            let name = member(number);
            let own = standing.user.folder(&data.0, &name)?;
            let log = match side {
                Side::Separate => standing.user.folder(&disk.0, &name)?,
                Side::Pool(_) => mounts.0.join(&name),
            };
            let server = Server::new(settings.kind, standing.user, own, log);
            server.copy(&standing.template)?;
            if side == Side::Separate {
                standing.disk.space_out(&disk.0.join(format!("between-{number}")), count)?;
            }
            servers.push(server);
            settings.go_on()?;
        }
        standing.disk.settle()?;
        Ok(Self { servers, pool, _folders: [data, disk, mounts] })
    }

    fn start(&self) -> Result<Vec<Running>> {
        self.servers.iter().map(|server| Ok(server.start()?)).collect()
    }

    fn wait_until_up(&self, settings: &Settings) -> Result<()> {
        for server in &self.servers {
            server.run_when_up("select 1;\n", &|| settings.is_stopped())?;
        }
        Ok(())
    }

    /// What disk and pool were asked for until now.
    fn usage(&self, standing: &Standing) -> Result<(Option<Counts>, Option<Pooled>)> {
        let pooled = match &self.pool {
            None => None,
            Some((_, data)) => match ask(data, &Request::Status {})? {
                Reply::Status(status) => Some(Pooled::of(&status)),
                other => {
                    let reason = format!("has answered another question: {other:?}");
                    return Err(Error::Process { what: "the pool", reason });
                }
            },
        };
        Ok((standing.disk.counts(), pooled))
    }

    /// Starts all servers again, which recover, and finds everything that was acknowledged.
    fn see_again(&self, settings: &Settings, acknowledged: &[Acknowledged]) -> Result<()> {
        let _running = self.start()?;
        acknowledged.iter().try_for_each(|&load| load::check(settings, &self.servers, load))
    }
}

/// What the server of that number is called.
fn member(number: usize) -> String {
    format!("server-{number}")
}

/// Starts a pool, with its log and all homes in one folder, and a mount for each server.
fn serve(settings: &Settings, waiting: Waiting, pool: &Path, mounts: &Path, count: usize) -> Result<Serving> {
    let mut command = Command::new(&settings.program);
    command.args(["log", "serve", "--json", "--waiting", &waiting.to_string(), "--log"]);
    command.arg(format!("{}MiB", LOG_OF_A_MEMBER.as_u64() / ByteSize::mib(1).as_u64() * (count as u64).max(4)));
    command.arg("--data").arg(pool);
    for number in 0..count {
        let (name, kind) = (member(number), settings.kind);
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

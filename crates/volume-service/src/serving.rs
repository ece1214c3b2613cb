//! The service: a pool, its doors, and what can be asked of it, until it is told to end.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ishigaki_service::door::Door as Visitors;
use ishigaki_service::http;

use crate::config::Config;
use crate::core::{Core, Devices, until_free};
use crate::door::make as make_folder;
use crate::status::Status;
use crate::{Error, Result, agents, control, metrics};

/// How long the doors of volumes may take to close, and the volumes to be synced, at the end.
const ENDING: Duration = Duration::from_secs(10);

/// A pool that is served.
///
/// *Drop* ends it as [`stop`](Self::stop) does. *A crash* loses nothing that a volume's flush was answered for; virtual machines connect to the next
/// process, which does what they had asked for.
pub struct Serving {
    core: Arc<Core>,
    /// Of the control socket and of scrapers.
    visitors: Vec<Visitors>,
    prefetcher: Option<JoinHandle<()>>,
    is_open: bool,
}

impl Serving {
    /// Opens the pool and its doors. A volume that can not be served is told of, and tried again at each [look](Self::look); the others are served.
    ///
    /// # Errors
    ///
    /// [`Error::NoPool`], those of devices and pool, and those of the control socket and of metrics.
    pub fn start(config: &Config) -> Result<Self> {
        Self::of(config, until_free(|| Core::of_pool(config, true))?)
    }

    /// Opens the pool on these devices, or makes one there, and its doors. Of the configuration's places, the directory of the map has the control socket and the tokens.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn over(config: &Config, devices: Devices) -> Result<Self> {
        make_folder(&config.map)?;
        let locks = vec![devices.map.lock()?, devices.slow.lock()?];
        Self::of(config, Core::over(config, devices, locks, true)?)
    }

    fn of(config: &Config, mut core: Core) -> Result<Self> {
        let scrapers = config.metrics.as_deref().map(bind).transpose()?;
        let speakers = config.agents.as_deref().map(bind).transpose()?;
        core.agents = speakers.as_ref().and_then(|listener| listener.local_addr().ok());
        core.metrics = scrapers.as_ref().and_then(|listener| listener.local_addr().ok());
        let core = Arc::new(core);
        core.is_served_by(&core);
        let mut serving = Self { core: core.clone(), visitors: Vec::new(), prefetcher: None, is_open: true };
        core.take_away_dead();
        core.look_at_doors();
        if let Some(listener) = scrapers {
            let of = core.clone();
            serving
                .admit("volume-metrics", listener, move |stream| http::serve(stream, || metrics::text(&of.status())))?;
        }
        if let Some(listener) = speakers {
            let of = core.clone();
            serving.admit("volume-agents", listener, move |stream| agents::serve(stream, &of))?;
        }
        let of = core.clone();
        let prefetcher = Builder::new().name("volume-prefetch".to_owned()).spawn(move || of.prefetching.run(&of.pool));
        serving.prefetcher = Some(prefetcher.map_err(Error::path(&config.map))?);
        let listener = control::listen(&config.map)?;
        serving.admit("volume-control", listener, move |stream| control::serve(stream, &core))?;
        Ok(serving)
    }

    fn admit<L: ishigaki_service::door::Listener>(
        &mut self,
        name: &'static str,
        listener: L,
        serve: impl Fn(L::Stream) + Send + Sync + 'static,
    ) -> Result<()> {
        let visitors = Visitors::open(name, listener, serve).map_err(Error::path(&self.core.config.map))?;
        self.visitors.push(visitors);
        Ok(())
    }

    /// Where agents are heard.
    pub fn agents(&self) -> Option<SocketAddr> {
        self.core.agents
    }

    /// What it does.
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// Where Prometheus finds figures.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.core.metrics
    }

    /// Opens doors again that another process has taken away, and tries those, and volumes, that could not be opened. To be called every second or so.
    pub fn look(&self) {
        self.core.look_for_away();
        self.core.look_at_files();
        self.core.look_at_doors();
    }

    /// Ends the service: what virtual machines have asked for is answered, and everything is durable.
    ///
    /// # Errors
    ///
    /// Of a volume that could not be synced; [`Error::Hanging`] names those whose devices do not answer. What hangs there ends with the process.
    pub fn stop(mut self) -> Result<()> {
        self.shut()
    }

    fn shut(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        // They have the core.
        self.visitors.clear();
        self.core.prefetching.end();
        if self.prefetcher.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that brings chunks has panicked");
        }
        let silent = self.core.close_doors(ENDING);
        let removed = control::remove(&self.core.config.map);
        self.core.sync(ENDING, silent)?;
        removed.map_err(Error::path(&self.core.config.map))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Err(error) = self.shut() {
            tracing::warn!(%error, "the service of volumes did not end well");
        }
    }
}

fn bind(address: &str) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|cause| Error::Address { address: address.to_owned(), cause })
}

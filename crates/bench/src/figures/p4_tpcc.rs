//! More of paper 4's experiments: TPC-C through SQL on servers with one log or many, and a reader beside servers that write. They
//! take their own time and have a page of their own, so that neither is lost when the other is drawn again.

mod charts;
mod page;

use std::num::NonZero;
use std::time::Duration;

use ishigaki_servers::Kind;

use super::Compared;
use crate::one_log::{Data, Disk, Side};
use crate::tpcc::{Company, Scale as Rows, sql};
use crate::{Error, Line, Progress, Result, Stage, readers};

pub(super) use charts::charts;
pub(super) use page::page;

const FOUR: NonZero<u16> = NonZero::new(4).unwrap();
const THIRTY: NonZero<u32> = NonZero::new(30).unwrap();
const THREE_HUNDRED: NonZero<u32> = NonZero::new(300).unwrap();

/// How much of it is measured.
#[derive(Clone, Debug)]
pub struct Scale {
    /// How many servers work on TPC-C beside each other; none leaves it out.
    pub servers: Vec<usize>,
    /// Clients of each.
    pub clients: usize,
    /// Warehouses of each.
    pub warehouses: NonZero<u16>,
    /// So many times smaller than the specification are these.
    pub divided: NonZero<u32>,
    /// Where their data are.
    pub data: Data,
    /// How long a load takes.
    pub duration: Duration,
    /// Servers that write beside the one that reads; none leaves readers out.
    pub writers: usize,
    /// The scale of what is read; 1 is about a gigabyte of text.
    pub tables: f64,
    /// How often each query is asked.
    pub times: usize,
    /// Names of the sides that are compared; all if it is not given.
    pub sides: Option<Vec<String>>,
    /// Runs of each side.
    pub rounds: usize,
}

impl Scale {
    /// Figures to be kept.
    pub fn standard() -> Self {
        Self {
            servers: vec![1, 4],
            clients: 4,
            warehouses: FOUR,
            divided: THIRTY,
            data: Data::Memory,
            duration: Duration::from_secs(10),
            writers: 3,
            tables: 0.02,
            times: 3,
            sides: None,
            rounds: 3,
        }
    }

    /// A minute, which shows that everything works and nothing else.
    pub fn smoke() -> Self {
        Self {
            servers: vec![2],
            clients: 2,
            divided: THREE_HUNDRED,
            duration: Duration::from_secs(2),
            writers: 1,
            tables: 0.002,
            times: 1,
            sides: Some(vec!["separate".to_owned(), "auto".to_owned()]),
            rounds: 1,
            ..Self::standard()
        }
    }

    /// Those of the names that are given.
    fn sides(&self, disk: &Disk) -> Result<Vec<Side>> {
        disk.named(self.sides.as_deref())
    }
}

/// What is measured.
pub type Settings = Compared<Scale>;

/// TPC-C and the reader, on each disk with each kind of server (P4.7).
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let scale = &settings.scale;
    settings.check(scale.sides.as_deref())?;
    if scale.servers.is_empty() && scale.writers == 0 {
        return Err(Error::invalid("servers", "give servers for TPC-C, or writers beside a reader"));
    }
    let mut lines = Vec::new();
    for disk in &settings.disks {
        for &kind in &settings.kinds {
            if !scale.servers.is_empty() {
                let stage = &mut Stage::new(format!("TPC-C, {kind} on {disk}"), progress);
                lines.extend(sql::run(&of_tpcc(settings, disk, kind)?, stage)?);
            }
            if scale.writers > 0 {
                let stage = &mut Stage::new(format!("reading, {kind} on {disk}"), progress);
                lines.extend(readers::run(&of_readers(settings, disk, kind)?, stage)?);
            }
        }
    }
    Ok(lines)
}

fn of_tpcc(settings: &Settings, disk: &Disk, kind: Kind) -> Result<sql::Settings> {
    let scale = &settings.scale;
    Ok(sql::Settings {
        kind,
        disk: disk.clone(),
        data: scale.data,
        servers: scale.servers.clone(),
        clients: scale.clients,
        company: Company {
            warehouses: scale.warehouses,
            scale: Rows::divided(scale.divided),
            seed: settings.host.origin.seed,
        },
        duration: scale.duration,
        rounds: scale.rounds,
        sides: scale.sides(disk)?,
        host: settings.host.clone(),
    })
}

fn of_readers(settings: &Settings, disk: &Disk, kind: Kind) -> Result<readers::Settings> {
    let scale = &settings.scale;
    Ok(readers::Settings {
        kind,
        disk: disk.clone(),
        writers: scale.writers,
        scale: scale.tables,
        times: scale.times,
        rounds: scale.rounds,
        sides: scale.sides(disk)?,
        host: settings.host.clone(),
    })
}

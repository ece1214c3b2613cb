//! This process reads from the node, or has it send as many zeros.

use std::sync::Arc;
use std::time::Instant;

use ishigaki_fabric::{Fabric, Security};
use ishigaki_remote::{Client, ClientSettings, ReadQueue, RemoteDevice};

use super::Load;
use super::file::{FILE, Pages};
use crate::node::Node;
use crate::pace::{Pace, Round, Run, Times};
use crate::{Error, Result};

/// One round of all threads, each with a connection of its own.
pub(super) fn round(
    pages: &Pages,
    (node, fabric): (&Node, &Fabric),
    load: Load,
    network_alone: bool,
    pace: Pace,
) -> Result<Run> {
    let (mut devices, mut settings) = (Vec::new(), ClientSettings::default());
    settings.fabric.fabric = fabric.clone();
    for _ in 0..load.connections {
        let client = Client::connect(node.address(), &settings, &Security::Open)?;
        devices.push(Arc::new(client.directory("").open_device(FILE)?));
    }
    let body = |(number, device): (usize, Arc<RemoteDevice>)| {
        move |round: &Round| Ok(vec![many(pages, &device, load, number, network_alone, round)?])
    };
    pace.threads::<Error, _>(devices.into_iter().enumerate().map(body).collect())
}

fn many(
    pages: &Pages,
    device: &Arc<RemoteDevice>,
    load: Load,
    number: usize,
    network_alone: bool,
    round: &Round,
) -> Result<Times> {
    let mut queue = if network_alone { ReadQueue::of_network_alone(device)? } else { ReadQueue::new(device)? };
    // Of the reads in flight, by their number: where from, and since when.
    let mut flights: Vec<(u64, Instant)> = vec![(0, Instant::now()); load.depth];
    let mut idle: Vec<usize> = (0..load.depth).collect();
    let (mut place, mut times) = (pages.places(load.size, number), round.times());
    loop {
        while let Some(slot) = idle.pop() {
            let Some(begun) = times.begin() else { break };
            let offset = place();
            flights[slot] = (offset, begun);
            queue.begin(offset, load.size, slot as u64)?;
        }
        if queue.in_flight() == 0 {
            return Ok(times);
        }
        let mut wrong = None;
        queue.wait(|slot, bytes| {
            let (offset, begun) = flights[slot as usize];
            let bytes = bytes?;
            let judged = if network_alone { pages.check_blank(bytes) } else { pages.check(offset, bytes) };
            wrong = wrong.take().or(judged.err());
            times.end(begun);
            idle.push(slot as usize);
            Ok(())
        })?;
        if let Some(error) = wrong {
            return Err(error);
        }
    }
}

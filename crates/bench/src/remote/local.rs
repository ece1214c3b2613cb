//! This process reads from the file itself.

use std::time::Instant;

use ishigaki_device::{AlignedBuffer, Device, Landed, Reads};

use super::Load;
use super::file::Pages;
use crate::pace::{Pace, Round, Run, Times};
use crate::{Error, Result};

/// One round of all threads.
pub(super) fn round(pages: &Pages, load: Load, pace: Pace) -> Result<Run> {
    let body = |number| {
        move |round: &Round| {
            let times =
                if load.depth == 1 { one_by_one(pages, load, number, round) } else { many(pages, load, number, round) };
            Ok(vec![times?])
        }
    };
    pace.threads::<Error, _>((0..load.connections).map(body).collect())
}

fn one_by_one(pages: &Pages, load: Load, number: usize, round: &Round) -> Result<Times> {
    let (mut times, mut place) = (round.times(), pages.places(load.size, number));
    let mut buffer = AlignedBuffer::zeroed(load.size);
    while let Some(begun) = times.begin() {
        let offset = place();
        pages.device().read_at(offset, &mut buffer)?;
        pages.check(offset, &buffer)?;
        times.end(begun);
    }
    Ok(times)
}

fn many(pages: &Pages, load: Load, number: usize, round: &Round) -> Result<Times> {
    let mut reads: Reads<(u64, Instant)> = Reads::new(load.depth as u32)?;
    let mut idle: Vec<_> = (0..load.depth).map(|_| AlignedBuffer::zeroed(load.size)).collect();
    let (mut landed, mut place, mut times) = (Vec::new(), pages.places(load.size, number), round.times());
    loop {
        while let Some(buffer) = idle.pop() {
            let Some(begun) = times.begin() else { break };
            let offset = place();
            reads.begin(pages.device(), offset, buffer, load.size, (offset, begun))?;
        }
        if reads.in_flight() == 0 {
            return Ok(times);
        }
        reads.wait(&mut landed, None)?;
        for Landed { token: (offset, begun), buffer, outcome } in landed.drain(..) {
            outcome?;
            pages.check(offset, &buffer)?;
            times.end(begun);
            idle.push(buffer);
        }
    }
}

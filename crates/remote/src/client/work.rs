//! Work that the node does for us: an order, and results that come when we ask for them.

use std::fmt;
use std::sync::Arc;

use ishigaki_fabric::Call;

use super::Shared;
use super::link::Live;
use crate::protocol::{Answer, MAX_ORDER, MAX_READ, Request};
use crate::{Error, Result};

/// Work under way at a node. Dropping it stops the work.
///
/// If the connection is lost, so is the work: nothing is done twice unasked.
pub struct RemoteWork {
    shared: Arc<Shared>,
    live: Arc<Live>,
    work: u32,
    ended: bool,
}

impl RemoteWork {
    pub(super) fn begin(shared: &Arc<Shared>, order: &[u8]) -> Result<Self> {
        if order.len() > MAX_ORDER {
            let reason = format!("an order of {} bytes; {MAX_ORDER} are the most", order.len());
            return Err(Error::Invalid { reason });
        }
        let live = shared.live()?;
        match live.ask(&Request::Begin { order })? {
            Answer::Begun { work } => Ok(Self { shared: Arc::clone(shared), live, work, ended: false }),
            other => Err(shared.unexpected(&other)),
        }
    }

    /// The next results, as many as there are up to a mebibyte; none behind the last. Waits for as long as the node goes on
    /// working: it must answer within the client's timeout, if only that it needs more time; `wanted` is asked then
    /// whether to go on.
    pub fn next(&mut self, wanted: &dyn Fn() -> bool) -> Result<Option<Vec<u8>>> {
        while !self.ended && wanted() {
            let region = self.live.regions.take(&self.live.caller, MAX_READ)?;
            let message = Request::Next { work: self.work, length: MAX_READ as u32, target: region.target() }.encode();
            let call = Call { region: Some(region.clone()), ..Call::message(&message) };
            match self.live.caller.call(&call)? {
                ishigaki_fabric::Answer::Written(length) => {
                    let bytes = region.memory().and_then(|memory| Some(memory.get(..length as usize)?.to_vec()));
                    self.live.regions.put(region);
                    return bytes.map(Some).ok_or_else(|| self.shared.nonsense());
                }
                ishigaki_fabric::Answer::Message(message) => {
                    self.live.regions.put(region);
                    match Answer::decode(&message) {
                        Some(Answer::Later) => {}
                        Some(Answer::Ended) => self.ended = true,
                        Some(other) => {
                            self.ended = true;
                            return Err(self.shared.unexpected(&other));
                        }
                        None => return Err(self.shared.nonsense()),
                    }
                }
            }
        }
        Ok(None)
    }
}

impl Drop for RemoteWork {
    fn drop(&mut self) {
        // Nobody waits for the answer, and a lost connection has stopped it anyway.
        let _ = self.live.caller.submit(&[Call::message(&Request::Stop { work: self.work }.encode())]);
    }
}

impl fmt::Debug for RemoteWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteWork({} at {})", self.work, self.shared.address)
    }
}

//! Directories: pages with attributes, while the next page is already on its way.
//!
//! A server that does not list with attributes is asked for plain pages, and each entry is looked up. That is done for single entries,
//! too, where a page lacks their handle or attributes, as it does for what is mounted there at the server.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::Ordering;

use super::NfsSource;
use super::flight::{Failure, Flight};
use super::protocol::{self, BAD_COOKIE, Found, NOT_SUPPORTED, Page, Place, TOO_SMALL, Trouble};
use super::rpc::Refusal;
use super::xdr::Malformed;
use crate::source::names::Names;
use crate::source::{Cancel, Entry, Error, ErrorKind, Location, Result};

/// Lookups under way for one page.
const LOOKUPS: usize = 128;
/// How often a listing begins anew because the directory changed.
const RESTARTS: u32 = 16;
/// Pages in a row, beyond those that were given before a restart, that may bring nothing new.
const EMPTY_PAGES: u32 = 16;

/// How a listing goes on.
struct Listing<'a> {
    source: &'a NfsSource,
    cancel: &'a Cancel,
    names: Names,
    size: usize,
    /// With attributes and handles.
    plus: bool,
    restarts: u32,
    pages: u32,
    /// Pages in a row without a new name.
    stale_pages: u32,
}

pub(super) fn list(
    source: &NfsSource,
    directory: &Location,
    cancel: &Cancel,
    take: &mut dyn FnMut(Vec<Entry>) -> Result<()>,
) -> Result<()> {
    let mut listing = Listing {
        source,
        cancel,
        names: Names::new(),
        size: source.read_size.max(4096),
        plus: !source.lists_plainly.load(Ordering::Relaxed),
        restarts: 0,
        pages: 0,
        stale_pages: 0,
    };
    // What `take` says is returned as it is.
    let mut ended = Ok(());
    let outcome = source.with_handle(directory, "list", cancel, |handle| {
        listing.run(handle, &mut |page| {
            ended = take(page);
            ended.is_ok()
        })
    });
    ended.and(outcome)
}

impl Listing<'_> {
    /// Lists until the end, or until `take` has enough. After a stale handle it may be run again: no name is given twice.
    fn run(&mut self, directory: &[u8], take: &mut dyn FnMut(Vec<Entry>) -> bool) -> Result<(), Trouble> {
        let mut place = Place::default();
        let mut flight = Flight::new(&self.source.nfs, self.cancel);
        self.send(&mut flight, directory, place);
        loop {
            let page = match self.receive(&mut flight, directory, place) {
                Err(Trouble::Status(BAD_COOKIE)) => {
                    self.restart()?;
                    place = Place::default();
                    self.send(&mut flight, directory, place);
                    continue;
                }
                page => page?,
            };
            if let Some(next) = page.next {
                place = next;
                self.send(&mut flight, directory, place);
                flight.flush();
            }
            let is_last = page.next.is_none();
            let entries = self.complete(directory, page)?;
            if !entries.is_empty() && !take(entries) || is_last {
                return Ok(());
            }
        }
    }

    fn send(&self, flight: &mut Flight<'_>, directory: &[u8], place: Place) {
        flight.send(protocol::readdir(directory, place, self.size, self.plus));
    }

    /// The page from `place` on, which was asked for.
    fn receive(&mut self, flight: &mut Flight<'_>, directory: &[u8], mut place: Place) -> Result<Page, Trouble> {
        loop {
            let answer = flight.next()?.1.map_err(Trouble::from);
            match answer.and_then(|answer| protocol::page(answer.results(), place, self.plus)) {
                Err(Trouble::Status(TOO_SMALL)) if self.size < super::LARGEST => self.size *= 2,
                Err(
                    Trouble::Status(NOT_SUPPORTED)
                    | Trouble::Failure(Failure { refusal: Some(Refusal::Procedure), .. }),
                ) if self.plus => {
                    self.plus = false;
                    self.source.lists_plainly.store(true, Ordering::Relaxed);
                    // The places of one kind of listing may mean nothing to the other.
                    place = Place::default();
                }
                page => return page,
            }
            self.send(flight, directory, place);
        }
    }

    fn restart(&mut self) -> Result<(), Failure> {
        self.restarts += 1;
        if self.restarts > RESTARTS {
            let message = "the directory changes at the source faster than it can be listed; try again later";
            return Err(Error::new(ErrorKind::Unavailable, message).into());
        }
        Ok(())
    }

    /// The new names of a page, with what their entries lack.
    fn complete(&mut self, directory: &[u8], page: Page) -> Result<Vec<Entry>, Trouble> {
        let mut found = page.entries;
        found.retain(|entry| self.names.insert(&entry.name));
        self.stale_pages = if found.is_empty() { self.stale_pages + 1 } else { 0 };
        if self.stale_pages > self.pages.saturating_add(EMPTY_PAGES) {
            return Err(Malformed("a listing goes in a circle").into());
        }
        self.pages = self.pages.saturating_add(u32::from(!found.is_empty()));
        self.look_up(directory, &mut found)?;
        let entry = |found: Found| Entry {
            name: OsString::from_vec(found.name),
            handle: found.handle,
            attributes: found.attributes,
        };
        Ok(found.into_iter().map(entry).collect())
    }

    /// Asks for handles and attributes that are missing. Entries that have gone meanwhile are dropped.
    fn look_up(&self, directory: &[u8], found: &mut Vec<Found>) -> Result<(), Trouble> {
        let mut missing = (0..found.len()).filter(|number| lacks(&found[*number])).collect::<Vec<_>>();
        let mut flight = Flight::new(&self.source.nfs, self.cancel);
        // Tickets count from 0.
        let mut asked = Vec::new();
        let mut gone = Vec::new();
        missing.reverse();
        while !missing.is_empty() || flight.len() > 0 {
            while flight.len() < LOOKUPS
                && let Some(number) = missing.pop()
            {
                let entry = &found[number];
                let looks_up = entry.handle.is_empty();
                flight.send(if looks_up {
                    protocol::lookup(directory, &entry.name)
                } else {
                    protocol::getattr(&entry.handle)
                });
                asked.push((number, looks_up));
            }
            let (ticket, answer) = flight.next()?;
            let Some(&(number, looks_up)) = asked.get(ticket as usize) else { continue };
            let entry = &mut found[number];
            let outcome = answer.map_err(Trouble::from).and_then(|answer| {
                if looks_up {
                    (entry.handle, entry.attributes) = protocol::looked_up(answer.results())?;
                } else {
                    entry.attributes = Some(protocol::got_attributes(answer.results())?);
                }
                Ok(())
            });
            match outcome {
                Ok(()) if looks_up && entry.attributes.is_none() => missing.push(number),
                Err(Trouble::Status(status)) if status.kind() == ErrorKind::Gone => gone.push(number),
                // After a refusal the engine asks for it by itself and learns why.
                Ok(()) | Err(Trouble::Status(_)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        gone.sort_unstable();
        let mut number = 0;
        found.retain(|_| {
            number += 1;
            gone.binary_search(&(number - 1)).is_err()
        });
        Ok(())
    }
}

fn lacks(entry: &Found) -> bool {
    entry.handle.is_empty() || entry.attributes.is_none()
}

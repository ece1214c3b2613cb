//! Directories: pages with attributes, and for each file of a page the number of its names.
//!
//! A listing stays on the connection on which the directory is open. If that is lost, the directory is listed anew over another one, without
//! giving a name twice.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::Instant;

use super::SmbSource;
use super::answer::{self, About, Page, Trouble};
use super::bytes::Malformed;
use super::connection::Connection;
use super::flight::{BROKEN, Flight};
use super::name;
use super::request::{self, Aim, OPENED};
use crate::source::names::Names;
use crate::source::{Cancel, Entry, Error, ErrorKind, FileType, Location, Result};

/// Files that are asked at a time for the number of their names.
const FILES: usize = 128;
/// Pages in a row, beyond those that were given before a restart, that may bring nothing new.
const EMPTY_PAGES: u32 = 16;

struct Listing<'a> {
    source: &'a SmbSource,
    directory: &'a Location,
    cancel: &'a Cancel,
    names: Names,
    pages: u32,
    /// Pages in a row without a new name.
    stale_pages: u32,
    /// When something new came last.
    since: Instant,
}

pub(super) fn list(
    source: &SmbSource,
    directory: &Location,
    cancel: &Cancel,
    take: &mut dyn FnMut(Vec<Entry>) -> Result<()>,
) -> Result<()> {
    let (names, since) = (Names::new(), Instant::now());
    let mut listing = Listing { source, directory, cancel, names, pages: 0, stale_pages: 0, since };
    // What `take` says is returned as it is.
    let mut ended = Ok(());
    let mut broken = 0;
    let outcome = loop {
        let connection = source.pool.wait(false, cancel).map_err(Trouble::Error);
        let outcome = connection.and_then(|connection| {
            listing.run(&connection, &mut |page| {
                ended = take(page);
                ended.is_ok()
            })
        });
        match outcome {
            Err(Trouble::Lost(lost)) if lost.broken && broken + 1 == BROKEN => {
                break Err(Error::new(ErrorKind::Broken, &*lost.reason).into());
            }
            Err(Trouble::Lost(lost)) if listing.since.elapsed() < source.pool.dial.patience() => {
                broken += u8::from(lost.broken);
            }
            outcome => break outcome,
        }
    };
    ended.and(outcome.map_err(|trouble: Trouble| trouble.into_error(&source.name, "list", &directory.path)))
}

impl Listing<'_> {
    /// Lists until the end, or until `take` has enough. It may be run again: no name is given twice.
    fn run(&mut self, connection: &Arc<Connection>, take: &mut dyn FnMut(Vec<Entry>) -> bool) -> Result<(), Trouble> {
        let (pool, cancel) = (&self.source.pool, self.cancel);
        let size = connection.session().transact;
        let path = self.source.path(&self.directory.path)?;
        let chain = vec![request::create(&path, Aim::List), request::query_directory(&OPENED, size)];
        let answers = Flight::ask_on(connection, pool, cancel, chain)?;
        let file = answer::opened(&answers[0])?.file;
        let mut more = || {
            let answers = Flight::ask_on(connection, pool, cancel, vec![request::query_directory(&file, size)])?;
            answer::page(&answers[0])
        };
        let outcome = self.pages(answer::page(&answers[1]), &mut more, take);
        if !cancel.is_cancelled() {
            let _ = Flight::ask_on(connection, pool, cancel, vec![request::close(&file)]);
        }
        outcome
    }

    fn pages(
        &mut self,
        first: Result<Option<Page>, Trouble>,
        more: &mut dyn FnMut() -> Result<Option<Page>, Trouble>,
        take: &mut dyn FnMut(Vec<Entry>) -> bool,
    ) -> Result<(), Trouble> {
        let mut next = first;
        while let Some(mut page) = next? {
            page.retain(|(name, _)| self.names.insert(name));
            self.stale_pages = if page.is_empty() { self.stale_pages + 1 } else { 0 };
            if self.stale_pages > self.pages.saturating_add(EMPTY_PAGES) {
                return Err(Malformed("a listing goes in a circle").into());
            }
            self.pages = self.pages.saturating_add(u32::from(!page.is_empty()));
            if !page.is_empty() {
                if self.source.address.links {
                    self.count_links(&mut page)?;
                }
                // Of what can not be asked for, the engine learns so when it asks.
                let entry = |(name, about): (Vec<u8>, About)| Entry {
                    attributes: name::can_be_asked_for(&name).then(|| self.source.attributes_of(&about)),
                    name: OsString::from_vec(name),
                    handle: Box::default(),
                };
                if !take(page.into_iter().map(entry).collect()) {
                    return Ok(());
                }
                self.since = Instant::now();
            }
            next = more();
        }
        Ok(())
    }

    /// Asks each file for the number of its names. What has gone meanwhile is dropped.
    fn count_links(&self, page: &mut Page) -> Result<(), Trouble> {
        let is_file = |about: &About| self.source.attributes_of(about).file_type == FileType::Regular;
        let mut asked = Vec::new();
        let mut waiting: Vec<usize> = (0..page.len()).rev().filter(|number| is_file(&page[*number].1)).collect();
        let mut gone = vec![false; page.len()];
        let mut flight = Flight::new(&self.source.pool, self.cancel);
        while !waiting.is_empty() || flight.len() > 0 {
            while flight.len() < FILES
                && let Some(number) = waiting.pop()
            {
                let path = self.directory.path.join(OsString::from_vec(page[number].0.clone()));
                // A name that can not be asked for: that is told when the object is.
                let Ok(path) = self.source.path(&path) else { continue };
                let look = request::create(&path, Aim::Look);
                flight.send(vec![look, request::query_all(&OPENED), request::close(&OPENED)]);
                // Tickets count from 0.
                asked.push(number);
            }
            if flight.len() == 0 {
                break;
            }
            let (ticket, answers) = flight.next()?;
            let Some(&number) = asked.get(ticket as usize) else { continue };
            let about = answers.and_then(|answers| {
                answer::opened(&answers[0])?;
                answer::all(&answers[1])
            });
            match about {
                Ok(about) => page[number].1 = About { tag: page[number].1.tag, ..about },
                Err(trouble) if trouble.is_gone() => gone[number] = true,
                // After a refusal the engine asks for it by itself and learns why.
                Err(Trouble::Status(_)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        let mut number = 0;
        page.retain(|_| {
            number += 1;
            !gone[number - 1]
        });
        Ok(())
    }
}

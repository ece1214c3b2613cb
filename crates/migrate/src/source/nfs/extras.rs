//! Targets of links and access lists of many objects at a time.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::flight::{Answer, Flight};
use super::protocol::{self, Trouble};
use super::{NfsSource, acl};
use crate::source::{Cancel, Extras, FileType, Location, Result, Source, ToldExtras};

/// Objects that are under way.
const OBJECTS: usize = 256;

fn told(answer: &Answer, is_link: bool) -> Result<ToldExtras, Trouble> {
    if is_link {
        let target = protocol::link_read(answer.results())?.map(|target| OsString::from_vec(target).into());
        return Ok((Extras { target, attributes: Vec::new() }, None));
    }
    let (attributes, now) = acl::lists(answer.results())?;
    Ok((Extras { target: None, attributes }, now))
}

/// One request for an object that may have something: a link has a target and no access lists, and all else has no target.
pub(super) fn many(source: &NfsSource, objects: &[(&Location, FileType)], cancel: &Cancel) -> Vec<Result<ToldExtras>> {
    let mut results: Vec<Option<Result<ToldExtras>>> = vec![None; objects.len()];
    let mut flight = Flight::new(&source.nfs, cancel);
    let mut asked: HashMap<u64, usize> = HashMap::new();
    let mut waiting = objects.iter().enumerate();
    loop {
        while flight.len() < OBJECTS
            && let Some((number, (location, kind))) = waiting.next()
        {
            let is_link = *kind == FileType::Symlink;
            if !is_link && !source.has_lists {
                results[number] = Some(Ok(ToldExtras::default()));
            } else if !location.handle.is_empty() {
                let handle = &location.handle;
                let call = if is_link { protocol::readlink(handle) } else { acl::getacl(handle) };
                asked.insert(flight.send(call), number);
            }
        }
        if flight.len() == 0 {
            break;
        }
        let (ticket, answer) = match flight.next() {
            Ok(next) => next,
            Err(error) => return objects.iter().map(|_| Err(error.clone())).collect(),
        };
        let Some(number) = asked.remove(&ticket) else { continue };
        let (location, kind) = objects[number];
        let answer = answer.map_err(Trouble::from).and_then(|answer| told(&answer, kind == FileType::Symlink));
        results[number] = match answer {
            // It is looked up below.
            Err(trouble) if trouble.is_stale() => None,
            answer => Some(answer.map_err(|trouble| {
                trouble.into_error(&source.name, "read the target or the access lists of", &location.path)
            })),
        };
    }
    let found = results.into_iter().zip(objects);
    found.map(|(result, (location, _))| result.unwrap_or_else(|| source.extras_told(location, cancel))).collect()
}

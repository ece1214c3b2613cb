//! Targets of links and access lists, of one object or of many at a time.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::answer::{self, Answer, Trouble};
use super::flight::Flight;
use super::request::{self, Aim, OPENED, Request};
use super::status::Status;
use super::{SmbSource, marks, reparse};
use crate::source::{Cancel, Extras, FileType, Location, Result, ToldExtras};

/// Objects that are under way.
const OBJECTS: usize = 256;
const DOING: &str = "read the target or the access list of";
const NOT_SUPPORTED: Status = Status(0xc000_00bb);

fn chain(path: &[u8]) -> Vec<Request> {
    let descriptor = request::query_descriptor(&OPENED);
    vec![request::create(path, Aim::Lists), descriptor, request::query_all(&OPENED), request::close(&OPENED)]
}

/// What the answers to that chain say. A link takes a second one.
fn told(source: &SmbSource, path: &[u8], answers: &[Answer], cancel: &Cancel) -> Result<ToldExtras, Trouble> {
    let opened = answer::opened(&answers[0])?;
    if opened.attributes & reparse::REPARSE_POINT != 0 {
        let look = request::create(path, Aim::Look);
        let chain = vec![look, request::get_reparse_point(&OPENED), request::close(&OPENED)];
        let answers = Flight::ask(&source.pool, cancel, chain)?;
        answer::opened(&answers[0])?;
        if let Some(target) = reparse::target(answer::controlled(&answers[1])?)? {
            let target = Some(PathBuf::from(OsString::from_vec(target)));
            return Ok((Extras { target, attributes: Vec::new() }, None));
        }
    }
    let mut attributes = Vec::new();
    match answer::descriptor(&answers[1]) {
        Ok(descriptor) => attributes.push((OsString::from("security.NTACL"), marks::ntacl(descriptor)?)),
        // The server's file system has none.
        Err(Trouble::Status(NOT_SUPPORTED)) => {}
        Err(trouble) => return Err(trouble),
    }
    let dosattrib = marks::dosattrib(opened.attributes, opened.created);
    attributes.push((OsString::from("user.DOSATTRIB"), dosattrib));
    let now = source.attributes_of(&answer::all(&answers[2])?);
    Ok((Extras { target: None, attributes }, Some(now)))
}

pub(super) fn one(source: &SmbSource, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
    let ask = || {
        let path = source.path(&object.path)?;
        let answers = Flight::ask(&source.pool, cancel, chain(&path))?;
        told(source, &path, &answers, cancel)
    };
    ask().map_err(|trouble: Trouble| trouble.into_error(&source.name, DOING, &object.path))
}

/// A chain for each object, many of them under way.
pub(super) fn many(source: &SmbSource, objects: &[(&Location, FileType)], cancel: &Cancel) -> Vec<Result<ToldExtras>> {
    let paths: Vec<_> = objects.iter().map(|(location, _)| source.path(&location.path)).collect();
    let chains = paths.iter().map(|path| path.as_ref().ok().map(|path| chain(path))).collect();
    let told = Flight::ask_many(&source.pool, cancel, OBJECTS, chains, |number, answers| {
        let path = paths[number].as_deref().unwrap_or_default();
        let outcome = answers.and_then(|answers| told(source, path, &answers, cancel));
        outcome.map_err(|trouble| trouble.into_error(&source.name, DOING, &objects[number].0.path))
    });
    // What could not be asked says why when it is asked alone.
    let each = told.into_iter().zip(objects);
    each.map(|(told, (location, _))| told.unwrap_or_else(|| one(source, location, cancel))).collect()
}

//! `cargo xtask tidy`: is everything where it belongs?
//!
//! Four rules, each a module that turns what it is given into [`Finding`]s and reads no files itself, so that its tests
//! feed it trees that never existed: [`layers`] (which crate may import which), [`lengths`] (of source files), [`links`]
//! (in documents) and [`promises`] (whose tests must exist). This module walks the tree and reads the manifests for them.

mod finding;
mod layers;
mod lengths;
mod links;
mod promises;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use crate::Failure;
use finding::Finding;

/// Prints what is out of place; an error if any of it must be mended.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    match arguments.first().map(String::as_str) {
        None => {}
        Some("--help" | "-h") => {
            println!(
                "Usage: cargo xtask tidy\n\nChecks layering, file lengths, the links in documents, and that the tests exist\nwhich the promises name."
            );
            return Ok(());
        }
        Some(unknown) => return Err(format!("`cargo xtask tidy` takes no arguments, and got `{unknown}`")),
    }
    let findings = findings(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.iter().filter(|finding| finding.is_error()).count() {
        0 => {
            println!("tidy: nothing to mend ({} to think about)", findings.len());
            Ok(())
        }
        errors => Err(format!("tidy: {errors} to mend")),
    }
}

fn findings(root: &Path) -> Result<Vec<Finding>, Failure> {
    let mut sources = Vec::new();
    let mut documents = Vec::new();
    walk(
        root,
        Path::new(""),
        &mut |path| match Path::new(path).extension().and_then(|extension| extension.to_str()) {
            Some("rs") => sources.push(path.to_owned()),
            Some("md") => documents.push(path.to_owned()),
            _ => {}
        },
    )?;

    let mut findings = layers::check(&members(root)?);
    let mut functions = BTreeSet::new();
    for path in &sources {
        let source = read(root, path)?;
        findings.extend(lengths::check(path, source.lines().count()));
        functions.extend(promises::functions(&source).map(str::to_owned));
    }
    findings.extend(promises::check(&read(root, promises::DOCUMENT)?, &functions));
    let documents = documents
        .into_iter()
        .map(|path| Ok(links::Document::read(&path, &read(root, &path)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    findings.extend(links::check(&documents, |path| root.join(path).exists()));
    Ok(findings)
}

/// Calls `visit` with every file below `root`, by its path from there; build outputs and hidden folders are left out.
fn walk(root: &Path, folder: &Path, visit: &mut impl FnMut(&str)) -> Result<(), Failure> {
    let here = root.join(folder);
    let unreadable = |error| format!("{}: {error}", here.display());
    let mut entries = fs::read_dir(&here).map_err(unreadable)?.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let path = folder.join(name);
        if entry.file_type().map_err(unreadable)?.is_dir() {
            if !name.starts_with('.') && name != "target" {
                walk(root, &path, visit)?;
            }
        } else if let Some(path) = path.to_str() {
            visit(path);
        }
    }
    Ok(())
}

fn read(root: &Path, path: &str) -> Result<String, Failure> {
    fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))
}

/// The crates of the workspace as `cargo metadata` tells them.
fn members(root: &Path) -> Result<Vec<layers::Member>, Failure> {
    let metadata: Metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let mut members = Vec::new();
    for package in &metadata.packages {
        let manifest = package.manifest_path.as_std_path();
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest).to_string_lossy().into_owned();
        let imports = package.dependencies.iter().map(|dependency| layers::Import {
            of: dependency.name.clone(),
            for_tests_only: dependency.kind == DependencyKind::Development,
        });
        members.push(layers::Member {
            name: package.name.to_string(),
            manifest_text: read(root, &manifest)?,
            manifest,
            imports: imports.collect(),
        });
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_leaves_out_build_outputs_and_hidden_folders() {
        let tree = tempfile::tempdir().unwrap();
        for path in ["a.rs", "target/b.rs", ".git/c.rs", "crates/x/src/d.rs"] {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mut seen = Vec::new();
        walk(tree.path(), Path::new(""), &mut |path| seen.push(path.to_owned())).unwrap();
        assert_eq!(seen, ["a.rs", "crates/x/src/d.rs"]);
    }

    #[test]
    fn this_house_obeys_its_own_layers() {
        assert_eq!(layers::check(&members(&crate::root()).unwrap()), []);
    }
}

//! Which crate may import which.
//!
//! The crates stand on floors. A crate imports from lower floors, or sideways where its row says so; test harnesses come
//! in as dev-dependencies only. [`HOUSE`] is the whole truth: a crate without a row and a row without a crate are both
//! errors, so the table can not grow stale.

use std::collections::BTreeSet;

use super::finding::Finding;

/// A row of the table.
struct Room {
    /// The folder below `crates/`; the crate is called `ishigaki-` and this, save for [`Place::Chores`].
    folder: &'static str,
    place: Place,
    /// Crates it may import although they do not stand on a lower floor.
    beside: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// 0 words, 1 media, 2 engines, 3 doors, 4 top.
    Floor(u8),
    /// For tests alone: anyone's dev-dependency, nobody's dependency.
    Harness,
    /// The chores: imports nothing of the house and is imported by nobody.
    Chores,
}

const fn room(folder: &'static str, place: Place, beside: &'static [&'static str]) -> Room {
    Room { folder, place, beside }
}

/// The house, lowest floor first.
const HOUSE: &[Room] = &[
    room("base", Place::Floor(0), &[]),
    room("device", Place::Floor(1), &[]),
    room("index", Place::Floor(1), &[]),
    room("fabric", Place::Floor(1), &["device"]),
    room("fuse", Place::Floor(1), &[]),
    room("shm", Place::Floor(1), &["device"]),
    room("servers", Place::Floor(1), &[]),
    room("service", Place::Floor(1), &[]),
    room("wal", Place::Floor(2), &[]),
    room("txn", Place::Floor(2), &["wal"]),
    // The log is what its tests put on a remote disk.
    room("remote", Place::Floor(2), &["wal"]),
    room("page", Place::Floor(2), &[]),
    room("logpool", Place::Floor(2), &["wal"]),
    room("tier", Place::Floor(2), &["wal", "emulate"]),
    room("prefetch", Place::Floor(2), &[]),
    room("agent", Place::Floor(2), &["prefetch"]),
    room("emulate", Place::Floor(2), &[]),
    room("virtio", Place::Floor(2), &[]),
    room("migrate", Place::Floor(2), &[]),
    room("scan", Place::Floor(3), &[]),
    room("logpool-fs", Place::Floor(3), &[]),
    room("migrate-fs", Place::Floor(3), &[]),
    room("logpool-service", Place::Floor(3), &["logpool-fs"]),
    room("migrate-service", Place::Floor(3), &["migrate-fs"]),
    room("volume-service", Place::Floor(3), &[]),
    room("sql", Place::Floor(3), &["scan"]),
    room("cluster", Place::Floor(3), &["scan", "sql"]),
    room("bench", Place::Floor(4), &[]),
    room("tpch", Place::Floor(4), &["bench"]),
    room("cli", Place::Floor(4), &["bench", "tpch"]),
    room("testkit", Place::Harness, &["base"]),
    // It asks both: SQL as people use it, and another server.
    room("sqldiff", Place::Harness, &["base", "fabric", "remote", "scan", "servers", "sql"]),
    room("xtask", Place::Chores, &[]),
];

/// Where the table is, for messages.
const TABLE: &str = "crates/xtask/src/tidy/layers.rs";
/// In front of the name of every crate of the house.
const PREFIX: &str = "ishigaki-";

/// A crate of the workspace.
pub(crate) struct Member {
    /// As in its manifest.
    pub(crate) name: String,
    /// The manifest's path from the root of the workspace.
    pub(crate) manifest: String,
    pub(crate) manifest_text: String,
    pub(crate) imports: Vec<Import>,
}

/// One dependency of a crate.
pub(crate) struct Import {
    pub(crate) of: String,
    /// It is a dev-dependency.
    pub(crate) for_tests_only: bool,
}

/// Judges all crates of the workspace at once.
pub(crate) fn check(members: &[Member]) -> Vec<Finding> {
    check_against(HOUSE, members)
}

fn check_against(house: &[Room], members: &[Member]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for member in members {
        findings.extend(check_folder(member));
        let Some(room) = room_of(house, &member.name) else {
            findings.push(Finding::error(
                &member.manifest,
                line_of(&member.manifest_text, &member.name),
                format!("the crate `{}` stands on no floor", member.name),
                format!("give it a row in the table of {TABLE}"),
            ));
            continue;
        };
        used.insert(room.folder);
        for import in member.imports.iter().filter(|import| is_of_the_house(members, &import.of)) {
            if let Some((what, remedy)) = objection(house, room, import) {
                let line = line_of(&member.manifest_text, &import.of);
                findings.push(Finding::error(&member.manifest, line, what, remedy));
            }
        }
    }
    let stale = house.iter().filter(|room| !used.contains(room.folder));
    findings.extend(stale.map(|room| {
        let what = format!("the table of floors has a row for `{}`, and there is no such crate", room.folder);
        Finding::error(TABLE, 1, what, "remove the row")
    }));
    findings
}

/// The crate's folder must bear the crate's name.
fn check_folder(member: &Member) -> Option<Finding> {
    let expected = format!("crates/{}/Cargo.toml", folder_of(&member.name));
    (member.manifest != expected).then(|| {
        let what = format!("the crate `{}` lies in the wrong folder", member.name);
        let line = line_of(&member.manifest_text, &member.name);
        Finding::error(&member.manifest, line, what, format!("its manifest belongs at `{expected}`"))
    })
}

/// Why `room` may not have `import`, and what to do instead; nothing if it may.
fn objection(house: &[Room], room: &Room, import: &Import) -> Option<(String, String)> {
    let (from, of) = (room.folder, folder_of(&import.of));
    let Some(target) = room_of(house, &import.of) else {
        return Some((
            format!("`{from}` imports `{of}`, which stands on no floor"),
            format!("give it a row in {TABLE}"),
        ));
    };
    if room.beside.contains(&of) {
        return None;
    }
    match (room.place, target.place) {
        (_, Place::Chores) => {
            Some((format!("`{from}` imports the chores"), "move what both need to a crate of the house".into()))
        }
        (Place::Chores, _) => Some((
            format!("`{from}` imports `{of}`; the chores must run when the house does not compile"),
            "do without it".into(),
        )),
        (_, Place::Harness) if import.for_tests_only => None,
        (_, Place::Harness) => {
            Some((format!("`{from}` imports the test harness `{of}`"), "make it a dev-dependency".into()))
        }
        (Place::Harness, Place::Floor(_)) => Some((
            format!("the test harness `{from}` imports `{of}`"),
            format!("hand it in as a trait or a closure, or let the row in {TABLE} say so"),
        )),
        (Place::Floor(own), Place::Floor(other)) if other < own => None,
        (Place::Floor(own), Place::Floor(other)) => {
            let way = if other == own { "sideways" } else { "upwards" };
            Some((
                format!("`{from}` (floor {own}) imports `{of}` (floor {other}) {way}"),
                format!(
                    "move what both need to a lower floor{}",
                    if other == own { format!(", or let the row in {TABLE} say so") } else { String::new() }
                ),
            ))
        }
    }
}

fn room_of<'h>(house: &'h [Room], name: &str) -> Option<&'h Room> {
    house.iter().find(|room| match room.place {
        Place::Chores => room.folder == name,
        _ => name.strip_prefix(PREFIX) == Some(room.folder),
    })
}

fn is_of_the_house(members: &[Member], name: &str) -> bool {
    name.starts_with(PREFIX) || members.iter().any(|member| member.name == name)
}

fn folder_of(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// The line of a manifest that names a crate; the first line if none does.
fn line_of(manifest: &str, name: &str) -> usize {
    let names_it = |line: &str| {
        let line = line.split('#').next().unwrap_or_default();
        line.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').any(|word| word == name)
    };
    manifest.lines().position(names_it).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: &[Room] = &[
        room("base", Place::Floor(0), &[]),
        room("fuse", Place::Floor(1), &[]),
        room("wal", Place::Floor(2), &[]),
        room("txn", Place::Floor(2), &["wal"]),
        room("testkit", Place::Harness, &["base"]),
        room("xtask", Place::Chores, &[]),
    ];

    /// A tree in which every crate of the table is there and imports nothing, save what `imports` says: `(from, of, for_tests_only)`.
    fn tree(imports: &[(&str, &str, bool)]) -> Vec<Member> {
        let member = |room: &Room| {
            let name =
                if room.place == Place::Chores { room.folder.into() } else { format!("{PREFIX}{}", room.folder) };
            let imports = imports.iter().filter(|(from, ..)| *from == room.folder);
            let imports: Vec<_> = imports
                .map(|(_, of, for_tests_only)| Import { of: (*of).into(), for_tests_only: *for_tests_only })
                .collect();
            let lines: Vec<_> = imports.iter().map(|import| format!("{}.workspace = true", import.of)).collect();
            let manifest_text = format!("[package]\nname = \"{name}\"\n\n[dependencies]\n{}\n", lines.join("\n"));
            Member { name, manifest: format!("crates/{}/Cargo.toml", room.folder), manifest_text, imports }
        };
        TRIAL.iter().map(member).collect()
    }

    fn messages(members: &[Member]) -> Vec<String> {
        check_against(TRIAL, members).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lower_floors_listed_neighbours_harnesses_and_foreign_crates_pass() {
        let imports = [
            ("wal", "ishigaki-base", false),
            ("txn", "ishigaki-wal", false),
            ("txn", "ishigaki-testkit", true),
            ("testkit", "ishigaki-base", false),
            ("xtask", "cargo_metadata", false),
        ];
        assert_eq!(messages(&tree(&imports)), [""; 0]);
    }

    #[test]
    fn an_import_upwards_is_an_error_at_its_line() {
        let found = messages(&tree(&[("base", "ishigaki-wal", false)]));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("crates/base/Cargo.toml:5: error: `base` (floor 0) imports `wal` (floor 2) upwards"),
            "{found:?}"
        );
    }

    #[test]
    fn an_import_upwards_for_tests_is_an_error_too() {
        assert_eq!(messages(&tree(&[("base", "ishigaki-wal", true)])).len(), 1);
    }

    #[test]
    fn a_sideways_import_that_the_table_does_not_list_is_an_error() {
        let found = messages(&tree(&[("wal", "ishigaki-txn", false)]));
        assert!(found.len() == 1 && found[0].contains("sideways"), "{found:?}");
    }

    #[test]
    fn a_harness_as_a_plain_dependency_is_an_error() {
        let found = messages(&tree(&[("txn", "ishigaki-testkit", false)]));
        assert!(found.len() == 1 && found[0].contains("make it a dev-dependency"), "{found:?}");
    }

    #[test]
    fn a_harness_may_import_only_what_its_row_lists() {
        assert_eq!(messages(&tree(&[("testkit", "ishigaki-wal", false)])).len(), 1);
    }

    #[test]
    fn the_chores_and_the_house_do_not_import_each_other() {
        assert_eq!(messages(&tree(&[("xtask", "ishigaki-base", false), ("txn", "xtask", false)])).len(), 2);
    }

    #[test]
    fn a_crate_without_a_row_is_an_error() {
        let mut members = tree(&[]);
        members.push(Member {
            name: "ishigaki-attic".into(),
            manifest: "crates/attic/Cargo.toml".into(),
            manifest_text: String::new(),
            imports: vec![],
        });
        let found = messages(&members);
        assert!(found.len() == 1 && found[0].contains("`ishigaki-attic` stands on no floor"), "{found:?}");
    }

    #[test]
    fn a_row_without_a_crate_is_an_error() {
        let members: Vec<_> = tree(&[]).into_iter().filter(|member| member.name != "ishigaki-wal").collect();
        let found = messages(&members);
        assert!(found.len() == 1 && found[0].contains("a row for `wal`"), "{found:?}");
    }

    #[test]
    fn a_folder_must_bear_the_name_of_its_crate() {
        let mut members = tree(&[]);
        let wal = members.iter_mut().find(|member| member.name == "ishigaki-wal").expect("it is in the tree");
        wal.manifest = "crates/log/Cargo.toml".into();
        let found = messages(&members);
        assert!(
            found.len() == 1
                && found[0].starts_with("crates/log/Cargo.toml:2:")
                && found[0].contains("crates/wal/Cargo.toml"),
            "{found:?}"
        );
    }
}

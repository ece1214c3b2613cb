//! Files in conflict that clients have moved, and owners in access lists.

use std::fs;
use std::path::Path;

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::config::IdMap;
use ishigaki_migrate_service::control::{Keep, Reply, Request, ask};
use ishigaki_migrate_service::status::Phase;
use ishigaki_migrate_service::verify::{Progress, verify};
use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::stage::Stage;

#[test]
fn a_file_in_conflict_is_decided_on_where_it_is_now() {
    let Some(mut stage) = Stage::new("a_file_in_conflict_is_decided_on_where_it_is_now") else { return };
    stage.config.paused = true;
    let serving = stage.start();
    let [one, two, three] = ["a/b/file-10", "a/b/file-11", "a/b/file-12"];
    for name in [one, two, three] {
        fs::metadata(stage.at.join(name)).unwrap();
        fs::write(stage.old.join(name), format!("new {name}")).unwrap();
    }
    // Two change their names, and one goes elsewhere.
    let at = |name: &str| stage.at.join(name);
    fs::rename(at(one), at("aside")).unwrap();
    fs::rename(at(two), at(one)).unwrap();
    fs::rename(at("aside"), at(two)).unwrap();
    fs::rename(at(three), at("empty/three")).unwrap();
    stage.order(&Request::Resume {});
    let status = stage.until(|status| status.phase == Phase::Done);
    assert_eq!(status.conflicts, 3, "{status:?}");
    let Reply::Conflicts(conflicts) = ask(&stage.new, &Request::Conflicts {}).unwrap() else { panic!() };
    let found: Vec<_> = conflicts.iter().map(|it| (it.path.as_str(), it.at_source.as_deref())).collect();
    assert_eq!(found, [(two, Some(one)), (one, Some(two)), ("empty/three", Some(three))]);

    let resolve = |path: &str, keep| Request::Resolve { path: path.to_owned(), keep };
    let refused = stage.refused(&resolve(three, Keep::Source));
    assert!(refused.contains("now it is `empty/three`"), "{refused}");
    stage.order(&resolve("empty/three", Keep::Source));
    assert_eq!(fs::read_to_string(at("empty/three")).unwrap(), format!("new {three}"));
    stage.order(&resolve(one, Keep::Source));
    assert_eq!(fs::read_to_string(at(one)).unwrap(), format!("new {two}"), "the file that is there now");
    stage.order(&resolve(two, Keep::Here));
    assert_eq!(fs::read(at(two)).unwrap(), vec![0; 10 * 20_011]);
    stage.until(|status| status.phase == Phase::Done && status.problems == 0);
    let Reply::Conflicts(conflicts) = ask(&stage.new, &Request::Conflicts {}).unwrap() else { panic!() };
    assert!(conflicts.is_empty(), "{conflicts:?}");
    serving.stop().unwrap();
}

/// An access list with a user and a group beside the owner's.
fn list(user: u32, group: u32) -> Vec<u8> {
    let entries =
        [(1_u16, 6_u16, u32::MAX), (2, 4, user), (4, 4, u32::MAX), (8, 5, group), (16, 5, u32::MAX), (32, 0, u32::MAX)];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, number) in entries {
        bytes.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        bytes.extend(number.to_le_bytes());
    }
    bytes
}

#[test]
fn users_and_groups_of_access_lists_are_mapped() {
    let Some(mut stage) = Stage::new("users_and_groups_of_access_lists_are_mapped") else { return };
    let lists =
        [("a/small", "system.posix_acl_access"), ("a", "system.posix_acl_default"), ("a", "system.posix_acl_access")];
    for (path, name) in lists {
        setxattr(stage.old.join(path), name, &list(1234, 99), XattrFlags::empty()).unwrap();
    }
    stage.config.ids = IdMap::parse("uid 1234 5678\ngid 99 199\n", Path::new("ids")).unwrap();
    let serving = stage.start();
    stage.until_done();
    for (path, name) in lists {
        let mut found = [0; 100];
        let length = getxattr(stage.new.join(path), name, &mut found[..]).unwrap();
        assert_eq!(found[..length], list(5678, 199), "{path}: {name}");
    }
    assert!(verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap().is_equal());
    serving.finish().unwrap();
    // Without the map the lists differ; one of the files has two names.
    stage.config.ids = IdMap::default();
    let report = verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap();
    assert!(report.differences.iter().filter(|it| it.here.contains("posix_acl")).count() == 4, "{report:?}");
    serving.stop().unwrap();
}

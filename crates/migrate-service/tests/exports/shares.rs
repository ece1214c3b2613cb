//! Samba in front of the folder.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ishigaki_migrate_service::control::Request;
use rustix::fs::{FlockOperation, fcntl_lock};

use crate::samba::Samba;
use crate::{EACH, MANY, SOME, allow, alone, begun, end, list};

fn share(folder: &Path) -> Option<Samba> {
    let path = folder.display();
    Samba::start_with(&format!("strict locking = yes\n[door]\npath = {path}\nread only = no\n"))
}

fn do_in(server: &Samba, words: &str) -> String {
    // It gives up after 20 seconds otherwise, which a busy machine may need.
    server.client("smbclient", &["-t", "300", &server.share("door"), "-c", words])
}

#[test]
fn clients_of_samba_work_while_files_arrive() {
    clients_work("clients_of_samba_work_while_files_arrive", SOME);
}

#[test]
#[ignore = "takes minutes on a busy machine"]
fn clients_of_samba_see_5000_names_while_files_arrive() {
    clients_work("clients_of_samba_see_5000_names_while_files_arrive", MANY);
}

fn clients_work(test: &str, names: usize) {
    let _alone = alone();
    let Some((stage, serving)) = begun(test, names) else { return };
    for name in ["a/b/file-8", "a/b/file-9"] {
        fs::set_permissions(stage.old.join(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    allow(&stage.old.join("a/b/file-8"), "nobody");
    let Some(server) = share(&stage.at) else { return };

    // A page of many files is shown, with sizes and attributes, and none of them is pulled.
    let shown = do_in(&server, "ls many\\*");
    let size = EACH.to_string();
    let files = shown.lines().filter(|line| line.split_whitespace().any(|word| word == size)).count();
    assert_eq!(files, names, "{shown}");
    let status = stage.status();
    assert_eq!((status.copied, status.whole), (0, 0), "{status:?}");
    // File managers read no file that is marked so for a picture of it.
    assert_eq!(shown.matches(" o ").count(), names, "{shown}");
    assert!(do_in(&server, "allinfo a/b/file-29").contains("attributes: O"));
    assert!(!do_in(&server, "allinfo a/b").contains("attributes: O"), "a directory");

    // Reads.
    let local = |name: &str| stage.held.path().join(name);
    let got = local("got");
    do_in(&server, &format!("get a/b/file-29 {}", got.display()));
    assert!(fs::read(&got).unwrap() == fs::read(stage.old.join("a/b/file-29")).unwrap());

    // Writes: a part of what is not here, all of a file, and names.
    let (old, tail) = (fs::read(stage.old.join("a/b/file-28")).unwrap(), vec![7; 100_000]);
    let longer = [&old[..], &tail].concat();
    fs::write(local("longer"), &longer).unwrap();
    do_in(&server, &format!("reput {} a/b/file-28", local("longer").display()));
    // Samba 4.17's client writes the rest at the beginning, also without a migration.
    let over = [&tail, &old[100_000..]].concat();
    let appended = fs::read(stage.at.join("a/b/file-28")).unwrap();
    assert!(appended == longer || appended == over, "a part is written");
    fs::write(local("other"), b"other bytes").unwrap();
    do_in(&server, &format!("put {} a/b/file-27; put {0} a/new", local("other").display()));
    do_in(&server, "mkdir made; rename a/b/file-26 made/moved; del a/b/file-25; hardlink a/b/file-24 made/linked");
    for name in ["a/b/file-27", "a/new"] {
        assert_eq!(fs::read(stage.at.join(name)).unwrap(), b"other bytes", "{name}");
    }
    let of_old = |name: &str| fs::read(stage.old.join(name)).unwrap();
    assert!(fs::read(stage.at.join("made/moved")).unwrap() == of_old("a/b/file-26"));
    assert!(fs::read(stage.at.join("made/linked")).unwrap() == of_old("a/b/file-24"));
    assert!(!stage.at.join("a/b/file-25").exists());

    // Access lists: those of the source are obeyed at once, and Windows' are kept.
    let read_by_nobody = |name: &str| {
        let words = format!("get a/b/{name} {}", got.display());
        server.client_of("nobody", "smbclient", &[&server.share("door"), "-c", &words])
    };
    read_by_nobody("file-8").unwrap();
    assert!(fs::read(&got).unwrap() == of_old("a/b/file-8"));
    let refused = read_by_nobody("file-9").unwrap_err();
    assert!(refused.contains("NT_STATUS_ACCESS_DENIED"), "{refused}");
    let entry = "ACL:S-1-5-21-1-2-3-1001:ALLOWED/0x0/READ";
    let copied_before = stage.status().copied;
    server.client("smbcacls", &[&server.share("door"), "a/b/file-23", "--add", entry]);
    let access = || server.client("smbcacls", &[&server.share("door"), "a/b/file-23", "--numeric"]);
    let told = access();
    assert!(told.contains("S-1-5-21-1-2-3-1001"), "{told}");
    do_in(&server, "setmode a/b/file-23 +h");
    assert_eq!(stage.status().copied, copied_before, "lists and attributes pull no data");

    // A lock that a program here has holds for clients of Samba.
    let locked = File::options().read(true).write(true).open(stage.at.join("a/b/file-22")).unwrap();
    fcntl_lock(&locked, FlockOperation::NonBlockingLockExclusive).unwrap();
    let write = || {
        let words = format!("put {} a/b/file-22", local("other").display());
        server.client_of("root", "smbclient", &[&server.share("door"), "-c", &words])
    };
    let refused = write().unwrap_err();
    assert!(refused.contains("NT_STATUS_FILE_LOCK_CONFLICT"), "{refused}");
    fcntl_lock(&locked, FlockOperation::Unlock).unwrap();
    write().unwrap();
    assert_eq!(fs::read(stage.at.join("a/b/file-22")).unwrap(), b"other bytes");
    drop(locked);

    assert!(list(&stage.at.join("a/b/file-8")).contains("user:65534:r--"));
    let numbers = [22, 23, 24, 25, 26, 27, 28].map(|number| format!("a/b/file-{number}"));
    let mut changed: Vec<&str> = numbers.iter().map(String::as_str).collect();
    changed.extend(["a/new", "made"]);
    stage.order(&Request::Resume {});
    stage.until_done();
    assert_eq!(access(), told, "when all is here");
    assert!(do_in(&server, "allinfo a/b/file-23").contains("attributes: H"));
    assert_eq!(do_in(&server, "ls many\\*").matches(" o ").count(), 0);
    drop(server);
    end(&stage, serving, &changed);
    assert!(fs::read(stage.new.join("a/b/file-28")).unwrap() == appended);
    assert!(list(&stage.new.join("a/b/file-8")).contains("user:65534:r--"));
}

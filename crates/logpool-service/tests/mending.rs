//! One member that is damaged, taken out, mended and brought back, while the service serves the others. Nothing here mounts
//! anything, so no test takes root.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{Directory, FileDirectory};
use ishigaki_logpool::{Durability, MemberSettings, Pool, Quota, Settings};
use ishigaki_logpool_service::{Config, Error, Reply, Request, ScrubRate, Serving, Status, Verified, ask};

const MEMBERS: &str = "log = \"128MiB\"\nscrub = \"64MiB\"\nmetrics = \"127.0.0.1:0\"\n\
    [[member]]\nname = \"a\"\nprofile = \"generic\"\nhome = \"16MiB\"\nsocket = \"a.socket\"\n\
    [[member]]\nname = \"b\"\nprofile = \"generic\"\nhome = \"16MiB\"\nsocket = \"b.socket\"\n";

/// A pool whose two members have a file at home each.
fn made(place: &Path) -> Config {
    let config = Config::parse(&format!("data = \"data\"\n{MEMBERS}"), &place.join("pool.toml")).unwrap();
    fs::create_dir(&config.data).unwrap();
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(&config.data).unwrap());
    let settings = Settings { log: ByteSize::mib(128), ..Settings::default() };
    let pool = Pool::open_together(directory, settings).unwrap();
    let quota = Quota { home: ByteSize::mib(16), ..Quota::default() };
    for name in ["a", "b"] {
        let file = pool.add(name, MemberSettings { quota, ..MemberSettings::default() }).unwrap().create("f").unwrap();
        file.write(0, &vec![name.as_bytes()[0]; 100_000], Durability::Now).unwrap();
    }
    pool.bring_home().unwrap();
    // Nothing of them is in the log any more.
    let file = pool.member("b").unwrap().open("f").unwrap();
    (0..3).for_each(|_| file.write(0, b"b", Durability::Now).unwrap());
    pool.bring_home().unwrap();
    pool.close().unwrap();
    config
}

/// Writes something else to a place of a file of the pool.
fn damage(config: &Config, name: &str, at: u64) {
    let file = OpenOptions::new().write(true).open(config.data.join(name)).unwrap();
    file.write_all_at(b"damage", at).unwrap();
}

fn status(config: &Config) -> Status {
    let Reply::Status(status) = ask(&config.data, &Request::Status {}).unwrap() else { panic!("another question") };
    *status
}

fn found(reply: Result<Reply, Error>) -> Verified {
    let Reply::Verified(found) = reply.unwrap() else { panic!("another question") };
    found
}

#[test]
fn a_member_that_can_not_be_opened_is_told_and_mended_and_the_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let config = made(folder.path());
    let ledgers = ["m.a.ledger-0", "m.a.ledger-1"];
    let sound = ledgers.map(|name| fs::read(config.data.join(name)).unwrap());
    for name in ledgers {
        damage(&config, name, 20);
    }
    let serving = Serving::start(&config).unwrap();
    let now = status(&config);
    assert_eq!(now.members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!((now.quarantined[0].name.as_str(), now.quarantined.len(), now.not_served.len()), ("a", 1, 0));
    assert!(now.quarantined[0].problem.contains("ledger"), "{:?}", now.quarantined);
    let name = || "a".to_owned();
    let error = ask(&config.data, &Request::Repair { name: name() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let error = ask(&config.data, &Request::Remove { name: name(), force: false }).unwrap_err();
    assert!(error.to_string().contains("--force"), "{error}");

    // One copy comes back from somewhere.
    fs::write(config.data.join(ledgers[1]), &sound[1]).unwrap();
    let mended = found(ask(&config.data, &Request::Repair { name: name() }));
    assert_eq!((mended.problems.len(), mended.damaged_blocks), (0, 0), "{mended:?}");
    assert_eq!((status(&config).members.len(), status(&config).quarantined.len()), (2, 0));
    assert!(folder.path().join("a.socket").exists());

    // Out, its files as plain ones, and in again.
    let to = folder.path().join("files");
    let rebuild = || ask(&config.data, &Request::Rebuild { name: name(), to: to.clone() });
    assert!(rebuild().unwrap_err().to_string().contains("log quarantine a"));
    ask(&config.data, &Request::Quarantine { name: name() }).unwrap();
    assert!(!folder.path().join("a.socket").exists());
    assert!(status(&config).quarantined[0].problem.contains("taken out"));
    rebuild().unwrap();
    assert_eq!(fs::read(to.join("f")).unwrap(), vec![b'a'; 100_000]);
    let Reply::Changed(changed) = ask(&config.data, &Request::Remount { name: name() }).unwrap() else { panic!() };
    assert!(changed.place.is_some_and(|place| place.ends_with("a.socket")));
    // One that is in order has a server, perhaps, that would be cut off.
    let error = ask(&config.data, &Request::Remount { name: name() }).unwrap_err();
    assert!(error.to_string().contains("is served already"), "{error}");
    assert!(folder.path().join("a.socket").exists());
    assert!(ask(&config.data, &Request::Remount { name: "c".to_owned() }).is_err());
    serving.stop().unwrap();
}

#[test]
fn a_member_whose_place_is_gone_is_not_served_and_the_others_are() {
    let folder = tempfile::tempdir().unwrap();
    let config = made(folder.path());
    let place = folder.path().join("apart");
    let moved = MEMBERS.replace("b.socket", "apart/b.socket");
    let config =
        Config::parse(&format!("data = \"{}\"\n{moved}", config.data.display()), &folder.path().join("pool.toml"));
    let config = config.unwrap();
    let serving = Serving::start(&config).unwrap();
    assert_eq!((status(&config).members.len(), status(&config).not_served), (1, vec!["b".to_owned()]));
    let remount = || ask(&config.data, &Request::Remount { name: "b".to_owned() });
    assert!(remount().unwrap_err().to_string().contains("apart/b.socket"));
    fs::create_dir(&place).unwrap();
    remount().unwrap();
    assert_eq!((status(&config).members.len(), place.join("b.socket").exists()), (2, true));
    // One that is not there yet would be a mistake of the configuration.
    serving.stop().unwrap();
    let more = "[[member]]\nname = \"c\"\nprofile = \"generic\"\nsocket = \"gone/c.socket\"\n";
    let text = format!("data = \"{}\"\n{moved}{more}", config.data.display());
    let config = Config::parse(&text, &folder.path().join("pool.toml")).unwrap();
    let error = Serving::start(&config).unwrap_err().to_string();
    assert!(error.contains("gone/c.socket"), "{error}");
}

#[test]
fn a_quarantined_member_is_removed_with_all_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let config = made(folder.path());
    for name in ["m.a.ledger-0", "m.a.ledger-1"] {
        damage(&config, name, 20);
    }
    let serving = Serving::start(&config).unwrap();
    let Reply::Removed(removed) = ask(&config.data, &Request::Remove { name: "a".to_owned(), force: true }).unwrap()
    else {
        panic!()
    };
    assert_eq!((removed.files, removed.home_bytes), (None, None), "that can not be known");
    let names = fs::read_dir(&config.data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("m.a.")).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(status(&config).members.len(), 1);
    serving.stop().unwrap();
}

#[test]
fn a_damaged_file_is_named_by_status_metrics_and_verification() {
    let folder = tempfile::tempdir().unwrap();
    let config = made(folder.path());
    damage(&config, "m.a.home-0000", 8192 + 77);
    let serving = Serving::start(&config).unwrap();
    let all = found(ask(&config.data, &Request::Verify { name: None }));
    assert_eq!((all.damaged_blocks, all.repaired_blocks, all.problems.len()), (1, 0, 1), "{all:?}");
    assert!(all.problems[0].contains("member `a`: `f` is damaged at 8192"), "{all:?}");
    let other = found(ask(&config.data, &Request::Verify { name: Some("b".to_owned()) }));
    assert_eq!((other.damaged_blocks, other.bytes > 90_000, other.problems.len()), (0, true, 0), "{other:?}");
    let now = status(&config);
    assert_eq!((now.scrub.rate_bytes, now.scrub.damaged_blocks >= 1), (64 << 20, true), "{:?}", now.scrub);
    let a = now.members.iter().find(|member| member.name == "a").unwrap();
    assert_eq!((a.damaged.len(), a.damaged[0].first, a.problem.as_ref()), (1, 8192, None));
    let Reply::Scrubs(rate) = ask(&config.data, &Request::Scrub(ScrubRate { rate_bytes: 0 })).unwrap() else {
        panic!()
    };
    assert_eq!((rate.rate_bytes, status(&config).scrub.rate_bytes), (0, 0));

    let mut page = std::net::TcpStream::connect(serving.metrics().unwrap()).unwrap();
    let mut text = String::new();
    std::io::Write::write_all(&mut page, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    std::io::Read::read_to_string(&mut page, &mut text).unwrap();
    for line in [
        "ishigaki_pool_member_damaged_blocks{member=\"a\"} 1",
        "ishigaki_pool_member_damaged_blocks{member=\"b\"} 0",
        "ishigaki_pool_quarantined 0",
        "ishigaki_pool_scrub_rate_bytes 0",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    serving.stop().unwrap();
}

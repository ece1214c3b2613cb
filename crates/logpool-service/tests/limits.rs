//! Limits that a running service is told to change: which count, and where they are noted.

use std::fs;
use std::path::Path;

use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_logpool_service::{
    Config, Error, Limits, LimitsSet, MemberConfig, Place, QuotaStatus, Reply, Request, Serving, Status, ask,
};

/// A place with a configuration of one member, with these limits.
fn config(place: &Path, limits: &str) -> Config {
    let member = "[[member]]\nname = \"orders\"\nprofile = \"postgresql\"\nsocket = \"orders.socket\"\n";
    Config::parse(&format!("data = \"data\"\nlog = \"64MiB\"\n{member}{limits}"), &place.join("pool.toml")).unwrap()
}

fn status(config: &Config) -> Status {
    let Reply::Status(status) = ask(&config.data, &Request::Status {}).unwrap() else { panic!("another question") };
    *status
}

fn quota(config: &Config, name: &str) -> QuotaStatus {
    status(config).members.into_iter().find(|member| member.name == name).expect("it is served").quota
}

fn set(config: &Config, name: &str, words: &[&str]) -> Result<LimitsSet, Error> {
    let mut limits = Limits::of(name.to_owned());
    words.iter().try_for_each(|word| limits.say(word)).unwrap();
    match ask(&config.data, &Request::Set(limits))? {
        Reply::Set(set) => Ok(set),
        other => panic!("{other:?}"),
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn limits_that_were_set_count_after_every_start_whatever_the_configuration_says() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "home = \"16MiB\"\nshare = \"1MiB\"\n");
    let serving = Serving::start(&config).unwrap();
    let before = quota(&config, "orders");
    assert_eq!((before.home_bytes, before.share_bytes, before.files), (16 * MIB, MIB, 1024));
    let changed = set(&config, "orders", &["home=40MiB", "files=64"]).unwrap();
    let now = QuotaStatus { home_bytes: 40 * MIB, files: 64, ..before.clone() };
    assert_eq!((&changed.before, &changed.now, &changed.noted_in), (&before, &now, &None));
    let remark = changed.remark.expect("the configuration is its author's");
    assert!(remark.contains("says `home` of member `orders` is 16.0 MiB, and the pool has 40.0 MiB"), "{remark}");
    assert_eq!(quota(&config, "orders"), now);
    for (name, words, kind, why) in [
        ("orders", "home=1KiB", ErrorKind::Invalid, "64 KiB to 1 TiB"),
        ("orders", "share=1GiB", ErrorKind::Invalid, "more than a quarter of the log"),
        ("nobody", "home=1GiB", ErrorKind::Invalid, "`nobody`: not found"),
    ] {
        let error = set(&config, name, &[words]).unwrap_err();
        assert!((error.kind(), error.to_string().contains(why)) == (kind, true), "{:?}: {error}", error.kind());
    }
    serving.stop().unwrap();

    // The configuration says what it said.
    let serving = Serving::start(&config).unwrap();
    assert_eq!(quota(&config, "orders"), now);
    serving.stop().unwrap();
}

#[test]
fn limits_of_a_member_that_was_added_are_noted_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "home = \"1MiB\"\nshare = \"1MiB\"\n");
    let serving = Serving::start(&config).unwrap();
    let mut member: MemberConfig = "machine:generic:x:105:106".parse().unwrap();
    member.place = Place::Socket(folder.path().join("machine.socket"));
    (member.home, member.share) = (Some(ByteSize::mib(2)), Some(ByteSize::kib(64)));
    ask(&config.data, &Request::Add(member)).unwrap();
    let changed = set(&config, "machine", &["home=3MiB"]).unwrap();
    assert_eq!(changed.remark, None);
    let noted = fs::read_to_string(changed.noted_in.expect("the service's own file")).unwrap();
    assert!(noted.contains("home = \"3MiB\"") && noted.contains("share = \"64KiB\""), "{noted}");
    // Its space is taken.
    let taken: u64 = (fs::read_dir(&config.data).unwrap())
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("m.machine.home-"))
        .map(|entry| std::os::unix::fs::MetadataExt::blocks(&entry.metadata().unwrap()) * 512)
        .sum();
    assert!(taken >= 3 * MIB, "{taken} bytes");
    serving.stop().unwrap();
    let serving = Serving::start(&config).unwrap();
    assert_eq!(quota(&config, "machine").home_bytes, 3 * MIB);
    serving.stop().unwrap();
}

#[test]
fn a_home_of_many_files_is_served_where_few_may_be_open_by_default() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "home = \"4GiB\"\n");
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), maximum: before.maximum }).unwrap();
    let serving = Serving::start(&config).unwrap();
    assert_eq!(quota(&config, "orders").home_bytes, 4 << 30);
    let regions = fs::read_dir(&config.data)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("m.orders.home-"));
    assert!(regions.count() > 100);
    serving.stop().unwrap();
}

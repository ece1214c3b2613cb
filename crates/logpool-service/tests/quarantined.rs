//! A service whose pool has a member that can not be opened: it serves the others. Nothing here mounts anything.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use ishigaki_logpool_service::{Config, Reply, Request, Serving, ask};

const MEMBERS: &str = "[[member]]\nname = \"a\"\nprofile = \"generic\"\nhome = \"16MiB\"\nsocket = \"a.socket\"\n\
    [[member]]\nname = \"b\"\nprofile = \"generic\"\nhome = \"16MiB\"\nsocket = \"b.socket\"\n";

#[test]
fn a_member_that_can_not_be_opened_does_not_keep_the_service_from_serving_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("data = \"data\"\nlog = \"128MiB\"\n{MEMBERS}");
    let config = Config::parse(&text, &folder.path().join("pool.toml")).unwrap();
    fs::create_dir(&config.data).unwrap();
    Serving::start(&config).unwrap().stop().unwrap();
    for name in ["m.a.ledger-0", "m.a.ledger-1"] {
        let file = OpenOptions::new().write(true).open(config.data.join(name)).unwrap();
        file.write_all_at(b"damage", 20).unwrap();
    }
    let serving = Serving::start(&config).unwrap();
    let Reply::Status(status) = ask(&config.data, &Request::Status {}).unwrap() else { panic!("another question") };
    assert_eq!(status.members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert!(!folder.path().join("a.socket").exists());
    serving.stop().unwrap();
}

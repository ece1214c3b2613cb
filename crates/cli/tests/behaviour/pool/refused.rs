//! What can not be served, and what one is told then. Nothing here mounts anything.

use std::fs;

use super::site::Site;
use crate::program::Program;

#[test]
fn a_configuration_that_can_not_be_followed_is_refused_with_its_line() {
    let site = Site::new(&["one", "two", "full"]);
    fs::write(site.path("full/something"), "").expect("written");
    let member = |name: &str, profile: &str, mount: &str| {
        format!("[[member]]\nname = \"{name}\"\nprofile = \"{profile}\"\nmount = \"{mount}\"\n")
    };
    let one = member("one", "generic", "one");
    for (more, words) in [
        ("size = \"1GiB\"\n".to_owned(), "pool.toml:2: unknown field `size`"),
        ("log = \"large\"\n".to_owned(), "pool.toml:2: `large`"),
        ("waiting = \"soon\"\n".to_owned(), "pool.toml:2: `soon`"),
        (format!("{one}quota = 1\n"), "pool.toml:6: unknown field `quota`"),
        (member("one", "oracle", "one"), "pool.toml:4: there is no profile `oracle`"),
        (format!("{one}owner = \"\"\n"), "pool.toml:6: `` is no name or number"),
        (format!("{one}{}", member("one", "mariadb", "two")), "pool.toml:6: member `one` is there twice"),
        (format!("{one}{}", member("two", "mariadb", "one")), "each needs a folder or socket of its own"),
        (format!("{one}owner = \"no-such-user\"\n"), "there is no user `no-such-user`"),
        (member("one", "generic", "full"), "it is not empty; what is in it would not be seen"),
        (member("one", "generic", "missing"), "No such file or directory"),
        (member("one", "generic", "one").replace("mount", "socket"), "which is no socket"),
        (member("one", "generic", "missing/socket").replace("mount", "socket"), "No such file or directory"),
        (format!("{one}socket = \"socket\"\n"), "pool.toml:2: member `one` has both `mount` and `socket`"),
        (member("one", "generic", "").replace("mount = \"\"\n", ""), "has neither `mount` nor `socket`"),
        (
            member("one", "generic", "socket").replace("mount", "socket") + "owner = \"root\"\n",
            "give the numbers that they have there",
        ),
        (member("not/a/name", "generic", "one"), "can not be a member's name"),
        (format!("{one}share = \"1TiB\"\n"), "more than a quarter of the log"),
        (format!("{one}share = \"1KiB\"\n"), "a member's share is"),
        ("metrics = \"127.0.0.1\"\n".to_owned(), "no metrics at 127.0.0.1: "),
    ] {
        let config = site.path("pool.toml");
        fs::write(&config, format!("data = \"data\"\n{more}")).expect("written");
        let code = if more.starts_with("metrics") { 3 } else { 1 };
        let answer = Program::new().args(["log", "serve", "--config"]).arg(config).fails_with(code);
        assert!(answer.stderr.starts_with("error: ") && answer.stderr.contains(words), "{more}: {}", answer.stderr);
        assert_eq!(answer.stdout, "");
    }
}

#[test]
fn a_command_line_that_can_not_be_followed_is_refused() {
    let site = Site::new(&["one"]);
    let one = format!("one:generic:{}", site.path("one").display());
    let missing = site.path("missing").display().to_string();
    let data = site.data().display().to_string();
    for (arguments, code, words) in [
        (vec!["serve"], 2, "--data <DIR>"),
        (vec!["serve", "--config", "x", "--data", "y"], 2, "cannot be used with"),
        (vec!["serve", "--config", &missing], 1, "No such file"),
        (vec!["serve", "--data", &data, "--member", "one"], 2, "NAME:PROFILE:FOLDER"),
        (vec!["serve", "--data", &data, "--member", "one:oracle:x"], 2, "there is no profile `oracle`"),
        (vec!["serve", "--data", &data, "--member", &one, "--member", &one], 1, "`one` is there twice"),
        (vec!["serve", "--data", &data, "--waiting", "delay:1"], 2, "no way to wait"),
        (vec!["status", "--data", &missing], 3, "no service runs there"),
        (vec!["add", "one", "--profile", "generic", "--mount", "x", "--data", &missing], 3, "no service runs there"),
        (vec!["add", "one", "--profile", "generic", "--data", &missing], 2, "--mount <DIR>"),
        (
            vec!["add", "one", "--profile", "generic", "--mount", "x", "--socket", "y", "--data", "z"],
            2,
            "cannot be used with",
        ),
        (vec!["remove", "one", "--data", &missing], 3, "no service runs there"),
        (vec!["verify", "--data", &missing], 1, "there is no such directory"),
        (vec!["rebuild", "--data", &missing, "--member", "one", "--to", "x"], 1, "there is no such directory"),
    ] {
        let answer = Program::new().arg("log").args(&arguments).fails_with(code);
        assert!(answer.stderr.contains(words) && answer.stdout.is_empty(), "{arguments:?}: {}", answer.stderr);
    }
    // None of them has made anything.
    assert!(!site.path("missing").exists());
}

#[test]
fn a_new_pool_that_is_refused_leaves_nothing() {
    let site = Site::new(&["one", "full", "empty"]);
    fs::write(site.path("full/something"), "").expect("written");
    let member = |mount: &str| format!("one:generic:{}", site.path(mount).display());
    let full = member("full");
    for (data, code, arguments) in [
        ("new/data", 6, vec!["--log", "4PiB"]),
        ("new", 3, vec!["--metrics", "192.0.2.1:1"]),
        ("new", 1, vec!["--member", &full]),
        ("empty", 6, vec!["--log", "4PiB"]),
    ] {
        let data = site.path(data);
        let answer = Program::new().args(["log", "serve", "--data"]).arg(&data).args(&arguments).fails_with(code);
        assert!(answer.stderr.starts_with("error: "), "{arguments:?}: {}", answer.stderr);
        assert!(!site.path("new").exists(), "{arguments:?}: {:?}", super::tree(&site.path("new")));
        assert_eq!(fs::read_dir(site.path("empty")).expect("it was there").count(), 0, "{arguments:?}");
    }
}

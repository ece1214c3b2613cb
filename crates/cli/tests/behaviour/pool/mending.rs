//! One member of a running service, taken out, looked at and brought back by command. Nothing here mounts anything.

use std::fs;

use serde_json::Value;

use super::site::Site;
use crate::program::Program;
use crate::served::Served;

const MEMBERS: &str = "data = \"data\"\nlog = \"128MiB\"\nscrub = \"2MiB\"\n\
    [[member]]\nname = \"a\"\nprofile = \"generic\"\nhome = \"16MiB\"\nsocket = \"a.socket\"\n\
    [[member]]\nname = \"b\"\nprofile = \"generic\"\nhome = \"16MiB\"\nsocket = \"b.socket\"\n";

#[test]
fn a_member_is_taken_out_verified_and_brought_back_by_command_while_the_other_is_served() {
    let site = Site::new(&[]);
    let config = site.path("pool.toml");
    fs::write(&config, MEMBERS).expect("written");
    let service = Served::start(Program::new().args(["log", "serve", "--config"]).arg(&config));
    let of_a = |command: &str| site.command(command).arg("a");
    assert_eq!(site.status()["scrub"]["rate_bytes"], 2 << 20);

    let answer = of_a("quarantine").succeeds();
    assert!(answer.stdout.contains("a is taken out of service; `ishigaki log remount a`"), "{}", answer.stdout);
    assert!(!site.path("a.socket").exists() && site.path("b.socket").exists());
    let status = site.status();
    assert_eq!((&status["quarantined"][0]["name"], &status["members"][0]["name"]), (&"a".into(), &"b".into()));
    let text = site.command("status").succeeds().stdout;
    assert!(text.contains("\nquarantined member `a` is quarantined: it was taken out"), "{text}");
    let answer = site.command("verify").fails_with(4);
    assert!(answer.stdout.contains("problem     member `a` is quarantined"), "{}", answer.stdout);
    let to = site.path("rebuilt");
    let answer = site.command("rebuild").args(["--member", "a", "--json", "--to"]).arg(&to).succeeds();
    let told: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    assert_eq!((&told["member"], &told["files"], to.exists()), (&"a".into(), &0.into(), true));
    let answer = site.command("remove").arg("a").fails_with(1);
    assert!(answer.stderr.contains("--force removes them"), "{}", answer.stderr);

    let answer = of_a("remount").succeeds();
    assert!(answer.stdout.contains("a is served again at socket "), "{}", answer.stdout);
    assert!(site.path("a.socket").exists());
    let answer = of_a("remount").fails_with(1);
    assert!(answer.stderr.contains("is served already, at socket "), "{}", answer.stderr);
    let answer = of_a("repair").succeeds();
    assert!(answer.stdout.contains("checked, of a\nproblems    none"), "{}", answer.stdout);
    let answer = site.command("verify").args(["b", "--json"]).succeeds();
    let told: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    assert_eq!((&told["name"], told["problems"].as_array().map(Vec::len)), (&"b".into(), Some(0)));
    let answer = site.command("verify").arg("c").fails_with(1);
    assert!(answer.stderr.contains("`c`: not found"), "{}", answer.stderr);

    site.command("scrub").args(["--rate", "fast"]).fails_with(2);
    let answer = site.command("scrub").args(["--rate", "16MiB"]).succeeds();
    assert_eq!(answer.stdout, "Homes are compared at 16.0 MiB a second.\n");
    site.command("scrub").args(["--rate", "off"]).succeeds();
    let text = site.command("status").succeeds().stdout;
    assert!(text.contains("\nscrub       stands still; "), "{text}");
    service.ends_by_with_words("TERM");
    let answer = of_a("repair").fails_with(3);
    assert!(answer.stderr.contains("no service runs there"), "{}", answer.stderr);
}

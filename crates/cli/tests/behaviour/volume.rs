//! `ishigaki volume` as processes: a pool is made, served, asked, killed, and served again.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Program, Running, database};

fn volume(config: &Path, arguments: &[&str]) -> Program {
    Program::new().arg("volume").args(arguments).arg("--config").arg(config)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON object")
}

fn serve(config: &Path) -> (Running, Value) {
    let mut running = volume(config, &["serve", "--json"]).start();
    let said = json(&running.hear());
    (running, said)
}

#[test]
fn a_pool_is_made_served_and_asked_by_command_and_served_again_after_a_kill() {
    let folder = database();
    let config = folder.path().join("volumes.toml");
    fs::write(
        &config,
        "map = \"map\"\nfast = \"flash/fast\"\nslow = \"disk\"\nsockets = \"sockets\"\nlog = \"1MiB\"\n",
    )
    .expect("written");
    let refused = volume(&folder.path().join("nowhere.toml"), &["status"]).fails_with(1);
    assert!(
        refused.stderr.contains("there is no such file") && refused.stderr.contains("--config"),
        "{}",
        refused.stderr
    );
    let refused = volume(&config, &["serve"]).fails_with(1);
    assert!(refused.stderr.contains("ishigaki volume pool create"), "{}", refused.stderr);
    let made = volume(&config, &["pool", "create", "--fast-size", "8MiB"]).succeeds();
    assert!(made.stdout.contains("has room for 7 chunks of 1.0 MiB"), "{}", made.stdout);

    let (running, said) = serve(&config);
    assert_eq!(said["volumes"], Value::Array(Vec::new()));
    let created = volume(&config, &["create", "orders", "--size", "4MiB"]).succeeds();
    let socket = folder.path().join("sockets/orders.sock");
    assert!(created.stdout.contains(&format!("finds it at {}", socket.display())), "{}", created.stdout);
    running.kill();
    // Without a service a command does it by itself.
    let status = json(&volume(&config, &["status", "--json"]).succeeds().stdout);
    assert_eq!((status["is_served"].as_bool(), status["volumes"][0]["size"].as_u64()), (Some(false), Some(4 << 20)));

    let (running, said) = serve(&config);
    assert_eq!(said["volumes"][0]["door"]["path"].as_str(), socket.to_str());
    let text = volume(&config, &["status"]).succeeds().stdout;
    assert!(text.contains("0 of 7 chunks of 1.0 MiB used") && text.contains("orders"), "{text}");
    let token = volume(&config, &["token", "orders"]).succeeds().stdout;
    assert_eq!(token.trim().len(), 32);
    volume(&config, &["flush"]).succeeds();
    volume(&config, &["resize", "orders", "--size", "8MiB"]).succeeds();
    let refused = volume(&config, &["remove", "orders"]).fails_with(1);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    volume(&config, &["detach", "orders"]).succeeds();
    assert_eq!(fs::metadata(folder.path().join("disk/orders")).expect("the image").len(), 8 << 20);
    volume(&config, &["attach", "orders", "--mode", "write-through"]).succeeds();
    volume(&config, &["remove", "orders", "--force"]).succeeds();
    running.terminate();
    assert!(running.ends().stdout.contains("\"ended\":true"));
    assert!(!socket.exists() && !folder.path().join("disk/orders").exists());
}

#[test]
fn a_value_that_can_not_be_is_an_error_of_the_command_line() {
    let folder = database();
    let config = folder.path().join("volumes.toml");
    fs::write(&config, "map = \"map\"\nfast = \"fast\"\nslow = \"disk\"\n").expect("written");
    for (arguments, words) in [
        (&["create", "a", "--size", "4MiB", "--mode", "x"][..], "write-back, write-through or read-only, not `x`"),
        (&["attach", "a", "--mode", "writeback"], "not `writeback`"),
        (&["create", "a", "--size", "4097"], "whole blocks of 4 KiB"),
        (&["resize", "a", "--size", "0"], "whole blocks of 4 KiB"),
        (&["create", "a", "--size", "much"], "no number of bytes"),
        (&["create", "a/b", "--size", "4MiB"], "without a path"),
        (&["pin", ""], "needs a name"),
        (&["pool", "create", "--fast-size", "1MiB"], "two chunks of 1.0 MiB at least"),
        (&["status", "--watch", "0"], "give 0.1 or more"),
        (&["pool", "status", "--watch", "0"], "give 0.1 or more"),
        (&["status", "--watch", "soon"], "no number of seconds"),
    ] {
        let refused = volume(&config, arguments).fails_with(2);
        assert!(refused.stderr.contains(words), "{arguments:?}: {}", refused.stderr);
    }
    for to in ["nowhere", "host:0", ":9118"] {
        let agent = ["volume", "agent", "--volume", "a", "--token-file", "token", "/", "--to", to];
        let refused = Program::new().args(agent).fails_with(2);
        assert!(refused.stderr.contains("HOST:PORT"), "{to}: {}", refused.stderr);
    }
    for status in [&["log", "status", "--data", "x"], &["migrate", "status", "--to", "x"]] {
        let refused = Program::new().args(status).args(["--watch", "0"]).fails_with(2);
        assert!(refused.stderr.contains("give 0.1 or more"), "{status:?}: {}", refused.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing was made");
}

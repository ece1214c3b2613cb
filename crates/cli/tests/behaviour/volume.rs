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

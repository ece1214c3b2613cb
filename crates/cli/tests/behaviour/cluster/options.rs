//! What the options of the commands promise: who is listened to, by which name nodes are known, whom their tokens let in.

use std::fs;

use ishigaki_tpch::Table;
use serde_json::Value;

use super::{Data, Scheduler, at_nodes, joins, text};
use crate::node::served::Served;
use crate::program::Program;

/// At each of two nodes, half of the largest table. Their options, and their locations but for the table's name, are given.
struct Halves {
    data: Data,
    scheduler: Scheduler,
    nodes: [Served; 2],
}

impl Halves {
    /// `before`: the options of nodes without an executor; `with`: of those with one, by the port; `place`: a directory of the
    /// node at that port.
    fn start(
        before: &[&str],
        with: impl Fn(&str, &Scheduler) -> Vec<String>,
        place: impl Fn(&str) -> String,
        data: Data,
    ) -> Self {
        let folders = [data.node("a"), data.node("b")];
        let nodes = folders.each_ref().map(|folder| Served::start(folder, before));
        let ports = nodes.each_ref().map(|node| node.address().rsplit_once(':').expect("a port").1.to_owned());
        let places = ports.each_ref().map(|port| place(port));
        data.spread(Table::LineItem, "l_orderkey", [&places[0], &places[1]]);
        drop(nodes);
        let scheduler = Scheduler::start();
        let nodes = [0, 1].map(|at| {
            let with = with(&ports[at], &scheduler);
            Served::start(&folders[at], &with.iter().map(String::as_str).collect::<Vec<_>>())
        });
        Self { data, scheduler, nodes }
    }

    fn query(&self) -> Program {
        let sql = at_nodes(&text(6));
        self.data.sql().args(["--cluster", &self.scheduler.address, "-c", &sql])
    }

    /// How many fragments were done beside an executor, and how many elsewhere.
    fn fragments(self) -> (u64, u64) {
        let ended = self.nodes.map(|node| node.ends_by("TERM"));
        let sum = |what: &str| ended.iter().map(|ended| ended[what].as_u64().expect("a number")).sum();
        (sum("fragments_here"), sum("fragments_elsewhere"))
    }
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}

#[test]
fn who_is_reached_by_others_must_have_been_told_that_the_network_is_trusted() {
    let folder = crate::program::database();
    let token = folder.path().join("token");
    fs::write(&token, "0123456789abcdef").expect("written");
    let (token, data) = (token.to_str().expect("a name"), folder.path().to_str().expect("a name"));
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7"] {
        let told = Program::new().args(["cluster", "--listen", address]).fails_with(2).stderr;
        assert!(told.contains("no authentication") && told.contains("--trust-network"), "{told}");
    }
    let scheduler = Scheduler::start_with(&["--listen", "0.0.0.0:0", "--trust-network"]);
    let port = scheduler.address.strip_prefix("0.0.0.0:").expect("all addresses");
    let there = format!("127.0.0.1:{port}");
    let node = |arguments: &[&str]| {
        let joins = ["node", "--data", data, "--listen", "0.0.0.0:0", "--executor", "--scheduler", &there];
        Program::new().args(joins).args(arguments)
    };
    let told = node(&["--trust-network"]).fails_with(1).stderr;
    assert!(
        told.contains("give a token or certificates"),
        "the network is no reason to let everybody at files: {told}"
    );
    let told = node(&["--token-file", token]).fails_with(2).stderr;
    assert!(told.contains("no authentication") && told.contains("--trust-network"), "{told}");
    let told = node(&["--token-file", token, "--trust-network"]).fails_with(2).stderr;
    assert!(told.contains("--name HOST:PORT"), "nobody finds it by 0.0.0.0: {told}");
    let mut running = node(&["--token-file", token, "--trust-network", "--name", "127.0.0.1:7117", "--json"]).start();
    let serves: Value = serde_json::from_str(&running.hear()).expect("JSON");
    assert_eq!(serves["security"], "token");
    running.kill();
    let told = Program::new().args(["node", "--data", data, "--trust-network"]).fails_with(2).stderr;
    assert!(told.contains("--executor"), "without one there is nothing to trust: {told}");
}

#[test]
fn a_node_is_known_by_the_name_that_it_was_given() {
    let halves = |name: bool| {
        let with = |port: &str, scheduler: &Scheduler| {
            let (listen, known) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
            let mut with = owned(&joins(scheduler, &listen));
            if name {
                with.extend(owned(&["--name", &known]));
            }
            with
        };
        Halves::start(&[], with, |port| format!("node://localhost:{port}/lineitem"), Data::load("0.01"))
    };
    let named = halves(true);
    let alone = named.data.answer(&text(6));
    assert_eq!(named.query().succeeds().stdout, alone);
    assert_eq!(named.fragments(), (2, 0));
    // Nobody is beside what tables name, so anybody asks for it over the network.
    let unnamed = halves(false);
    assert_eq!(unnamed.query().succeeds().stdout, alone);
    assert_eq!(unnamed.fragments(), (0, 2));
}

#[test]
fn executors_show_nodes_the_token_of_the_location_and_are_not_let_in_without() {
    let data = Data::load("0.01");
    let (token, other) = (data.folder.path().join("token"), data.folder.path().join("other"));
    fs::write(&token, "0123456789abcdef").expect("written");
    fs::write(&other, "fedcba9876543210").expect("written");
    let (file, others) = (token.to_str().expect("a name").to_owned(), other.to_str().expect("a name"));
    let with = |port: &str, scheduler: &Scheduler| {
        let (listen, name) = (format!("0.0.0.0:{port}"), format!("127.0.0.1:{port}"));
        let mut with = owned(&joins(scheduler, &listen));
        with.extend(owned(&["--token-file", &file, "--trust-network", "--name", &name]));
        with
    };
    let place = |port: &str| format!("node://127.0.0.1:{port}/lineitem?token-file={file}");
    let mut halves = Halves::start(&["--token-file", &file], with, place, data);
    assert_eq!(halves.query().succeeds().stdout, halves.data.answer(&text(6)));
    // The second one wants another token from now on; the first one's executor and the client have the old one.
    let port = halves.nodes[1].port();
    let folder = halves.data.node("b");
    let known = format!("127.0.0.1:{port}");
    let listen = known.clone();
    let mut with = owned(&joins(&halves.scheduler, &listen));
    with.extend(owned(&["--token-file", others, "--name", &known]));
    let [first, second] = halves.nodes;
    second.kill();
    let second = Served::start(&folder, &with.iter().map(String::as_str).collect::<Vec<_>>());
    halves.nodes = [first, second];
    let told = halves.query().start().ends();
    assert!(told.code != Some(0) && told.stdout.is_empty(), "{}", told.stdout);
    assert!(told.stderr.contains("token") && told.stderr.contains(&known), "{}", told.stderr);
    let (here, _) = halves.fragments();
    assert_eq!(here, 1, "those of the first query at the node that is still the same");
}

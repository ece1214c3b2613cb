//! Debian's servers, unmodified, over a service that changes under them: it is replaced by another process while clients insert,
//! and a limit is raised for a server whose home is full.
//!
//! Takes minutes, root, `PostgreSQL` 15 and, for half of the servers, `MariaDB` 10.11, so it is asked for:
//!
//! ```sh
//! cargo test --release -p ishigaki-logpool-service --test servers -- --ignored --test-threads=1 --nocapture
//! ```

#[path = "../takeover/stage.rs"]
mod stage;

mod clients;
mod process;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ishigaki_logpool_service::{Limits, Reply, Request, ask};
use ishigaki_servers::{Kind, Server, User};

use clients::Clients;
use process::Process;
use stage::can_mount;

/// How often the service is replaced.
const REPLACEMENTS: u32 = 10;

/// How long a client may wait for an answer on a machine that has nothing else to do.
const LONGEST: Duration = Duration::from_secs(1);

/// The kinds that can be run here, each with its user; says why there is none.
fn kinds(test: &str) -> Vec<(Kind, User)> {
    if !can_mount(test) {
        return Vec::new();
    }
    let mut kinds = Vec::new();
    for kind in Kind::ALL {
        match kind.user() {
            Ok(user) => kinds.push((kind, user)),
            Err(reason) => drop(writeln!(std::io::stderr(), "SKIPPED: {test}, {kind}: {reason}")),
        }
    }
    kinds
}

/// A folder for the server's data, and the configuration of a member with an empty folder.
fn member(place: &Path, name: &str, kind: Kind, limits: &str) -> String {
    fs::create_dir(place.join(name)).unwrap();
    let user = kind.user_name();
    format!("[[member]]\nname = \"{name}\"\nprofile = \"{kind}\"\nmount = \"{name}\"\nowner = \"{user}\"\n{limits}\n")
}

fn server(place: &Path, name: &str, kind: Kind, user: User) -> Server {
    let data = user.folder(place, &format!("{name}-data")).unwrap();
    Server::new(kind, user, data, place.join(name))
}

#[test]
#[ignore = "takes minutes"]
fn four_servers_get_no_error_when_their_service_is_replaced_again_and_again() {
    let kinds = kinds("four_servers_get_no_error_when_their_service_is_replaced_again_and_again");
    if kinds.is_empty() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let four: Vec<_> = (0..4).map(|number| (format!("server-{number}"), kinds[number % kinds.len()])).collect();
    let members: String = four.iter().map(|(name, (kind, _))| member(place.path(), name, *kind, "")).collect();
    let config = place.path().join("pool.toml");
    fs::write(&config, format!("data = \"pool\"\n{members}")).unwrap();
    let mut service = Process::start(&config);
    let servers: Vec<Server> =
        four.iter().map(|(name, (kind, user))| server(place.path(), name, *kind, *user)).collect();
    servers.iter().try_for_each(Server::make).unwrap();
    let running: Vec<_> = servers.iter().map(|server| server.start().unwrap()).collect();
    for server in &servers {
        server.run_when_up(clients::TABLE, &|| false).unwrap();
    }
    let clients = Clients::start(&servers, 2);
    let mut took = Vec::new();
    for _ in 0..REPLACEMENTS {
        std::thread::sleep(Duration::from_millis(700));
        let began = Instant::now();
        service = service.replaced(&config);
        took.push(began.elapsed());
    }
    std::thread::sleep(Duration::from_millis(700));
    let told = clients.end();
    let longest = told.iter().map(|client| client.longest).max().unwrap();
    took.sort();
    println!(
        "{REPLACEMENTS} replacements under {} servers ({} kinds): longest wait of a client {longest:?}; from start to served {:?} to {:?}; {} rows",
        servers.len(),
        kinds.len(),
        took[0],
        took[took.len() - 1],
        told.iter().map(|client| client.rows.len()).sum::<usize>()
    );
    for (number, server) in servers.iter().enumerate() {
        let there = clients::rows(server);
        for client in told.iter().filter(|client| client.server == number) {
            assert!(client.error.is_none(), "a client of {number}: {:?}", client.error);
            let lost: Vec<_> = client.rows.iter().filter(|row| !there.contains(row)).collect();
            assert!(lost.is_empty() && client.rows.len() > 20, "server {number} has lost {lost:?}");
        }
    }
    for running in running {
        running.end().unwrap();
    }
    service.end();
    assert!(longest < LONGEST, "{longest:?}");
}

#[test]
#[ignore = "takes minutes"]
fn postgresql_at_a_full_home_goes_on_when_its_limit_is_raised_and_has_every_acknowledged_row() {
    let kinds = kinds("postgresql_at_a_full_home_goes_on_when_its_limit_is_raised_and_has_every_acknowledged_row");
    let Some((kind, user)) = kinds.into_iter().find(|(kind, _)| *kind == Kind::PostgreSql) else { return };
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let config = place.path().join("pool.toml");
    let member = member(place.path(), "orders", kind, "home = \"80MiB\"");
    fs::write(&config, format!("data = \"pool\"\n{member}")).unwrap();
    let service = Process::start(&config);
    let server = server(place.path(), "orders", kind, user);
    server.make().unwrap();
    let mut running = server.start().unwrap();
    server.run_when_up(clients::TABLE, &|| false).unwrap();
    // Its log is kept for a standby that never comes: `max_wal_size` is a soft limit.
    server.run_when_up("select pg_create_physical_replication_slot('absent', true);\n", &|| false).unwrap();
    server.run_when_up("create table filler (text text);\n", &|| false).unwrap();
    let fill = || {
        let mut client = server.client().unwrap();
        let row = "(select string_agg(md5(random()::text), '') from generate_series(1, 100 + number % 2))";
        let statement = format!(
            "with made as (insert into filler select {row} from generate_series(1, 500) as number returning 1) select count(*) from made;"
        );
        // Until the server is gone, or so much is written.
        (0..200).take_while(|_| client.ask(&statement).is_ok()).count()
    };
    let clients = Clients::start(std::slice::from_ref(&server), 2);
    let filled = fill();
    let told = clients.end();
    let mut rows: Vec<_> = told.into_iter().flat_map(|client| client.rows).collect();
    println!("refused after {filled} fillings and {} rows", rows.len());
    assert!(filled < 200, "its home was never full");
    running.kill().unwrap();
    assert!(rows.len() > 2, "there was a load");

    let mut limits = Limits::of("orders".to_owned());
    limits.say("home=512MiB").unwrap();
    let began = Instant::now();
    let Reply::Set(set) = ask(&place.path().join("pool"), &Request::Set(limits)).unwrap() else { panic!() };
    println!("raised in {:?}", began.elapsed());
    assert_eq!((set.before.home_bytes, set.now.home_bytes), (80 << 20, 512 << 20));
    let mut running = server.start().unwrap();
    let check = |rows: &[clients::Row], when: &str| {
        let there = clients::rows(&server);
        let lost: Vec<_> = rows.iter().filter(|row| !there.contains(row)).collect();
        assert!(lost.is_empty(), "{when}: lost {lost:?} of {}", rows.len());
    };
    check(&rows, "after the limit was raised");
    // It goes on, far beyond the old limit.
    let clients = Clients::again(&server, 2);
    for _ in 0..30 {
        let text = "insert into filler select string_agg(md5(random()::text), '') from generate_series(1, 50000);\n";
        server.run_when_up(text, &|| false).unwrap();
    }
    let told = clients.end();
    assert!(told.iter().all(|client| client.error.is_none() && !client.rows.is_empty()));
    rows.extend(told.into_iter().flat_map(|client| client.rows));
    let log_bytes: u64 =
        fs::read_dir(place.path().join("orders")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    println!("{} rows acknowledged, all there; {} MiB of log", rows.len(), log_bytes >> 20);
    assert!(log_bytes > 80 << 20, "{log_bytes}");
    check(&rows, "after more was written");
    running.kill().unwrap();
    drop(running);
    running = server.start().unwrap();
    check(&rows, "after the server was killed");
    running.kill().unwrap();
    service.end();
}

#[test]
#[ignore = "the service that the others start and replace"]
fn serves_until_it_is_told_to_end() {
    process::serve();
}

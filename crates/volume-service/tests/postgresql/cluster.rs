//! The image of a disk with a cluster of `PostgreSQL`'s, made and judged by this host's programs.
//!
//! The guest's script inserts a row and changes an account in each transaction, so a state that no order of whole transactions explains is seen: rows have
//! no holes, and the accounts have the sum of the rows' numbers. Pages have checksums, so the server refuses those that are torn or old in part.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::SIZE;

const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// The user as whom the server runs.
const USER: &str = "postgres";

/// What the guest's script takes for granted, a statement a line. `state` says what [`State`] is.
const TABLES: &str = "\
CREATE TABLE r (n BIGINT PRIMARY KEY, v TEXT);
CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance NUMERIC, last BIGINT, filler TEXT);
INSERT INTO accounts SELECT id, 0, 0, REPEAT('f', 200) FROM GENERATE_SERIES(0, 19999) AS id;
CREATE VIEW state AS SELECT CONCAT_WS(' ', COUNT(*), COALESCE(MAX(n), 0), COUNT(*) FILTER (WHERE v = REPEAT(CHR(65 + (n % 26)::INT), 100)), \
 (SELECT SUM(balance) FROM accounts), (SELECT MAX(last) FROM accounts), (SELECT COUNT(*) FROM accounts)) AS says FROM r;
";

const ACCOUNTS: u64 = 20_000;

/// What a server has.
#[derive(Debug)]
pub(crate) struct State {
    count: u64,
    last: u64,
    /// Rows with the text that their number gives.
    whole: u64,
    /// Of all accounts.
    balance: u64,
    /// The last transaction that changed one.
    changed: u64,
    accounts: u64,
}

impl State {
    pub(crate) fn parse(said: &str) -> Self {
        let numbers: Vec<u64> = said.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [count, last, whole, balance, changed, accounts] = numbers[..] else { panic!("{said}") };
        Self { count, last, whole, balance, changed, accounts }
    }

    /// It is that after whole transactions, among them the last one that a client was told of.
    pub(crate) fn check(&self, told: u64) {
        println!("{} transactions, of which a client was told of {told}", self.last);
        assert!(self.last >= told, "a client was told of {told}: {self:?}");
        assert_eq!((self.count, self.whole, self.changed), (self.last, self.last, self.last), "{self:?}");
        assert_eq!((self.balance, self.accounts), (self.last * (self.last + 1) / 2, ACCOUNTS), "{self:?}");
    }
}

/// Makes the image: ext4 with a cluster in the folder `db`.
pub(crate) fn make(image: &Path) {
    let folder = folder();
    let data = data(folder.path());
    fs::create_dir(&data).unwrap();
    run(Command::new("chown").arg(format!("{USER}:{USER}")).arg(&data));
    let options = ["-A", "trust", "-k", "--no-sync", "--locale=C", "--encoding=UTF8", "--wal-segsize=1", "-D"];
    run(server("initdb").args(options).arg(&data));
    // The guest's script says all of it.
    fs::write(data.join("postgresql.conf"), "").unwrap();
    ask(&data, TABLES);
    File::create(image).and_then(|file| file.set_len(SIZE)).unwrap();
    // A block is the largest that a device under it may have.
    run(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096", "-d"]).arg(folder.path()).arg(image));
}

/// Judges an image: after the journal's replay its file system is whole, and a server that recovers has every transaction up to the last one that a client
/// was told of.
pub(crate) fn judge(image: &Path, told: u64) {
    run(Command::new("e2fsck").args(["-p", "-E", "journal_only"]).arg(image));
    run(Command::new("e2fsck").arg("-fn").arg(image));
    // It is not mounted: that would take a loop device.
    let folder = folder();
    run(Command::new("debugfs").arg("-R").arg(format!("rdump /db {}", folder.path().display())).arg(image));
    let said = ask(&data(folder.path()), "SELECT says FROM state;\n");
    let state = said.split_once("says = \"").and_then(|(_, rest)| rest.split_once('"'));
    State::parse(state.unwrap_or_else(|| panic!("the server has no state: {said}")).0).check(told);
}

/// A folder that the server's user may enter.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn data(folder: &Path) -> PathBuf {
    folder.join("db")
}

/// What a server of one user says to these statements. It recovers first.
fn ask(data: &Path, statements: &str) -> String {
    let mut command = server("postgres");
    // Each line is a statement, and the first error ends it.
    command.args(["--single", "-D"]).arg(data).args(["-c", "exit_on_error=on", "postgres"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(statements.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// A program of the server's, as its user.
fn server(program: &str) -> Command {
    let path = Path::new(PROGRAMS).join(program);
    assert!(path.exists(), "there is no {}: apt-get install postgresql-15", path.display());
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(path).current_dir("/");
    command
}

fn run(command: &mut Command) {
    let output = command.output().expect("it is there: apt-get install e2fsprogs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
}

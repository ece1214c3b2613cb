//! Trees with everything odd in them arrive as they are. `odd.py` makes them and compares, by the system's own calls.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{Crawl, Engine, Origin, Settings};
use ishigaki_migrate::source::path::PathSource;
use ishigaki_migrate::source::{Cancel, Source};

use crate::ganesha::Ganesha;
use crate::samba::Samba;

/// What the script says, and whether it ends well.
fn script(words: &[&str], paths: &[&Path], more: &[&str]) -> (bool, String) {
    let mut command = Command::new("python3");
    let done =
        command.args(["-c", include_str!("odd.py")]).args(words).args(paths).args(more).output().expect("python3");
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (done.status.success(), said)
}

fn make(tree: &Path, words: &[&str]) {
    let (is_made, said) = script(&["make"], &[tree], words);
    assert!(is_made, "{said}");
}

/// Compares, but for what is named.
fn are_equal(trees: [&Path; 2], passed_over: &[&str]) {
    let (is_equal, said) = script(&["compare"], &trees, passed_over);
    assert!(is_equal, "{said}");
    println!("{}", said.trim_end());
}

fn migrate(source: Arc<dyn Source>, to: &Path) {
    let cancel = Cancel::new();
    let origin = Origin { source, at: PathBuf::new() };
    let engine =
        Engine::open(Local::open(to).expect("opens"), vec![origin], Settings::default(), &cancel).expect("begins");
    engine.crawl(&Crawl::default(), &cancel).expect("crawls");
    assert_eq!(engine.problems(), []);
    engine.finish().expect("nothing is missing");
}

/// Says why nothing can be made here, past the capture of a test's output.
fn is_root(test: &str) -> bool {
    use std::io::Write;
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: devices and owners take root");
    }
    is_root
}

fn by_path(test: &str, words: &[&str]) {
    if !is_root(test) {
        return;
    }
    let [from, to] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    make(from.path(), words);
    migrate(Arc::new(PathSource::open(from.path()).expect("opens")), to.path());
    are_equal([from.path(), to.path()], &[]);
}

fn by_nfs(words: &[&str]) {
    let Some(server) = Ganesha::start() else { return };
    let to = tempfile::tempdir().expect("a directory");
    make(server.tree.path(), &[words, &["nfs"]].concat());
    migrate(Arc::new(server.source()), to.path());
    are_equal([server.tree.path(), to.path()], &["xattrs"]);
}

/// Objects of a share whose access lists are set and compared, and what is set.
const LISTS: &[(&str, &[&str])] = &[
    ("links/one/file", &["ACL:S-1-5-21-1-2-3-1001:ALLOWED/0x0/READ"]),
    ("links/one", &["ACL:S-1-5-21-1-2-3-1001:ALLOWED/OI|CI/FULL", "ACL:S-1-5-21-1-2-3-1002:DENIED/CI|IO/W"]),
    ("sizes/4096", &["ACL:S-1-5-21-1-2-3-1003:DENIED/0x0/RWX", "ACL:S-1-5-32-545:ALLOWED/0x0/0x001200a9"]),
    ("names/UPPER", &["ACL:S-1-1-0:ALLOWED/0x0/READ"]),
    ("times/directory", &["ACL:S-1-5-11:ALLOWED/OI/READ"]),
];

fn by_smb(words: &[&str]) {
    let Some(server) = Samba::start() else { return };
    let (from, to) = (server.tree.path(), server.copy.path());
    make(from, &[words, &["smb"]].concat());
    for (name, entries) in LISTS {
        for entry in *entries {
            server.client("smbcacls", &[&server.share("share"), name, "--add", entry]);
        }
    }
    // The server has set times when it was asked to change lists.
    migrate(Arc::new(server.source()), to);
    are_equal([from, to], &["xattrs", "owner", "mode", "mtime100"]);
    let rest = ["", "many", "sizes/0", "links/two/3", "sparse holes", "deep"];
    for name in LISTS.iter().map(|(name, _)| *name).chain(rest) {
        let lists = ["share", "copy"].map(|share| {
            server.client("smbcacls", &[&server.share(share), if name.is_empty() { "/" } else { name }, "--numeric"])
        });
        assert_eq!(lists[0], lists[1], "{name}");
    }
}

#[test]
fn everything_odd_of_a_directory_arrives() {
    by_path("everything_odd_of_a_directory_arrives", &[]);
}

#[test]
fn everything_odd_that_nfs_carries_arrives() {
    by_nfs(&[]);
}

#[test]
fn everything_odd_that_a_share_holds_arrives() {
    by_smb(&[]);
}

#[test]
#[ignore = "takes minutes"]
fn everything_odd_and_large_of_a_directory_arrives() {
    by_path("everything_odd_and_large_of_a_directory_arrives", &["big"]);
}

#[test]
#[ignore = "takes minutes"]
fn everything_odd_and_large_that_nfs_carries_arrives() {
    by_nfs(&["big"]);
}

#[test]
#[ignore = "takes minutes"]
fn everything_odd_and_large_that_a_share_holds_arrives() {
    by_smb(&["big"]);
}

#[test]
fn the_comparer_finds_what_differs() {
    if !is_root("the_comparer_finds_what_differs") {
        return;
    }
    let trees = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    for tree in &trees {
        make(tree.path(), &[]);
    }
    let paths = [trees[0].path(), trees[1].path()];
    are_equal(paths, &["mtime"]);
    let changes = "
import os, sys
tree = os.fsencode(sys.argv[1])
at = lambda name: os.path.join(tree, name)
with open(at(b'sizes/4097'), 'r+b') as file:
    file.seek(4096); file.write(b'!')
os.chmod(at(b'owners/0'), 0o600)
os.setxattr(at(b'extra/listed'), b'user.more', b'')
os.truncate(at(b'sparse behind'), 95 << 20)
os.unlink(at(b'many/entry 7'))
os.unlink(at(b'links/two/3')); os.link(at(b'links/empty'), at(b'links/two/3'))
";
    let outcome = Command::new("python3").args(["-c", changes]).arg(paths[1]).status().expect("python3");
    assert!(outcome.success());
    let (is_equal, said) = script(&["compare"], &paths, &[]);
    assert!(!is_equal);
    for word in ["mtime: ", "bytes: ", "mode: ", "xattrs: ", "size: ", "only: ", "linked: ", "links: "] {
        assert!(said.lines().any(|line| line.starts_with(word)), "{word}{said}");
    }
}

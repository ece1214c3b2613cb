use super::*;

const WHOLE: &str = r#"
to = "data"
at = "/srv/home"
give_up = "10m"
depth = "depth-first"
passes = "bulk"
bandwidth = "2MiB"
parallel = 3
paused = true
set_ids_and_devices = true
windows = ["22:00-06:00"]
first = ["home/projects", "home/mail"]
metrics = "9187"

[[source]]
from = "nfs://old/home?uid=5"
into = "home"

[[source]]
from = "mounted"
into = "more/mounted"

[[source]]
from = "smb://old/office/files?encrypt=yes"
into = "office"
credentials = "old.credentials"
"#;

fn parse(text: &str) -> Result<Config> {
    Config::parse(text, Path::new("/etc/migrate.toml"))
}

#[test]
fn everything_that_can_be_said_is_read() {
    let config = parse(WHOLE).unwrap();
    assert_eq!((config.to.as_path(), config.at.as_path()), (Path::new("/etc/data"), Path::new("/srv/home")));
    assert_eq!(config.give_up, Some(Duration::from_mins(10)));
    let crawl = config.crawl();
    assert_eq!((crawl.threads, crawl.bandwidth), (3, Some(2 << 20)));
    assert_eq!((crawl.depth, crawl.passes), (Depth::DepthFirst, Passes::Bulk));
    assert!(config.paused && config.set_ids_and_devices);
    assert_eq!(config.windows, Windows::read(&["22:00-06:00"]).unwrap());
    assert_eq!(config.first, [Path::new("home/projects"), Path::new("home/mail")]);
    assert_eq!(config.metrics.as_deref(), Some("127.0.0.1:9187"));
    let [home, mounted, office] = &config.sources[..] else { panic!() };
    assert_eq!(home.into, Path::new("home"));
    assert!(matches!(&home.from, From::Nfs(address) if address.user == 5), "{home:?}");
    assert_eq!(home.from.to_string(), "nfs://old/home");
    assert_eq!(mounted.from, From::Path("/etc/mounted".into()));
    assert!(
        matches!(&office.from, From::Smb { address, credentials }
            if address.encrypt && credentials.as_deref() == Some(Path::new("/etc/old.credentials"))),
        "{office:?}"
    );
    assert_eq!(office.from.to_string(), "smb://old/office/files");
    assert_eq!(config.settings().give_up, config.give_up);
}

#[test]
fn the_map_of_owners_is_read_and_used() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("ids"), "uid 1 2\n").unwrap();
    let text = "to = \"/d\"\nat = \"/a\"\nids = \"ids\"\n[[source]]\nfrom = \"/s\"\n";
    let config = Config::parse(text, &place.path().join("migrate.toml")).unwrap();
    let owner = (config.settings().owners)(ishigaki_migrate::source::Owner { user: 1, group: 1 });
    assert_eq!((owner.user, owner.group), (2, 1));
}

#[test]
fn what_can_not_be_is_told_with_its_line_its_name_and_the_remedy() {
    let base = "to = \"/d\"\nat = \"/a\"\n";
    let source = "[[source]]\nfrom = \"/s\"\n";
    let with = |more: &str| format!("{base}{more}\n{source}");
    let sources = |more: &str| format!("{base}{source}{more}");
    for (text, words) in [
        ("to = \"/d\n".to_owned(), vec!["migrate.toml:1: "]),
        (source.to_owned(), vec!["missing field `to`"]),
        (base.to_owned(), vec!["`source`: there is none", "at least one"]),
        (with("speed = 1"), vec![":3: ", "unknown field `speed`"]),
        (with("give_up = \"soon\""), vec![":3: `give_up`: `soon` is no time", "10m"]),
        (with("give_up = \"0s\""), vec!["`give_up`: no time is left"]),
        (with("give_up = \"99999999999999999999d\""), vec![":3: `give_up`", "no time"]),
        (with("depth = \"up\""), vec![":3: `depth`: there is no order `up`", "breadth-first"]),
        (with("passes = \"up\""), vec![":3: `passes`: there is no way `up`", "metadata-first"]),
        (with("bandwidth = \"fast\""), vec![":3: `bandwidth`: `fast`", "50MiB"]),
        (with("bandwidth = \"0\""), vec![":3: `bandwidth`: `0`"]),
        (with("parallel = 0"), vec![":3: `parallel`", "from 1 to 256"]),
        (with("metrics = \"nope\""), vec![":3: `metrics`: `nope` is no address", "127.0.0.1:9187"]),
        (with("parallel = 257"), vec![":3: `parallel`"]),
        (with("windows = [\"22-6\"]"), vec![":3: `windows`: `22` is no time", "22:00-06:00"]),
        (with("first = [\"a\", \"../b\"]"), vec![":3: `first`: `../b` is no path", "without `..`"]),
        (with("first = [\"\"]"), vec![":3: `first`"]),
        (with("ids = \"/nowhere/ids\""), vec![":3: `ids`: /nowhere/ids: ", "leave it out"]),
        (with("").replace("\"/a\"", "\"/d/x/../a\""), vec![":2: `at`", "outside of the destination"]),
        (with("").replace("\"/d\"", "\"/a/d\""), vec![":2: `at`", "outside of the destination"]),
        (with("").replace("\"/s\"", "\"smb://old\""), vec![":5: `from`", "it has no share", "smb://HOST/SHARE"]),
        (with("").replace("\"/s\"", "\"smb://a:b@old/c\""), vec![":5: `from`", "no password in it", "`credentials`"]),
        (sources("credentials = \"x\""), vec![":5: `credentials`: `/s` takes no account", "smb://"]),
        (with("").replace("\"/s\"", "\"ftp://old/home\""), vec![":5: `from`", "no sources by ftp", "nfs://HOST"]),
        (with("").replace("\"/s\"", "\"nfs://old\""), vec![":5: `from`", "it has no path"]),
        (with("").replace("\"/s\"", "\"\""), vec![":5: `from`: it is empty"]),
        (with("").replace("\"/s\"", "\"/d/in\""), vec![":4: `from`", "destination /d"]),
        (with("").replace("\"/s\"", "\"/\""), vec![":4: `from`", "destination /d"]),
        (with("").replace("\"/s\"", "\"/a\""), vec![":4: `from`", "mount point /a"]),
        (sources("into = \"../x\""), vec![":3: `into`", "does not simply lead"]),
        (sources("into = \"/x\""), vec![":3: `into`", "does not simply lead"]),
        (sources("into = \".ishigaki-migrate/x\""), vec![":3: `into`", "own directory"]),
        (sources(&format!("into = \"{}\"", "n".repeat(256))), vec![":3: `into`", "at most 255 bytes"]),
        (sources("into = \"x\\u0000y\""), vec![":3: `into`", "`x\\x00y` is no name"]),
        (sources(source), vec![":5: `into`", "directory of its own"]),
        (
            sources(&format!("into = \"x\"\n{source}into = \"x/y\"\n")),
            vec![":6: `into`: `x` and `x/y`", "directory of its own"],
        ),
    ] {
        let error = parse(&text).unwrap_err();
        assert_eq!(error.kind(), ishigaki_base::ErrorKind::Invalid);
        let error = error.to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}\n{text}");
    }
}

#[test]
fn values_are_refused_as_a_file_is() {
    for (from, to, at, words) in [
        ("old", "/d", "/a", "`from`: `old` is no absolute path"),
        ("/s", "d", "/a", "`to`: `d` is no absolute path"),
        ("/s", "/d", "a", "`at`: `a` is no absolute path"),
        ("smb://a", "/d", "/a", "`from`: smb://a is no address"),
        ("/s", "/d", "/d", "`at`: /d and the destination"),
    ] {
        let error = Config::new(from, to.into(), at.into()).unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
    // A source may fill the destination around the directory of another one.
    let mut config = Config::new("/s", "/d".into(), "/a".into()).unwrap();
    config.sources.push(SourceConfig { from: From::Path("/t".into()), into: "t".into() });
    config.validate().unwrap();
}

//! What goes wrong around a service, by the hands of other programs for the most part: one volume has the trouble, and is told of.

mod pool;

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

use ishigaki_base::ErrorKind;
use ishigaki_volume_service::{Error, Reply, Request, Serving, ask};
use pool::{SIZE, can_attach, create, pool, status};

#[test]
fn what_is_wrong_with_one_volume_leaves_the_others_served() {
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "");
    for name in ["away", "blocked", "well"] {
        create(&config, name);
    }
    fs::rename(folder.path().join("disk/away"), folder.path().join("kept")).unwrap();
    fs::create_dir_all(folder.path().join("sockets/blocked.sock")).unwrap();
    let serving = Serving::start(&config).unwrap();
    let flush = ask(&config, &Request::Flush {}).unwrap_err().to_string();
    assert!(flush.contains("away (away)"), "{flush}");
    let now = status(&config);
    assert_eq!(now.away.len(), 1);
    let [blocked, well] = &now.volumes[..] else { panic!("{now:?}") };
    assert!(blocked.trouble.is_some() && blocked.door.is_none() && well.trouble.is_none());
    UnixStream::connect(folder.path().join("sockets/well.sock")).unwrap();
    // What blocks it is gone, and a person has removed another socket.
    fs::remove_dir(folder.path().join("sockets/blocked.sock")).unwrap();
    fs::remove_file(folder.path().join("sockets/well.sock")).unwrap();
    serving.look();
    for name in ["blocked", "well"] {
        UnixStream::connect(folder.path().join(format!("sockets/{name}.sock"))).unwrap();
    }
    // Its file is back: it is served.
    fs::rename(folder.path().join("kept"), folder.path().join("disk/away")).unwrap();
    serving.look();
    assert_eq!(status(&config).away, []);
    UnixStream::connect(folder.path().join("sockets/away.sock")).unwrap();
    serving.stop().unwrap();
    // One that never comes back can be removed.
    fs::remove_file(folder.path().join("disk/away")).unwrap();
    let serving = Serving::start(&config).unwrap();
    let remove = |force| ask(&config, &Request::Remove { name: "away".to_owned(), force });
    assert!(matches!(remove(false), Err(Error::Refused { .. })));
    assert_eq!(remove(true).unwrap(), Reply::Done {});
    assert_eq!(status(&config).away, []);
    // Another name of a volume's file is no other volume.
    fs::hard_link(folder.path().join("disk/well"), folder.path().join("disk/twin")).unwrap();
    let attach = Request::Attach { name: "twin".to_owned(), mode: "write-back".to_owned() };
    let error = ask(&config, &attach).unwrap_err().to_string();
    assert!(error.contains("it is the file of volume `well`"), "{error}");
    serving.stop().unwrap();
}

#[test]
fn a_file_that_another_program_changes_stops_its_volume_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "bypass = 0");
    let names = ["gone", "replaced", "short", "well"];
    for name in names {
        create(&config, name);
    }
    let serving = Serving::start(&config).unwrap();
    let path = |name: &str| folder.path().join("disk").join(name);
    fs::remove_file(path("gone")).unwrap();
    fs::copy(path("replaced"), folder.path().join("copy")).unwrap();
    fs::rename(folder.path().join("copy"), path("replaced")).unwrap();
    fs::OpenOptions::new().write(true).open(path("short")).unwrap().set_len(4096).unwrap();
    let detach = |name: &str| ask(&config, &Request::Detach { name: name.to_owned() });
    let error = ask(&config, &Request::Flush {}).unwrap_err().to_string();
    for name in &names[..3] {
        assert!(error.contains(&format!("{name} (stopped")), "nothing of them was dirty, and they are named: {error}");
    }
    for (name, told) in [("gone", "removed it"), ("replaced", "put another file"), ("short", "cut it short")] {
        let error = detach(name).unwrap_err().to_string();
        assert!(error.contains(told), "{name}: {error}");
    }
    serving.look();
    let troubles: Vec<_> = status(&config).volumes.into_iter().map(|volume| volume.trouble.is_some()).collect();
    assert_eq!(troubles, [true, true, true, false]);
    assert_eq!(detach("well").unwrap(), Reply::Done {});
    assert_eq!(ask(&config, &Request::Remove { name: "gone".to_owned(), force: true }).unwrap(), Reply::Done {});
    assert!(serving.stop().is_err(), "it is told that some had stopped");
}

#[test]
fn what_is_asked_of_a_volume_that_is_away_tells_which_one_and_why_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "");
    create(&config, "orders");
    fs::rename(folder.path().join("disk/orders"), folder.path().join("kept")).unwrap();
    let requests = || {
        let (name, mode) = (|| "orders".to_owned(), || "write-back".to_owned());
        [
            Request::Pin { name: name(), pinned: true },
            Request::Pin { name: name(), pinned: false },
            Request::Detach { name: name() },
            Request::Resize { name: name(), size: 2 * SIZE },
            Request::Token { name: name() },
            Request::Attach { name: name(), mode: mode() },
            Request::Create { name: name(), size: SIZE, mode: mode() },
        ]
    };
    let path = folder.path().join("disk/orders").display().to_string();
    let check = |request: &Request| {
        let error = ask(&config, request).unwrap_err();
        let text = error.to_string();
        for told in ["volume `orders` is away", &path, "put its file back", "ishigaki volume remove orders --force"] {
            assert!(text.contains(told), "{request:?}: {text}");
        }
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{request:?}");
    };
    requests().iter().for_each(check);
    let serving = Serving::start(&config).unwrap();
    requests().iter().for_each(check);
    fs::rename(folder.path().join("kept"), folder.path().join("disk/orders")).unwrap();
    serving.look();
    ask(&config, &Request::Token { name: "orders".to_owned() }).unwrap();
}

#[test]
fn a_block_device_whose_folder_another_program_unmounts_goes_on_and_leaves_nothing() {
    if !can_attach() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "door = \"block\"");
    create(&config, "scratch");
    let link = folder.path().join("blocks/scratch");
    let serving = Serving::start(&config).unwrap();
    let device = fs::read_link(&link).unwrap();
    let held = Path::new("/sys/block").join(device.file_name().unwrap()).join("loop/backing_file");
    rustix::mount::unmount(folder.path().join("blocks/.scratch"), rustix::mount::UnmountFlags::DETACH).unwrap();
    serving.look();
    assert_eq!(fs::read_link(&link).unwrap(), device, "what uses it sees nothing of that");
    let mut file = fs::OpenOptions::new().write(true).open(&link).unwrap();
    file.write_all(&[7; 4096]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    serving.stop().unwrap();
    assert!(!held.exists() && !link.exists());
    let serving = Serving::start(&config).unwrap();
    assert_eq!(fs::read(&link).unwrap()[..4096], [7; 4096]);
    serving.stop().unwrap();
    assert_eq!(fs::read_dir(folder.path().join("blocks")).unwrap().count(), 0);
}

#[test]
fn what_is_no_plain_file_is_not_attached_and_is_called_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "");
    let _serving = Serving::start(&config).unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(disk.join("directory")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, disk.join("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(disk.join("socket")).unwrap();
    std::os::unix::fs::symlink("/dev/null", disk.join("null")).unwrap();
    let block = fs::read_dir("/dev").unwrap().flatten().map(|entry| entry.path());
    let block = block.into_iter().find(|path| {
        let metadata = fs::metadata(path);
        metadata.is_ok_and(|metadata| std::os::unix::fs::FileTypeExt::is_block_device(&metadata.file_type()))
    });
    let mut kinds = vec![
        ("directory", "a directory"),
        ("pipe", "a named pipe"),
        ("socket", "a socket"),
        ("null", "a character device"),
    ];
    if let Some(block) = block {
        std::os::unix::fs::symlink(block, disk.join("block")).unwrap();
        kinds.push(("block", "a block device"));
    }
    for (name, kind) in kinds {
        let attach = Request::Attach { name: name.to_owned(), mode: "write-back".to_owned() };
        let error = ask(&config, &attach).unwrap_err();
        let told = format!("disk/{name}: this is {kind}; a volume is made of a plain file, the raw image of a disk");
        assert!(error.to_string().contains(&told), "{error}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert!(status(&config).volumes.is_empty() && status(&config).away.is_empty());
}

#[test]
fn nothing_is_made_in_a_slow_directory_that_was_moved_away() {
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "");
    create(&config, "orders");
    fs::write(folder.path().join("disk/image"), vec![0; 8192]).unwrap();
    let serving = Serving::start(&config).unwrap();
    let (disk, elsewhere) = (folder.path().join("disk"), folder.path().join("elsewhere"));
    fs::rename(&disk, &elsewhere).unwrap();
    let is_refused = || {
        let (name, mode) = (|name: &str| name.to_owned(), "write-back");
        for request in [
            Request::Create { name: name("new"), size: SIZE, mode: name(mode) },
            Request::Attach { name: name("image"), mode: name(mode) },
            Request::Resize { name: name("orders"), size: 2 * SIZE },
        ] {
            let error = ask(&config, &request).unwrap_err();
            assert!(error.to_string().contains("disk: the directory of the slow device is not there"), "{error}");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
    };
    is_refused();
    // Another one in its place is not it.
    fs::create_dir(&disk).unwrap();
    is_refused();
    assert_eq!(status(&config).volumes.len(), 1);
    assert!(!elsewhere.join("new").exists() && fs::read_dir(&disk).unwrap().count() == 0);
    assert_eq!(fs::metadata(elsewhere.join("orders")).unwrap().len(), SIZE);
    fs::remove_dir(&disk).unwrap();
    fs::rename(&elsewhere, &disk).unwrap();
    let made = create(&config, "new").volume;
    assert!(made.trouble.is_none() && made.door.is_some(), "{made:?}");
    serving.stop().unwrap();
}

#[test]
fn a_volume_of_a_name_that_was_used_before_is_not_taken_for_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "");
    let serving = Serving::start(&config).unwrap();
    for is_kept in [true, false] {
        create(&config, "orders");
        serving.look();
        if is_kept {
            ask(&config, &Request::Detach { name: "orders".to_owned() }).unwrap();
            fs::rename(folder.path().join("disk/orders"), folder.path().join("disk/kept")).unwrap();
        } else {
            ask(&config, &Request::Remove { name: "orders".to_owned(), force: true }).unwrap();
        }
        // It takes the number of the file that has gone, where that is free.
        fs::write(folder.path().join(format!("disk/other-{is_kept}")), "x").unwrap();
        assert_eq!(create(&config, "orders").volume.trouble, None);
        ask(&config, &Request::Remove { name: "orders".to_owned(), force: true }).unwrap();
    }
    serving.stop().unwrap();
}

//! The service as its users see it: volumes come, are used, and go, with a service and without one.

mod pool;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use ishigaki_agent::{Message, send};
use ishigaki_base::ErrorKind;
use ishigaki_prefetch::{Extent, File};
use ishigaki_volume_service::{Config, Error, Kind, Reply, Request, Serving, Status, ask, make};
use pool::{SIZE, can_attach, config, create, pool, status};

#[test]
fn a_pool_is_made_once_and_used_with_a_service_or_without() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "");
    assert!(matches!(ask(&config, &Request::Status {}), Err(Error::NoPool(_))));
    assert!(matches!(Serving::start(&config), Err(Error::NoPool(_))));
    assert!(make(&config, None).unwrap_err().to_string().contains("--fast-size"));
    pool(folder.path(), "");
    assert!(matches!(make(&config, None), Err(Error::Taken { .. })));

    // Without a service.
    let made = create(&config, "orders");
    assert!(!made.served && made.volume.door.is_none());
    assert_eq!(status(&config).volumes.len(), 1);
    // With one.
    let serving = Serving::start(&config).unwrap();
    let made = create(&config, "more");
    let door = made.volume.door.unwrap();
    assert!(made.served);
    assert_eq!((door.kind, door.path), (Kind::Socket, folder.path().join("sockets/more.sock")));
    assert!(status(&config).is_served);
    let attach = Request::Attach { name: "nix".to_owned(), mode: "write-back".to_owned() };
    assert!(ask(&config, &attach).unwrap_err().to_string().contains("disk/nix: there is no such image to attach"));
    fs::write(folder.path().join("disk/nix"), [1; 5000]).unwrap();
    assert!(ask(&config, &attach).unwrap_err().to_string().contains("`truncate -s %4096"));
    for name in ["orders", "a/b", ""] {
        let request = Request::Create { name: name.to_owned(), size: SIZE, mode: "write-back".to_owned() };
        assert_eq!(ask(&config, &request).unwrap_err().kind(), ErrorKind::Invalid, "`{name}`");
    }
    let odd = Request::Create { name: "odd".to_owned(), size: SIZE + 1, mode: "write-back".to_owned() };
    assert_eq!(ask(&config, &odd).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(matches!(
        ask(&config, &Request::Remove { name: "more".to_owned(), force: false }),
        Err(Error::Refused { .. })
    ));
    ask(&config, &Request::Remove { name: "more".to_owned(), force: true }).unwrap();
    assert!(!folder.path().join("sockets/more.sock").exists() && !folder.path().join("disk/more").exists());
    serving.stop().unwrap();
    assert!(!status(&config).is_served);
    assert_eq!(fs::read_dir(folder.path().join("sockets")).unwrap().count(), 0);
}

#[test]
fn a_second_service_is_refused_and_so_is_another_fast_device() {
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "");
    let serving = Serving::start(&config).unwrap();
    assert_eq!(Serving::start(&config).err().unwrap().kind(), ErrorKind::Unavailable);
    serving.stop().unwrap();
    fs::rename(folder.path().join("flash/fast"), folder.path().join("flash/old")).unwrap();
    fs::write(folder.path().join("flash/fast"), vec![0; 5 * (256 << 10)]).unwrap();
    assert_eq!(Serving::start(&config).err().unwrap().kind(), ErrorKind::Corrupt);
    fs::remove_file(folder.path().join("flash/fast")).unwrap();
    assert!(matches!(Serving::start(&config), Err(Error::NoFast(_))));
    fs::rename(folder.path().join("flash/old"), folder.path().join("flash/fast")).unwrap();
    Serving::start(&config).unwrap();
}

#[test]
fn a_volume_that_is_used_is_neither_detached_nor_removed() {
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "");
    create(&config, "orders");
    let _serving = Serving::start(&config).unwrap();
    let machine = UnixStream::connect(folder.path().join("sockets/orders.sock")).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while !status(&config).volumes[0].door.as_ref().unwrap().in_use {
        assert!(Instant::now() < until);
    }
    let detach = Request::Detach { name: "orders".to_owned() };
    let resize = Request::Resize { name: "orders".to_owned(), size: 2 * SIZE };
    for request in [&detach, &resize, &Request::Remove { name: "orders".to_owned(), force: true }] {
        let error = ask(&config, request).unwrap_err();
        assert!(error.to_string().contains("a virtual machine is connected"), "{error}");
    }
    drop(machine);
    while status(&config).volumes[0].door.as_ref().unwrap().in_use {
        assert!(Instant::now() < until);
    }
    let resize = |size| ask(&config, &Request::Resize { name: "orders".to_owned(), size });
    assert!(resize(SIZE - 4096).unwrap_err().to_string().contains("can not be made shorter"));
    let Reply::Made(made) = resize(2 * SIZE).unwrap() else { panic!("another answer") };
    assert!(made.served && made.volume.size == 2 * SIZE && made.volume.door.is_some());
    ask(&config, &detach).unwrap();
    assert_eq!(fs::metadata(folder.path().join("disk/orders")).unwrap().len(), 2 * SIZE);
    let attach = Request::Attach { name: "orders".to_owned(), mode: "read-only".to_owned() };
    let Reply::Made(made) = ask(&config, &attach).unwrap() else { panic!("another answer") };
    assert_eq!(made.volume.mode, "read-only");
}

#[test]
fn a_pinned_volume_comes_by_itself_whatever_prefetch_says() {
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "prefetch = \"none\"\nwindow = 1");
    let request = Request::Create { name: "small".to_owned(), size: 512 << 10, mode: "write-back".to_owned() };
    ask(&config, &request).unwrap();
    create(&config, "large");
    let serving = Serving::start(&config).unwrap();
    let pin = |name: &str, pinned| ask(&config, &Request::Pin { name: name.to_owned(), pinned });
    assert!(pin("large", true).unwrap_err().to_string().contains("would be pinned"));
    assert_eq!(pin("small", true).unwrap(), Reply::Done {});
    let until = Instant::now() + Duration::from_secs(20);
    while status(&config).volumes[1].fast_bytes < 512 << 10 {
        assert!(Instant::now() < until, "{:?}", status(&config));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(status(&config).volumes[1].pinned && status(&config).written_bytes >= 512 << 10);
    assert_eq!(pin("small", false).unwrap(), Reply::Done {});
    serving.stop().unwrap();
    assert!(!status(&config).volumes[1].pinned);
}

#[test]
fn what_is_written_to_a_block_device_is_there_after_a_restart_and_in_the_image() {
    if !can_attach() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "metrics = \"127.0.0.1:0\"\n[[volume]]\nname = \"scratch\"\ndoor = \"block\"");
    create(&config, "scratch");
    let link = folder.path().join("blocks/scratch");
    // What is not ours stays.
    fs::create_dir(folder.path().join("blocks")).unwrap();
    fs::write(&link, "precious").unwrap();
    let serving = Serving::start(&config).unwrap();
    assert!(status(&config).volumes[0].trouble.as_ref().unwrap().contains("there is something else"));
    assert_eq!(fs::read_to_string(&link).unwrap(), "precious");
    fs::remove_file(&link).unwrap();
    // What a dead process has left does not.
    std::os::unix::fs::symlink("/dev/loop99999", &link).unwrap();
    serving.look();
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at / 4096 + at) as u8).collect();
    let mut device = fs::OpenOptions::new().write(true).open(&link).unwrap();
    device.write_all(&bytes).unwrap();
    device.sync_all().unwrap();
    drop(device);
    // Chunks go home meanwhile: the page is as the status before it or as the one after it.
    let scrape = || {
        let before = status(&config);
        let mut scraper = TcpStream::connect(serving.metrics().unwrap()).unwrap();
        scraper.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut page = String::new();
        scraper.read_to_string(&mut page).unwrap();
        let is_as = |status: &Status| {
            page.contains(&format!("ishigaki_volume_dirty_bytes{{volume=\"scratch\"}} {}", status.dirty_bytes))
        };
        let after = status(&config);
        assert!([&before, &after].iter().all(|status| status.dirty_bytes <= 4 * (256 << 10)), "{before:?} {after:?}");
        if is_as(&before) || is_as(&after) { Ok(()) } else { Err(page) }
    };
    let pages: Vec<_> = (0..20).map(|_| scrape()).collect();
    assert!(pages.iter().any(Result::is_ok), "{pages:?}");
    serving.stop().unwrap();
    assert!(!link.exists());

    let serving = Serving::start(&config).unwrap();
    assert!(fs::read(&link).unwrap() == bytes);
    ask(&config, &Request::Flush {}).unwrap();
    assert_eq!(status(&config).dirty_bytes, 0);
    let image = fs::OpenOptions::new().write(true).open(folder.path().join("disk/scratch")).unwrap();
    image.set_len(SIZE - 4096).unwrap();
    let detach = Request::Detach { name: "scratch".to_owned() };
    let error = ask(&config, &detach).unwrap_err().to_string();
    assert!(error.contains("cut it short"), "{error}");
    // It has stopped: with its file in order, the next service goes on with it.
    serving.stop().unwrap_err();
    image.set_len(SIZE).unwrap();
    let serving = Serving::start(&config).unwrap();
    image.write_all_at(&bytes[SIZE as usize - 4096..], SIZE - 4096).unwrap();
    ask(&config, &detach).unwrap();
    assert!(fs::read(folder.path().join("disk/scratch")).unwrap() == bytes);
    assert_eq!(fs::read_dir(folder.path().join("blocks")).unwrap().count(), 0);
    serving.stop().unwrap();
}

#[test]
fn a_block_device_is_one_services_and_keeps_its_name_and_what_was_written_to_it() {
    if !can_attach() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| {
        let own = folder.path().join(name);
        fs::create_dir(&own).unwrap();
        let config = Config { blocks: folder.path().join("blocks"), ..pool(&own, "door = \"block\"") };
        create(&config, "same");
        config
    });
    let link = folder.path().join("blocks/same");
    let first = Serving::start(&one).unwrap();
    let device = fs::read_link(&link).unwrap();
    // It is held open, so that what is written stays with the kernel.
    let holder = fs::File::open(&link).unwrap();
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at / 4096 + at) as u8).collect();
    fs::OpenOptions::new().write(true).open(&link).unwrap().write_all(&bytes).unwrap();
    let second = Serving::start(&other).unwrap();
    second.look();
    let trouble = status(&other).volumes[0].trouble.clone().unwrap();
    assert!(trouble.contains("serves it already"), "{trouble}");
    assert_eq!(fs::read_link(&link).unwrap(), device, "it is the other service's");
    fs::remove_file(&link).unwrap();
    first.look();
    assert_eq!(fs::read_link(&link).unwrap(), device, "the name alone is made again");
    second.stop().unwrap();
    assert_eq!(fs::read_link(&link).unwrap(), device);
    ask(&one, &Request::Detach { name: "same".to_owned() }).unwrap();
    assert!(fs::read(folder.path().join("one/disk/same")).unwrap() == bytes);
    assert!(!link.exists());
    drop(holder);
    first.stop().unwrap();
}

#[test]
fn commands_on_several_volumes_at_a_time_leave_each_its_own_door() {
    if !can_attach() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "door = \"block\"");
    let serving = Serving::start(&config).unwrap();
    let life = |volume: &str| {
        let (name, kept) = (volume.to_owned(), "write-back".to_owned());
        let link = folder.path().join("blocks").join(volume);
        let is_served = |said: Reply| {
            let Reply::Made(made) = said else { panic!("another answer") };
            assert!(made.volume.door.is_some() && made.volume.trouble.is_none(), "{made:?}");
            fs::read(&link).unwrap_or_else(|error| panic!("{volume}: {error}")).len()
        };
        let ask = |request| ask(&config, &request).unwrap_or_else(|error| panic!("{volume}: {error}"));
        for _ in 0..12 {
            let made = ask(Request::Create { name: name.clone(), size: SIZE, mode: kept.clone() });
            assert_eq!(is_served(made), SIZE as usize);
            let resized = ask(Request::Resize { name: name.clone(), size: 2 * SIZE });
            assert_eq!(is_served(resized), 2 * SIZE as usize);
            ask(Request::Detach { name: name.clone() });
            is_served(ask(Request::Attach { name: name.clone(), mode: kept.clone() }));
            ask(Request::Remove { name: name.clone(), force: true });
            assert!(!link.exists(), "{volume}");
        }
    };
    std::thread::scope(|scope| {
        ["a", "b", "c", "d"].map(|volume| scope.spawn(|| life(volume))).map(|one| one.join().unwrap())
    });
    serving.stop().unwrap();
}

#[test]
fn a_guest_speaks_for_its_own_volume_alone_and_says_only_what_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "agents = \"127.0.0.1:0\"");
    for name in ["orders", "other"] {
        create(&config, name);
    }
    let serving = Serving::start(&config).unwrap();
    let to = serving.agents().unwrap().to_string();
    let token = |name: &str| {
        let Reply::Token(token) = ask(&config, &Request::Token { name: name.to_owned() }).unwrap() else {
            panic!("another answer")
        };
        token
    };
    let message = |volume: &str, token: String| Message { volume: volume.to_owned(), token, files: None, work: None };
    let file = |length| File { name: "stock".to_owned(), extents: vec![Extent { logical: 0, physical: 4096, length }] };
    assert!(!send(&to, &message("orders", token("orders"))).unwrap(), "it has no layout yet");
    assert!(send(&to, &message("orders", token("orders")).with_files(&[file(1 << 20)])).unwrap());
    let told = status(&config).volumes[0].files.clone();
    assert_eq!((told[0].name.as_str(), told[0].bytes, told[0].fast_bytes), ("stock", 1 << 20, 0));
    for (wrong, why) in [
        (message("orders", token("other")), "not its token"),
        (message("orders", String::new()), "not its token"),
        (message("none", token("orders")), "not its token"),
        (message("../orders", token("orders")), "not its token"),
        (message("orders", token("orders")).with_files(&[file(SIZE)]), "are not on the disk"),
    ] {
        let refused = send(&to, &wrong).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let mut stream = TcpStream::connect(&to).unwrap();
    stream.write_all(b"{}\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("this is no message of an agent"), "{answer}");
    assert_eq!(status(&config).volumes[0].files, told, "what was refused has changed nothing");
    // A volume of that name that comes later is another one.
    let before = token("orders");
    ask(&config, &Request::Remove { name: "orders".to_owned(), force: true }).unwrap();
    create(&config, "orders");
    assert_ne!(token("orders"), before);
    assert_eq!(status(&config).volumes[0].files, []);
}

#[test]
fn the_port_of_a_machine_is_heard_for_its_volume_whatever_else_comes_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = pool(folder.path(), "[[volume]]\nname = \"scratch\"\ndoor = \"none\"");
    for name in ["orders", "scratch"] {
        create(&config, name);
    }
    let path = |name: &str| folder.path().join("sockets").join(format!("{name}.agent"));
    // A process that was killed has left it.
    fs::create_dir(folder.path().join("sockets")).unwrap();
    drop(UnixListener::bind(path("orders")).unwrap());
    let serving = Serving::start(&config).unwrap();
    assert!(!path("scratch").exists());
    assert_eq!(fs::metadata(path("orders")).unwrap().mode() & 0o777, 0o600);
    let stream = UnixStream::connect(path("orders")).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let say = |bytes: &[u8]| (&stream).write_all(bytes).unwrap();
    let line = |volume: &str| {
        let message = Message { volume: volume.to_owned(), token: String::new(), files: None, work: None };
        let extents = vec![Extent { logical: 0, physical: 4096, length: 1 << 20 }];
        serde_json::to_string(&message.with_files(&[File { name: "stock".to_owned(), extents }])).unwrap() + "\n"
    };
    let mut hear = || {
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        answer
    };
    // What an agent was saying when its machine was started anew.
    say(b"{\"volume\": \"ord");
    say(format!("\n{}", line("orders")).as_bytes());
    assert_eq!(hear(), "{\"taken\":{\"has_layout\":true}}\n");
    assert_eq!(status(&config).volumes[0].files[0].name, "stock");
    say(b"{\"volume\":\"orders\"}\n");
    assert!(hear().contains("no message of an agent: missing field `token`"));
    say(line("scratch").as_bytes());
    assert!(hear().contains("this port is that of volume `orders`"));
    assert_eq!(status(&config).volumes[1].files, []);
    // One that was removed comes again, and goes with its volume.
    fs::remove_file(path("orders")).unwrap();
    serving.look();
    assert!(UnixStream::connect(path("orders")).is_ok());
    ask(&config, &Request::Detach { name: "orders".to_owned() }).unwrap();
    serving.look();
    assert!(!path("orders").exists());
    serving.stop().unwrap();
}

#[test]
fn what_is_hot_comes_before_it_is_asked_for_and_with_it_what_is_near_in_its_file() {
    if !can_attach() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let more = "on_demand = false\nprefetch = \"0.9\"\nwindow = 1\nunit = 2\nagents = \"127.0.0.1:0\"\n[[volume]]\nname = \"scratch\"\ndoor = \"block\"";
    let config = pool(folder.path(), more);
    create(&config, "scratch");
    let serving = Serving::start(&config).unwrap();
    // A file whose first chunk is the disk's last one, and its second one the disk's third.
    let chunk = 256 << 10;
    let extents = vec![
        Extent { logical: 0, physical: SIZE - chunk, length: chunk },
        Extent { logical: chunk, physical: 2 * chunk, length: chunk },
    ];
    let Reply::Token(token) = ask(&config, &Request::Token { name: "scratch".to_owned() }).unwrap() else {
        panic!("another answer")
    };
    let message = Message { volume: "scratch".to_owned(), token, files: None, work: Some(10.0) };
    let file = File { name: "stock".to_owned(), extents };
    send(&serving.agents().unwrap().to_string(), &message.with_files(&[file])).unwrap();
    let device = fs::File::open(folder.path().join("blocks/scratch")).unwrap();
    let mut page = [0; 4096];
    let until = Instant::now() + Duration::from_secs(30);
    while status(&config).volumes[0].files[0].fast_bytes < 2 * chunk {
        assert!(Instant::now() < until, "{:?}", status(&config));
        // A block of its first chunk, from the disk and not from the host's memory.
        rustix::fs::fadvise(&device, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        device.read_exact_at(&mut page, SIZE - chunk).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    let now = status(&config);
    assert_eq!(now.fast_bytes, 2 * chunk, "and nothing else");
    assert!(now.prefetch.brought_bytes == 2 * chunk && (now.prefetch.share - 0.9).abs() < 1e-9, "{now:?}");
    assert!(now.prefetch.wanted_bytes == 0 && now.prefetch.used < 0.9, "nothing more is worth it: {now:?}");
}

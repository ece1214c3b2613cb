//! What a user of a remote disk sees, in every way of I/O.

#[allow(dead_code, reason = "shared by several tests")]
mod kit;

use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{AlignedBuffer, Device, Directory, Error, FileDirectory, MemoryDirectory};
use ishigaki_fabric::{Security, Tls, TlsFiles, Token};
use ishigaki_remote::{
    Access, CacheSettings, Client, ClientSettings, Export, Location, Mode, NodeSettings, ReadQueue, StorageNode,
};
use ishigaki_testkit::seeded;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use kit::{MODES, Place, client, client_at, full, node, read, settings, ways};

#[test]
fn what_is_written_reads_back_and_lies_in_the_nodes_file() {
    for (mode, fabric) in ways() {
        let place = Place::over(mode, &fabric);
        let device = place.client().directory("a/b").create("pages", 4 << 20).expect("created");
        seeded("what_is_written_reads_back_and_lies_in_the_nodes_file", |seed| {
            let (mut random, mut model) = (seed.generator(), vec![0; 4 << 20]);
            for turn in 0..60 {
                let blocks = 1 << random.u32(0..11);
                let block = random.usize(0..=1024 - blocks);
                let (offset, length) = (block * 4096, blocks * 4096);
                if random.bool() {
                    assert!(
                        read(device.as_ref(), offset as u64, length)[..] == model[offset..offset + length],
                        "{mode} over {fabric}"
                    );
                    continue;
                }
                let bytes = full(length, turn);
                model[offset..offset + length].copy_from_slice(&bytes);
                match random.u8(0..3) {
                    0 => device.write_at(offset as u64, &bytes).expect("written"),
                    1 => device.write_durable(offset as u64, &bytes).expect("written"),
                    _ => {
                        let (one, two) = bytes.split_at(length / 2 / 4096 * 4096);
                        let writes = [(offset as u64, one), ((offset + one.len()) as u64, two)];
                        device.write_all_durable(&writes).expect("written");
                    }
                }
            }
            device.sync().expect("synced");
            let file = std::fs::read(place.path().join("a/b/pages")).expect("the node's file");
            assert!(file == model, "{mode} over {fabric}");
            assert!(read(device.as_ref(), 0, 4 << 20)[..] == model, "{mode} over {fabric}");
        });
    }
}

#[test]
fn a_remote_directory_is_one_like_others() {
    for (mode, fabric) in ways() {
        let place = Place::over(mode, &fabric);
        let client = place.client();
        let directory = client.directory("d");
        assert!(directory.list().expect("listed").is_empty());
        let one = directory.create("one", 4000).expect("created");
        assert!(one.len() >= 4000 && one.len().is_multiple_of(one.promise().block_size as u64));
        let kind = |outcome: ishigaki_device::Result<Arc<dyn Device>>| outcome.expect_err("refused");
        assert!(matches!(kind(directory.create("one", 4096)), Error::AlreadyExists { .. }));
        assert!(matches!(kind(directory.open("two")), Error::NotFound { .. }));
        assert!(matches!(kind(directory.open("../one")), Error::Invalid { .. }));
        directory.rename("one", "two").expect("renamed");
        directory.sync().expect("synced");
        assert_eq!(directory.list().expect("listed"), ["two"]);
        one.write_at(0, &full(512, 7)).expect("a device outlives its name");
        assert_eq!(read(directory.open("two").expect("opened").as_ref(), 0, 512)[0], 7);
        directory.remove("two").expect("removed");
        assert!(matches!(directory.remove("two"), Err(Error::NotFound { .. })));
        assert_eq!(read(one.as_ref(), 0, 512)[0], 7);
    }
}

#[test]
fn a_directory_of_thousands_is_listed_whole() {
    let place = Place::new(Mode::Ring);
    let names: Vec<_> = (0..2500).map(|number| format!("file-{number:05}")).collect();
    for name in &names {
        std::fs::write(place.path().join(name), [0; 512]).expect("written");
    }
    assert_eq!(place.client().directory("").list().expect("listed"), names);
}

#[test]
fn errors_are_those_of_a_local_device_with_the_remote_name() {
    for (mode, fabric) in ways() {
        let place = Place::over(mode, &fabric);
        let remote = place.client().directory("").create("pages", 65536).expect("created");
        let local = FileDirectory::open(place.path()).and_then(|directory| directory.open("pages")).expect("opened");
        let (local_name, remote_name) =
            (place.path().join("pages").display().to_string(), format!("node://{}/pages", place.node.address()));
        let mut buffer = AlignedBuffer::zeroed(131_072);
        let (aligned, odd) = (0..4096, 1..4097);
        for (offset, range) in [(1, aligned.clone()), (65536, aligned.clone()), (0, 0..131_072), (0, 0..100), (0, odd)]
        {
            for devices in [[&local, &remote], [&remote, &local]] {
                let texts = devices.map(|device| {
                    let error = device.read_at(offset, &mut buffer[range.clone()]).expect_err("refused");
                    error.to_string().replace(&local_name, "it").replace(&remote_name, "it")
                });
                assert_eq!(texts[0], texts[1]);
            }
            assert!(remote.write_at(offset, &buffer[range.clone()]).is_err());
            assert!(remote.write_durable(offset, &buffer[range]).is_err());
        }
        assert!(remote.trim(1, 512).is_err() && remote.trim(0, 1 << 20).is_err());
        remote.trim(0, 65536).expect("trimmed, or not");
        // What fails at the node's medium fails here.
        std::fs::OpenOptions::new()
            .write(true)
            .open(place.path().join("pages"))
            .and_then(|file| file.set_len(0))
            .expect("cut");
        let error = remote.read_at(0, &mut buffer[..4096]).expect_err("there are no bytes");
        assert!(
            matches!(error, Error::Io { operation: "read", .. }) && error.to_string().contains(&remote_name),
            "{error}"
        );
    }
}

#[test]
fn one_thread_has_many_reads_in_flight_and_gets_each_one_once() {
    for (mode, fabric) in ways() {
        let place = Place::over(mode, &fabric);
        let directory = place.client().directory("");
        let device = Arc::new(directory.create_device("pages", 1 << 20).expect("created"));
        for page in 0..256_u64 {
            device.write_at(page * 4096, &full(4096, page as u8)).expect("written");
        }
        let mut queue = ReadQueue::new(&device).expect("a queue");
        let mut seen = vec![0; 1000];
        for read in 0..1000 {
            queue.begin(read % 256 * 4096, 4096, read).expect("begun");
        }
        assert!(matches!(queue.begin(0, 2 << 20, 0), Err(Error::Invalid { .. })));
        queue.begin(1 << 20, 4096, 5000).expect("begun, and refused by the node");
        let mut refused = 0;
        while queue.in_flight() > 0 {
            queue
                .wait(|token, bytes| {
                    match bytes {
                        Ok(bytes) => {
                            assert!(bytes.len() == 4096 && bytes.iter().all(|&byte| byte == token as u8));
                            seen[token as usize] += 1;
                        }
                        Err(error) => {
                            assert!(token == 5000 && matches!(error, Error::Invalid { .. }), "{error}");
                            refused += 1;
                        }
                    }
                    Ok(())
                })
                .expect("waited");
        }
        assert!(refused == 1 && seen.iter().all(|&count| count == 1), "{mode} over {fabric}");
    }
}

#[test]
fn many_threads_over_few_connections_read_and_write_their_own() {
    for (mode, fabric) in ways() {
        let place = Place::over(mode, &fabric);
        let settings = ClientSettings { connections: 2, ..ClientSettings::default() };
        let client = place.client_with(settings);
        let device = client.directory("").create("pages", 8 << 20).expect("created");
        seeded("many_threads_over_few_connections_read_and_write_their_own", |seed| {
            std::thread::scope(|scope| {
                for thread in 0..8_u64 {
                    let device = &device;
                    scope.spawn(move || {
                        let (mut random, begin) = (seed.derive(thread).generator(), thread << 20);
                        for turn in 0..30 {
                            let length = 4096 << random.u32(0..8);
                            device.write_at(begin, &full(length, turn)).expect("written");
                            assert!(read(device.as_ref(), begin, length).iter().all(|&byte| byte == turn));
                        }
                    });
                }
            });
        });
        assert_eq!(place.node.status().connections, 2);
    }
}

#[test]
fn a_node_that_serves_for_reading_changes_nothing() {
    for mode in MODES {
        let folder = tempfile::tempdir().expect("a folder");
        FileDirectory::open(folder.path()).and_then(|directory| directory.create("pages", 8192)).expect("created");
        let settings = NodeSettings { access: Access::ReadOnly, ..settings(mode) };
        let node = node(&Export::Folder(folder.path().to_owned()), settings);
        let directory = client(&node).directory("");
        let device = directory.open("pages").expect("opened");
        assert_eq!(read(device.as_ref(), 0, 8192)[..], [0; 8192]);
        assert!(!device.promise().trim);
        let refusals = [
            device.write_at(0, &full(4096, 1)).err(),
            device.write_durable(0, &full(4096, 1)).err(),
            directory.create("more", 4096).err(),
            directory.rename("pages", "other").err(),
            directory.remove("pages").err(),
            directory.sync().err(),
            directory.lock().err(),
        ];
        for refusal in refusals {
            let error = refusal.expect("refused");
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("for reading only"), "{error}");
        }
        assert_eq!(std::fs::read(folder.path().join("pages")).expect("there").len(), 8192);
    }
}

#[test]
fn a_lock_keeps_others_out_until_it_is_dropped_or_its_client_is_gone() {
    for mode in MODES {
        let place = Place::new(mode);
        let (one, two) = (place.client(), place.client());
        let device = one.directory("").create("pages", 4096).expect("created");
        let same = two.directory("").open("pages").expect("opened");
        for locks in [
            [&|| one.directory("").lock(), &|| two.directory("").lock()]
                as [&dyn Fn() -> ishigaki_device::Result<_>; 2],
            [&|| device.lock(), &|| same.lock()],
        ] {
            let lock = locks[0]().expect("free");
            assert!(matches!(locks[1](), Err(Error::Locked { .. })), "{mode}");
            drop(lock);
            drop(locks[1]().expect("free again"));
        }
        let lock = one.directory("").lock().expect("free");
        drop((device, one));
        assert!(two.directory("").lock().is_err(), "the guard keeps the connection");
        drop(lock);
        drop(two.directory("").lock().expect("free again"));
    }
}

#[test]
fn a_client_needs_the_nodes_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = Security::Token(Token::new(b"of this node and its clients").expect("long enough"));
    let export = Export::Folder(folder.path().to_owned());
    let node = StorageNode::start(&export, settings(Mode::Ring), token.clone()).expect("started");
    let address = node.address().to_string();
    assert!(Client::connect(&address, &ClientSettings::default(), &Security::Open).is_err());
    let client = Client::connect(&address, &ClientSettings::default(), &token).expect("connected");
    client.directory("").create("pages", 4096).expect("created");
    let outside = NodeSettings { listen: "0.0.0.0:0".to_owned(), ..settings(Mode::Ring) };
    assert!(StorageNode::start(&export, outside, Security::Open).is_err(), "nobody would ask who comes");
}

/// Certificates for both sides, of an authority made for the purpose.
fn tls() -> Security {
    let key = KeyPair::generate().expect("a key");
    let mut authority = CertificateParams::new(Vec::<String>::new()).expect("no names");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&key).expect("signed").pem();
    let issuer = Issuer::new(authority, key);
    let own = KeyPair::generate().expect("a key");
    let names = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    let certificate = names.signed_by(&own, &issuer).expect("signed").pem();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let files = TlsFiles {
        authorities: file("authorities.pem", root),
        certificate: file("certificate.pem", certificate),
        key: file("key.pem", own.serialize_pem()),
    };
    Security::Tls(Tls::from_files(&files).expect("good files"))
}

#[test]
fn everything_goes_over_tls_as_well() {
    let security = tls();
    for mode in MODES {
        let folder = tempfile::tempdir().expect("a folder");
        let export = Export::Folder(folder.path().to_owned());
        let settings = NodeSettings { lease: Duration::from_secs(2), ..settings(mode) };
        let node = StorageNode::start(&export, settings, security.clone()).expect("started");
        let cache = Some(CacheSettings::default());
        let settings = ClientSettings { cache, ..ClientSettings::default() };
        let client = Client::connect(&node.address().to_string(), &settings, &security).expect("connected");
        let device = Arc::new(client.directory("").create_device("pages", 4 << 20).expect("created"));
        device.write_all_durable(&[(0, &full(1 << 20, 1)), (1 << 20, &full(3 << 20, 2))]).expect("written");
        assert!(read(device.as_ref(), 0, 4 << 20)[..1 << 20].iter().all(|&byte| byte == 1), "{mode}");
        let (mut queue, mut count) = (ReadQueue::new(&device).expect("a queue"), 0);
        for page in 0..500 {
            queue.begin(page % 1024 * 4096, 4096, page).expect("begun");
        }
        while queue.in_flight() > 0 {
            queue
                .wait(|page, bytes| {
                    count += 1;
                    assert_eq!(bytes?[..], [if page < 256 { 1 } else { 2 }; 4096], "{mode}");
                    Ok(())
                })
                .expect("waited");
        }
        assert_eq!(count, 500);
    }
}

#[test]
fn reads_of_more_bytes_than_a_connection_may_have_in_memory_are_all_answered() {
    for mode in MODES {
        let place = Place::with(NodeSettings { connection_memory: ByteSize::kib(64), ..settings(mode) });
        let device = Arc::new(place.client().directory("").create_device("pages", 4 << 20).expect("created"));
        device.write_durable(0, &full(4 << 20, 3)).expect("written");
        let queue = ReadQueue::new(&device).expect("a queue");
        let zeros = ReadQueue::of_network_alone(&device).expect("a queue");
        let (mut queues, mut count) = ([(queue, 3), (zeros, 0)], 0);
        // Some are longer than all of it.
        for read in 0..100 {
            for (queue, _) in &mut queues {
                queue.begin((read % 4) << 20, 4096 << (read % 9), read).expect("begun");
            }
        }
        for (queue, _) in &mut queues {
            queue.submit().expect("sent");
        }
        while let Some((queue, expected)) = queues.iter_mut().find(|(queue, _)| queue.in_flight() > 0) {
            queue
                .wait(|_, bytes| {
                    count += 1;
                    assert!(bytes?.iter().all(|byte| byte == expected), "{mode}");
                    Ok(())
                })
                .expect("waited");
        }
        assert_eq!(count, 200, "{mode}");
    }
}

#[test]
fn a_location_opens_its_directory() {
    let place = Place::new(Mode::Ring);
    let location: Location = format!("node://{}/a/b", place.node.address()).parse().expect("a location");
    let directory = location.open(&ClientSettings::default(), &Security::Open).expect("opened");
    directory.create("pages", 4096).expect("created");
    assert!(place.path().join("a/b/pages").exists());
}

#[test]
fn any_directory_can_be_served() {
    for mode in MODES {
        let node = node(&Export::Directory(Arc::new(MemoryDirectory::new())), settings(mode));
        let directory = client(&node).directory("");
        let device = directory.create("pages", 1 << 20).expect("created");
        device.write_durable(4096, &full(8192, 3)).expect("written");
        assert_eq!(read(directory.open("pages").expect("opened").as_ref(), 4096, 8192)[..], [3; 8192]);
        assert!(client(&node).directory("below").list().is_err());
    }
}

#[test]
fn a_node_tells_how_it_is_doing_and_what_the_network_alone_takes() {
    let place = Place::new(Mode::Ring);
    let client = place.client();
    let device = client.directory("").create("pages", 65536).expect("created");
    device.write_durable(0, &full(8192, 3)).expect("written");
    read(device.as_ref(), 0, 65536);
    let status = client.status().expect("told");
    assert_eq!((status.bytes_written, status.bytes_read, status.connections), (8192, 65536, 1));
    assert!(status.requests >= 4 && status.cores >= 1 && status.uptime_nanos > 0);
    let device = Arc::new(client.directory("").open_device("pages").expect("opened"));
    let mut queue = ReadQueue::of_network_alone(&device).expect("a queue");
    for token in 0..100 {
        queue.begin(0, 8192, token).expect("begun");
    }
    let mut count = 0;
    while queue.in_flight() > 0 {
        queue
            .wait(|_, bytes| {
                count += 1;
                assert_eq!(bytes?[..], [0; 8192], "not what lies there");
                Ok(())
            })
            .expect("waited");
    }
    assert_eq!((count, client.status().expect("told").bytes_read), (100, 65536));
    client.blank(4096).expect("answered");
    assert!(client.blank(2 << 20).is_err());
}

#[test]
fn a_node_that_is_started_again_is_found_again_and_what_was_not_synced_is_told() {
    for mode in MODES {
        let place = Place::new(mode);
        let address = place.node.address().to_string();
        let directory = client_at(&address).directory("");
        let (kept, synced) =
            (directory.create("kept", 8192).expect("created"), directory.create("synced", 8192).expect("created"));
        directory.sync().expect("synced");
        kept.write_durable(0, &full(4096, 1)).expect("written");
        synced.write_at(0, &full(4096, 2)).expect("written");
        synced.sync().expect("synced");
        kept.write_at(4096, &full(4096, 3)).expect("written, and not synced");
        let Place { folder, node: first, .. } = place;
        drop(first);
        assert!(kept.read_at(0, &mut AlignedBuffer::zeroed(4096)).is_err(), "there is nobody");
        let settings = NodeSettings { listen: address, ..settings(mode) };
        let _second = node(&Export::Folder(folder.path().to_owned()), settings);
        assert_eq!(read(kept.as_ref(), 0, 4096)[0], 1);
        synced.sync().expect("nothing was missing");
        for _ in 0..2 {
            let error = kept.sync().expect_err("the first node may have lost it");
            assert!(
                matches!(error, Error::Io { operation: "sync", .. }) && error.to_string().contains("started again")
            );
        }
        directory.sync().expect("no name was missing");
    }
}

#[test]
fn another_file_of_the_same_name_is_not_taken_for_the_old_one() {
    let place = Place::new(Mode::Ring);
    let address = place.node.address().to_string();
    let directory = client_at(&address).directory("");
    let device = directory.create("pages", 4096).expect("created");
    let Place { folder, node: first, .. } = place;
    drop(first);
    std::fs::rename(folder.path().join("pages"), folder.path().join("old")).expect("renamed");
    std::fs::write(folder.path().join("pages"), [9; 4096]).expect("written");
    let _second =
        node(&Export::Folder(folder.path().to_owned()), NodeSettings { listen: address, ..settings(Mode::Ring) });
    let mut buffer = AlignedBuffer::zeroed(4096);
    // The first request finds out that the connection is gone.
    let errors: Vec<_> = (0..3).filter_map(|_| device.read_at(0, &mut buffer).err()).collect();
    assert!(errors.len() == 3 && errors[2].to_string().contains("another file"), "{errors:?}");
}

#[test]
fn with_a_lock_that_was_lost_nothing_is_written() {
    let place = Place::new(Mode::Ring);
    let address = place.node.address().to_string();
    let settings_of_two = ClientSettings { connections: 2, ..ClientSettings::default() };
    let client = Client::connect(&address, &settings_of_two, &Security::Open).expect("connected");
    let directory = client.directory("");
    let device = directory.create("pages", 4096).expect("created");
    let lock = directory.lock().expect("free");
    let Place { folder, node: first, .. } = place;
    drop(first);
    let _second =
        node(&Export::Folder(folder.path().to_owned()), NodeSettings { listen: address, ..settings(Mode::Ring) });
    let errors: Vec<_> = (0..6).filter_map(|_| device.write_durable(0, &full(4096, 1)).err()).collect();
    assert!(errors.len() == 6 && errors[5].to_string().contains("the lock with it"), "{errors:?}");
    assert_eq!(std::fs::read(folder.path().join("pages")).expect("there"), [0; 4096]);
    drop(lock);
    // Each connection finds out for itself that it is gone.
    let outcomes: Vec<_> = (0..4).map(|_| device.write_durable(0, &full(4096, 1))).collect();
    assert!(outcomes[3].is_ok(), "nobody believes to have the lock any more: {outcomes:?}");
}

#[test]
fn a_node_that_is_stopped_answers_what_it_has_taken() {
    for mode in MODES {
        let Place { folder, node, .. } = Place::new(mode);
        let device = client(&node).directory("").create("pages", 1 << 20).expect("created");
        let (begun, told) = std::sync::mpsc::channel();
        let written = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|thread| {
                    let (device, begun) = (Arc::clone(&device), begun.clone());
                    scope.spawn(move || {
                        let mut written = 0;
                        for turn in 1..=u64::MAX {
                            let mut page = full(4096, thread as u8);
                            page[..8].copy_from_slice(&turn.to_le_bytes());
                            if device.write_durable(thread * 4096, &page).is_err() {
                                return written;
                            }
                            written = turn;
                            let _ = begun.send(());
                        }
                        written
                    })
                })
                .collect();
            (0..40).for_each(|_| told.recv().expect("writes are done"));
            let status = node.stop(std::time::Duration::from_secs(20));
            let written: Vec<u64> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            // Only requests that the node had not taken are without an answer: what it has written, it has told.
            assert_eq!(status.bytes_written, written.iter().sum::<u64>() * 4096, "{mode}");
            written
        });
        let bytes = std::fs::read(folder.path().join("pages")).expect("the file");
        for (page, written) in bytes.chunks(4096).zip(written) {
            assert_eq!(page[..8], written.to_le_bytes(), "{mode}: the last one that was answered");
        }
    }
}

#[test]
fn reads_that_were_taken_are_answered_when_the_node_stops() {
    for mode in MODES {
        let Place { folder: _folder, node, .. } = Place::new(mode);
        let directory = client(&node).directory("");
        let device = Arc::new(directory.create_device("pages", 1 << 20).expect("created"));
        let mut queue = ReadQueue::new(&device).expect("a queue");
        // Too few for the node to be still receiving when it has answered the first.
        for page in 0..32 {
            queue.begin(page * 4096, 4096, page).expect("begun");
        }
        let mut answered = 0;
        let mut count = |_: u64, bytes: Result<&[u8], Error>| {
            answered += usize::from(bytes.is_ok());
            Ok(())
        };
        queue.wait(&mut count).expect("waited");
        node.stop(std::time::Duration::from_secs(20));
        while queue.in_flight() > 0 {
            queue.wait(&mut count).expect("all of them were taken, and so are answered");
        }
        assert_eq!(answered, 32, "{mode}");
    }
}

#[test]
fn what_a_node_can_not_serve_is_told_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = |path: std::path::PathBuf, settings: NodeSettings| {
        StorageNode::start(&Export::Folder(path), settings, Security::Open).expect_err("refused").to_string()
    };
    let error = start(folder.path().join("missing"), settings(Mode::Ring));
    assert!(error.contains("missing") && error.contains("make it"), "{error}");
    std::fs::write(folder.path().join("file"), "x").expect("written");
    assert!(start(folder.path().join("file"), settings(Mode::Ring)).contains("is no folder"));
    let place = Place::new(Mode::Ring);
    let taken = NodeSettings { listen: place.node.address().to_string(), ..settings(Mode::Ring) };
    let error = start(folder.path().to_owned(), taken);
    assert!(error.contains("another port"), "{error}");
    let open = NodeSettings { listen: "0.0.0.0:0".to_owned(), ..settings(Mode::Ring) };
    assert!(start(folder.path().to_owned(), open).contains("give a token or certificates"));
}

//! A member as an engine of ours sees it.

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{AlignedBuffer, Fault, MemoryDirectory, SimDirectory};

use super::*;
use crate::{MemberSettings, Pool, Quota, Settings};

fn member() -> (Pool, MemberDirectory) {
    let settings = Settings {
        log: ByteSize::mib(2),
        segment: ByteSize::kib(64),
        region: ByteSize::kib(256),
        ..Default::default()
    };
    let pool = Pool::open_together(Arc::new(MemoryDirectory::new()), settings).unwrap();
    let quota = Quota { share: ByteSize::kib(128), home: ByteSize::mib(1), files: 4 };
    let member = pool.add("orders", MemberSettings { quota, ..MemberSettings::default() }).unwrap();
    (pool, MemberDirectory::new(member))
}

fn filled(length: usize, byte: u8) -> AlignedBuffer {
    let mut bytes = AlignedBuffer::zeroed(length);
    bytes.fill(byte);
    bytes
}

#[test]
fn what_has_no_room_is_refused_with_the_member_s_words_and_leaves_no_name() {
    let (_pool, directory) = member();
    let error = directory.create("big", 2 << 20).unwrap_err();
    assert!(matches!(&error, DeviceError::NoSpace { needed, .. } if *needed == 2 << 20), "{error}");
    assert!(error.to_string().contains("member `orders` has no space left: its files may take"), "{error}");
    assert_eq!((directory.list().unwrap().len(), error.kind()), (0, ErrorKind::Exhausted));
    for name in ["a", "b", "c", "d"] {
        directory.create(name, 512).unwrap();
    }
    let error = directory.create("e", 512).unwrap_err();
    assert!(matches!(&error, DeviceError::NoSpace { name, .. } if name.contains("it has 4 files")), "{error}");
}

#[test]
fn bytes_and_names_are_those_of_the_member() {
    let (pool, directory) = member();
    let device = directory.create("log", 10_000).unwrap();
    assert_eq!((device.len(), device.promise().block_size), (10_240, 512));
    device.write_at(512, &filled(1024, 1)).unwrap();
    let (two, three) = (filled(512, 2), filled(512, 3));
    device.write_all_durable(&[(0, &two), (9_728, &three)]).unwrap();
    device.trim(1024, 512).unwrap();
    let mut bytes = AlignedBuffer::zeroed(10_240);
    directory.open("log").unwrap().read_at(0, &mut bytes).unwrap();
    assert_eq!([bytes[0], bytes[512], bytes[1024], bytes[1536], bytes[9_728]], [2, 1, 0, 0, 3]);

    for refused in [
        device.write_at(10_240, &two),
        device.write_durable(1, &two),
        device.write_all_durable(&[(0, &three), (10_240, &two)]),
        device.trim(10_240, 512),
        device.trim(1, 512),
        device.read_at(0, &mut bytes[..100]),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
    device.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes[0], 2, "nothing of a refused request is written");

    let member = pool.member("orders").unwrap();
    member.create_directory("folder").unwrap();
    assert_eq!(directory.list().unwrap(), ["log"]);
    directory.rename("log", "old").unwrap();
    directory.sync().unwrap();
    assert!(matches!(directory.open("log"), Err(DeviceError::NotFound { .. })));
    assert!(matches!(directory.create("old", 1), Err(DeviceError::AlreadyExists { .. })));
    directory.remove("old").unwrap();
    assert!(directory.list().unwrap().is_empty());
    let lock = directory.lock().unwrap();
    assert!(directory.clone().lock().is_err());
    drop(lock);
    directory.lock().unwrap();
}

#[test]
fn a_device_that_was_being_made_when_the_power_went_is_whole_or_not_there() {
    for operation in 0.. {
        let medium = SimDirectory::with_seed(Seed(operation));
        let settings =
            Settings { log: ByteSize::mib(2), segment: ByteSize::kib(64), background: false, ..Default::default() };
        let quota = Quota { share: ByteSize::kib(128), home: ByteSize::mib(1), files: 4 };
        let of_member = MemberSettings { quota, ..MemberSettings::default() };
        let open = |medium: &SimDirectory| Pool::open_together(Arc::new(medium.clone()), settings.clone()).unwrap();
        let pool = open(&medium);
        let directory = MemberDirectory::new(pool.add("orders", of_member).unwrap());
        let before = medium.operations();
        medium.inject(Fault::PowerCut { operation: before + operation });
        let made = directory.create("log", 8192).and_then(|_| directory.sync());
        medium.power_cut_now();
        drop(pool);
        let pool = open(&medium.survivors(Seed(operation)));
        let directory = MemberDirectory::new(pool.member("orders").unwrap());
        let lengths: Vec<_> =
            directory.list().unwrap().iter().map(|name| directory.open(name).unwrap().len()).collect();
        assert!(lengths == [8192] || lengths.is_empty() && made.is_err(), "{lengths:?} at {operation}");
        // And it can be made, whatever is left.
        let _ = directory.remove("log");
        assert_eq!(directory.create("log", 512).unwrap().len(), 512);
        if made.is_ok() {
            assert!(operation > 1);
            break;
        }
    }
}

#[test]
fn zeros_where_there_were_none_before_are_not_logged() {
    let (pool, directory) = member();
    let device = directory.create("log", 512 << 10).unwrap();
    let logged = || pool.member("orders").unwrap().statistics().logged;
    let before = logged();
    device.write_durable(0, &AlignedBuffer::zeroed(256 << 10)).unwrap();
    assert_eq!(logged(), before);
    // What is trimmed is blanked for the price of one entry.
    device.write_durable(0, &filled(64 << 10, 7)).unwrap();
    let before = logged();
    device.trim(0, 64 << 10).unwrap();
    device.write_durable(0, &AlignedBuffer::zeroed(64 << 10)).unwrap();
    assert!(logged() - before < 200, "{} bytes", logged() - before);
}

#[test]
fn a_pool_that_was_closed_is_an_error_like_any_other() {
    let (pool, directory) = member();
    let device = directory.create("log", 512).unwrap();
    pool.close().unwrap();
    let error = device.write_durable(0, &filled(512, 1)).unwrap_err();
    assert!(matches!(error, DeviceError::Io { operation: "write", .. }), "{error}");
    assert!(error.to_string().contains("the pool is closed"), "{error}");
    assert!(directory.list().is_err() && directory.sync().is_err());
}

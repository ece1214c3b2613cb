//! Writers beside each other and beside readers, and what they leave behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use ishigaki_base::ErrorKind;
use ishigaki_base::random::Seed;
use ishigaki_device::{Directory, FileDirectory};
use ishigaki_page::{Error, Reader, Settings, Writer, remove_made, settle};

use super::rows::{assert_equal, read_all, small};
use super::{memory, numbers, settings, texts};

#[test]
fn readers_beside_a_writer_see_whole_appends_only() {
    let directory = memory();
    let portion = numbers(0..700);
    let mut writer = Writer::create(directory.clone(), "t", portion.schema(), settings()).expect("a new one");
    let (done, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let rows = read_all(&Reader::open(directory.clone(), "t").expect("it is there")).expect("sound");
                assert!(rows.num_rows().is_multiple_of(700) && rows.num_rows() >= last, "{} rows", rows.num_rows());
                assert!(
                    (0..rows.num_rows())
                        .all(|row| rows.column(0).as_primitive::<Int64Type>().value(row) == row as i64 % 700)
                );
                seen.fetch_add(usize::from(rows.num_rows() > last), Ordering::Relaxed);
                last = rows.num_rows();
            }
        });
        let mut appends = 0;
        // On a busy machine the reader may have to be waited for.
        while appends < 200 || seen.load(Ordering::Relaxed) < 2 && !reading.is_finished() {
            writer.append_all([&portion]).expect("memory never fails");
            appends += 1;
            if appends >= 200 {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        done.store(true, Ordering::Relaxed);
        reading.join().expect("it did not panic");
    });
}

#[test]
fn an_append_that_is_dropped_leaves_nothing_behind() {
    let directory = memory();
    let mut writer = Writer::create(directory.clone(), "t", numbers([]).schema(), settings()).expect("a new one");
    let before = directory.list().expect("memory");
    let mut append = writer.append().expect("open");
    let mut rng = Seed(1).generator();
    append.write(&numbers((0..100_000).map(|_| rng.i64(..)))).expect("it fits");
    assert!(directory.list().expect("memory").len() > before.len() + 2, "several segments are written");
    drop(append);
    assert_eq!(directory.list().expect("memory"), before);
    assert_eq!(writer.append_all([]).expect("nothing to do").rows, 0);
    assert_eq!(Reader::open(directory, "t").expect("it is there").appends(), 0);
}

#[test]
fn a_second_writer_is_kept_out_or_told_that_it_came_second() {
    let batch = numbers(0..10);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files: Arc<dyn Directory> = Arc::new(FileDirectory::open(folder.path()).expect("it can be opened"));
    let first = Writer::create(files.clone(), "t", batch.schema(), settings()).expect("a new one");
    let error = Writer::open(files.clone(), "t", settings()).expect_err("the first one is there");
    assert!(matches!(error, Error::Device(ishigaki_device::Error::Locked { .. })), "{error}");
    drop(first);
    Writer::open(files, "t", settings()).expect("the first one is gone");

    let memory = memory();
    let mut first = Writer::create(memory.clone(), "t", batch.schema(), settings()).expect("a new one");
    let mut second = Writer::open(memory.clone(), "t", settings()).expect("memory has no locks");
    first.append_all([&batch]).expect("memory never fails");
    let error = second.append_all([&batch]).expect_err("it came second");
    assert!(matches!(error, Error::Overtaken { .. }) && error.kind() == ErrorKind::Conflict, "{error}");
    let reader = Reader::open(memory, "t").expect("it is there");
    assert_equal(&read_all(&reader).expect("sound"), &batch, "the first one's");
}

#[test]
fn writers_that_rest_have_their_turns_and_each_sees_what_the_others_have_appended() {
    let batch = numbers(0..10);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files: Arc<dyn Directory> = Arc::new(FileDirectory::open(folder.path()).expect("it can be opened"));
    let mut first = Writer::create(files.clone(), "t", batch.schema(), settings()).expect("a new one");
    first.append_all([&batch]).expect("appended");
    let rested = first.rest().expect("nothing failed");
    let mut second = Writer::open(files.clone(), "t", settings()).expect("the first one rests");
    assert!(rested.resume().expect_err("the second one has it").is_locked());
    second.append_all([&batch]).expect("appended");
    let second = second.rest().expect("nothing failed");
    let mut third = Writer::open(files.clone(), "t", settings()).expect("free");
    third.append_all([&batch]).expect("appended");
    drop(third);
    let mut second = second.resume().expect("free");
    assert_eq!(second.rows(), 30, "with those of the third one");
    second.append_all([&batch]).expect("appended");
    assert_eq!(Reader::open(files, "t").expect("there").rows(), 40);
}

#[test]
fn what_a_killed_append_left_is_removed_and_nothing_else() {
    let batch = numbers(0..10);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files: Arc<dyn Directory> = Arc::new(FileDirectory::open(folder.path()).expect("it can be opened"));
    for file in ["t", "t-other"] {
        let made = Writer::create(files.clone(), file, batch.schema(), settings());
        made.expect("a new one").append_all([&batch]).expect("appended");
    }
    let names = || {
        let mut names = files.list().expect("listed");
        names.sort();
        names
    };
    let before = names();
    for name in ["t-0000000007.pages", "t.pages.new"] {
        files.create(name, 4096).expect("as an append that is killed leaves it");
    }
    files.create("t-other-0000000009.pages", 4096).expect("another file's");
    files.create("mine.csv", 4096).expect("the user's");
    let writer = Writer::open(files.clone(), "t-other", settings()).expect("free");
    files.create("t-other-0000000008.pages", 4096).expect("of an append under way");
    assert!(settle(files.as_ref(), "t", None).expect("settled"));
    assert!(!settle(files.as_ref(), "t-other", None).expect("looked at"), "its writer may be at it");
    let mut expected = before;
    expected.extend(["mine.csv".to_owned(), "t-other-0000000008.pages".to_owned()]);
    expected.sort();
    assert_eq!(names(), expected, "opening it for writing has removed the other one's");
    drop(writer);
    assert!(matches!(settle(files.as_ref(), "none", None), Err(Error::NotFound { .. })));
}

#[test]
fn beside_an_older_manifest_or_another_files_nothing_is_touched_by_one_who_knows() {
    let batch = numbers(0..10);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files: Arc<dyn Directory> = Arc::new(FileDirectory::open(folder.path()).expect("it can be opened"));
    let manifest = |file: &str| folder.path().join(format!("{file}.pages"));
    let mut writer = Writer::create(files.clone(), "t", batch.schema(), settings()).expect("a new one");
    writer.append_all([&batch]).expect("appended");
    let old = std::fs::read(manifest("t")).expect("readable");
    writer.append_all([&batch]).expect("appended");
    let (known, rested) = (writer.state(), writer.rest().expect("nothing failed"));
    let new = std::fs::read(manifest("t")).expect("readable");
    drop(
        Writer::create(files.clone(), "u", batch.schema(), Settings { seed: Seed(77), ..settings() })
            .expect("a new one"),
    );
    let foreign = std::fs::read(manifest("u")).expect("readable");
    let names = || files.list().expect("listed").into_iter().collect::<std::collections::BTreeSet<_>>();
    let before = names();
    let mut rested = Some(rested);
    for (bytes, is_foreign) in [(&old, false), (&foreign, true)] {
        std::fs::write(manifest("t"), bytes).expect("writable");
        let is_expected = |error: &Error| match error {
            Error::Foreign { .. } => is_foreign,
            Error::Outdated { found: 1, known: 2, .. } => !is_foreign,
            _ => false,
        };
        let error = settle(files.as_ref(), "t", Some(known)).expect_err("refused");
        assert!(is_expected(&error) && error.kind() == ErrorKind::Corrupt, "{error}");
        let error = Writer::open_known(files.clone(), "t", settings(), Some(known)).expect_err("refused");
        assert!(is_expected(&error), "{error}");
        if let Some(rested) = rested.take() {
            let error = rested.resume().expect_err("refused");
            assert!(is_expected(&error), "{error}");
        }
        assert_eq!(names(), before, "nothing is removed or made");
        assert_eq!(&std::fs::read(manifest("t")).expect("readable"), bytes);
    }
    std::fs::write(manifest("t"), &new).expect("writable");
    files.create("t-0000000007.pages", 4096).expect("as an append that is killed leaves it");
    assert!(settle(files.as_ref(), "t", Some(known)).expect("settled"));
    assert_eq!(names(), before);
    assert_eq!(Reader::open(files, "t").expect("there").rows(), 20);
}

#[test]
fn a_file_is_removed_by_its_identity_and_another_one_of_its_name_stays() {
    let batch = numbers(0..10);
    let files = memory();
    let first = Writer::create(files.clone(), "t", batch.schema(), settings()).expect("a new one").identity();
    assert!(remove_made(files.as_ref(), "t", first).expect("removed"));
    assert!(!remove_made(files.as_ref(), "t", first).expect("nothing is there"));
    let other = Settings { seed: Seed(7), ..settings() };
    let second = Writer::create(files.clone(), "t", batch.schema(), other).expect("a new one").identity();
    assert_ne!(first, second);
    assert!(!remove_made(files.as_ref(), "t", first).expect("looked at"));
    assert_eq!(Reader::open(files, "t").expect("it is there").identity(), second);
}

#[test]
fn large_rows_do_not_wait_in_memory_for_the_commit() {
    let directory = memory();
    let settings = small(1 << 20, 1 << 20, Seed(1));
    let mut writer = Writer::create(directory.clone(), "t", texts(&[]).schema(), settings).expect("a new one");
    let before = directory.list().expect("memory").len();
    let mut append = writer.append().expect("open");
    for row in 0..40 {
        append.write(&texts(&[format!("{row}").repeat(150_000)])).expect("it fits");
    }
    assert!(directory.list().expect("memory").len() > before + 3, "some segments are written");
    append.commit().expect("memory never fails");
    assert_eq!(read_all(&Reader::open(directory, "t").expect("it is there")).expect("sound").num_rows(), 40);
}

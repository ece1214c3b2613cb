//! Power cuts and kills at every change of small migrations.
//!
//! A client works, and syncs after each thing that it does. Afterwards it must find all that, whole; what was under way may have happened in
//! part. Then the migration ends by itself.

mod door;

use std::path::PathBuf;

use door::{BLOCK, Door, Known, Model, Op, draw_op, draw_source, no_trace, settings};
use fastrand::Rng;
use ishigaki_base::random::Seed;
use ishigaki_migrate::destination::Destination;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Engine, Error, HIDDEN, Passes};
use ishigaki_migrate::source::{FileType, simulated};
use ishigaki_testkit::seeded_runs;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cut,
    Kill,
}

#[derive(Clone, Debug)]
enum Step {
    Do(Op),
    Read(PathBuf),
    Settle,
    Crawl(Passes),
    Finish,
}

/// Steps, and what a client must see after each.
struct Script {
    source: simulated::Simulated,
    steps: Vec<Step>,
    models: Vec<Model>,
}

fn draw(random: &mut Rng) -> Script {
    let objects = random.usize(1..9);
    let plain = random.bool();
    let source = draw_source(random, objects, plain);
    let mut model = Model::of(&source);
    let (mut steps, mut models) = (Vec::new(), vec![model.clone()]);
    let crawl_at = random.usize(..8);
    for number in 0..8 {
        let files = model.paths(|known| known.file_type == FileType::Regular);
        let step = match random.u8(..10) {
            _ if number == crawl_at => Step::Crawl(if random.bool() { Passes::Bulk } else { Passes::MetadataFirst }),
            0 => Step::Settle,
            1 if !files.is_empty() => Step::Read(files[random.usize(..files.len())].clone()),
            _ => match draw_op(random, &model, number) {
                Some(op) => Step::Do(op),
                None => continue,
            },
        };
        if let Step::Do(op) = &step {
            model.apply(op);
        }
        steps.push(step);
        models.push(model.clone());
    }
    steps.extend([Step::Crawl(Passes::Bulk), Step::Finish]);
    models.extend([model.clone(), model]);
    Script { source, steps, models }
}

fn perform(door: &Door, step: &Step) -> door::Outcome {
    match step {
        Step::Do(op) => {
            door.perform(op)?;
            door.destination.sync_all()?;
        }
        Step::Read(path) => drop(door.read(path)?),
        Step::Settle => door.engine.settle()?,
        Step::Crawl(passes) => {
            let how = Crawl { threads: 1, passes: *passes, ..Crawl::default() };
            door.engine.crawl(&how, &door.cancel)?;
        }
        Step::Finish => door.engine.finish()?,
    }
    Ok(())
}

/// Performs steps until one fails; how many were done.
fn steps(destination: &Simulated, script: &Script) -> usize {
    let Ok(door) = Door::open(destination, &script.source) else { return 0 };
    script.steps.iter().take_while(|step| perform(&door, step).is_ok()).count()
}

/// Whether what was seen may come of a change that was under way: each byte is as before or as after.
fn between(seen: &Known, before: &Known, after: &Known) -> bool {
    let byte = |known: &Known, at: usize| known.data.get(at).copied().unwrap_or(0);
    let sizes = before.data.len().min(after.data.len())..=before.data.len().max(after.data.len());
    let mut like = Known { data: seen.data.clone(), ..after.clone() };
    let mut seen_like = seen.clone();
    if like.untouched.is_none() {
        seen_like.untouched = None;
    }
    like.links = seen.links;
    let bytes = |at: usize| byte(seen, at) == byte(before, at) || byte(seen, at) == byte(after, at);
    let old = Known { data: seen.data.clone(), links: seen.links, untouched: seen_like.untouched, ..before.clone() };
    (seen_like == like || seen_like == old) && sizes.contains(&seen.data.len()) && (0..seen.data.len()).all(bytes)
}

/// Checks what a client finds after the end, while the step behind `done` may have happened in part; the model that it is.
fn found(door: &Door, script: &Script, done: usize) -> Model {
    let (before, after) = (&script.models[done], &script.models[(done + 1).min(script.models.len() - 1)]);
    let seen = door.see().expect("looks");
    let names: Vec<_> = seen.keys().cloned().collect();
    let of = |model: &Model| model.names.keys().cloned().collect::<Vec<_>>();
    let model = if names == of(after) { after } else { before };
    assert_eq!(names, of(model), "after {done} of {:?}", script.steps);
    let mut model = model.clone();
    for (path, (_, seen)) in &seen {
        let number = model.names[path];
        let after = &model.objects[&number];
        let before = before.objects.get(&number).unwrap_or(after);
        let why =
            || format!("{}: {:?}\nbefore {:?}\nafter {:?}", path.display(), brief(seen), brief(before), brief(after));
        assert!(between(seen, before, after), "after {done} of {:?}: {}", script.steps, why());
        let links = after.links;
        let untouched = after.untouched.filter(|_| before.untouched.is_some());
        model.objects.insert(number, Known { links, untouched, ..seen.clone() });
    }
    model
}

fn brief(known: &Known) -> (FileType, u32, usize, Vec<u8>, Option<(u32, i64)>) {
    let first = known.data.chunks(4096).map(|chunk| chunk[0]).collect();
    (known.file_type, known.mode, known.data.len(), first, known.untouched)
}

/// Ends one script at one change, and goes on from what is left.
fn ended_at(script: &Script, seed: Seed, change: u64, end: End, ordered: bool) {
    let perishable = Simulated::perishable(seed.derive(change));
    let destination = if ordered { perishable } else { perishable.unordered().zeroing() };
    destination.stop_at(change);
    let done = steps(&destination, script);
    match end {
        End::Cut => destination.cut_power(),
        End::Kill => destination.go_on(),
    }
    let finishing = done + 1 >= script.steps.len();
    if finishing && script.models[done].names.is_empty() {
        // Nothing tells an empty directory that was migrated into from one that was not.
        return;
    }
    let door = match Door::open(&destination, &script.source) {
        Ok(door) => door,
        Err(Error::NotEmpty(_) | Error::Ended) if finishing => return no_trace(&destination),
        Err(error) => panic!("change {change}, {end:?}: {error}"),
    };
    // A client that looks at everything does the crawler's work: in every other run the crawler is alone.
    let looks = change.is_multiple_of(2);
    let mut model = looks.then(|| found(&door, script, done));
    for passes in [Passes::MetadataFirst, Passes::Bulk] {
        let how = Crawl { threads: 1, passes, ..Crawl::default() };
        door.engine.crawl(&how, &door.cancel).expect("goes on");
    }
    door.engine.finish().expect("nothing is missing");
    no_trace(&destination);
    let model = model.get_or_insert_with(|| found(&door, script, done));
    door.check(model, true).expect("looks");
}

fn at_every_change(seed: Seed) {
    let mut random = seed.generator();
    let script = draw(&mut random);
    let ordered = random.u8(..4) > 0;
    let whole = Simulated::perishable(seed);
    assert_eq!(steps(&whole, &script), script.steps.len(), "{:?}", script.steps);
    for change in 0..whole.changes() + 3 {
        let end = if random.u8(..4) == 0 { End::Kill } else { End::Cut };
        ended_at(&script, seed, change, end, ordered);
    }
}

#[test]
fn nothing_synced_is_lost_by_an_end_at_any_change() {
    seeded_runs("nothing_synced_is_lost_by_an_end_at_any_change", 40, at_every_change);
}

#[test]
#[ignore = "takes minutes"]
fn nothing_synced_is_lost_by_an_end_at_any_change_of_1000_scripts() {
    seeded_runs("nothing_synced_is_lost_by_an_end_at_any_change_of_1000_scripts", 1000, at_every_change);
}

/// Ends come again and again while a client works on: what one has left is what the next one meets.
fn again_and_again(seed: Seed) {
    let mut random = seed.generator();
    let (objects, plain) = (random.usize(1..6), random.bool());
    let source = draw_source(&mut random, objects, plain);
    let perishable = Simulated::perishable(seed);
    let destination = if random.u8(..4) > 0 { perishable } else { perishable.unordered().zeroing() };
    let (mut model, mut number) = (Model::of(&source), 0);
    for _ in 0..random.usize(2..8) {
        let (mut script, mut done) =
            (Script { source: source.clone(), steps: Vec::new(), models: vec![model.clone()] }, 0);
        destination.stop_at(destination.changes() + random.u64(1..100));
        if let Ok(door) = Door::open(&destination, &source) {
            while done == script.steps.len() && done < 6 {
                number += 1;
                let files = model.paths(|known| known.file_type == FileType::Regular);
                let step = match random.u8(..20) {
                    0 => Step::Settle,
                    1 => Step::Crawl(Passes::Bulk),
                    2 | 3 if !files.is_empty() => Step::Read(files[random.usize(..files.len())].clone()),
                    _ => match draw_op(&mut random, &model, number) {
                        Some(op) => Step::Do(op),
                        None => continue,
                    },
                };
                if let Step::Do(op) = &step {
                    model.apply(op);
                }
                done += usize::from(perform(&door, &step).is_ok());
                script.steps.push(step);
                script.models.push(model.clone());
            }
        }
        if random.u8(..3) == 0 {
            destination.cut_power();
        } else {
            destination.go_on();
        }
        // A client that looks at everything leaves few stubs: it looks only where it does not know.
        if done < script.steps.len() {
            let door = Door::open(&destination, &source).expect("goes on");
            model = found(&door, &script, done);
            destination.sync_all().expect("syncs");
        }
    }
    let door = Door::open(&destination, &source).expect("goes on");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    assert_eq!(door.engine.problems(), []);
    door.engine.finish().expect("nothing is missing");
    no_trace(&destination);
    door.check(&model, true).expect("looks");
}

#[test]
fn nothing_synced_is_lost_by_ends_that_come_again_and_again() {
    seeded_runs("nothing_synced_is_lost_by_ends_that_come_again_and_again", 300, again_and_again);
}

#[test]
#[ignore = "takes minutes"]
fn nothing_synced_is_lost_by_ends_that_come_again_and_again_in_10_000_runs() {
    seeded_runs("nothing_synced_is_lost_by_ends_that_come_again_and_again_in_10_000_runs", 10_000, again_and_again);
}

/// Ends at every change of a script that is written for one guard, under several seeds: what a cut leaves is drawn.
fn at_every_change_of(script: &Script, seeds: u64) {
    let whole = Simulated::perishable(Seed(0));
    assert_eq!(steps(&whole, script), script.steps.len(), "{:?}", script.steps);
    for seed in 0..seeds {
        for change in 0..whole.changes() + 3 {
            ended_at(script, Seed(seed), change, End::Cut, true);
        }
    }
}

fn scripted(source: simulated::Simulated, ops: Vec<Op>) -> Script {
    let mut models = vec![Model::of(&source)];
    for op in &ops {
        let mut model = models[models.len() - 1].clone();
        model.apply(op);
        models.push(model);
    }
    let mut steps: Vec<Step> = ops.into_iter().map(Step::Do).collect();
    steps.extend([Step::Crawl(Passes::Bulk), Step::Finish]);
    models.extend([models[models.len() - 1].clone(), models[models.len() - 1].clone()]);
    Script { source, steps, models }
}

/// What a process has written and was killed before it synced is what the next one builds on: a power cut must not take it from below.
#[test]
fn a_beginning_that_was_killed_before_its_sync_is_gone_on_with() {
    let source = simulated::Simulated::new();
    source.add("file".as_ref(), FileType::Regular, vec![1; 10]);
    for stop in 0..20 {
        for round in 0..20 {
            let destination = Simulated::perishable(Seed(round).derive(stop));
            destination.stop_at(stop);
            drop(Door::open(&destination, &source));
            destination.stop_at(destination.changes() + 30);
            if let Ok(door) = Door::open(&destination, &source) {
                drop(door.engine.look_into(&destination.root(), &door.cancel));
            }
            destination.cut_power();
            let door = Door::open(&destination, &source).expect("goes on");
            door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
            door.engine.finish().expect("nothing is missing");
        }
    }
}

/// On a file system that keeps no order, a mark that a killed process took away comes back, although a file in that directory was synced since.
#[test]
fn what_a_client_syncs_after_a_kill_stays_where_no_order_is_kept() {
    let source = simulated::Simulated::new();
    source.add("directory".as_ref(), FileType::Directory, Vec::new());
    source.add("directory/file".as_ref(), FileType::Regular, vec![1; 10]);
    let path = PathBuf::from("directory/file");
    let mut has_settled = false;
    for stop in 0..40 {
        for round in 0..20 {
            let destination = Simulated::perishable(Seed(round).derive(stop)).unordered();
            destination.stop_at(stop);
            if let Ok(door) = Door::open(&destination, &source) {
                let settled = door.find(&path).and_then(|_| Ok(door.engine.settle()?));
                has_settled |= settled.is_ok();
            }
            destination.go_on();
            let door = Door::open(&destination, &source).expect("goes on");
            door.perform(&Op::Write(path.clone(), 0, vec![2; 10])).expect("writes");
            destination.sync(&door.find(&path).expect("is there")).expect("syncs");
            destination.cut_power();
            let door = Door::open(&destination, &source).expect("goes on");
            assert_eq!(door.read(&path).expect("reads"), [2; 10], "killed at {stop}, round {round}");
        }
    }
    assert!(has_settled, "the last stops come too early");
}

/// A client's own blocks that it punches must not come from the source again: the record tells of holes before they are made.
#[test]
fn a_hole_that_a_client_makes_is_never_filled_from_the_source() {
    let source = simulated::Simulated::new();
    source.add("file".as_ref(), FileType::Regular, vec![1; 4 * BLOCK as usize]);
    let ops = vec![
        Op::Write("file".into(), BLOCK, vec![2; 2 * BLOCK as usize]),
        Op::Punch("file".into(), BLOCK..3 * BLOCK),
        Op::Write("file".into(), 0, vec![3; BLOCK as usize]),
    ];
    at_every_change_of(&scripted(source, ops), 25);
}

/// Marks go when the records below are durable: those in files take more than the order of names.
#[test]
fn long_records_are_durable_before_the_directory_is_settled() {
    let source = simulated::Simulated::new();
    let mut path = PathBuf::new();
    for depth in 0..20 {
        path.push(format!("{depth:0200}"));
        source.add(&path, FileType::Directory, Vec::new());
    }
    source.add(&path.join("file"), FileType::Regular, vec![1; 10]);
    source.add(&path.join("below"), FileType::Directory, Vec::new());
    // Those above are settled first: then few changes are not durable when the last one is.
    let above = path.parent().expect("it is deep").join("made");
    let ops = vec![Op::Create(above, FileType::Regular), Op::Create(path.join("made"), FileType::Regular)];
    at_every_change_of(&scripted(source, ops), 3);
}

/// What a listing left that a crash took back is not what the source has by now.
#[test]
fn a_listing_that_is_made_again_is_that_of_the_source_as_it_is_then() {
    let listed = |stop: u64, round: u64| {
        let source = simulated::Simulated::new();
        for name in ["gone", "other", "same"] {
            source.add(name.as_ref(), FileType::Regular, name.as_bytes().to_vec());
        }
        for name in ["left", "left/below", "turned"] {
            source.add(name.as_ref(), FileType::Directory, Vec::new());
        }
        let destination = Simulated::perishable(Seed(round).derive(stop));
        destination.stop_at(stop);
        let door = Door::open(&destination, &source);
        let is_done = door.is_ok_and(|door| {
            let listed = door.engine.look_into(&destination.root(), &door.cancel);
            listed.is_ok() && door.engine.settle().is_ok()
        });
        destination.cut_power();
        let is_settled = destination.xattr(&destination.root(), &settings().attribute).expect("looks").is_none();
        let has_begun = destination.lookup(&destination.root(), HIDDEN.as_ref()).expect("looks").is_some();
        if is_settled && has_begun && is_done {
            return false;
        }
        for name in ["gone", "other", "left/below", "left", "turned"] {
            source.remove(name.as_ref());
        }
        source.add("other".as_ref(), FileType::Regular, b"a longer one".to_vec());
        source.add("turned".as_ref(), FileType::Regular, b"a file".to_vec());
        source.add("new".as_ref(), FileType::Regular, b"new".to_vec());
        if has_begun && is_settled && Engine::begun(&destination).expect("looks") > 0 {
            // Its listing survived: then the old names are the truth, and what the source has not any more is told.
            return true;
        }
        let door = Door::open(&destination, &source).expect("goes on");
        door.engine.crawl(&Crawl { threads: 1, ..Crawl::default() }, &door.cancel).expect("ends");
        assert_eq!(door.engine.problems(), [], "stopped at {stop}");
        door.check(&Model::of(&source), true).expect("looks");
        door.engine.finish().expect("nothing is missing");
        no_trace(&destination);
        true
    };
    for round in 0..20 {
        let stops = (0..200).take_while(|stop| listed(*stop, round)).count();
        assert!((30..200).contains(&stops), "{stops}");
    }
}

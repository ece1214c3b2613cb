//! Runs random tests under a seed, so that a failure can be seen again.
//!
//! The seed comes from the environment variable `ISHIGAKI_SEED` where it is set, else from entropy. When the test panics,
//! the seed and the command that replays it go to standard error; the panic then goes its way.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ishigaki_base::random::Seed;

/// The environment variable that replays a run.
const VARIABLE: &str = "ISHIGAKI_SEED";

/// The seed that the environment asks for, if it does.
///
/// # Panics
///
/// When the variable holds no number: to go on with another seed would look like a replay and be none.
pub fn chosen_seed() -> Option<Seed> {
    let text = std::env::var(VARIABLE).ok()?;
    match text.trim().parse() {
        Ok(seed) => Some(seed),
        Err(error) => panic!("{VARIABLE}={text}: {error}; a seed is a decimal number or 0x and hexadecimal digits"),
    }
}

/// Runs `body` once under the chosen seed or a fresh one, and says how to replay it if it panics.
///
/// `name` is the test's name, as a filter for `cargo test` takes it.
///
/// ```
/// ishigaki_testkit::seeded("sums_do_not_depend_on_order", |seed| {
///     let mut random = seed.generator();
///     let (a, b) = (random.u32(..) as u64, random.u32(..) as u64);
///     assert_eq!(a + b, b + a);
/// });
/// ```
pub fn seeded<T>(name: &str, body: impl FnOnce(Seed) -> T) -> T {
    under(name, chosen_seed().unwrap_or_else(Seed::from_entropy), body)
}

/// Runs `body` `runs` times, each under a seed of its own; under the chosen seed it runs once, exactly the run that failed.
pub fn seeded_runs(name: &str, runs: u64, mut body: impl FnMut(Seed)) {
    if let Some(seed) = chosen_seed() {
        return under(name, seed, body);
    }
    let root = Seed::from_entropy();
    for run in 0..runs {
        under(name, root.derive(run), &mut body);
    }
}

fn under<T>(name: &str, seed: Seed, body: impl FnOnce(Seed) -> T) -> T {
    catch_unwind(AssertUnwindSafe(|| body(seed))).unwrap_or_else(|panic| {
        eprintln!("{name} failed under seed {seed}; replay: {VARIABLE}={seed} cargo test --workspace {name}");
        resume_unwind(panic)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_a_seed_of_its_own() {
        let mut seen = Vec::new();
        seeded_runs("every_run_has_a_seed_of_its_own", 10, |seed| seen.push(seed));
        let count = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn a_panic_passes_through() {
        let caught = catch_unwind(|| seeded("a_panic_passes_through", |_| panic!("on purpose")));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
    }
}

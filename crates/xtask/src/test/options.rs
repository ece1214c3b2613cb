//! The arguments of `cargo xtask test`.

use crate::Failure;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Print this and do nothing.
    Print(String),
    Run(Options),
}

/// Which steps to run, and how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Names of steps; none means all.
    only: Vec<String>,
    /// Handed to `cargo test` of the step `test`: a filter, or `--` and the harness's own flags.
    pub(crate) for_tests: Vec<String>,
    /// For each target of the step `fuzz`; zero means the seeds alone.
    pub(crate) fuzz_seconds: Option<u32>,
}

impl Options {
    pub(crate) fn wants(&self, step: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == step)
    }
}

/// Reads the arguments; `steps` are the names and descriptions that there are.
pub(crate) fn parse(arguments: &[String], steps: &[(&str, &str)]) -> Result<Request, Failure> {
    let lines: Vec<_> = steps.iter().map(|(name, about)| format!("  {name:<10} {about}")).collect();
    let list = || lines.join("\n") + "\n";
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let (name, value) =
            argument.split_once('=').map_or((argument.as_str(), None), |(name, value)| (name, Some(value)));
        let mut value = || value.or_else(|| rest.next().map(String::as_str));
        match name {
            "--help" | "-h" => return Ok(Request::Print(help(&list()))),
            "--list" => return Ok(Request::Print(list())),
            "--" => options.for_tests = rest.by_ref().cloned().collect(),
            "--only" => {
                let only = value().ok_or("`--only` wants the name of a step; `--list` shows them")?;
                if !steps.iter().any(|(name, _)| *name == only) {
                    return Err(format!("there is no step `{only}`; there are:\n{}", list()));
                }
                options.only.push(only.to_owned());
            }
            "--fuzz-seconds" => {
                let seconds = value().and_then(|seconds| seconds.parse().ok());
                options.fuzz_seconds = Some(seconds.ok_or("`--fuzz-seconds` wants a number of seconds")?);
            }
            _ => return Err(format!("unknown argument `{argument}`\n\n{}", help(&list()))),
        }
    }
    Ok(Request::Run(options))
}

fn help(list: &str) -> String {
    format!(
        "\
Everything that must hold, on a fresh Debian machine with Rust.

Usage: cargo xtask test [OPTIONS] [-- <ARGUMENTS FOR cargo test>]

Options:
  --only <STEP>        Run this step alone; may be given several times
  --fuzz-seconds <N>   How long to run each fuzz target; 60 if not given, and 0 runs the seeds alone
  --list               Show the steps
  --help               Show this

Steps, in order:
{list}
Examples:
  cargo xtask test                              all of it, as the project's CI does
  cargo xtask test --only lint                  clippy, without compiling the dependencies a second time
  cargo xtask test --only test -- a_dropped     the tests whose names contain `a_dropped`
  ISHIGAKI_SEED=7 cargo xtask test --only test  random tests from this seed
  cargo xtask test --only fuzz --fuzz-seconds 600

The first run compiles DataFusion, some 25 minutes of processor time, and for the step `cluster` once more with other features;
later ones compile what has changed.
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &[(&str, &str)] = &[("lint", "compiles"), ("test", "runs")];

    fn parse_line(line: &str) -> Result<Request, Failure> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), STEPS)
    }

    fn options(line: &str) -> Options {
        match parse_line(line) {
            Ok(Request::Run(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_arguments_every_step_runs() {
        assert!(options("").wants("lint") && options("").wants("test"));
    }

    #[test]
    fn only_the_named_steps_run() {
        assert!(options("--only lint").wants("lint") && !options("--only lint").wants("test"));
        assert!(options("--only=lint --only test").wants("test"));
    }

    #[test]
    fn what_follows_two_dashes_is_for_the_tests() {
        assert_eq!(options("--only test -- filter --only x").for_tests, ["filter", "--only", "x"]);
    }

    #[test]
    fn the_time_for_fuzzing_is_a_number() {
        assert_eq!(options("").fuzz_seconds, None);
        assert_eq!(options("--fuzz-seconds 5 --only lint").fuzz_seconds, Some(5));
        assert_eq!(options("--fuzz-seconds=0").fuzz_seconds, Some(0));
        assert!(parse_line("--fuzz-seconds soon").unwrap_err().contains("a number"));
    }

    #[test]
    fn unknown_steps_and_arguments_are_refused_with_the_known_ones() {
        assert!(parse_line("--only nothing").unwrap_err().contains("compiles"));
        assert!(parse_line("--frobnicate").unwrap_err().contains("--frobnicate"));
        assert!(parse_line("--only").unwrap_err().contains("--list"));
    }

    #[test]
    fn the_steps_can_be_listed() {
        assert!(matches!(parse_line("--list"), Ok(Request::Print(text)) if text.lines().count() == STEPS.len()));
    }
}

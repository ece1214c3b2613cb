//! What stands in for the `ishigaki` program where processes of it are needed: it takes long to build.

mod told;

use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_bench::Origin;
use ishigaki_bench::one_log::Host;
use ishigaki_device::DriveSettings;
use ishigaki_emulate::EmulatedDisk;
use ishigaki_logpool_service::{Config, Serving};

pub(crate) use self::told::{Failure, STOP, until_told};

/// Does what it is called for, if it is called as that program would be; else says `false`.
pub(crate) fn stands_in(arguments: &[&str]) -> Result<bool, Failure> {
    match *arguments {
        ["media", "emulate", medium, "--json", "--size", size, "--at", at] => emulate(medium, size, at)?,
        ["log", "serve", "--json", "--waiting", waiting, "--log", log, "--data", data, ref members @ ..] => {
            let names = members.iter().filter(|argument| **argument != "--member");
            let members = names.map(|member| member.parse()).collect::<Result<Vec<_>, _>>()?;
            let mut config = Config::new(data.into(), members);
            (config.log, config.waiting) = (Some(log.parse()?), Some(waiting.parse()?));
            serve(&config)?;
        }
        ["log", "serve", "--json", "--config", path] => {
            serve(&Config::parse(&std::fs::read_to_string(path)?, path.as_ref())?)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Where this process does experiments; itself stands in for the program.
pub(crate) fn host() -> Result<Host, Failure> {
    Ok(Host {
        program: std::env::current_exe()?,
        scratch: std::env::temp_dir(),
        origin: Origin::here(option_env!("ISHIGAKI_COMMIT").unwrap_or("unknown"), Seed::from_entropy()),
        stop: &STOP,
    })
}

/// As `ishigaki media emulate` does.
fn emulate(medium: &str, size: &str, at: &str) -> Result<(), Failure> {
    let end = until_told()?;
    let disk = EmulatedDisk::new(DriveSettings::new(medium.parse()?, size.parse()?), at.as_ref())?;
    println!("{}", serde_json::json!({ "device": disk.device().display().to_string() }));
    end.recv()?;
    while disk.is_in_use() && end.recv_timeout(Duration::from_millis(100)).is_err() {}
    Ok(())
}

/// As `ishigaki log serve` does.
fn serve(config: &Config) -> Result<(), Failure> {
    let end = until_told()?;
    let serving = Serving::start(config)?;
    println!("{}", serde_json::json!({ "data": config.data }));
    end.recv()?;
    Ok(serving.stop()?)
}

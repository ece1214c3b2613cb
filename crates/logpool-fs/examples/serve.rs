//! A pool in a folder, and a mount for each of its members, until there is a line on stdin, or its end.
//!
//! ```sh
//! cargo run --release --example serve -- DATA NAME:PROFILE:FOLDER[:USER:GROUP] …
//! ```

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::SystemTime;

use ishigaki_device::{Directory, FileDirectory};
use ishigaki_logpool::{MemberSettings, Pool, Settings};
use ishigaki_logpool_fs::{Access, Calendar, MountSettings, Served, Service};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(data) = arguments.next() else {
        println!("serve DATA NAME:PROFILE:FOLDER[:USER:GROUP] …");
        return Ok(());
    };
    let members = arguments.map(|argument| served(&argument)).collect::<Result<Vec<_>, _>>()?;
    let directory = Arc::new(FileDirectory::open(&data)?);
    let _lock = directory.lock()?;
    let service = Service::start(Pool::open_together(directory, Settings::default())?, &members)?;
    println!("serving");
    std::io::stdout().flush()?;
    std::io::stdin().read_line(&mut String::new())?;
    service.stop()?;
    Ok(())
}

fn served(argument: &str) -> Result<Served, Box<dyn Error>> {
    let parts: Vec<&str> = argument.split(':').collect();
    let (name, profile, folder, access) = match parts[..] {
        [name, profile, folder] => (name, profile, folder, Access::own()),
        [name, profile, folder, user, group] => {
            (name, profile, folder, Access { user: user.parse()?, group: group.parse()? })
        }
        _ => return Err(format!("`{argument}` is not NAME:PROFILE:FOLDER[:USER:GROUP]").into()),
    };
    Ok(Served {
        name: name.to_owned(),
        member: MemberSettings { profile: profile.parse()?, ..MemberSettings::default() },
        folder: folder.into(),
        mount: MountSettings { access, threads: MountSettings::THREADS, calendar: Calendar::new(SystemTime::now) },
    })
}

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
use ishigaki_logpool_fs::{Access, Calendar, Mount, MountSettings};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let data = arguments.next().ok_or("serve DATA NAME:PROFILE:FOLDER[:USER:GROUP] …")?;
    let directory = Arc::new(FileDirectory::open(&data)?);
    let _lock = directory.lock()?;
    let pool = Pool::open_together(directory, Settings::default())?;
    let mut mounts = Vec::new();
    for argument in arguments {
        mounts.push(mount(&pool, &argument)?);
    }
    println!("serving");
    std::io::stdout().flush()?;
    std::io::stdin().read_line(&mut String::new())?;
    drop(mounts);
    pool.close()?;
    Ok(())
}

fn mount(pool: &Pool, argument: &str) -> Result<Mount, Box<dyn Error>> {
    let parts: Vec<&str> = argument.split(':').collect();
    let (name, profile, folder, access) = match parts[..] {
        [name, profile, folder] => (name, profile, folder, Access::own()),
        [name, profile, folder, user, group] => {
            (name, profile, folder, Access { user: user.parse()?, group: group.parse()? })
        }
        _ => return Err(format!("`{argument}` is not NAME:PROFILE:FOLDER[:USER:GROUP]").into()),
    };
    let member = if pool.members().iter().any(|member| member == name) {
        pool.member(name)?
    } else {
        pool.add(name, MemberSettings { profile: profile.parse()?, ..MemberSettings::default() })?
    };
    let settings = MountSettings { access, threads: MountSettings::THREADS, calendar: Calendar::new(SystemTime::now) };
    Ok(Mount::new(member, folder, &settings)?)
}

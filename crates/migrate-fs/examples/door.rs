//! A door on a directory in which nothing is missing, until the standard input ends.
//!
//! `cargo run --release -p ishigaki-migrate-fs --example door -- DESTINATION FOLDER`; takes root.

use std::error::Error;
use std::io::{Read, stdin};
use std::path::PathBuf;
use std::sync::Arc;

use ishigaki_migrate_fs::{AllHere, Door};

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [destination, folder] = &paths[..] else {
        println!("usage: door DESTINATION FOLDER");
        return if paths.is_empty() { Ok(()) } else { Err("give the destination and the folder".into()) };
    };
    let door = Door::open(destination, folder, Arc::new(AllHere))?;
    stdin().read_to_end(&mut Vec::new())?;
    println!("{:?}", door.counts());
    Ok(())
}

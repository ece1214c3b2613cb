//! A bank: several threads move money between accounts, and not a coin is lost.
//!
//! ```sh
//! cargo run --release -p ishigaki-txn --example bank            # in a temporary directory
//! cargo run --release -p ishigaki-txn --example bank -- ./bank  # in one that stays
//! ```
//!
//! It shows what a program that embeds the engine does: open, make tables, run transactions from many threads, leave, and
//! find everything again.

use std::error::Error;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::time::{Duration, Instant};

use ishigaki_base::random::Seed;
use ishigaki_txn::{Database, Session, Settings, TableId, Transaction};

const ACCOUNTS: u32 = 100;
const OPENING_BALANCE: u64 = 1000;
const TELLERS: u64 = 4;
const OPENING_HOURS: Duration = Duration::from_secs(1);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    match std::env::args().nth(1) {
        Some(path) => business_day(Path::new(&path)),
        None => business_day(tempfile::tempdir()?.path()),
    }
}

fn business_day(path: &Path) -> Result<()> {
    let database = Database::open(path, Settings::default())?;
    let accounts = database.session().run(found_bank)?;
    let before = audit(&database.session(), accounts)?;

    let begun = Instant::now();
    let transfers = std::thread::scope(|scope| {
        // One session for each thread: each goes to a log stream of its own, and they are durable in parallel.
        let tellers = (0..TELLERS).map(|teller| {
            let session = database.session();
            scope.spawn(move || serve(&session, accounts, Seed(teller), begun))
        });
        let tellers: Vec<_> = tellers.collect();
        tellers.into_iter().map(|teller| teller.join().expect("a teller does not panic")).sum::<Result<u64>>()
    })?;
    println!("{transfers} transfers by {TELLERS} tellers in {:.1?}", begun.elapsed());

    // Closing tells of errors, which merely dropping the database would swallow. A crash here would lose nothing either.
    database.close()?;

    let database = Database::open(path, Settings::default())?;
    println!(
        "opened again: {} records replayed in {:.1?}",
        database.recovery().log.records,
        database.recovery().elapsed
    );
    let after = audit(&database.session(), accounts)?;
    println!("the vault holds {after}, and held {before} before");
    if before != after {
        return Err("money was lost or made".into());
    }
    Ok(())
}

/// The accounts' table; made, with money in it, in the same transaction if it is not there.
fn found_bank(txn: &mut Transaction) -> ishigaki_txn::Result<TableId> {
    if let Some(accounts) = txn.table("accounts")? {
        return Ok(accounts);
    }
    let accounts = txn.create_table("accounts")?;
    for account in 0..ACCOUNTS {
        txn.insert(accounts, &key(account), &OPENING_BALANCE.to_le_bytes())?;
    }
    Ok(accounts)
}

/// Keys are ordered as bytes, so numbers are stored with the high byte first.
fn key(account: u32) -> [u8; 4] {
    account.to_be_bytes()
}

/// Moves random sums between random accounts until closing time.
fn serve(session: &Session, accounts: TableId, seed: Seed, begun: Instant) -> Result<u64> {
    let mut random = seed.generator();
    let mut transfers = 0;
    while begun.elapsed() < OPENING_HOURS {
        let (from, to) = (random.u32(..ACCOUNTS), random.u32(..ACCOUNTS));
        let sum = random.u64(1..=50);
        // `run` starts again when another transaction is in the way, and returns when the transfer is durable: only then
        // may a customer be told of it.
        let done = session.run(|txn| transfer(txn, accounts, from, to, sum))?;
        transfers += u64::from(done);
    }
    Ok(transfers)
}

/// Moves `sum`, unless the account does not have it.
fn transfer(txn: &mut Transaction, accounts: TableId, from: u32, to: u32, sum: u64) -> Result<bool> {
    let Some(rest) = balance(txn, accounts, from)?.checked_sub(sum) else { return Ok(false) };
    txn.put(accounts, &key(from), &rest.to_le_bytes())?;
    // Read after the first write: from an account to itself nothing changes, because a transaction sees its own writes.
    let grown = balance(txn, accounts, to)? + sum;
    txn.put(accounts, &key(to), &grown.to_le_bytes())?;
    Ok(true)
}

fn balance(txn: &mut Transaction, accounts: TableId, account: u32) -> Result<u64> {
    let bytes = txn.get(accounts, &key(account))?.ok_or("there is no such account")?;
    Ok(u64::from_le_bytes(bytes.as_slice().try_into()?))
}

/// What all accounts hold together, at one moment: no transfer can come in between.
fn audit(session: &Session, accounts: TableId) -> Result<u64> {
    session.run(|txn| {
        let mut total = 0;
        txn.scan(accounts, (Bound::Unbounded, Bound::Unbounded), |_, balance| {
            total += balance.try_into().map_or(0, u64::from_le_bytes);
            ControlFlow::Continue(())
        })?;
        Ok(total)
    })
}

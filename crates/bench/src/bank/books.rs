//! The books: what the bank's tables hold, and whether it fits together.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, ControlFlow};

use ishigaki_txn::{self as txn, Database, TableId, Transaction};

use super::{OPENING_BALANCE, Settings, audit};
use crate::Result;

const ACCOUNTS: &str = "account";
const JOURNAL: &str = "journal";

/// One transfer, as the journal has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The account that it left.
    pub from: u32,
    /// The account that it went to.
    pub to: u32,
    /// How much.
    pub amount: u32,
}

/// One account, as its table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) balance: i64,
    /// Transfers from or to it. A wrong balance can cancel out, a count that only grows can not.
    pub(super) transfers: u64,
}

/// The tables of an open bank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    pub(super) accounts: TableId,
    pub(super) journal: TableId,
}

/// Everything that the bank's tables hold at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// The transfers by session and sequence.
    pub journal: BTreeMap<(u32, u64), Entry>,
    accounts: BTreeMap<u32, Account>,
    /// What a bank can not hold: a key or value of the wrong length, one table without the other.
    oddities: Vec<String>,
}

/// What right books say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many accounts there are.
    pub accounts: u64,
    /// Money in all accounts; the same at all times.
    pub total: i64,
    /// How many transfers there were.
    pub transfers: u64,
    /// The last sequence of each session; sequences begin with 0.
    pub last: BTreeMap<u32, u64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accounts, total, transfers, last } = self;
        write!(f, "the books are right: {accounts} accounts hold {total} after {transfers} transfers")?;
        last.iter().try_for_each(|(session, sequence)| write!(f, "\n  session {session}: last sequence {sequence}"))
    }
}

impl Account {
    fn to_value(self) -> [u8; 16] {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&self.balance.to_be_bytes());
        value[8..].copy_from_slice(&self.transfers.to_be_bytes());
        value
    }

    fn from_value(value: &[u8]) -> Option<Self> {
        let (balance, transfers) = value.split_first_chunk()?;
        let transfers = u64::from_be_bytes(transfers.try_into().ok()?);
        Some(Self { balance: i64::from_be_bytes(*balance), transfers })
    }
}

impl Entry {
    fn to_value(self) -> [u8; 12] {
        let mut value = [0; 12];
        for (to, number) in value.chunks_exact_mut(4).zip([self.from, self.to, self.amount]) {
            to.copy_from_slice(&number.to_be_bytes());
        }
        value
    }

    fn from_value(value: &[u8]) -> Option<Self> {
        let value: &[u8; 12] = value.try_into().ok()?;
        let number = |at: usize| u32::from_be_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]]);
        Some(Self { from: number(0), to: number(4), amount: number(8) })
    }
}

impl Tables {
    fn find(transaction: &mut Transaction) -> txn::Result<(Option<TableId>, Option<TableId>)> {
        Ok((transaction.table(ACCOUNTS)?, transaction.table(JOURNAL)?))
    }

    /// Makes the tables and opens the accounts, in the given transaction.
    fn found(transaction: &mut Transaction, count: u32) -> txn::Result<Self> {
        let (accounts, journal) = (transaction.create_table(ACCOUNTS)?, transaction.create_table(JOURNAL)?);
        let opening = Account { balance: OPENING_BALANCE, transfers: 0 }.to_value();
        for account in 0..count {
            transaction.insert(accounts, &account.to_be_bytes(), &opening)?;
        }
        Ok(Self { accounts, journal })
    }

    /// `None` where the account is missing or unreadable.
    pub(super) fn account(self, transaction: &mut Transaction, account: u32) -> txn::Result<Option<Account>> {
        Ok(transaction.get_with(self.accounts, &account.to_be_bytes(), Account::from_value)?.flatten())
    }

    pub(super) fn set_account(self, transaction: &mut Transaction, account: u32, to: Account) -> txn::Result<()> {
        transaction.put(self.accounts, &account.to_be_bytes(), &to.to_value())
    }

    pub(super) fn enter(self, transaction: &mut Transaction, at: (u32, u64), entry: Entry) -> txn::Result<()> {
        let mut key = [0; 12];
        key[..4].copy_from_slice(&at.0.to_be_bytes());
        key[4..].copy_from_slice(&at.1.to_be_bytes());
        transaction.insert(self.journal, &key, &entry.to_value())
    }
}

/// The tables of the bank and its books, checked. Founds the bank where there is none.
pub(super) fn found_or_read(database: &Database, settings: &Settings) -> Result<(Tables, Books)> {
    let tables = database.session().run(|transaction| -> txn::Result<Tables> {
        match Tables::find(transaction)? {
            (Some(accounts), Some(journal)) => Ok(Tables { accounts, journal }),
            // With one table and not the other, this finds a table there already and says so.
            _ => Tables::found(transaction, settings.accounts),
        }
    })?;
    let books = Books::read(database)?;
    audit(settings, &books)?;
    Ok((tables, books))
}

impl Books {
    /// Reads both tables in one transaction.
    pub fn read(database: &Database) -> Result<Self> {
        Ok(database.session().run(|transaction| -> txn::Result<Self> {
            let mut books = Self::default();
            let (accounts, journal) = Tables::find(transaction)?;
            if accounts.is_some() != journal.is_some() {
                books.oddities.push("only one of the two tables is there".to_owned());
            }
            if let Some(table) = accounts {
                scan(transaction, table, |key, value| books.take_account(key, value))?;
            }
            if let Some(table) = journal {
                scan(transaction, table, |key, value| books.take_entry(key, value))?;
            }
            Ok(books)
        })?)
    }

    fn take_account(&mut self, key: &[u8], value: &[u8]) {
        match (<[u8; 4]>::try_from(key), Account::from_value(value)) {
            (Ok(key), Some(account)) => drop(self.accounts.insert(u32::from_be_bytes(key), account)),
            _ => self.oddities.push(format!("account {key:02x?} can not hold {value:02x?}")),
        }
    }

    fn take_entry(&mut self, key: &[u8], value: &[u8]) {
        let place = key.split_first_chunk().and_then(|(session, sequence)| {
            Some((u32::from_be_bytes(*session), u64::from_be_bytes(sequence.try_into().ok()?)))
        });
        match (place, Entry::from_value(value)) {
            (Some(place), Some(entry)) => drop(self.journal.insert(place, entry)),
            _ => self.oddities.push(format!("journal entry {key:02x?} can not hold {value:02x?}")),
        }
    }

    /// How many accounts there are; they are numbered from 0.
    pub(super) fn accounts(&self) -> u32 {
        self.accounts.len() as u32
    }

    /// The sequence that the session's next transfer gets.
    pub(super) fn next_sequence(&self, session: u32) -> u64 {
        let last = self.journal.range((session, 0)..=(session, u64::MAX)).next_back();
        last.map_or(0, |((_, sequence), _)| sequence + 1)
    }

    /// Whether everything fits together; the error says what does not.
    pub fn audit(&self) -> std::result::Result<Report, String> {
        if let Some(oddity) = self.oddities.first() {
            return Err(oddity.clone());
        }
        let opening = Account { balance: OPENING_BALANCE, transfers: 0 };
        let mut expected: BTreeMap<u32, Account> = (0..self.accounts()).map(|account| (account, opening)).collect();
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        for (&(session, sequence), entry) in &self.journal {
            let next = last.get(&session).map_or(0, |last| last + 1);
            if sequence != next {
                return Err(format!("session {session} has a transfer {sequence} and none {next} before it"));
            }
            last.insert(session, sequence);
            for (account, change) in [(entry.from, -i64::from(entry.amount)), (entry.to, i64::from(entry.amount))] {
                let Some(account) = expected.get_mut(&account) else {
                    return Err(format!(
                        "transfer {sequence} of session {session} names account {account}, which is not there"
                    ));
                };
                account.balance += change;
                account.transfers += 1;
            }
        }
        for ((number, found), (_, right)) in self.accounts.iter().zip(&expected) {
            if found != right {
                let Account { balance, transfers } = found;
                return Err(format!(
                    "account {number} holds {balance} after {transfers} transfers; by the journal it is {} after {}",
                    right.balance, right.transfers
                ));
            }
        }
        let total: i64 = self.accounts.values().map(|account| account.balance).sum();
        if !self.accounts.keys().copied().eq(0..self.accounts()) {
            return Err("the accounts are not numbered from 0 without holes".to_owned());
        }
        if total != OPENING_BALANCE * i64::from(self.accounts()) {
            return Err(format!("{} accounts hold {total} together, which was never paid in", self.accounts()));
        }
        Ok(Report { accounts: u64::from(self.accounts()), total, transfers: self.journal.len() as u64, last })
    }
}

fn scan(transaction: &mut Transaction, table: TableId, mut take: impl FnMut(&[u8], &[u8])) -> txn::Result<()> {
    transaction.scan(table, (Bound::Unbounded, Bound::Unbounded), |key, value| {
        take(key, value);
        ControlFlow::Continue(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books(entries: &[(u32, u64, Entry)], balances: &[(i64, u64)]) -> Books {
        Books {
            journal: entries.iter().map(|(session, sequence, entry)| ((*session, *sequence), *entry)).collect(),
            accounts: (0..).zip(balances.iter().map(|&(balance, transfers)| Account { balance, transfers })).collect(),
            oddities: Vec::new(),
        }
    }

    const MOVE: Entry = Entry { from: 0, to: 1, amount: 10 };

    #[test]
    fn right_books_pass() {
        let report = books(&[(7, 0, MOVE), (7, 1, MOVE)], &[(980, 2), (1020, 2)]).audit().unwrap();
        assert_eq!((report.accounts, report.total, report.transfers), (2, 2000, 2));
        assert_eq!(report.last, BTreeMap::from([(7, 1)]));
        assert!(books(&[], &[]).audit().is_ok(), "a bank that was never founded");
    }

    #[test]
    fn half_a_transfer_is_found_out() {
        assert!(books(&[(0, 0, MOVE)], &[(990, 1), (1000, 0)]).audit().unwrap_err().contains("account 1"));
        assert!(books(&[(0, 0, MOVE)], &[(1000, 0), (1000, 0)]).audit().unwrap_err().contains("account 0"));
        assert!(books(&[], &[(990, 1), (1010, 1)]).audit().unwrap_err().contains("account 0"));
    }

    #[test]
    fn a_balance_that_cancels_out_is_found_out_by_its_count() {
        let back = Entry { from: 1, to: 0, ..MOVE };
        let entries = [(0, 0, MOVE), (0, 1, back)];
        assert!(books(&entries, &[(1000, 0), (1000, 0)]).audit().is_err());
        assert!(books(&entries, &[(1000, 2), (1000, 2)]).audit().is_ok());
    }

    #[test]
    fn a_hole_in_a_session_is_found_out() {
        let hole = books(&[(0, 0, MOVE), (0, 2, MOVE)], &[(980, 2), (1020, 2)]).audit().unwrap_err();
        assert!(hole.contains("none 1 before it"), "{hole}");
        assert!(books(&[(3, 1, MOVE)], &[(990, 1), (1010, 1)]).audit().is_err());
    }

    #[test]
    fn foreign_bytes_are_found_out() {
        let mut books = books(&[], &[(1000, 0)]);
        books.take_entry(b"short", &MOVE.to_value());
        assert!(books.audit().unwrap_err().contains("can not hold"));
    }
}

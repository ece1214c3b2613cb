//! A small program on an embedded SQL database: a warehouse that books stones in and out.
//!
//! It shows what a program needs: opening a directory, statements and results, a transaction of several statements, running
//! it again after a conflict, a file loaded with COPY, and that the data is there after reopening.
//!
//! ```text
//! cargo run --example sql_program
//! ```

use std::error::Error;

use ishigaki_sql::arrow::array::AsArray;
use ishigaki_sql::arrow::datatypes::Int64Type;
use ishigaki_sql::{Database, Session, Settings};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("data");

    // One process opens a directory at a time; any number of sessions may then work in it, from any thread.
    let database = Database::open(&data, Settings::default())?;
    let session = database.session();
    session.execute_blocking(
        "CREATE TABLE stones (
             id       BIGINT PRIMARY KEY,
             kind     TEXT NOT NULL,
             weight   DECIMAL(8, 2),
             in_stock BIGINT NOT NULL DEFAULT 0
         );
         CREATE TABLE bookings (
             stone  BIGINT,
             number BIGINT,
             amount BIGINT NOT NULL,
             PRIMARY KEY (stone, number)
         )",
    )?;

    // Rows from a file. The first line names the columns; a column that it does not name gets its default.
    let file = directory.path().join("stones.csv");
    std::fs::write(&file, "id,kind,weight\n1,corner,812.50\n2,wedge,3.75\n3,facing,120.00\n")?;
    let outcome = session.execute_blocking(&format!("COPY stones FROM '{}'", file.display()))?;
    println!("{} kinds of stones loaded", outcome[0].affected().unwrap_or_default());

    // Each booking changes two tables, both or neither.
    for (stone, amount) in [(1, 4), (2, 250), (3, 60), (2, -75)] {
        book(&session, stone, amount)?;
    }
    // This one would take out more than there is, so nothing of it remains.
    match book(&session, 1, -5) {
        Err(error) => println!("refused: {error}"),
        Ok(()) => return Err("the warehouse gave out stones that it does not have".into()),
    }

    // Results come as Arrow batches, column by column.
    for batch in session.query_blocking(
        "SELECT s.kind, s.in_stock, count(*) AS bookings
         FROM stones s JOIN bookings b ON b.stone = s.id
         GROUP BY s.kind, s.in_stock ORDER BY s.kind",
    )? {
        let kinds = batch.column(0).as_string_view();
        let stock = batch.column(1).as_primitive::<Int64Type>();
        let bookings = batch.column(2).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            println!("{:8} {:4} in stock after {} bookings", kinds.value(row), stock.value(row), bookings.value(row));
        }
    }

    // Whatever was committed is on disk.
    drop(session);
    drop(database);
    let database = Database::open(&data, Settings::default())?;
    let total = number(&database.session(), "SELECT CAST(sum(in_stock) AS BIGINT) FROM stones")?;
    println!("{total} stones after reopening");
    assert_eq!(total, 4 + 250 + 60 - 75);
    Ok(())
}

/// Books an amount of stones in, or out when it is negative; runs the transaction again when another was in the way.
fn book(session: &Session, stone: i64, amount: i64) -> Result<(), Box<dyn Error>> {
    loop {
        let booked = try_to_book(session, stone, amount);
        if let Err(error) = &booked {
            // After an error the transaction is still open: it is for the program to say what becomes of it.
            session.execute_blocking("ROLLBACK")?;
            let conflict = error.downcast_ref::<ishigaki_sql::Error>().is_some_and(|error| error.kind().is_retryable());
            if conflict {
                continue;
            }
        }
        return booked;
    }
}

fn try_to_book(session: &Session, stone: i64, amount: i64) -> Result<(), Box<dyn Error>> {
    session.execute_blocking("BEGIN")?;
    session.execute_blocking(&format!(
        "INSERT INTO bookings SELECT {stone}, coalesce(max(number), 0) + 1, {amount} FROM bookings WHERE stone = {stone};
         UPDATE stones SET in_stock = in_stock + {amount} WHERE id = {stone}"
    ))?;
    let left = number(session, &format!("SELECT in_stock FROM stones WHERE id = {stone}"))?;
    if left < 0 {
        return Err(format!("there would be {left} of stone {stone} in stock").into());
    }
    session.execute_blocking("COMMIT")?;
    Ok(())
}

/// The one number that a query yields.
fn number(session: &Session, query: &str) -> Result<i64, Box<dyn Error>> {
    let batches = session.query_blocking(query)?;
    let batch = batches.iter().find(|batch| batch.num_rows() == 1).ok_or("the query yields no row")?;
    Ok(batch.column(0).as_primitive::<Int64Type>().value(0))
}

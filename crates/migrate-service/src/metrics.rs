//! How far a migration is, in Prometheus' words.

use std::fmt;

use ishigaki_service::Page;

use crate::status::{Phase, Status};

/// The figures of a status, and how many objects the kernel knows.
pub(crate) fn text(status: &Status, known: u64) -> String {
    let mut page = Page::default();
    // Writing to memory does not fail.
    let _ = write(&mut page, status, known);
    page.text()
}

fn write(page: &mut Page, status: &Status, known: u64) -> fmt::Result {
    page.figure("migrate_uptime_seconds", "gauge", "For how long the service has served", status.uptime_seconds)?;
    let is = |phase: Phase| u64::from(status.phase == phase);
    for (name, kind, help, value) in [
        ("mounted", "gauge", "1 if the folder answers", status.is_mounted.into()),
        ("crawling", "gauge", "1 while the crawler copies", is(Phase::Crawling)),
        ("paused", "gauge", "1 while the crawler was told to pause", is(Phase::Paused)),
        ("done", "gauge", "1 when the crawler has nothing left to do", is(Phase::Done) + is(Phase::Finished)),
        ("directories", "gauge", "Directories that are known", status.directories),
        ("directories_listed", "gauge", "Directories whose names are here", status.listed),
        ("files", "gauge", "Files that are known", status.files),
        ("files_whole", "gauge", "Files that are whole here", status.whole),
        ("bytes", "gauge", "Bytes of the files that are known", status.bytes),
        ("bytes_here", "gauge", "Bytes that need not be copied any more", status.here),
        ("copied_bytes_total", "counter", "Bytes that this process has copied", status.copied),
        ("rate_bytes", "gauge", "Bytes copied a second, over the last quarter of a minute", status.rate),
        ("waiting_calls", "gauge", "Calls that wait for a source that does not answer", status.waiting),
        ("problems", "gauge", "Objects that could not be copied, conflicts among them", status.problems),
        ("conflicts", "gauge", "Files that have changed at the source, and must be decided on", status.conflicts),
        (
            "opened_passed_total",
            "counter",
            "Opened files that the kernel reads and writes itself",
            status.opened_passed,
        ),
        ("opened_served_total", "counter", "Opened files that the service reads and writes", status.opened_served),
        ("known_objects", "gauge", "Objects of the folder that the kernel knows", known),
    ] {
        page.figure(&format!("migrate_{name}"), kind, help, value)?;
    }
    page.head(
        "migrate_source_answers",
        "gauge",
        "0 while that source does not answer the calls that wait for it, or has been given up",
    )?;
    for source in &status.sources {
        let answers = status.away.iter().all(|away| away.from != source.from);
        page.labelled("migrate_source_answers", "source", &source.from, u64::from(answers))?;
    }
    Ok(())
}

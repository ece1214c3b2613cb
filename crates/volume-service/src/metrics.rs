//! What a pool does, in Prometheus' words.

use std::fmt;

use ishigaki_service::Page;

use crate::status::{Status, VolumeStatus};

pub(crate) fn text(status: &Status) -> String {
    let mut page = Page::default();
    // Writing to memory does not fail.
    let _ = write(&mut page, status);
    page.text()
}

/// A figure of a volume.
type Figure = fn(&VolumeStatus) -> u64;

fn write(page: &mut Page, status: &Status) -> fmt::Result {
    page.figure("volume_uptime_seconds", "gauge", "For how long the service has served", status.uptime_seconds)?;
    for (name, help, value) in [
        ("slots", "Chunks that the fast device has room for", status.slots),
        ("slots_used", "Chunks that are on the fast device", status.used_slots),
        ("pool_fast_bytes", "Bytes that are on the fast device", status.fast_bytes),
        ("pool_dirty_bytes", "Bytes that are on the fast device alone", status.dirty_bytes),
        (
            "prefetch_wanted_bytes",
            "Bytes of chunks that are worth bringing and are not there yet",
            status.prefetch.wanted_bytes,
        ),
        ("fast_worn", "1 while nothing comes to the fast device because of its endurance", status.is_worn.into()),
        ("away", "Volumes that can not be opened", status.away.len() as u64),
        (
            "silent",
            "Of these, volumes whose slow device does not answer",
            status.away.iter().filter(|away| away.is_silent).count() as u64,
        ),
    ] {
        page.figure(&format!("volume_{name}"), "gauge", help, value)?;
    }
    for (name, help, value) in [
        ("fast_written_bytes_total", "Bytes written to the fast device", status.written_bytes),
        (
            "prefetch_brought_bytes_total",
            "Bytes brought to it before they were asked for",
            status.prefetch.brought_bytes,
        ),
    ] {
        page.figure(&format!("volume_{name}"), "counter", help, value)?;
    }
    for (name, help, value) in [
        ("share", "The share of the time for which chunks may be brought", status.prefetch.share),
        ("used", "The share of the last window for which chunks were brought", status.prefetch.used),
        ("work", "Work done a second in the last window", status.prefetch.work),
    ] {
        page.figure(&format!("volume_prefetch_{name}"), "gauge", help, value)?;
    }
    let each: [(&str, &str, &str, Figure); 8] = [
        ("size_bytes", "gauge", "Bytes of the volume", |volume| volume.size),
        ("hit_bytes_total", "counter", "Bytes read from the fast device", |volume| volume.hit_bytes),
        ("miss_bytes_total", "counter", "Bytes read from the slow device", |volume| volume.miss_bytes),
        ("fast_bytes", "gauge", "Bytes of the volume that are on the fast device", |volume| volume.fast_bytes),
        ("dirty_bytes", "gauge", "Bytes of the volume that are on the fast device alone", |volume| volume.dirty_bytes),
        ("in_use", "gauge", "1 while a virtual machine is connected or a file system mounted", |volume| {
            volume.door.as_ref().is_some_and(|door| door.in_use).into()
        }),
        ("pinned", "gauge", "1 while all of the volume is to be on the fast device", |volume| volume.pinned.into()),
        ("trouble", "gauge", "1 while the volume is not served as it should be", |volume| {
            volume.trouble.is_some().into()
        }),
    ];
    for (name, kind, help, figure) in each {
        let name = format!("volume_{name}");
        page.head(&name, kind, help)?;
        for volume in &status.volumes {
            page.labelled(&name, "volume", &volume.name, figure(volume))?;
        }
    }
    Ok(())
}

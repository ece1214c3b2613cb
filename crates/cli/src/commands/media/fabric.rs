//! `ishigaki media probe --fabric`: which networks libfabric knows on this host.

use std::fmt::Write as _;
use std::io::{self, Write};

use ishigaki_base::ByteSize;
use ishigaki_fabric::{EndpointKind, Libfabric, Provider};
use serde_json::{Value, json};

use crate::failure::Failure;

pub(super) fn run(json: bool) -> Result<(), Failure> {
    let found = Libfabric::probe().map_err(|error| Failure::of(error.kind(), error))?;
    let text = match (&found, json) {
        (Some(found), true) => {
            found.providers.iter().fold(String::new(), |text, one| text + &line(one).to_string() + "\n")
        }
        (Some(found), false) => table(found),
        (None, true) => String::new(),
        (None, false) => {
            "There is no libfabric on this host (Debian: libfabric1). Nothing here needs it: storage nodes \
                          and their clients talk over TCP.\n"
                .to_owned()
        }
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn line(provider: &Provider) -> Value {
    json!({
        "provider": provider.name,
        "version": version(provider.version),
        "fabric": provider.fabric,
        "domain": provider.domain,
        "endpoint": kind(provider.endpoint),
        "messages": provider.messages,
        "one_sided": provider.one_sided,
        "local_registration": provider.local_registration,
        "virtual_addresses": provider.virtual_addresses,
        "provider_keys": provider.provider_keys,
        "longest_message": provider.longest_message,
    })
}

fn table(found: &Libfabric) -> String {
    let mut text = format!("libfabric {}; storage nodes talk over TCP all the same\n\n", version(found.version));
    let heads = ["provider", "fabric", "domain", "endpoint", "messages", "one-sided", "longest"].map(str::to_owned);
    let mut rows = vec![heads];
    for provider in &found.providers {
        let row = row(provider);
        // A provider names the same way once for each of its protocols.
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

fn row(provider: &Provider) -> [String; 7] {
    let known = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    [
        format!("{} {}", provider.name, version(provider.version)),
        provider.fabric.clone(),
        provider.domain.clone(),
        kind(provider.endpoint).to_owned(),
        known(provider.messages),
        known(provider.one_sided),
        ByteSize(provider.longest_message).to_string(),
    ]
}

fn kind(endpoint: EndpointKind) -> &'static str {
    match endpoint {
        EndpointKind::Connected => "connected",
        EndpointKind::Reliable => "reliable",
        EndpointKind::Datagram => "datagram",
        EndpointKind::Other => "other",
    }
}

fn version((major, minor): (u16, u16)) -> String {
    format!("{major}.{minor}")
}

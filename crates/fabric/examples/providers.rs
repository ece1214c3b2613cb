//! What libfabric offers on this host.
//!
//! `cargo run -p ishigaki-fabric --example providers`

use ishigaki_fabric::{Error, Libfabric};

fn main() -> Result<(), Error> {
    let Some(found) = Libfabric::probe()? else {
        println!("there is no libfabric here (Debian: libfabric1)");
        return Ok(());
    };
    println!("libfabric {}.{}", found.version.0, found.version.1);
    println!("{:<24} {:<10} {:<20} {:<10} one-sided", "provider", "device", "network", "endpoint");
    for provider in &found.providers {
        let (kind, one_sided) = (format!("{:?}", provider.endpoint), if provider.one_sided { "yes" } else { "no" });
        println!("{:<24} {:<10} {:<20} {kind:<10} {one_sided}", provider.name, provider.domain, provider.fabric);
    }
    Ok(())
}

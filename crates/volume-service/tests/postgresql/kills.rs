//! The service is killed while the machine goes on, and the machine is killed while the service goes on, or with it.

use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_volume_service::{Request, ask, make};

use crate::stage::{NAME, Service, config, socket};
use crate::{Folder, check, cluster, hear, last_told, machine};

/// The fast device has room for a part of what the server uses.
const FAST: ByteSize = ByteSize::mib(13);

/// So many kills of the service under a machine that goes on, and of the machine. What was killed first, and whether the service goes on, is drawn.
pub(crate) fn kills(seed: Seed, count: u64) {
    let folder = Folder::new();
    let place = folder.path();
    let config = config(place);
    make(&config, Some(FAST)).unwrap();
    let image = place.join("disk").join(NAME);
    cluster::make(&image);
    ask(&config, &Request::Attach { name: NAME.to_owned(), mode: "write-back".to_owned() }).unwrap();
    let (mut service, mut told) = (Service::start(place), 0);
    for boot in 0..count {
        let mut random = seed.derive(boot).generator();
        // In the middle of whatever it does.
        let mut pause = || std::thread::sleep(Duration::from_millis(random.u64(0..300)));
        let guest = machine(&socket(place));
        check(&guest, told);
        hear(&guest, 20);
        pause();
        service.kill();
        service = Service::start(place);
        // More than it may have said before the kill.
        told = hear(&guest, 100);
        pause();
        let said = match boot % 3 {
            0 => guest.kill(),
            1 => {
                service.kill();
                pause();
                let said = guest.kill();
                service = Service::start(place);
                said
            }
            _ => {
                let said = guest.kill();
                service.kill();
                service = Service::start(place);
                said
            }
        };
        assert!(said.iter().all(|line| !line.starts_with("failed")), "{said:?}");
        told = last_told(&said, told);
        println!("kill {} of {count}: a client was told of {told}", boot + 1);
    }
    let guest = machine(&socket(place));
    check(&guest, told);
    told = hear(&guest, 20);
    told = last_told(&guest.kill(), told);
    service.kill();
    ask(&config, &Request::Detach { name: NAME.to_owned() }).unwrap();
    cluster::judge(&image, told);
}

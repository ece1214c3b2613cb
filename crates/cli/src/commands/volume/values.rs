//! Values of arguments: what can not be is an error of the command line, told before anything is asked or made.

use ishigaki_base::ByteSize;
use ishigaki_device::check_name;
use ishigaki_volume_service::{BLOCK, Mode};

/// A number of bytes.
pub(super) fn size(text: &str) -> Result<ByteSize, String> {
    text.parse().map_err(|_| format!("`{text}` is no number of bytes, as in 512MiB or 100GiB"))
}

/// The size of a volume.
pub(super) fn size_of_volume(text: &str) -> Result<ByteSize, String> {
    let bytes = size(text)?;
    if bytes.0 > 0 && bytes.0.is_multiple_of(BLOCK) {
        return Ok(bytes);
    }
    Err(format!("a volume has whole blocks of 4 KiB, one at least, not {} bytes", bytes.0))
}

/// The name of a volume.
pub(super) fn name(text: &str) -> Result<String, String> {
    let reason = |error| format!("{error}; a volume has the name of its file in the slow directory, without a path");
    check_name(text).map(|()| text.to_owned()).map_err(reason)
}

/// What becomes of a volume's writes, as the service is told.
pub(super) fn mode(text: &str) -> Result<String, String> {
    text.parse::<Mode>().map(|mode| mode.to_string()).map_err(|error| error.to_string())
}

/// Where a service listens.
pub(super) fn address(text: &str) -> Result<String, String> {
    let is_one = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0);
    if text.rsplit_once(':').is_some_and(is_one) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is no address; write it as HOST:PORT, as in 192.0.2.1:9118"))
}

/// Where a service is reached from within a machine: over the network, or by a port of the machine.
pub(super) fn way_to_host(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        address(text).map_err(|reason| format!("{reason}, or the path of a port as /dev/virtio-ports/ishigaki"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_as_they_are_and_what_can_not_be_is_refused() {
        assert_eq!(size_of_volume("4MiB"), Ok(ByteSize::mib(4)));
        assert_eq!(name("debian.raw"), Ok("debian.raw".to_owned()));
        assert_eq!(mode("read-only"), Ok("read-only".to_owned()));
        assert_eq!(address("[2001:db8::1]:9118"), Ok("[2001:db8::1]:9118".to_owned()));
        for text in ["0", "4097", "much"] {
            assert!(size_of_volume(text).is_err(), "{text}");
        }
        for text in ["", "a/b", "..", "LOCK"] {
            assert!(name(text).is_err(), "{text}");
        }
        assert_eq!(way_to_host("/dev/virtio-ports/ishigaki"), Ok("/dev/virtio-ports/ishigaki".to_owned()));
        for text in ["", "HOST", ":9118", "host:", "host:0", "host:99999"] {
            assert!(address(text).is_err() && way_to_host(text).is_err(), "{text}");
        }
        assert!(mode("write_back").is_err());
    }
}

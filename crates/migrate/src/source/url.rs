//! What addresses of all protocols have in common.

/// A host, and its port where there is one. An IPv6 address stands in brackets.
pub(super) fn split_port(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']')?;
            (name, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    let port = match port {
        Some(port) => Some(port.parse().ok().filter(|port| *port != 0)?),
        None => None,
    };
    (!name.is_empty()).then_some((name, port))
}

/// Bytes that may be written as `%` and two hexadecimal digits; never a zero.
pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let byte = if byte == b'%' {
            let [high, low] = [bytes.next()?, bytes.next()?].map(|digit| char::from(digit).to_digit(16));
            (high? * 16 + low?) as u8
        } else {
            byte
        };
        if byte == 0 {
            return None;
        }
        decoded.push(byte);
    }
    Some(decoded)
}

//! Copies of requests for another server.

use serde_json::json;

use super::forms::{host_and_port, is_host};
use super::reader::Reader;
use super::wanted::Wanted;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    let Some(target) = reader.text("mirror-target") else { return };
    // The copies have the request's own path and query.
    let origin = target.strip_suffix("$request_uri").unwrap_or(target).trim_end_matches('/');
    let (scheme, address) = match origin.split_once("://") {
        Some(("http", address)) => ("", address),
        Some(("https", address)) => ("https://", address),
        _ => return reader.invalid("mirror-target", format!("{target:?} is not a URL")),
    };
    if address.contains(['$', '/', '?']) {
        let instead = "only a server can get copies, with the path of the request; none are sent";
        return reader.unsupported("mirror-target", instead);
    }
    let Some((name, port)) = host_and_port(address).filter(|(name, _)| is_host(name)) else {
        return reader.invalid("mirror-target", format!("{target:?} names no server"));
    };
    let port = port.unwrap_or(if scheme.is_empty() { 80 } else { 443 });
    let address = format!("{name}:{port}");
    let mut policy = json!({ "header": "off" });
    // Without it: the host of the URL, without its port.
    let host = reader.text("mirror-host").unwrap_or(name);
    match is_host(host_and_port(host).map_or("", |(host, _)| host)) {
        true => policy["host"] = host.into(),
        false if host.contains('$') => {}
        false => reader.invalid("mirror-host", format!("{host:?} is not a host; copies have the client's")),
    }
    if reader.text("mirror-request-body") == Some("off") {
        policy["body"] = 0.into();
    }
    wanted.mirror = Some((format!("{scheme}{address}"), policy));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn servers_that_get_copies() {
        let mirror = |target| read_all(&[("mirror-target", target)]).wanted.mirror;
        let to = |host: &str| json!({"header": "off", "host": host});
        for (target, expected) in [
            ("https://b.example$request_uri", Some(("https://b.example:443", "b.example"))),
            ("http://b.example:81", Some(("b.example:81", "b.example"))),
            ("https://b.example/fixed", None),
            ("$scheme://b.example", None),
            ("http://b.example:0", None),
            ("http://user@b.example", None),
        ] {
            let expected = expected.map(|(address, host)| (address.to_owned(), to(host)));
            assert_eq!(mirror(target), expected, "{target}");
        }
    }
}

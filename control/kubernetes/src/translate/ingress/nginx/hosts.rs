//! Properties of whole hosts: further names, TLS that passes through, the `Host` sent upstream.

use super::forms::is_host;
use super::reader::Reader;
use super::wanted::Wanted;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    for alias in reader.list("server-alias") {
        match is_host(alias.strip_prefix("*.").unwrap_or(alias)) {
            true => wanted.aliases.push(alias.to_ascii_lowercase()),
            false => reader.unsupported(
                "server-alias",
                format!("{alias:?} is not a host name; expressions for hosts are not supported"),
            ),
        }
    }
    wanted.passes_tls = reader.is_on("ssl-passthrough");
    match reader.text("upstream-vhost") {
        Some(host) if is_host(host) => wanted.upstream_host = Some(host.to_owned()),
        Some(host) => reader.unsupported(
            "upstream-vhost",
            format!("{host:?} is not a plain host name; endpoints get the client's"),
        ),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::translate::ingress::nginx::Behaviour;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn names() {
        let reading = read_all(&[("server-alias", "B.example, *.c.example"), ("upstream-vhost", "internal")]);
        assert_eq!(reading.wanted.aliases, ["b.example", "*.c.example"]);
        assert_eq!(reading.wanted.upstream_host.as_deref(), Some("internal"));
        let reading = read_all(&[("server-alias", r"~^www\d+\.a\.example$"), ("upstream-vhost", "$host")]);
        assert!(reading.wanted.aliases.is_empty() && reading.wanted.upstream_host.is_none());
        assert!(reading.findings.iter().all(|one| one.behaviour == Behaviour::Unsupported));
    }
}

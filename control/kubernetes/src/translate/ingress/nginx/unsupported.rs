//! Annotations that the gateway does not follow. The table says what to do instead.

use super::reader::Reader;
use super::wanted::Wanted;

/// Reads annotations that only need to be reported.
pub fn report(_: &mut Reader<'_>, _: &mut Wanted) {}

/// Reads client certificates. They keep clients out, so the hosts are not served without them.
pub fn client_certificates(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    if reader.text("auth-tls-verify-client") == Some("off") {
        return;
    }
    if reader.text("auth-tls-secret").is_some() {
        wanted.deny("client certificates are verified at a Gateway only");
        wanted.verifies_clients = true;
    }
}

#[cfg(test)]
mod tests {
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn without_client_certificates_nothing_is_served() {
        let wanted = read_all(&[("auth-tls-secret", "demo/ca")]).wanted;
        assert!(wanted.denied.is_some() && wanted.verifies_clients);
        let off = [("auth-tls-secret", "demo/ca"), ("auth-tls-verify-client", "off")];
        assert!(read_all(&off).wanted.denied.is_none());
        assert!(read_all(&[("auth-tls-verify-depth", "1")]).wanted.denied.is_none());
    }
}

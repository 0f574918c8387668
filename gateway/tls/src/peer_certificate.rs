//! Reads the contents of a certificate, for fields sent upstream, for policies, and for the guard of the
//! admin API. [`PeerCertificate`] wraps a certificate that rustls has already verified; nothing is verified
//! here.

use std::fmt::Write;
use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::distinguished_name::{self, hexadecimal};

/// A certificate that a peer presented and that was verified. All texts are printable ASCII, fit for a field
/// value.
#[derive(Debug)]
pub struct PeerCertificate<'a> {
    der: &'a [u8],
    certificate: X509Certificate<'a>,
}

impl<'a> PeerCertificate<'a> {
    /// Parses a certificate. Returns `None` if this parser cannot read it, although the TLS library could.
    #[must_use]
    pub fn new(der: &'a CertificateDer<'_>) -> Option<Self> {
        let (rest, certificate) = X509Certificate::from_der(der).ok()?;
        rest.is_empty().then_some(Self { der, certificate })
    }

    /// The subject in the notation of RFC 4514: `CN=billing,O=Example`.
    #[must_use]
    pub fn subject(&self) -> String {
        let mut text = String::new();
        distinguished_name::write(&mut text, self.certificate.subject());
        text
    }

    /// The issuer, in the same notation.
    #[must_use]
    pub fn issuer(&self) -> String {
        let mut text = String::new();
        distinguished_name::write(&mut text, self.certificate.issuer());
        text
    }

    /// The serial number in upper-case hexadecimal.
    #[must_use]
    pub fn serial(&self) -> String {
        hexadecimal(self.certificate.raw_serial())
    }

    /// The SHA-256 of the certificate in lower-case hexadecimal.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hexadecimal(digest(&SHA256, self.der).as_ref()).to_ascii_lowercase()
    }

    /// The subject alternative names: `DNS:a.example,URI:spiffe://example/a`. In a name, commas, `%`, blanks
    /// and unprintable characters are percent-encoded, so each comma separates two names.
    #[must_use]
    pub fn names(&self) -> String {
        let Ok(Some(extension)) = self.certificate.subject_alternative_name() else { return String::new() };
        let mut text = String::new();
        for name in &extension.value.general_names {
            let (kind, name) = match name {
                GeneralName::DNSName(name) => ("DNS", encoded(name)),
                GeneralName::URI(name) => ("URI", encoded(name)),
                GeneralName::RFC822Name(name) => ("email", encoded(name)),
                GeneralName::IPAddress(bytes) => match address(bytes) {
                    Some(address) => ("IP", address.to_string()),
                    None => continue,
                },
                _ => continue,
            };
            if !text.is_empty() {
                text.push(',');
            }
            let _ = write!(text, "{kind}:{name}");
        }
        text
    }

    /// The URIs among the subject alternative names, as they are.
    pub(crate) fn uris(&self) -> Vec<&str> {
        let Ok(Some(extension)) = self.certificate.subject_alternative_name() else { return Vec::new() };
        let names = extension.value.general_names.iter();
        names.filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None }).collect()
    }

    /// The start of its validity, in seconds since 1970.
    #[must_use]
    pub fn not_before(&self) -> i64 {
        self.certificate.validity().not_before.timestamp()
    }

    /// The end of its validity, in seconds since 1970.
    #[must_use]
    pub fn not_after(&self) -> i64 {
        self.certificate.validity().not_after.timestamp()
    }

    /// The certificate in PEM, percent-encoded as nginx does (`$ssl_client_escaped_cert`).
    #[must_use]
    pub fn escaped_pem(&self) -> String {
        let mut text = "-----BEGIN%20CERTIFICATE-----%0A".to_owned();
        let base64 = BASE64_STANDARD.encode(self.der);
        // A line holds 64 characters (RFC 7468, 2).
        for line in base64.as_bytes().chunks(64) {
            for byte in line {
                match byte {
                    b'+' => text.push_str("%2B"),
                    b'/' => text.push_str("%2F"),
                    b'=' => text.push_str("%3D"),
                    byte => text.push(char::from(*byte)),
                }
            }
            text.push_str("%0A");
        }
        text.push_str("-----END%20CERTIFICATE-----%0A");
        text
    }

    /// A certificate as the byte sequence of a structured field (RFC 9440, 2.1; RFC 9651, 3.3.5).
    #[must_use]
    pub fn byte_sequence(der: &CertificateDer<'_>) -> String {
        format!(":{}:", BASE64_STANDARD.encode(der))
    }
}

fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b',' | b'%' => drop(write!(text, "%{byte:02X}")),
            b'!'..=b'~' => text.push(char::from(byte)),
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn contents_of_a_certificate() {
        let mut params =
            CertificateParams::new(vec!["a.example".to_owned(), "10.0.0.1".to_owned()]).expect("names");
        params.distinguished_name.push(DnType::OrganizationName, "Example, Ltd.");
        params.distinguished_name.push(DnType::CommonName, "b\u{ef}lling");
        params.subject_alt_names.push(SanType::URI("spiffe://example/a,b".try_into().expect("a URI")));
        params.serial_number = Some(vec![0x01, 0xab].into());
        let key = KeyPair::generate().expect("a key");
        let made = params.self_signed(&key).expect("signed");
        let presented = PeerCertificate::new(made.der()).expect("it can be read");
        let subject = presented.subject();
        assert!(subject.contains("O=Example\\, Ltd.") && subject.contains("CN=b\\C3\\AFlling"), "{subject}");
        assert!(!subject.contains("rcgen"), "{subject}");
        assert_eq!(presented.issuer(), subject);
        assert_eq!(presented.names(), "DNS:a.example,IP:10.0.0.1,URI:spiffe://example/a%2Cb");
        assert_eq!(presented.serial(), "01AB");
        assert_eq!(presented.fingerprint().len(), 64);
        assert!(presented.not_after() > 1_700_000_000);
        let pem = presented.escaped_pem();
        assert!(pem.starts_with("-----BEGIN%20CERTIFICATE-----%0AMII") && pem.is_ascii());
        let sequence = PeerCertificate::byte_sequence(made.der());
        assert_eq!(BASE64_STANDARD.decode(sequence.trim_matches(':')).expect("base64"), made.der().as_ref());
        assert!(PeerCertificate::new(&CertificateDer::from(vec![0x30, 0])).is_none());
    }
}

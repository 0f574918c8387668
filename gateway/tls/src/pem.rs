//! PEM files (RFC 7468): certificates and private keys. [`TlsServerConfig`](crate::TlsServerConfig) and
//! [`TlsClientConfig`](crate::TlsClientConfig) are built from them. Errors never quote the contents of a
//! file.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use zeroize::{Zeroize, Zeroizing};

use crate::{FileProblem, InputFile, TlsIdentity};

/// The contents of a PEM file. They are zeroed when the last clone is dropped, because they may be a private
/// key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pem(Arc<Zeroizing<Vec<u8>>>);

impl From<&[u8]> for Pem {
    fn from(bytes: &[u8]) -> Self {
        Self(Arc::new(bytes.to_vec().into()))
    }
}

impl Hash for Pem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may be a key.
        write!(f, "Pem({} bytes)", self.0.len())
    }
}

impl Pem {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// All certificates in the file; at least one.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let found = certificates(&self.0).map_err(|error| not_pem(&error))?;
        if found.is_empty() {
            return Err("there is no certificate in it".to_owned());
        }
        Ok(found)
    }

    /// Returns the first private key in the file. The caller wipes it.
    fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        match private_key(&self.0) {
            Ok(Some(key)) => Ok(key),
            Ok(None) if self.0.windows(9).any(|text| text == b"ENCRYPTED") => {
                Err("its key is encrypted with a passphrase: decrypt it, with `openssl pkey` for example"
                    .to_owned())
            }
            Ok(None) => Err("there is no private key in it".to_owned()),
            Err(error) => Err(not_pem(&error)),
        }
    }

    /// Returns the file's certificates as trusted authorities.
    pub(crate) fn authorities(&self) -> Result<Arc<RootCertStore>, FileProblem> {
        let problem = |message: String| FileProblem::new(InputFile::Authorities, message);
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates().map_err(problem)? {
            roots
                .add(certificate)
                .map_err(|error| problem(format!("one of its certificates cannot be used: {error}")))?;
        }
        Ok(Arc::new(roots))
    }
}

/// A section of a PEM text.
struct Section<'a> {
    label: &'a [u8],
    base64: Zeroizing<Vec<u8>>,
}

/// Reads the sections of a text (RFC 7468, section 3). The library's reader leaves the Base64 of private keys in
/// memory that it frees, so this one has buffers that are wiped and never grow.
fn sections(text: &[u8]) -> impl Iterator<Item = Result<Section<'_>, pem::Error>> {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    iter::from_fn(move || {
        let start = lines.find_map(|line| line.strip_prefix(b"-----BEGIN "))?;
        let Some(label) = start.strip_suffix(b"-----") else {
            return Some(Err(pem::Error::IllegalSectionStart { line: Vec::new() }));
        };
        let is_end = |line: &&[u8]| {
            line.strip_prefix(b"-----END ").and_then(|end| end.strip_suffix(b"-----")) == Some(label)
        };
        let length = lines.clone().take_while(|line| !is_end(line)).map(<[u8]>::len).sum();
        let mut base64 = Zeroizing::new(Vec::with_capacity(length));
        loop {
            match lines.next() {
                None => return Some(Err(pem::Error::MissingSectionEnd { end_marker: Vec::new() })),
                Some(line) if is_end(&line) => return Some(Ok(Section { label, base64 })),
                Some(line) => base64.extend_from_slice(line),
            }
        }
    })
}

impl Section<'_> {
    /// Decodes the contents. The result has no spare capacity, so it is not moved if it is kept.
    fn decode(&self) -> Result<Vec<u8>, pem::Error> {
        let mut der = Zeroizing::new(vec![0; self.base64.len()]);
        let length = STANDARD.decode_slice(&*self.base64, &mut der);
        let length = length.map_err(|_| pem::Error::Base64Decode(String::new()))?;
        Ok(der[..length].to_vec())
    }
}

/// Decodes the first private key of a text; `None` if it has none.
fn private_key(text: &[u8]) -> Result<Option<PrivateKeyDer<'static>>, pem::Error> {
    for section in sections(text) {
        let section = section?;
        let key: fn(Vec<u8>) -> PrivateKeyDer<'static> = match section.label {
            b"PRIVATE KEY" => |der| PrivateKeyDer::Pkcs8(der.into()),
            b"RSA PRIVATE KEY" => |der| PrivateKeyDer::Pkcs1(der.into()),
            b"EC PRIVATE KEY" => |der| PrivateKeyDer::Sec1(der.into()),
            _ => continue,
        };
        return section.decode().map(|der| Some(key(der)));
    }
    Ok(None)
}

/// Decodes the certificates of a text.
fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let is_certificate =
        |section: &Result<Section<'_>, _>| section.as_ref().map_or(true, |it| it.label == b"CERTIFICATE");
    sections(text).filter(is_certificate).map(|section| Ok(section?.decode()?.into())).collect()
}

/// Describes why a text is not PEM. The library's own message quotes the text, which the reader of the
/// message may not be allowed to see.
fn not_pem(error: &pem::Error) -> String {
    let why = match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no end",
        pem::Error::IllegalSectionStart { .. } => "a section has a malformed beginning",
        pem::Error::Base64Decode(_) => "a section is not Base64",
        pem::Error::SectionTooLarge => "a section is too large",
        pem::Error::NoItemsFound => "it has no section",
        _ => "it cannot be read",
    };
    format!("it is not PEM: {why}")
}

impl TlsIdentity {
    /// Checks that the certificate and the key can be used and belong together.
    ///
    /// # Errors
    /// The file that is wrong, and why.
    pub fn check(&self) -> Result<(), FileProblem> {
        self.certified_key(0).map(drop)
    }

    /// Returns the certificate with its key, after checking that they belong together. `index` identifies it
    /// in errors.
    pub(crate) fn certified_key(&self, index: usize) -> Result<CertifiedKey, FileProblem> {
        let chain_is = |message: String| FileProblem::new(InputFile::Chain(index), message);
        let key_is = |message: String| FileProblem::new(InputFile::Key(index), message);
        let chain = self.chain.certificates().map_err(chain_is)?;
        webpki::EndEntityCert::try_from(&chain[0])
            .map_err(|error| chain_is(format!("its first certificate cannot be used: {error}")))?;
        let mut der = self.key.key().map_err(key_is)?;
        let key = any_supported_type(&der);
        // rustls made its own copy of the key, which it wipes itself.
        der.zeroize();
        let key = key.map_err(|_| key_is("its private key is of no kind that can be used".to_owned()))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // Some keys do not reveal their public half; a mismatch would show in the handshake.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(certified),
            Err(_) => Err(key_is("it is not the key of the certificate".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_private_key_is_read_whatever_is_around_it() {
        let text = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\r\nnote\n-----BEGIN EC PRIVATE KEY-----\r\n \
            AQID\r\nBA==\r\n-----END EC PRIVATE KEY-----\n-----BEGIN PRIVATE KEY-----\nBQ==\n-----END PRIVATE KEY-----\n";
        let key = private_key(text).unwrap().unwrap();
        assert!(matches!(&key, PrivateKeyDer::Sec1(_)) && key.secret_der() == [1, 2, 3, 4]);
        assert_eq!(certificates(text).unwrap(), [CertificateDer::from(vec![0, 0, 0])]);
        assert!(private_key(b"").unwrap().is_none());
        for (text, why) in [
            (&b"-----BEGIN PRIVATE KEY\n"[..], "a section has a malformed beginning"),
            (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END CERTIFICATE-----\n", "a section has no end"),
            (b"-----BEGIN PRIVATE KEY-----\nA!AA\n-----END PRIVATE KEY-----\n", "a section is not Base64"),
        ] {
            assert_eq!(not_pem(&private_key(text).unwrap_err()), format!("it is not PEM: {why}"));
        }
    }

    #[test]
    fn a_problem_quotes_nothing_of_the_file() {
        for text in [
            "-----BEGIN hunter2\nAAAA\n",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END hunter2",
            "-----BEGIN CERTIFICATE-----\nhunter2!\n-----END CERTIFICATE-----\n",
            "hunter2",
        ] {
            let pem = Pem::from(text.as_bytes());
            let results = [pem.certificates().map(drop), pem.key().map(drop)];
            for message in results.into_iter().filter_map(Result::err) {
                assert!(!message.contains("hunter2") && !message.contains("104"), "{text:?}: {message}");
            }
            assert!(pem.authorities().is_err(), "{text:?}");
        }
    }
}

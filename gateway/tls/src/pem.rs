//! PEM files (RFC 7468): certificates and private keys. [`TlsServerConfig`](crate::TlsServerConfig) and
//! [`TlsClientConfig`](crate::TlsClientConfig) are built from them. Errors never quote the contents of a
//! file.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use zeroize::{Zeroize, Zeroizing};

use crate::{FileProblem, InputFile, PeerCertificate, TlsIdentity};

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
    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.0).collect();
        let found = found.map_err(|error| not_pem(&error))?;
        if found.is_empty() {
            return Err("there is no certificate in it".to_owned());
        }
        Ok(found)
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_slice(&self.0).map_err(|error| match error {
            pem::Error::NoItemsFound if self.0.windows(9).any(|text| text == b"ENCRYPTED") => {
                "its key is encrypted with a passphrase: decrypt it, with `openssl pkey` for example"
                    .to_owned()
            }
            pem::Error::NoItemsFound => "there is no private key in it".to_owned(),
            error => not_pem(&error),
        })
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
    /// Expiry of the certificate, in seconds since 1970; `None` if it cannot be read.
    pub(crate) fn not_after(&self) -> Option<i64> {
        let chain = self.chain.certificates().ok()?;
        PeerCertificate::new(chain.first()?).map(|leaf| leaf.not_after())
    }

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
    fn a_problem_quotes_nothing_of_the_file() {
        for text in [
            "-----BEGIN hunter2\nAAAA\n",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END hunter2",
            "-----BEGIN CERTIFICATE-----\nhunter2!\n-----END CERTIFICATE-----\n",
            "hunter2",
        ] {
            let pem = Pem::from(text.as_bytes());
            let told = [pem.certificates().map(drop), pem.key().map(drop)];
            for message in told.into_iter().filter_map(Result::err) {
                assert!(!message.contains("hunter2") && !message.contains("104"), "{text:?}: {message}");
            }
            assert!(pem.authorities().is_err(), "{text:?}");
        }
    }
}

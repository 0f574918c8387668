//! The identity that the laboratory and its agents share: one certificate and its key in one PEM file.
//!
//! Both ends of a connection present the certificate and prove that they have the key (mutual TLS 1.3). The
//! file is created once and copied to every host. It allows its holder to start the systems of the catalogue
//! on these hosts, so only its owner may read it.

use crate::failure::Failure;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ServerConfig, version};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use tollgate_lab_load::Verifier;

/// The name in the certificate. Neither end checks it: both compare the whole certificate.
const NAME: &str = "tollgate-lab";

/// A certificate and its key.
#[derive(Debug)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { certificate: self.certificate.clone(), key: self.key.clone_key() }
    }
}

impl Identity {
    /// Creates an identity in a new file that only its owner may read.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn create(file: &Path) -> Result<(), Failure> {
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])
            .map_err(|error| Failure::of("the certificate", error))?;
        let text = made.cert.pem() + &made.signing_key.serialize_pem();
        File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)
            .and_then(|mut open| open.write_all(text.as_bytes()))
            .map_err(|error| Failure::of(file.display(), error))
    }

    /// Reads an identity.
    ///
    /// # Errors
    /// If the file has no certificate or no key, or if others may read it.
    pub fn read(file: &Path) -> Result<Self, Failure> {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure(format!(
                "{}: {error} (create it with `tollgate bench agent --new-key FILE`, and copy it to each host)",
                file.display()
            ))
        };
        let mode = fs::metadata(file).map_err(|error| wrong(&error))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(Failure(format!("{}: others may read it: chmod 600", file.display())));
        }
        let bytes = fs::read(file).map_err(|error| wrong(&error))?;
        Ok(Self {
            certificate: CertificateDer::from_pem_slice(&bytes).map_err(|error| wrong(&error))?,
            key: PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| wrong(&error))?,
        })
    }

    /// Returns the configuration of the laboratory's end.
    ///
    /// # Errors
    /// If the key does not fit the certificate.
    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>, Failure> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .and_then(|builder| {
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Verifier::pinned(self.certificate.clone()))
                    .with_client_auth_cert(vec![self.certificate.clone()], self.key.clone_key())
            })
            .map_err(|error| Failure::of("the identity", error))?;
        Ok(Arc::new(config))
    }

    /// Returns the configuration of an agent's end.
    ///
    /// # Errors
    /// If the key does not fit the certificate.
    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>, Failure> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .and_then(|builder| {
                builder
                    .with_client_cert_verifier(Verifier::pinned(self.certificate.clone()))
                    .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            })
            .map_err(|error| Failure::of("the identity", error))?;
        Ok(Arc::new(config))
    }

    /// Returns the name for the handshake.
    pub(crate) fn name() -> Result<ServerName<'static>, Failure> {
        ServerName::try_from(NAME).map_err(|error| Failure::of("the identity", error))
    }
}

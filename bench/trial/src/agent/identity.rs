//! The identity that the laboratory and its agents share: one certificate and its key in one PEM file.
//!
//! Both ends of a connection present the certificate and prove that they have the key (mutual TLS 1.3). The
//! file is created once and copied to every host. It allows its holder to start the systems of the catalogue
//! on these hosts, so only its owner may read it.

use crate::failure::Failure;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme, version,
};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

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

    fn pinned(&self) -> Arc<Pinned> {
        Arc::new(Pinned { certificate: self.certificate.clone(), provider: ring::default_provider() })
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
                    .with_custom_certificate_verifier(self.pinned())
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
                    .with_client_cert_verifier(self.pinned())
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

/// Accepts one certificate only.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    provider: CryptoProvider,
}

impl Pinned {
    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), Error> {
        if presented == &self.certificate { Ok(()) } else { Err(CertificateError::UnknownIssuer.into()) }
    }

    fn signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

//! Verifiers of endpoints' certificates that differ from webpki's own only in which certificates they accept.
//!
//! The client side builds a [`RuleVerifier`] from a [`CertificateRule`]. Whatever the rule, the endpoint must prove that
//! it holds the certificate's key.

use std::fmt::Debug;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use crate::provider;

/// A certificate that an endpoint presents.
pub(crate) struct PresentedCertificate<'a> {
    pub end_entity: &'a CertificateDer<'a>,
    pub intermediates: &'a [CertificateDer<'a>],
    pub ocsp_response: &'a [u8],
    pub now: UnixTime,
}

/// Decides which certificates of endpoints are accepted, independent of the server name.
pub(crate) trait CertificateRule: Debug + Send + Sync {
    /// # Errors
    /// Why the certificate is not accepted.
    fn verify(&self, certificate: &PresentedCertificate<'_>) -> Result<(), Error>;
}

/// Verifies handshakes with a rule.
#[derive(Debug)]
pub(crate) struct RuleVerifier<R>(pub R);

impl<R: CertificateRule> ServerCertVerifier for RuleVerifier<R> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.verify(&PresentedCertificate { end_entity, intermediates, ocsp_response, now })?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

//! TLS 1.3 for the connections: full handshakes with one key exchange and one cipher, so that every server
//! does the same work.
//!
//! The key exchange is X25519; the cipher is TLS_AES_128_GCM_SHA256, which every implementation must support
//! (RFC 8446 section 9.1). If the client offered more, a server that supports X25519MLKEM768 would do more
//! work than others, and the results would not be comparable. Sessions are not resumed. The server must
//! present exactly the certificate that the plan names, and prove that it has the key.

use crate::failure::Failure;
use crate::plan::{Plan, Tls};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, version,
};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Bytes of plaintext that are read from a connection at once: the maximum of a record.
pub(crate) const PLAIN: usize = 16 * 1024;

/// The TLS configuration that all connections of a run share.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Client {
    /// Returns the client of a plan; `None` if the plan uses plain text.
    pub(crate) fn of(plan: &Plan) -> Result<Option<Self>, Failure> {
        let Some(Tls { certificate, key }) = &plan.tls else { return Ok(None) };
        let config = tls_config(certificate, key.as_deref())?;
        // The host without its port. An address is not sent as a name (RFC 6066 section 3).
        let host = plan.requests.iter().find_map(|request| request.host.as_deref());
        let name = host
            .map(|host| host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned())
            .and_then(|name| ServerName::try_from(name).ok())
            .unwrap_or_else(|| ServerName::IpAddress(plan.target.ip().into()));
        Ok(Some(Self { config, name }))
    }

    /// Creates the TLS state of a new connection.
    pub(crate) fn connection(&self) -> Result<Box<Connection>, Errno> {
        // Fails only for names that cannot be sent; those were excluded above.
        let mut tls =
            ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(|_| Errno::INVAL)?;
        tls.set_buffer_limit(None);
        Ok(Box::new(Connection(tls)))
    }
}

/// Returns a client configuration for HTTP/1.1 that trusts only the certificate in this file. With `key`, the
/// client presents the same certificate.
///
/// # Errors
/// [`Failure::Plan`] if a file does not contain a certificate or a key.
pub fn tls_config(file: &Path, key: Option<&Path>) -> Result<Arc<ClientConfig>, Failure> {
    let wrong = |what: String| Failure::Plan(format!("`tls.certificate` {}: {what}", file.display()));
    let certificate = CertificateDer::from_pem_file(file).map_err(|error| wrong(error.to_string()))?;
    let provider = provider();
    let pinned =
        Pinned { certificate: certificate.clone(), algorithms: provider.signature_verification_algorithms };
    let builder = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| wrong(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned));
    let mut config = match key {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let wrong = |what: String| Failure::Plan(format!("`tls.key` {}: {what}", file.display()));
            let key = PrivateKeyDer::from_pem_file(file).map_err(|error| wrong(error.to_string()))?;
            builder.with_client_auth_cert(vec![certificate], key).map_err(|error| wrong(error.to_string()))?
        }
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns a provider with one key exchange and one cipher.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![ring::kx_group::X25519],
        ..ring::default_provider()
    }
}

/// Accepts one certificate only.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
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
        if end_entity == &self.certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::UnknownIssuer.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The TLS state of one connection.
#[derive(Debug)]
pub(crate) struct Connection(ClientConnection);

/// The result of consuming received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Took {
    /// The number of plaintext bytes, and the number of received bytes that are not consumed yet.
    Plain(usize, usize),
    /// All bytes were consumed, and no plaintext is left.
    Nothing,
    /// The peer closed its side properly.
    End,
}

impl Connection {
    /// Queues a request. [`Self::flush`] sends it after the handshake.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.writer().write_all(bytes)
    }

    /// Returns whether there is data to send.
    pub(crate) fn has_more(&self) -> bool {
        self.0.wants_write()
    }

    /// Sends what the socket accepts. Returns `false` if data is left.
    pub(crate) fn flush(&mut self, socket: &OwnedFd) -> Result<bool, Errno> {
        while self.0.wants_write() {
            match self.0.write_tls(&mut Socket(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            }
        }
        Ok(true)
    }

    /// Consumes received bytes until there is plaintext. Call it again with the rest, then with no input,
    /// until it returns [`Took::Nothing`] or [`Took::End`].
    pub(crate) fn take(&mut self, mut input: &[u8], plain: &mut [u8]) -> Result<Took, Error> {
        loop {
            match self.0.reader().read(plain) {
                Ok(0) => return Ok(Took::End),
                Ok(count) => return Ok(Took::Plain(count, input.len())),
                Err(_) if input.is_empty() => return Ok(Took::Nothing),
                Err(_) => {}
            }
            self.0.read_tls(&mut input).map_err(|error| Error::General(error.to_string()))?;
            self.0.process_new_packets()?;
        }
    }
}

/// A socket to write to.
struct Socket<'a>(&'a OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

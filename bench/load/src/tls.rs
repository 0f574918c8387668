//! TLS 1.3 on a connection: full handshakes, one key exchange and one cipher, so that every server has the same to do.
//!
//! X25519 and TLS_AES_128_GCM_SHA256 (the one that every implementation must have, RFC 8446 section 9.1): with more on
//! offer a server that knows X25519MLKEM768 would do more work than one that does not, and they could not be compared.
//! No session is resumed. The server must show exactly the certificate that the plan names, and prove its key.

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

/// Plaintext taken out of a connection at once: a record's most.
pub(crate) const PLAIN: usize = 16 * 1024;

/// What all connections of a run share.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Client {
    /// The client of a plan; `None` where it speaks plain text.
    pub(crate) fn of(plan: &Plan) -> Result<Option<Self>, Failure> {
        let Some(Tls { certificate, key }) = &plan.tls else { return Ok(None) };
        let config = tls_config(certificate, key.as_deref())?;
        // The host without its port; an address is not sent as a name (RFC 6066 section 3).
        let host = plan.requests.iter().find_map(|request| request.host.as_deref());
        let name = host
            .map(|host| host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned())
            .and_then(|name| ServerName::try_from(name).ok())
            .unwrap_or_else(|| ServerName::IpAddress(plan.target.ip().into()));
        Ok(Some(Self { config, name }))
    }

    /// A connection that has not said anything yet.
    pub(crate) fn connection(&self) -> Result<Box<Connection>, Errno> {
        // It fails only for names that cannot be sent, which were looked at.
        let mut tls =
            ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(|_| Errno::INVAL)?;
        tls.set_buffer_limit(None);
        Ok(Box::new(Connection(tls)))
    }
}

/// What a client needs that takes the certificate of this file and no other, for HTTP/1.1. With the key of it, the client shows
/// it as well.
///
/// # Errors
/// [`Failure::Plan`] where a file does not hold what it should.
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

/// One key exchange, one cipher.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![ring::kx_group::X25519],
        ..ring::default_provider()
    }
}

/// Takes one certificate and no other.
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

/// The TLS of one connection.
#[derive(Debug)]
pub(crate) struct Connection(ClientConnection);

/// What a piece of a peer's bytes came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Took {
    /// So many bytes of plaintext; and so many of the peer's that are still to be taken in.
    Plain(usize, usize),
    /// All was taken in, and nothing more comes of it.
    Nothing,
    /// The peer ended its side, as it should.
    End,
}

impl Connection {
    /// Puts a request in; it leaves with [`Self::flush`], after the handshake.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.writer().write_all(bytes)
    }

    /// Whether something waits to be sent that could be.
    pub(crate) fn has_more(&self) -> bool {
        self.0.wants_write()
    }

    /// Sends what the socket takes; false when something is left.
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

    /// Takes bytes of the peer's in until some plaintext comes of them. To be called again with the rest, and with none,
    /// until it says [`Took::Nothing`] or [`Took::End`].
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

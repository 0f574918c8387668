//! TLS 1.3 for the connections: full handshakes with one key exchange and one cipher, so that every server
//! does the same work.
//!
//! The key exchange is X25519; the cipher is TLS_AES_128_GCM_SHA256, which every implementation must support
//! (RFC 8446 section 9.1). If the client offered more, a server that supports X25519MLKEM768 would do more
//! work than others, and the results would not be comparable. Sessions are not resumed. The server must
//! present exactly the certificate that the plan names, and prove that it has the key.
//!
//! [`Https`] is the other way: TLS 1.2 or 1.3 with everything that rustls supports, and a certificate that an
//! authority has signed. It serves people who load a server of their own; the laboratory's studies do not use
//! it.

use crate::failure::Failure;
use crate::plan::{Https, Plan, Tls, Trust};
use crate::verifier::Verifier;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Error, RootCertStore, version};
use std::io::{self, IoSlice, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Bytes of plaintext that are read from a connection at once: the maximum of a record.
pub(crate) const PLAIN: usize = 16 * 1024;

/// The TLS configuration that all connections of a run share.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Client {
    /// Returns the client of a plan; `None` if the plan uses plain text.
    pub(crate) fn of(plan: &Plan) -> Result<Option<Self>, Failure> {
        let alpn: &[u8] = if plan.protocol.is_over_http2() { b"h2" } else { b"http/1.1" };
        if let Some(https) = &plan.https {
            let name = ServerName::try_from(https.name.clone()).map_err(|_| {
                Failure::Plan(format!("`https.name` {:?}: expected a host name or an address", https.name))
            })?;
            let mut config = https_config(https)?;
            config.alpn_protocols = vec![alpn.to_vec()];
            return Ok(Some(Self { config: Arc::new(config), name }));
        }
        let Some(Tls { certificate, key }) = &plan.tls else { return Ok(None) };
        let mut config = tls_config(certificate, key.as_deref())?;
        Arc::make_mut(&mut config).alpn_protocols = vec![alpn.to_vec()];
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
    let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| wrong(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Verifier::pinned(certificate.clone()));
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

/// Returns a client configuration with the trust that an [`Https`] names.
fn https_config(https: &Https) -> Result<ClientConfig, Failure> {
    let wrong = |file: &Path, what: String| Failure::Plan(format!("{}: {what}", file.display()));
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::Plan(error.to_string()))?;
    let builder = match &https.trust {
        Trust::Anything => builder.dangerous().with_custom_certificate_verifier(Verifier::any()),
        Trust::Platform => {
            let mut roots = RootCertStore::empty();
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(Failure::Plan(
                    "this machine has no certificates of authorities: install ca-certificates, or name a file of \
                     your own"
                        .into(),
                ));
            }
            builder.with_root_certificates(roots)
        }
        Trust::Authorities(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in chain(file)? {
                roots.add(certificate).map_err(|error| wrong(file, error.to_string()))?;
            }
            builder.with_root_certificates(roots)
        }
    };
    match (&https.certificate, &https.key) {
        (Some(file), Some(key)) => {
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
            builder
                .with_client_auth_cert(chain(file)?, secret)
                .map_err(|error| wrong(file, error.to_string()))
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

/// Reads the certificates of a PEM file, at least one.
fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let wrong = |what: String| Failure::Plan(format!("{}: {what}", file.display()));
    let read = CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?;
    let all = read.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(error.to_string()))?;
    if all.is_empty() {
        return Err(wrong("expected a certificate in PEM (`-----BEGIN CERTIFICATE-----`)".into()));
    }
    Ok(all)
}

/// Returns a provider with one key exchange and one cipher.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![ring::kx_group::X25519],
        ..ring::default_provider()
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

    /// All records with one system call. The default would send one segment for each record.
    fn write_vectored(&mut self, records: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(sendmsg(self.0, records, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
    use rustls::{ServerConfig, ServerConnection};

    /// A server behind a relay saw the second flight in three segments, and Nagle's algorithm held the last of them
    /// for 40 ms.
    #[test]
    fn the_end_of_the_handshake_and_the_request_are_one_write() {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let file = std::env::temp_dir().join(format!("tollgate-lab-flight-{}.pem", std::process::id()));
        std::fs::write(&file, made.cert.pem()).unwrap();
        let config = tls_config(&file, None);
        std::fs::remove_file(&file).unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut client = Client { config: config.unwrap(), name }.connection().unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![made.cert.der().clone()],
                PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap(),
            )
            .unwrap();
        let mut server = ServerConnection::new(Arc::new(config)).unwrap();
        // Each write is one message here.
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
        let mut buffer = [0; PLAIN];
        let mut receive = |server: &mut ServerConnection| {
            let (count, _) = recv(&far, &mut buffer[..], RecvFlags::empty()).unwrap();
            server.read_tls(&mut &buffer[..count]).unwrap();
            server.process_new_packets().unwrap();
        };

        client.put(b"GET /").unwrap();
        assert!(client.flush(&near).unwrap());
        receive(&mut server);
        let mut flight = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut flight).unwrap();
        }
        assert_eq!(client.take(&flight, &mut [0; PLAIN]), Ok(Took::Nothing));
        assert!(client.flush(&near).unwrap());
        receive(&mut server);
        let mut request = [0; 16];
        assert_eq!(server.reader().read(&mut request).unwrap(), 5);
        assert_eq!(&request[..5], b"GET /");
    }
}

//! Clients and origins that speak TLS, and the certificates for them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use ::aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use ::aws_lc_rs::rsa;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, PKCS_RSA_SHA256, SanType,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    SupportedProtocolVersion,
};

use time::OffsetDateTime;

use crate::DEADLINE;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, in PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate chain, in PEM.
    pub chain: String,
    /// The private key, in PEM.
    pub key: String,
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Panics
    /// Panics if no key can be made.
    #[must_use]
    pub fn new() -> Self {
        Self::called("rcgen self signed cert")
    }

    /// Creates an authority with this common name.
    ///
    /// # Panics
    /// Panics if no key can be made.
    #[must_use]
    pub fn called(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("signed"))
    }

    /// Returns the authority's own certificate, in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for these hosts or addresses, with an ECDSA key on P-256.
    ///
    /// # Panics
    /// Panics if no key can be made.
    #[must_use]
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(names, &KeyPair::generate().expect("a key"), None)
    }

    /// Issues a certificate that expires in `days` days; negative values are in the past.
    ///
    /// # Panics
    /// Panics if no key can be made.
    #[must_use]
    pub fn issue_until(&self, names: &[&str], days: i64) -> Issued {
        self.issue_with(names, &KeyPair::generate().expect("a key"), Some(days))
    }

    /// Issues a certificate that becomes valid half a day before `days` days are over, so that a test that counts
    /// whole days does not depend on the second in which it runs.
    ///
    /// # Panics
    /// Panics if no key can be made.
    #[must_use]
    pub fn issue_from(&self, names: &[&str], days: i64) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let mut params =
            CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
                .expect("names");
        params.not_before =
            OffsetDateTime::now_utc() + time::Duration::days(days) - time::Duration::hours(12);
        let certificate = params.signed_by(&key, &self.0).expect("signed");
        Issued { chain: certificate.pem(), key: key.serialize_pem() }
    }

    /// Issues a certificate with an RSA key.
    ///
    /// # Panics
    /// Panics if no key can be made.
    #[must_use]
    pub fn issue_rsa(&self, names: &[&str]) -> Issued {
        let key = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).expect("a key");
        let key: Pkcs8V1Der<'_> = key.as_der().expect("encoded");
        let key = PrivatePkcs8KeyDer::from(key.as_ref());
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_RSA_SHA256).expect("a key");
        self.issue_with(names, &key, None)
    }

    /// Issues a certificate for these names and URIs.
    ///
    /// # Panics
    /// Panics if no key can be made.
    #[must_use]
    pub fn issue_uris(&self, names: &[&str], uris: &[&str]) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        let uri = |uri: &&str| SanType::URI((*uri).try_into().expect("ASCII"));
        params.subject_alt_names.extend(uris.iter().map(uri));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("signed");
        Issued { chain: certificate.pem(), key: key.serialize_pem() }
    }

    fn issue_with(&self, names: &[&str], key: &KeyPair, days: Option<i64>) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        if let Some(days) = days {
            params.not_after = OffsetDateTime::now_utc() + time::Duration::days(days);
        }
        let certificate = params.signed_by(key, &self.0).expect("signed");
        Issued { chain: certificate.pem(), key: key.serialize_pem() }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("a root");
        Arc::new(roots)
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Issued {
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.chain.as_bytes()).map(|it| it.expect("PEM")).collect()
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("PEM")
    }

    /// Returns the certificate in DER.
    ///
    /// # Panics
    /// Never: the harness made the certificate.
    #[must_use]
    pub fn der(&self) -> Vec<u8> {
        self.chain()[0].to_vec()
    }
}

/// The TLS configuration of a client.
pub struct TlsPeer {
    config: ClientConfig,
}

impl TlsPeer {
    /// Creates a configuration that trusts this authority and offers every TLS version.
    ///
    /// # Panics
    /// Never: the provider is valid.
    #[must_use]
    pub fn trusting(authority: &Authority) -> Self {
        Self::speaking(authority, rustls::DEFAULT_VERSIONS, None)
    }

    /// Creates a configuration that presents a client certificate.
    #[must_use]
    pub fn showing(authority: &Authority, own: &Issued) -> Self {
        Self::speaking(authority, rustls::DEFAULT_VERSIONS, Some(own))
    }

    /// Creates a configuration that offers only these versions. `own` is the client certificate.
    ///
    /// # Panics
    /// Never: the provider is valid.
    #[must_use]
    pub fn speaking(
        authority: &Authority,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<&Issued>,
    ) -> Self {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(authority.roots());
        let config = match own {
            Some(own) => builder.with_client_auth_cert(own.chain(), own.key()).expect("a good certificate"),
            None => builder.with_no_client_auth(),
        };
        Self { config }
    }

    /// Creates a configuration that accepts only RSA signatures.
    ///
    /// # Panics
    /// Never: the provider is valid.
    #[must_use]
    pub fn rsa_only(authority: &Authority) -> Self {
        let mut peer = Self::trusting(authority);
        let mut rsa = aws_lc_rs::default_provider();
        let all = rsa.signature_verification_algorithms.mapping;
        let kept: Vec<_> =
            all.iter().copied().filter(|(scheme, _)| format!("{scheme:?}").starts_with("RSA")).collect();
        // The slice lives as long as the test, because the provider requires `'static`.
        rsa.signature_verification_algorithms.mapping = Vec::leak(kept);
        peer.config = ClientConfig::builder_with_provider(Arc::new(rsa))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(authority.roots())
            .with_no_client_auth();
        peer
    }

    /// Offers protocols by ALPN.
    #[must_use]
    pub fn offering(mut self, protocols: &[&str]) -> Self {
        self.config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        self
    }

    /// Connects and sends `name` as the server name (SNI).
    ///
    /// # Errors
    /// Returns the reason why the handshake failed.
    ///
    /// # Panics
    /// Panics if the gateway refuses the connection.
    pub fn connect(&self, address: SocketAddr, name: &str) -> std::io::Result<TlsClient> {
        self.shake_hands(TcpStream::connect(address).expect("the gateway accepts"), name)
    }

    /// Does the handshake on a connection that is already open.
    ///
    /// # Errors
    /// Returns the reason why the handshake failed.
    ///
    /// # Panics
    /// Panics if the socket accepts no timeouts.
    pub fn shake_hands(&self, stream: TcpStream, name: &str) -> std::io::Result<TlsClient> {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::new(self.config.clone()), name).expect("a client");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream.set_write_timeout(Some(DEADLINE)).expect("a timeout");
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(TlsClient { stream })
    }
}

/// A client's TLS connection.
pub struct TlsClient {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl TlsClient {
    /// Returns rustls' state of the connection.
    #[must_use]
    pub fn connection(&self) -> &ClientConnection {
        &self.stream.conn
    }

    /// Returns the socket.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.stream.sock
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// Panics if the connection is broken.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the gateway takes it");
        self.stream.flush().expect("the gateway takes it");
    }

    /// Returns the TLS record, or records, in which these bytes would be sent.
    ///
    /// # Panics
    /// Panics if the connection is closed.
    pub fn sealed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut records = Vec::new();
        self.stream.conn.writer().write_all(bytes).expect("room for them");
        while self.stream.conn.wants_write() {
            self.stream.conn.write_tls(&mut records).expect("room for them");
        }
        records
    }

    /// Reads an answer with `Content-Length`, or without a body. Returns its bytes as text.
    ///
    /// # Errors
    /// Returns an error if the connection ends or breaks before the answer does.
    pub fn answer(&mut self) -> std::io::Result<String> {
        read_message(&mut self.stream)
    }

    /// Sends a `GET` of this path, and reads the answer.
    ///
    /// # Panics
    /// Panics if there is no whole answer.
    pub fn get(&mut self, host: &str, path: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        self.answer().expect("an answer")
    }

    /// Waits for data and returns it, at most 16 KiB.
    ///
    /// # Errors
    /// Returns an error if the connection ends or breaks.
    pub fn some(&mut self) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; 16 * 1024];
        let count = self.stream.read(&mut bytes)?;
        bytes.truncate(count);
        if count == 0 { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
    }

    /// Reads until the peer's `close_notify`.
    ///
    /// # Errors
    /// Returns an error if the connection ends without one.
    pub fn rest(&mut self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).map(|_| bytes)
    }

    /// Ends this side's data (`close_notify`), and continues to read.
    ///
    /// # Panics
    /// Panics if the connection is broken.
    pub fn end(&mut self) {
        self.stream.conn.send_close_notify();
        self.stream.flush().expect("the gateway takes it");
    }
}

fn read_message(stream: &mut impl Read) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    let mut whole = None;
    while whole.is_none_or(|length| bytes.len() < length) {
        match stream.read(&mut chunk)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
        if whole.is_none() {
            whole = length(&bytes);
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the length of the whole message, or `None` if its head is not complete yet.
fn length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let body = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Some(end + 4 + body.unwrap_or(0))
}

/// An origin that speaks TLS and answers every request with the same bytes.
pub struct TlsOrigin {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    names: Arc<Mutex<Vec<Option<String>>>>,
}

impl TlsOrigin {
    /// Starts an origin. With `clients`, it demands client certificates that this authority has signed.
    /// `ends` sets what happens after an answer: `Some(true)` sends `close_notify` and closes, `Some(false)`
    /// closes without it, `None` keeps the connection open.
    ///
    /// # Panics
    /// Panics if no socket can be bound.
    #[must_use]
    pub fn start(own: &Issued, clients: Option<&Authority>, response: &str, ends: Option<bool>) -> Self {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions");
        let builder = match clients {
            Some(authority) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(authority.roots(), provider())
                    .build()
                    .expect("a verifier"),
            ),
            None => builder.with_no_client_auth(),
        };
        let config = Arc::new(builder.with_single_cert(own.chain(), own.key()).expect("a good certificate"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let (heads, names) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (seen, asked, response) = (heads.clone(), names.clone(), response.to_owned());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                let (config, seen, asked, response) =
                    (config.clone(), seen.clone(), asked.clone(), response.clone());
                thread::spawn(move || {
                    let connection = ServerConnection::new(config).expect("a server");
                    let mut stream = StreamOwned::new(connection, stream);
                    while let Ok(head) = read_message(&mut stream) {
                        // The name is recorded before the head, so that a test that sees the head also finds
                        // the name.
                        let name = stream.conn.server_name().map(str::to_owned);
                        asked.lock().expect("names").push(name);
                        seen.lock().expect("heads").push(head);
                        if stream.write_all(response.as_bytes()).is_err() || stream.flush().is_err() {
                            return;
                        }
                        match ends {
                            None => {}
                            Some(said) => {
                                if said {
                                    stream.conn.send_close_notify();
                                    let _ = stream.flush();
                                }
                                return;
                            }
                        }
                    }
                });
            }
        });
        Self { address, heads, names }
    }

    /// Returns the address on which the origin listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requests that the origin received.
    ///
    /// # Panics
    /// Panics if one of its threads has panicked.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("heads").clone()
    }

    /// Returns the server name (SNI) of each request's connection; `None` if the client sent none.
    ///
    /// # Panics
    /// Panics if one of its threads has panicked.
    #[must_use]
    pub fn names(&self) -> Vec<Option<String>> {
        self.names.lock().expect("names").clone()
    }
}

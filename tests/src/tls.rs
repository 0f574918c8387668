//! Clients and origins that speak TLS, and the certificates for them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use ::aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use ::aws_lc_rs::rsa;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, PKCS_RSA_SHA256,
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

/// Somebody who signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, in PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub chain: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    /// When no key can be made.
    #[must_use]
    pub fn new() -> Self {
        Self::called("rcgen self signed cert")
    }

    /// One of this name.
    ///
    /// # Panics
    /// When no key can be made.
    #[must_use]
    pub fn called(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("signed"))
    }

    /// Its own certificate, in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these hosts or addresses, with a key for ECDSA on P-256.
    ///
    /// # Panics
    /// When no key can be made.
    #[must_use]
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(names, &KeyPair::generate().expect("a key"), None)
    }

    /// A certificate that ends in so many days.
    ///
    /// # Panics
    /// When no key can be made.
    #[must_use]
    pub fn issue_until(&self, names: &[&str], days: i64) -> Issued {
        self.issue_with(names, &KeyPair::generate().expect("a key"), Some(days))
    }

    /// A certificate that begins in so many days.
    ///
    /// # Panics
    /// When no key can be made.
    #[must_use]
    pub fn issue_from(&self, names: &[&str], days: i64) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let mut params =
            CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
                .expect("names");
        params.not_before = OffsetDateTime::now_utc() + time::Duration::days(days);
        let certificate = params.signed_by(&key, &self.0).expect("signed");
        Issued { chain: certificate.pem(), key: key.serialize_pem() }
    }

    /// A certificate with a key for RSA.
    ///
    /// # Panics
    /// When no key can be made.
    #[must_use]
    pub fn issue_rsa(&self, names: &[&str]) -> Issued {
        let key = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).expect("a key");
        let key: Pkcs8V1Der<'_> = key.as_der().expect("encoded");
        let key = PrivatePkcs8KeyDer::from(key.as_ref());
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_RSA_SHA256).expect("a key");
        self.issue_with(names, &key, None)
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

    /// The certificate as bytes.
    ///
    /// # Panics
    /// Never: it was made here.
    #[must_use]
    pub fn der(&self) -> Vec<u8> {
        self.chain()[0].to_vec()
    }
}

/// How a client comes.
pub struct TlsPeer {
    config: ClientConfig,
}

impl TlsPeer {
    /// One that trusts this authority and speaks every version.
    ///
    /// # Panics
    /// Never: the provider is a good one.
    #[must_use]
    pub fn trusting(authority: &Authority) -> Self {
        Self::speaking(authority, rustls::DEFAULT_VERSIONS, None)
    }

    /// One that shows a certificate.
    #[must_use]
    pub fn showing(authority: &Authority, own: &Issued) -> Self {
        Self::speaking(authority, rustls::DEFAULT_VERSIONS, Some(own))
    }

    /// One that speaks these versions only.
    ///
    /// # Panics
    /// Never: the provider is a good one.
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

    /// One that understands signatures by RSA alone.
    ///
    /// # Panics
    /// Never: the provider is a good one.
    #[must_use]
    pub fn rsa_only(authority: &Authority) -> Self {
        let mut peer = Self::trusting(authority);
        let mut rsa = aws_lc_rs::default_provider();
        let all = rsa.signature_verification_algorithms.mapping;
        let kept: Vec<_> =
            all.iter().copied().filter(|(scheme, _)| format!("{scheme:?}").starts_with("RSA")).collect();
        // Lives as long as the test: the provider wants statics.
        rsa.signature_verification_algorithms.mapping = Vec::leak(kept);
        peer.config = ClientConfig::builder_with_provider(Arc::new(rsa))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(authority.roots())
            .with_no_client_auth();
        peer
    }

    /// Offers protocols (ALPN).
    #[must_use]
    pub fn offering(mut self, protocols: &[&str]) -> Self {
        self.config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        self
    }

    /// A connection, as `name` says that it is for.
    ///
    /// # Errors
    /// Why the handshake failed.
    ///
    /// # Panics
    /// When the gateway does not accept.
    pub fn connect(&self, address: SocketAddr, name: &str) -> std::io::Result<TlsClient> {
        self.shake_hands(TcpStream::connect(address).expect("the gateway accepts"), name)
    }

    /// The same over a connection that is there.
    ///
    /// # Errors
    /// Why the handshake failed.
    ///
    /// # Panics
    /// When the socket takes no timeouts.
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

/// A client's connection.
pub struct TlsClient {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl TlsClient {
    /// What rustls knows of it.
    #[must_use]
    pub fn connection(&self) -> &ClientConnection {
        &self.stream.conn
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.stream.sock
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// When the gateway takes none.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the gateway takes it");
        self.stream.flush().expect("the gateway takes it");
    }

    /// The record, or records, that these bytes would be sent in.
    ///
    /// # Panics
    /// When the connection has ended.
    pub fn sealed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut records = Vec::new();
        self.stream.conn.writer().write_all(bytes).expect("room for them");
        while self.stream.conn.wants_write() {
            self.stream.conn.write_tls(&mut records).expect("room for them");
        }
        records
    }

    /// Reads an answer with `Content-Length`, or without a body.
    ///
    /// # Errors
    /// When the connection ends or breaks before the answer does.
    pub fn answer(&mut self) -> std::io::Result<String> {
        read_message(&mut self.stream)
    }

    /// Asks for a path.
    ///
    /// # Panics
    /// When there is no whole answer.
    pub fn get(&mut self, host: &str, path: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        self.answer().expect("an answer")
    }

    /// Reads what is there, 16 KiB at most, and waits for it.
    ///
    /// # Errors
    /// When the connection ends or breaks.
    pub fn some(&mut self) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; 16 * 1024];
        let count = self.stream.read(&mut bytes)?;
        bytes.truncate(count);
        if count == 0 { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
    }

    /// Reads to the end, which must be announced.
    ///
    /// # Errors
    /// When it is not.
    pub fn rest(&mut self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).map(|_| bytes)
    }

    /// Says that this side's data has ended (`close_notify`), and goes on reading.
    ///
    /// # Panics
    /// When the gateway is gone.
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

/// Of the whole message; `None`: its head is not whole yet.
fn length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let body = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Some(end + 4 + body.unwrap_or(0))
}

/// An origin that speaks TLS: it answers every request with the same bytes.
pub struct TlsOrigin {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    names: Arc<Mutex<Vec<Option<String>>>>,
}

impl TlsOrigin {
    /// Starts it. With `clients`, it demands certificates that this authority has signed. With `ends`, it says so and
    /// closes after an answer; with `Some(false)` it closes without a word.
    ///
    /// # Panics
    /// When no socket can be bound.
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
                        // Before the head, so that whoever sees that finds this.
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

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests that it got.
    ///
    /// # Panics
    /// When one of its threads has panicked.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("heads").clone()
    }

    /// For whom the connection of each request had asked (SNI); `None`: for nobody.
    ///
    /// # Panics
    /// When one of its threads has panicked.
    #[must_use]
    pub fn names(&self) -> Vec<Option<String>> {
        self.names.lock().expect("names").clone()
    }
}

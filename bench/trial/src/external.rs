//! Gateways and origins that already run. The laboratory sends load to them and, if it can, reads their CPU
//! time. It neither configures nor starts nor pauses them.

use crate::environment::Environment;
use crate::failure::Failure;
use crate::http::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, version};
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tollgate_lab_load::Verifier;
use tollgate_lab_study::{External, Url};
use tollgate_lab_system::TlsFiles;

/// The longest wait for an answer of a server that already runs.
const LIMIT: Duration = Duration::from_secs(10);

/// The largest body of the first answer, in bytes.
const MOST: u64 = 64 << 20;

/// Returns the first address of a URL's host; of IPv4 if it has one, as servers listen there most often.
///
/// # Errors
/// If the name has no address.
pub(crate) fn resolve(url: &Url) -> Result<SocketAddr, Failure> {
    let found = (url.host.as_str(), url.port).to_socket_addrs().map_err(|error| Failure::of(url, error))?;
    let found: Vec<SocketAddr> = found.collect();
    found
        .iter()
        .find(|address| address.is_ipv4())
        .or(found.first())
        .copied()
        .ok_or_else(|| Failure(format!("{url}: the name has no address")))
}

/// Connects once and returns the certificate to expect of a gateway: the file that the study names, or the
/// certificate that the gateway presents now. `None` if its URL has no TLS.
///
/// # Errors
/// If it cannot be reached, or does not complete a handshake of TLS 1.3.
pub(crate) fn certificate(
    environment: &Environment,
    external: &External,
    address: SocketAddr,
) -> Result<Option<TlsFiles>, Failure> {
    if !external.url.tls {
        TcpStream::connect_timeout(&address, LIMIT).map_err(|error| Failure::of(&external.url, error))?;
        return Ok(None);
    }
    let presented = presented(&external.url, address)
        .map_err(|error| Failure(format!("{}: {error} (the load uses TLS 1.3 only)", external.url)))?;
    // A client certificate is not supported, so the key's file is never read.
    if let Some(file) = &external.certificate {
        return Ok(Some(TlsFiles { certificate: file.clone(), key: file.clone() }));
    }
    let file = environment.folder("certificate")?.join("certificate.pem");
    fs::write(&file, pem(&presented)).map_err(|error| Failure::of(file.display(), error))?;
    Ok(Some(TlsFiles { certificate: file.clone(), key: file }))
}

/// Encodes a certificate as PEM (RFC 7468).
fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    // Base64 is ASCII, so every cut is between characters.
    let lines: Vec<String> =
        text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// Returns the certificate that a server presents.
fn presented(url: &Url, address: SocketAddr) -> io::Result<Vec<u8>> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Verifier::any())
        .with_no_client_auth();
    let name = ServerName::try_from(url.host.clone()).map_err(io::Error::other)?;
    let mut tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    while tls.is_handshaking() {
        tls.complete_io(&mut stream)?;
    }
    let presented = tls.peer_certificates().and_then(|chain| chain.first());
    presented.map(|own| own.to_vec()).ok_or_else(|| io::Error::other("it presented no certificate"))
}

/// Asks the user's own origin once and returns the body of its answer.
///
/// # Errors
/// If it does not answer with a 2xx status.
pub(crate) fn first_answer(url: &Url) -> Result<Vec<u8>, Failure> {
    let wrong = |what: &dyn std::fmt::Display| Failure(format!("the origin {url}: {what}"));
    let answer = get(&url.to_string(), &[], LIMIT, MOST).map_err(|error| wrong(&error))?;
    match answer.status {
        200..300 => Ok(answer.body),
        status => Err(wrong(&format!("answered {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn a_certificate_is_written_as_it_is_read() {
        for length in [1, 2, 3, 47, 48, 49, 500] {
            let der: Vec<u8> = (0..length).map(|byte| (byte * 7 % 251) as u8).collect();
            let read = CertificateDer::from_pem_slice(pem(&der).as_bytes());
            assert_eq!(read.map(|read| read.to_vec()).unwrap_or_default(), der);
        }
    }

    #[test]
    fn names_are_resolved_and_refused() {
        let url: Url = "http://localhost:81/".parse().unwrap();
        assert!(resolve(&url).unwrap().ip().is_loopback());
        let url: Url = "http://no-such-host.invalid/".parse().unwrap();
        assert!(resolve(&url).unwrap_err().to_string().contains("no-such-host.invalid"));
    }
}

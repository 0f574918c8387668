//! Opens connections to services.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::{ServiceError, ServiceUrl, Trust};

/// The delay before the next address is tried in parallel (RFC 8305, 5).
const HEAD_START: Duration = Duration::from_millis(250);

/// A connection, with or without TLS.
pub(super) trait ServiceStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ServiceStream for T {}

/// Returns the TLS connector, which offers HTTP/1.1 only.
pub(super) fn tls(trust: &Trust) -> Option<TlsConnector> {
    let mut config = trust.config()?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(TlsConnector::from(Arc::new(config)))
}

/// Opens a connection. The caller sets the time limit.
pub(super) async fn open(
    target: &ServiceUrl,
    tls: Option<&TlsConnector>,
) -> Result<Box<dyn ServiceStream>, ServiceError> {
    let stream = dial(target).await.map_err(ServiceError::Unreachable)?;
    stream.set_nodelay(true).map_err(ServiceError::Unreachable)?;
    if !target.secure {
        return Ok(Box::new(stream));
    }
    let none = || io::Error::new(io::ErrorKind::Unsupported, "no TLS can be spoken");
    let tls = tls.ok_or_else(|| ServiceError::Tls(none()))?;
    let name = ServerName::try_from(target.host.clone())
        .map_err(|error| ServiceError::Tls(io::Error::other(error)))?;
    Ok(Box::new(tls.connect(name, stream).await.map_err(ServiceError::Tls)?))
}

/// Connects to the first address that accepts.
async fn dial(target: &ServiceUrl) -> io::Result<TcpStream> {
    let found: Vec<SocketAddr> =
        tokio::net::lookup_host((target.host.as_str(), target.port)).await?.collect();
    let mut addresses = found.into_iter();
    let mut tries = JoinSet::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        let next = addresses.next();
        let more = next.is_some();
        if let Some(address) = next {
            tries.spawn(TcpStream::connect(address));
        }
        let ended = if more {
            tokio::time::timeout(HEAD_START, tries.join_next()).await.ok().flatten()
        } else {
            tries.join_next().await
        };
        match ended {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => last = error,
            Some(Err(_)) => {}
            None if more => {}
            None => return Err(last),
        }
    }
}

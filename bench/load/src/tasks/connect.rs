//! Opens connections: TCP, and TLS if the plan uses it.

use super::Shared;
use crate::expect::Fault;
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;

/// A connection, in plain text or encrypted.
pub(super) trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// Opens a connection to the plan's target.
pub(super) async fn connect(shared: &Shared) -> Result<Box<dyn Io>, Fault> {
    shared.opened.set(shared.opened.get() + 1);
    let refused = |error: io::Error| {
        shared.refusal.set(Some(Errno::from_io_error(&error).unwrap_or(Errno::PROTO)));
        Fault::Connect
    };
    let target = shared.plan.target;
    let socket = if target.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(refused)?;
    let turn = shared.next_source.replace(shared.next_source.get() + 1);
    if let Some(source) = shared.plan.sources.get(turn % shared.plan.sources.len().max(1)) {
        socket.bind(SocketAddr::new(*source, 0)).map_err(refused)?;
    }
    let stream = socket.connect(target).await.map_err(refused)?;
    stream.set_nodelay(true).map_err(refused)?;
    match &shared.tls {
        None => Ok(Box::new(stream)),
        Some(client) => {
            let connector = TlsConnector::from(Arc::clone(&client.config));
            let stream = connector.connect(client.name.clone(), stream).await.map_err(refused)?;
            Ok(Box::new(stream))
        }
    }
}

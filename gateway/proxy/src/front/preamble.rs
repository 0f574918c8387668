//! Handles what precedes a connection's first request: a PROXY protocol header, then the TLS handshake. Connections that
//! belong to a stream of layer 4 leave from here.
//! [`connection::serve`](crate::front::connection::serve) calls [`preamble`] for listeners that have either.

use std::fmt::Display;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

use tollgate_net::{ProxyHeader, ProxyHeaderError, component};
use tollgate_observe::ProxyHeaderResult;
use tollgate_plan::ListenerProtocol;
use tracing::debug;

use crate::front::stream::{self, Taken};
use crate::state::client::{Client, ConnectionContext};
use crate::state::client_tls::ClientTls;
use crate::state::trusted_proxies::contains;

/// Handles the header and the handshake, each within `timeouts.handshake`. `None`: one of them failed, and
/// the connection is dropped; or a stream has taken it.
pub(crate) async fn preamble(mut client: Box<Client>) -> Option<Box<Client>> {
    let proxies = &client.connection_context.listener.proxy_protocol;
    if proxies.iter().any(|block| contains(block, client.peer.ip())) {
        receive_header(&mut client).await?;
    }
    let mut received = Vec::new();
    if let Some(table) = client.connection_context.listener.streams.clone() {
        // In a box, since the futures of all connections have the size of their largest state.
        (client, received) = match Box::pin(stream::take(client, table)).await {
            Taken::Stream => return None,
            Taken::Tls(client, received) => (client, received),
            Taken::Failed(client, reason) => {
                handshake_failed(client.peer, &client.connection_context, reason, &"there is no ClientHello");
                client.worker().stats.handshake_failed(reason);
                return None;
            }
        };
    }
    if client.connection_context.listener.tls.is_some() {
        client = Box::new(begin_tls(*client, received)?);
        complete_handshake(&mut client).await?;
        client.connection_context.tls = ClientTls::of(client.stream.tls());
    }
    if client.connection_context.listener.protocol != ListenerProtocol::Http {
        let table = client.connection_context.listener.streams.clone()?;
        stream::take_terminated(client, &table);
        return None;
    }
    Some(client)
}

/// Reads the PROXY header, which names the client. A trusted proxy that sends none is refused.
async fn receive_header(client: &mut Client) -> Option<()> {
    set_deadline(client);
    let mut received = Vec::new();
    let header = poll_fn(|cx| match client.stream.poll_proxy_header(cx, &mut received) {
        Poll::Ready(header) => Poll::Ready(Some(header)),
        Poll::Pending => client.deadline.poll_passed(cx).map(|()| None),
    });
    let result = match header.await {
        Some(Ok(ProxyHeader::Proxied { source, destination })) => {
            client.peer = SocketAddr::new(source.ip().to_canonical(), source.port());
            client.connection_context.destination = Some(Rc::new(destination));
            ProxyHeaderResult::Proxied
        }
        Some(Ok(ProxyHeader::Local)) => ProxyHeaderResult::Local,
        Some(Err(ProxyHeaderError::Malformed)) => ProxyHeaderResult::Malformed,
        Some(Err(ProxyHeaderError::Closed)) => ProxyHeaderResult::Closed,
        None => ProxyHeaderResult::Timeout,
    };
    client.worker().stats.proxy_header(result);
    let is_complete = matches!(result, ProxyHeaderResult::Proxied | ProxyHeaderResult::Local);
    if !is_complete {
        debug!(target: component::LISTENER, peer = %client.peer, reason = ?result, "there is no valid PROXY header");
    }
    is_complete.then_some(())
}

fn begin_tls(client: Client, received: Vec<u8>) -> Option<Client> {
    let Client { stream, peer, deadline, requests, connection_context } = client;
    let stream = stream.accept_tls(connection_context.listener.tls.as_ref()?.config(), received).ok()?;
    Some(Client { stream, peer, deadline, requests, connection_context })
}

/// Completes the TLS handshake.
async fn complete_handshake(client: &mut Client) -> Option<()> {
    set_deadline(client);
    let shaken = poll_fn(|cx| match client.stream.poll_handshake(cx) {
        Poll::Ready(result) => Poll::Ready(result.map_err(|error| {
            handshake_failed(client.peer, &client.connection_context, error.as_str(), &error);
            error.as_str()
        })),
        Poll::Pending => client.deadline.poll_passed(cx).map(|()| {
            let reason = "timeout";
            handshake_failed(client.peer, &client.connection_context, reason, &"it took too long");
            Err(reason)
        }),
    });
    let shaken = shaken.await;
    let stats = &client.worker().stats;
    match (shaken, client.stream.tls()) {
        (Ok(()), Some(tls)) => {
            stats.handshake_done(tls.version_number() == "1.3", tls.resumed);
            Some(())
        }
        (failed, _) => {
            stats.handshake_failed(failed.err().unwrap_or_default());
            None
        }
    }
}

#[cold]
fn handshake_failed(peer: SocketAddr, context: &ConnectionContext, reason: &str, why: &dyn Display) {
    let listener = &context.listener.bind;
    debug!(target: component::TLS, %peer, %listener, reason, "the TLS handshake of a client failed: {why}");
}

fn set_deadline(client: &Client) {
    let bound = client.worker().active.borrow().plan.settings.timeouts.handshake;
    client.deadline.set(tollgate_net::now(), bound);
}

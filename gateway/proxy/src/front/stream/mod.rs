//! The front of layer 4: finds the stream of a connection, and hands it over.
//!
//! [`preamble`](crate::front::preamble) calls [`take`] for connections of listeners with streams, after a PROXY protocol
//! header and before TLS. A connection whose stream depends on the server name waits for its ClientHello, whose bytes
//! are kept for the endpoint, or for the handshake if the gateway terminates TLS after all. [`start`] opens the record
//! and spawns the [relay](crate::exchange::stream).

mod hello;
mod trace;

pub(crate) use self::trace::trace;

use std::sync::Arc;
use std::time::Instant;

use tollgate_listen::StreamFull;
use tollgate_net::component;
use tollgate_observe::Reason;
use tollgate_plan::{ListenerProtocol, Stream, StreamTable};
use tollgate_tls::{ClientHello, FirstBytes, ja4};
use tracing::debug;

use self::hello::{HelloEnd, read_hello};
use crate::exchange::stream;
use crate::state::client::Client;
use crate::state::stream_record::{PassedTls, StreamRecord};

/// The result of [`take`].
pub(crate) enum Taken {
    /// A stream owns the connection, or it is closed.
    Stream,
    /// The connection continues with TLS. These bytes of its handshake were already read.
    Tls(Box<Client>, Vec<u8>),
    /// The handshake failed for this reason.
    Failed(Box<Client>, &'static str),
}

/// Takes a connection that belongs to a stream.
pub(crate) async fn take(mut client: Box<Client>, table: Arc<StreamTable>) -> Taken {
    let started = tollgate_net::now();
    let listener = client.connection_context.listener.clone();
    let is_terminated = listener.protocol != ListenerProtocol::Http && listener.tls.is_some();
    if is_terminated && !table.has_passthrough() {
        return Taken::Tls(client, Vec::new());
    }
    // A connection that no stream takes continues with TLS.
    let goes_on = is_terminated || listener.protocol == ListenerProtocol::Http;
    if !table.has_names() {
        start(client, table.other(), started, PassedTls::default(), Vec::new());
        return Taken::Stream;
    }
    let (first, received) = match read_hello(&mut client).await {
        Ok(read) => read,
        Err(HelloEnd::TimedOut) if goes_on => return Taken::Failed(client, "timeout"),
        Err(HelloEnd::Closed) if goes_on => return Taken::Failed(client, "closed"),
        Err(end) => {
            let mut record = StreamRecord::new(client.worker(), "TCP", client.peer, started);
            record.end(match end {
                HelloEnd::TimedOut => Reason::HandshakeTimeout,
                HelloEnd::Closed => Reason::ClientClosed,
            });
            return Taken::Stream;
        }
    };
    let hello = match first {
        FirstBytes::Hello(hello) => hello,
        // The handshake reports what is wrong.
        _ if goes_on => return Taken::Tls(client, received),
        FirstBytes::NotTls => ClientHello::default(),
        FirstBytes::Partial | FirstBytes::Malformed => {
            debug!(target: component::LISTENER, peer = %client.peer, "there is no valid ClientHello");
            let mut record = StreamRecord::new(client.worker(), "TCP", client.peer, started);
            record.end(Reason::BadClientHello);
            return Taken::Stream;
        }
    };
    let named = hello.server_name.as_deref().and_then(|name| table.named(name.as_bytes()));
    let named = named.filter(|stream| stream.passthrough || !is_terminated);
    if named.is_none() && goes_on {
        return Taken::Tls(client, received);
    }
    let is_logged = client.worker().log.borrow().takes(None);
    let fingerprint = if is_logged { ja4(&received) } else { None };
    let passed = PassedTls { server_name: hello.server_name.clone(), alpn: hello.alpn, ja4: fingerprint };
    start(client, named.or(table.other()), started, passed, received);
    Taken::Stream
}

/// Takes a connection whose TLS the gateway has terminated.
pub(crate) fn take_terminated(client: Box<Client>, table: &StreamTable) {
    let name = client.stream.tls().and_then(|tls| tls.server_name.clone());
    let stream = name.as_deref().and_then(|name| table.named(name.as_bytes())).or(table.other());
    start(client, stream, tollgate_net::now(), PassedTls::default(), Vec::new());
}

/// Opens the record of a connection, and starts to relay it if a stream takes it.
fn start(
    client: Box<Client>,
    stream: Option<&Arc<Stream>>,
    started: Instant,
    passed: PassedTls,
    received: Vec<u8>,
) {
    let worker = client.worker().clone();
    let mut record = StreamRecord::new(&worker, "TCP", client.peer, started);
    record.tls = client.connection_context.tls.clone();
    if passed.server_name.is_some() || !passed.alpn.is_empty() || passed.ja4.is_some() {
        record.passed = Some(Box::new(passed));
    }
    record.bytes_in = received.len() as u64;
    let Some(stream) = stream else { return record.end(Reason::NoStream) };
    let state = worker.stream_state(stream);
    match state.take_slot(client.peer.ip()) {
        Ok(slot) => record.taken(&state, slot),
        Err(full) => {
            record.taken(&state, None);
            client.stream.reset_on_close();
            return record.end(match full {
                StreamFull::Stream => Reason::StreamLimit,
                StreamFull::Address => Reason::AddressLimit,
            });
        }
    }
    if stream.shares.is_empty() {
        return record.end(Reason::NoStream);
    }
    tollgate_net::spawn(stream::run(client, record, received));
}

//! Relays a connection of layer 4: [`establish`] picks an endpoint and connects, [`run`] moves bytes until both sides
//! have ended.
//!
//! The front calls [`run`] in a task of its own once the stream of a connection is known. An idle stream holds two
//! sockets, its record, and no buffer: bytes go through the worker's receive buffer, and the buffers for bytes that a
//! peer does not take are lent by the worker.

mod establish;

pub(crate) use self::establish::choose;

use std::future::{Future, poll_fn};
use std::task::Poll;

use tollgate_observe::Reason;
use tollgate_upstream::Connection;

use crate::exchange::relay::Direction;
use crate::state::backlog::Backlog;
use crate::state::client::Client;
use crate::state::client_side::Duplex;
use crate::state::stream_record::StreamRecord;
use crate::state::time_limit::TimeLimit;
use crate::state::worker::Worker;

/// An established connection: both sides, its record, and the bytes that a side has not taken.
///
/// It is in a box, and [`relay`] borrows from it: a future would hold what moves into it twice. In this way the task of
/// an idle stream takes 250 bytes instead of 1,400.
struct Established {
    client: Box<Client>,
    record: StreamRecord,
    endpoint: Connection,
    to_endpoint: Backlog,
    to_client: Backlog,
}

/// Relays a connection to its end. `received` has bytes that the client has sent and that were read already; they go
/// to the endpoint first.
pub(crate) fn run(client: Box<Client>, record: StreamRecord, received: Vec<u8>) -> impl Future<Output = ()> {
    // In a box that is freed before the relay, since a future keeps the size of its largest state.
    let establishing = Box::pin(establish::establish(client, record, received));
    async move {
        if let Some(mut established) = establishing.await {
            relay(&mut established).await;
        }
    }
}

/// Why a relay ends.
enum End {
    /// Both sides closed.
    Both,
    /// The client reset its connection.
    ClientReset,
    /// The endpoint reset its connection.
    EndpointReset,
    TimedOut,
}

/// Moves bytes in both directions. The end of one side is passed on alone, and a reset as a reset.
async fn relay(established: &mut Established) {
    let Established { client, record, endpoint, to_endpoint, to_client } = established;
    let Some(state) = record.state().cloned() else { return };
    let total = TimeLimit::new(record.started(), state.stream.total);
    // The bytes that were read before are counted already.
    let (mut bytes_in, mut bytes_out) = (record.bytes_in, 0);
    let worker = client.connection_context.worker();
    let mut up = Direction::new(worker, &mut bytes_in, None, None);
    let mut down = Direction::new(worker, &mut bytes_out, None, None);
    let now = tollgate_net::now();
    client.deadline.set(now, total.within(now, state.stream.idle));
    let end = poll_fn(|cx| {
        if client.deadline.poll_passed(cx).is_ready() {
            return Poll::Ready(End::TimedOut);
        }
        let before = (up.bytes(), down.bytes());
        to_endpoint.lend(|| worker.stream_buffers.take());
        to_client.lend(|| worker.stream_buffers.take());
        let there = up.poll(cx, worker, false, &mut client.stream, endpoint, to_endpoint);
        down.learn_from(&up);
        let back = down.poll(cx, worker, false, endpoint, &mut client.stream, to_client);
        up.learn_from(&down);
        reclaim(worker, to_endpoint);
        reclaim(worker, to_client);
        let moved = (up.bytes() - before.0, down.bytes() - before.1);
        if moved != (0, 0) {
            (record.bytes_in, record.bytes_out) = (up.bytes(), down.bytes());
            record.count_moved(moved.0, moved.1);
            let now = tollgate_net::now();
            client.deadline.set(now, total.within(now, state.stream.idle));
        }
        match (there, back) {
            (Poll::Ready(Err(())), _) => Poll::Ready(End::ClientReset),
            (_, Poll::Ready(Err(()))) => Poll::Ready(End::EndpointReset),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(End::Both),
            _ => client.deadline.poll_passed(cx).map(|()| End::TimedOut),
        }
    })
    .await;
    record.end(match end {
        End::Both => Reason::None,
        End::ClientReset => {
            endpoint.reset();
            Reason::ClientClosed
        }
        End::EndpointReset => {
            client.stream.reset();
            Reason::ConnectionTerminated
        }
        End::TimedOut if total.is_over() => Reason::TotalTimeout,
        End::TimedOut => Reason::IdleTimeout,
    });
}

/// Takes the buffer of an empty backlog back.
fn reclaim(worker: &Worker, backlog: &mut Backlog) {
    if let Some(buffer) = backlog.reclaim()
        && worker.stream_buffers.put(buffer)
    {
        worker.shrink_later();
    }
}

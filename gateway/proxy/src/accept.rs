//! Connections come in, or go to a less loaded worker.

use std::future::poll_fn;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tollgate_net::{Listener, Stream};
use tollgate_observe::Reason;

use crate::connection::Client;
use crate::worker::{Control, Worker};

/// How long accepting pauses when the process is out of file descriptors or memory.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts until the worker drains, and hands each connection to `serve` here or to another worker.
pub(crate) async fn accept(worker: Rc<Worker>, listener: Listener, serve: impl Fn(Client)) {
    let pause = worker.timers.deadline();
    loop {
        let accepted = poll_fn(|cx| {
            if worker.draining.get() {
                return Poll::Ready(None);
            }
            worker.until_drain(cx);
            listener.poll_accept(cx).map(Some)
        });
        match accepted.await {
            None => return,
            Some(Ok((stream, peer))) => place(&worker, stream, peer, &serve),
            Some(Err(error)) if is_passing(&error) => {}
            // Out of something: connections wait in the kernel's queue meanwhile.
            Some(Err(_)) => {
                pause.set(Instant::now(), Some(PAUSE));
                poll_fn(|cx| pause.poll_passed(cx)).await;
            }
        }
    }
}

/// Errors of one connection that died in the queue (accept(2)): the next one may be fine.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

fn place(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr, serve: &impl Fn(Client)) {
    if worker.is_full() {
        return refuse(worker, stream);
    }
    let other = worker.less_loaded();
    if other == worker.id {
        return admit(worker, stream, peer, serve);
    }
    worker.stats.handed_over();
    if let Err(stream) = worker.mailboxes[other].send(Control::Connection(stream, peer))
        && let Control::Connection(stream, peer) = stream
    {
        admit(worker, stream, peer, serve);
    }
}

/// Registers a connection with this worker and starts to serve it.
pub(crate) fn admit(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr, serve: &impl Fn(Client)) {
    // A socket that the poller refuses is closed by being dropped.
    if let Ok(stream) = Stream::from_std(stream) {
        serve(Client::new(worker, stream, peer));
    }
}

/// One connection too many: it is told so, as far as it listens, and closed.
fn refuse(worker: &Worker, mut stream: TcpStream) {
    worker.stats.client_rejected();
    let reason = Reason::ConnectionLimit.as_str();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nTollgate-Reason: {reason}\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{reason}\n",
        reason.len() + 1
    );
    // It fits any send queue; who is gone already does not read it.
    let _ = stream.write_all(answer.as_bytes());
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

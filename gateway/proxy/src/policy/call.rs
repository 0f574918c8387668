//! Requests of the gateway's own to upstreams, beside the client's: copies of requests.
//!
//! A call is an exchange like any other, with a client's side that has all of the request and takes all of the response. So
//! it goes over the worker's connections, whatever the endpoints speak, and under the upstream's health, limits and breaker.
//! It has no line in the access log and counts as no request of a client's.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use tollgate_http::RequestHead;
use tollgate_http::h1::{BodyReader, Length};
use tollgate_net::{Negotiated, Peek};
use tollgate_observe::Reason;
use tollgate_policy::Context;
use tollgate_upstream::Connection;

use super::policed::Policed;
use crate::active::ActivePlan;
use crate::backlog::{Backlog, Sink};
use crate::client_side::{ClientStream, Duplex};
use crate::connection::Client;
use crate::decide::rewrite;
use crate::forward::forward;
use crate::grpc::Grpc;
use crate::http2::EndpointStream;
use crate::ledger::Ledger;
use crate::scratch::{Loan, Scratch};
use crate::worker::Worker;

/// A request of the gateway's own to an upstream.
#[derive(Debug)]
pub(super) struct Call {
    /// The upstream, by name.
    pub upstream: Arc<str>,
    /// Its head.
    pub head: RequestHead,
    /// Its path in normal form, where that is not what stands in the head. The route's rewrite holds for it.
    pub path: Vec<u8>,
    /// All of its body.
    pub body: Vec<u8>,
    /// How long it may take, from its begin to the last byte of its answer.
    pub timeout: Duration,
    /// Bytes of the answer's body that are taken.
    pub most: usize,
}

/// Where calls are made from: a request that is being carried.
#[derive(Debug)]
pub(super) struct Calling {
    /// What stands for its client, with where that came in and from whom.
    client: Client<()>,
    worker: Rc<Worker>,
    active: Rc<ActivePlan>,
    route: u32,
    secure: Option<Negotiated>,
    local: Option<SocketAddr>,
    grpc: Option<Grpc>,
    request_id: Vec<u8>,
}

impl Calling {
    /// From the request in `scratch`, which takes this route.
    pub fn new(
        client: &Client<Policed<'_>>,
        worker: &Rc<Worker>,
        scratch: &Scratch,
        active: &Rc<ActivePlan>,
        route: u32,
    ) -> Self {
        let may_be_grpc = client.stream.may_be_grpc();
        Self {
            client: Client::of_stream(&client.link, (), client.peer, client.requests),
            worker: worker.clone(),
            active: active.clone(),
            route,
            secure: client.stream.tls().cloned(),
            local: client.stream.local_address(),
            grpc: scratch.grpc.filter(|_| may_be_grpc),
            request_id: scratch.ledger.request_id.clone(),
        }
    }

    /// Makes a call, and says with which status it was answered. Nobody wants the body.
    ///
    /// # Errors
    /// Why no answer came from the upstream.
    pub async fn call(self, call: Call) -> Result<u16, Reason> {
        let Self { client, worker, active, route, secure, local, grpc, request_id } = self;
        let upstream = active.by_name(&call.upstream).ok_or(Reason::DestinationUnavailable)?.clone();
        let Call { mut head, path, body, timeout, most, .. } = call;
        head.expect_continue = false;
        if matches!(head.length, Length::Chunked | Length::UntilClose) {
            head.remove_all(b"content-length");
            head.append(b"Content-Length", body.len().to_string().as_bytes());
        }
        head.length = if body.is_empty() { Length::None } else { Length::Exactly(body.len() as u64) };
        let mut loan = Loan::new(&worker);
        let scratch = &mut *loan;
        scratch.next_request();
        scratch.ledger = Ledger::default();
        scratch.ledger.request_id = request_id;
        scratch.grpc = grpc;
        scratch.request = head;
        scratch.path.extend_from_slice(&path);
        scratch.inbox.clear();
        scratch.inbox.extend_from_slice(&body);
        rewrite(active.route(route), scratch)?;
        let mut side = Inner { secure, local, grpc: grpc.is_some(), most, ..Inner::default() };
        let mut context = Context::default();
        let policed = Policed::new(&mut side, &mut context, &scratch.request);
        let mut stand_in = Client::of_stream(&client.link, policed, client.peer, client.requests);
        let deadline = worker.timers.deadline();
        deadline.set(tollgate_net::now(), Some(timeout));
        let to = (route, &upstream);
        let in_time = if upstream.is_http2() {
            let exchange = forward::<_, EndpointStream>(&mut stand_in, &worker, scratch, &active, to);
            within(&deadline, exchange).await
        } else {
            let exchange = forward::<_, Connection>(&mut stand_in, &worker, scratch, &active, to);
            within(&deadline, exchange).await
        };
        drop(stand_in);
        let reason = loan.ledger.reason;
        loan.ledger = Ledger::default();
        match side {
            _ if !in_time => Err(Reason::RequestTimeout),
            Inner { own: false, done: true, status, .. } => Ok(status),
            _ if reason == Reason::None => Err(Reason::HttpResponseIncomplete),
            _ => Err(reason),
        }
    }
}

/// Whether it has ended in time.
async fn within(deadline: &tollgate_net::Deadline, exchange: impl Future) -> bool {
    let mut exchange = pin!(exchange);
    poll_fn(|cx| match exchange.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending => deadline.poll_passed(cx).map(|()| false),
    })
    .await
}

/// The client's side of a call: it has sent everything, and takes everything.
#[derive(Debug, Default)]
struct Inner {
    status: u16,
    /// The gateway answered, and not the upstream.
    own: bool,
    /// All of the response has come.
    done: bool,
    /// Bytes of a body that have come.
    taken: usize,
    most: usize,
    secure: Option<Negotiated>,
    local: Option<SocketAddr>,
    grpc: bool,
}

impl Sink for Inner {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }

    fn poll_write(&mut self, _: &mut Task<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }
}

impl Duplex for Inner {
    /// All of the body was there from the begin.
    fn poll_read(&mut self, _: &mut Task<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(0))
    }

    fn poll_shutdown(&mut self, _: &mut Task<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl ClientStream for Inner {
    fn take_trailers(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn poll_peek(&mut self, _: &mut Task<'_>) -> Poll<Peek> {
        Poll::Pending
    }

    fn poll_room(&mut self, _: &mut Task<'_>) -> Poll<usize> {
        Poll::Ready(usize::MAX)
    }

    fn interim(&mut self, _: &mut Backlog, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn switch(&mut self, _: &mut Backlog, _: &[u8], _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn respond(
        &mut self,
        _: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        _: bool,
        data: &[u8],
    ) -> io::Result<()> {
        if !head.is_empty() {
            let digits = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
            self.status = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
        }
        self.taken += data.len();
        if self.taken > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.done |= body.is_done();
        Ok(())
    }

    fn answer(&mut self, _: &mut Backlog, _: &[u8], _: &[u8]) -> io::Result<()> {
        self.own = true;
        Ok(())
    }

    fn tls(&self) -> Option<&Negotiated> {
        self.secure.as_ref()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.local
    }

    fn may_be_grpc(&self) -> bool {
        self.grpc
    }
}

//! What bounds the reading of a body that has to be here as a whole before anything else is done.

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tollgate_observe::Reason;
use tollgate_plan::Route;

use crate::backlog::Backlog;
use crate::client_side::ClientStream;
use crate::connection::Client;
use crate::total::Total;

/// A body that is being read, and how long the client may take for it.
pub(crate) struct Intake {
    total: Total,
    /// From one piece to the next.
    each: Option<Duration>,
}

impl Intake {
    /// Begins, for a request that began then. `asks`: the client waits to be told to send it.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn begin<S: ClientStream>(
        client: &mut Client<S>,
        to_client: &mut Backlog,
        route: &Route,
        started: Option<Instant>,
        asks: bool,
    ) -> Result<Self, Reason> {
        let total = Total::new(started.unwrap_or_else(tollgate_net::now), route.timeouts.total);
        let intake = Self { total, each: route.timeouts.body };
        intake.went_on(client);
        if asks {
            // The gateway is who asks for the body here, not the origin.
            let sent = client.stream.interim(to_client, b"HTTP/1.1 100 Continue\r\n\r\n");
            sent.map_err(|_| Reason::ClientClosed)?;
        }
        Ok(intake)
    }

    /// A piece came, and the time for the next one begins.
    pub fn went_on<S>(&self, client: &mut Client<S>) {
        let now = tollgate_net::now();
        client.deadline.set(now, self.total.within(now, self.each));
    }

    /// Waits until more may be read: all that was for the client has gone.
    pub fn poll_may_read<S: ClientStream>(
        &self,
        client: &mut Client<S>,
        to_client: &mut Backlog,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Reason>> {
        if client.deadline.poll_passed(cx).is_ready() {
            let over = self.total.is_over();
            return Poll::Ready(Err(if over { Reason::RequestTimeout } else { Reason::BodyTimeout }));
        }
        let flushed = ready!(to_client.poll_flush(cx, &mut client.stream));
        Poll::Ready(flushed.map_err(|_| Reason::ClientClosed))
    }
}

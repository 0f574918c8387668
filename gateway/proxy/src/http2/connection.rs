//! One connection: its frames are read, and a task started for each stream.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tollgate_http2::{Begun, Connection, Reason, Settings};
use tollgate_net::Deadline;

use super::held;
use super::intake::{Intake, Standing, after_others};
use super::io::Io;
use super::request;
use super::shared::Shared;
use super::stream::Http2Stream;
use crate::connection::Client;
use crate::worker::Worker;

/// How long a connection that was told to end has to take what it was told.
const FAREWELL: Duration = Duration::from_secs(2);
/// The largest window that there can be (RFC 9113, 6.9.1).
const LARGEST_WINDOW: u32 = (1 << 31) - 1;
/// Bytes that the kernel may keep unsent. What it takes is lost to streams that have something more urgent to say; and of who
/// opens all windows and reads nothing, it would take hundreds of answers.
const UNSENT: u32 = 32 * 1024;
/// Streams of a connection that may be gone before they are begun, beside as many as were.
const STILLBORN: u64 = 100;
/// As many as one of those are streams that were refused, as a client's may be that asks before it knows how much it may.
const REFUSED: u64 = 4;

/// Serves a connection to its end. `early` is what has come of it already.
pub(super) async fn serve(client: Box<Client>, early: Vec<u8>) {
    let Client { stream, peer, deadline, link, .. } = *client;
    let worker = link.worker().clone();
    let (intake, tls) = (Intake::new(worker.http2_turns.clone()), stream.tls().cloned());
    let local_address = stream.local_address();
    stream.limit_unsent(UNSENT);
    let io = Io::new(stream, worker.clone(), early, intake.clone());
    let now = tollgate_net::now();
    link.open(now);
    deadline.set(now, worker.active.borrow().plan.settings.timeouts.header);
    let connection = Connection::new(settings(&worker), &worker.http2_totals);
    let shared = Shared::new(connection, link, tls, local_address);
    let mut serving = Serving {
        io,
        shared,
        peer,
        deadline,
        intake,
        has_looked: false,
        requests: 0,
        phase: Phase::Greeting,
        idle: None,
        goodbye: None,
        age: None,
    };
    serving.age();
    poll_fn(|cx| serving.poll(cx)).await;
}

/// What the client is told.
fn settings(worker: &Worker) -> Settings {
    let active = worker.active.borrow();
    let (limits, head) = (&active.plan.settings.limits, &active.plan.settings.head_limits);
    // 32 bytes are counted for each field (RFC 9113, 6.5.2), and pseudo-fields too. What is between this limit and the
    // configured one is answered with a reason.
    let fields = head.head.saturating_add(head.fields.saturating_mul(32)).saturating_add(1024);
    Settings {
        streams: limits.http2_streams,
        window: limits.http2_window,
        connection_window: limits.http2_window.saturating_mul(2).min(LARGEST_WINDOW),
        fields: u32::try_from(fields).unwrap_or(u32::MAX),
    }
}

/// Where a connection is between its begin and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The client's SETTINGS have not come.
    Greeting,
    Open,
    /// The client knows that it is to send no more requests.
    Leaving,
    /// The last frame is on its way.
    Ending,
}

struct Serving {
    io: Io,
    shared: Rc<Shared>,
    peer: SocketAddr,
    deadline: Deadline,
    intake: Rc<Intake>,
    /// Whether what had come with the requests was looked at.
    has_looked: bool,
    requests: u64,
    phase: Phase,
    /// For what the deadline is set: whether there were streams, and the phase.
    idle: Option<(bool, Phase)>,
    /// By when a client that was told to send no more requests is taken to know it.
    goodbye: Option<Deadline>,
    /// Passes when the connection is too old; `None`: it has no bound.
    age: Option<Deadline>,
}

impl Serving {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.intake.turn();
        self.connection().wait(cx);
        loop {
            // Who leaves unread what was sent is not heard until that has gone.
            let is_full = self.connection().is_full();
            let taken =
                if self.phase == Phase::Ending || is_full { Poll::Ready(true) } else { self.take_in(cx) };
            if self.phase == Phase::Greeting && self.connection().is_greeted() {
                self.phase = Phase::Open;
            }
            if self.phase != Phase::Ending && self.is_to_end() {
                self.phase = Phase::Ending;
                self.tell_of_end();
                self.deadline.set(tollgate_net::now(), Some(FAREWELL));
                continue;
            }
            if self.phase == Phase::Open && self.shared.has_aged() {
                self.age();
            }
            let is_too_old = self.age.as_ref().is_some_and(|age| age.poll_passed(cx).is_ready());
            if self.phase == Phase::Open && (is_too_old || self.is_to_leave()) {
                self.age = None;
                self.phase = Phase::Leaving;
                self.connection().say_goodbye();
                let deadline = self.shared.worker().timers.deadline();
                deadline.set(tollgate_net::now(), Some(FAREWELL));
                self.goodbye = Some(deadline);
            }
            if self.goodbye.as_ref().is_some_and(|deadline| deadline.poll_passed(cx).is_ready()) {
                self.goodbye = None;
                self.connection().close_goodbye();
            }
            let is_over = match self.io.poll_write(&self.shared.connection, cx) {
                Poll::Ready(Err(_)) => true,
                Poll::Ready(Ok(())) => self.phase == Phase::Ending && self.io.poll_shutdown(cx).is_ready(),
                Poll::Pending => false,
            };
            if is_over {
                return Poll::Ready(());
            }
            let Poll::Ready(is_there) = taken else {
                self.wait();
                self.shared.wake_later(cx);
                return Poll::Pending;
            };
            if !is_there {
                return Poll::Ready(());
            }
            // What was written may have changed what may be done.
            let connection = self.connection();
            let has_room = is_full && !connection.is_full();
            let may_begin = connection.has_next() && self.shared.may_begin();
            if self.phase != Phase::Ending
                && !connection.is_full()
                && (has_room || may_begin || connection.is_over())
            {
                continue;
            }
            self.wait();
            self.shared.wake_later(cx);
            if self.deadline.poll_passed(cx).is_pending() {
                return Poll::Pending;
            }
            match self.phase {
                // Who never greets is told nothing.
                Phase::Greeting | Phase::Ending => return Poll::Ready(()),
                Phase::Open | Phase::Leaving => self.connection().end(Reason::NO_ERROR),
            }
        }
    }

    /// Sets when it is too old.
    #[cold]
    fn age(&mut self) {
        let now = tollgate_net::now();
        let Some(left) = self.shared.link.age_left(now) else { return };
        let age = self.age.get_or_insert_with(|| self.shared.worker().timers.deadline());
        age.set(now, Some(left));
    }

    fn connection(&self) -> &Connection {
        &self.shared.connection
    }

    /// Its streams are to hear that it has ended.
    fn tell_of_end(&self) {
        if !self.shared.is_idle() {
            self.shared.worker().http2_turns.ends(&self.shared);
        }
    }

    /// Whether the connection has nothing more to do but to say so.
    fn is_to_end(&self) -> bool {
        let connection = self.connection();
        if self.intake.is_exhausted() {
            connection.end(Reason::ENHANCE_YOUR_CALM);
        }
        connection.ended().is_some() || connection.is_over()
    }

    /// Reads what has come. Ready: the client has gone.
    fn poll_come(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while ready!(self.poll_read(cx)) {}
        Poll::Ready(())
    }

    /// Reads once. Whether the client is still there.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.connection().ended().is_some() {
            return Poll::Pending;
        }
        let read = ready!(self.io.poll_read(&self.shared, cx));
        // Reset by the client, or here for a frame that breaks the protocol, before they were begun: nobody waits for an
        // answer, and who does so again and again wants none.
        let (stillborn, refused) = (self.connection().stillborn(), self.connection().refused());
        if stillborn + refused / REFUSED > STILLBORN + self.requests {
            self.intake.exhaust();
        }
        Poll::Ready(read.is_ok_and(|count| count > 0))
    }

    /// Reads what has come, and begins what may be begun of it; the rest waits with the connection, which keeps no more than
    /// may be open at once, unless their heads are too large. Ready when nothing is left to do now: whether the client is still there.
    fn take_in(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // What has come since the last turn may be why what waits is not to be begun.
        if self.connection().has_next() && self.poll_read(cx) == Poll::Ready(false) {
            return Poll::Ready(false);
        }
        loop {
            if self.connection().has_next() && self.intake.has_begun_enough(cx) {
                self.refuse_what_is_too_much();
                return Poll::Pending;
            }
            if self.shared.client() == Standing::Stranger && !self.has_looked {
                // What it asks for is begun when more of what it has sent was looked at.
                let has_gone = self.poll_come(cx).is_ready();
                if has_gone || self.intake.is_exhausted() || !self.connection().has_next() {
                    return Poll::Ready(!has_gone);
                }
                self.refuse_what_is_too_much();
                self.has_looked = true;
                after_others(cx);
                return Poll::Pending;
            }
            if self.intake.is_exhausted() {
                return Poll::Ready(true);
            }
            if !self.shared.may_begin() {
                let has_gone = self.poll_come(cx).is_ready();
                // What came meanwhile may have changed that.
                if has_gone || !self.shared.may_begin() && !held::is_too_much(self.connection()) {
                    self.refuse_what_is_too_much();
                    if self.connection().has_next() {
                        self.shared.wait();
                    }
                    return Poll::Ready(!has_gone);
                }
            }
            if let Some(begun) = self.connection().next() {
                self.begin_or_refuse(begun);
                continue;
            }
            match self.poll_read(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(false),
                Poll::Pending => {
                    self.has_looked = false;
                    self.shared.waits_no_longer();
                    return Poll::Ready(true);
                }
            }
        }
    }

    /// A request is to be begun, or refused where too many wait already.
    fn begin_or_refuse(&mut self, Begun { stream, fields }: Begun) {
        if !self.shared.may_begin() {
            self.intake.refusal();
            return held::refuse(&stream);
        }
        self.intake.request();
        self.requests += 1;
        let stream = Http2Stream::new(stream, self.shared.clone());
        let client = Client::of_stream(&self.shared.link, stream, self.peer, self.requests);
        request::start(client, fields);
    }

    /// What waits for its turn is bounded.
    fn refuse_what_is_too_much(&self) {
        held::refuse_what_is_too_much(self.connection(), self.shared.client());
    }

    /// Whether the client is to be told to send no more requests.
    fn is_to_leave(&self) -> bool {
        let link = &self.shared.link;
        let limit = link.worker().active.borrow().plan.settings.limits.requests_per_connection;
        link.is_leaving() && (self.requests > 0 || link.is_draining())
            || limit.is_some_and(|limit| self.requests >= limit)
    }

    /// Sets the deadline when what it is for has changed.
    fn wait(&mut self) {
        let for_what = Some((self.shared.is_idle(), self.phase));
        if self.idle == for_what || self.phase == Phase::Ending {
            return;
        }
        self.idle = for_what;
        let link = &self.shared.link;
        let bound = match for_what {
            // Set before.
            Some((_, Phase::Greeting)) => return,
            // Each stream has its own.
            Some((false, _)) | None => None,
            Some((true, Phase::Open)) => self.shared.idle(),
            Some((true, _)) => [link.worker().grace.get(), self.shared.idle()].into_iter().flatten().min(),
        };
        match bound {
            Some(_) => self.deadline.set(tollgate_net::now(), bound),
            None => self.deadline.clear(),
        }
    }
}

impl Drop for Serving {
    /// Streams whose connection is gone hear of it.
    fn drop(&mut self) {
        self.shared.connection.cut();
        self.tell_of_end();
    }
}

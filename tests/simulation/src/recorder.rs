//! The record of a run: requests sent, deliveries at origins, outcomes at clients, and violations. Clients
//! and origins write it while they run; `audit` reads it after the end.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tollgate_net::simulated;

use crate::scenario::{Ask, Body, Leave};

/// A shared handle to the record of a run.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Rc<RefCell<RunRecord>>);

/// The contents of the record.
#[derive(Debug, Default)]
pub struct RunRecord {
    /// Every request that a client started to send, by its number.
    pub asked: BTreeMap<u64, Asked>,
    /// Every request whose head an origin read, in order.
    pub deliveries: Vec<Delivery>,
    /// Violations that a party noticed at once.
    pub violations: Vec<String>,
    /// Periods of lacking resources: their start and end, and the priority below which requests were shed.
    pub pressed: Vec<(Duration, Duration, u8)>,
    /// Every stream that a client started, by its number.
    pub streams: BTreeMap<u64, StreamRecord>,
    /// Connections on which a client got the gateway's refusal before it could send a request.
    pub turned_away: u64,
}

/// A stream, as its client and its server saw it.
#[derive(Clone, Debug, Default)]
pub struct StreamRecord {
    /// The gateway accepted the connection.
    pub connected: bool,
    /// The client got the server's greeting.
    pub greeted: bool,
    /// The client sent everything, and then its end.
    pub finished: bool,
    /// The client could not send everything.
    pub write_failed: bool,
    /// The client closed before the end.
    pub left: bool,
    /// The end of the client's bytes arrived at the server, which then sent its own.
    pub end_arrived: bool,
    /// The server closed before the end, in this way.
    pub cut: Option<Leave>,
    /// Bytes that the server sent back.
    pub echoed: usize,
    /// Bytes that came back to the client.
    pub came: usize,
    /// How it ended at the client; `None` before that.
    pub end: Option<StreamEnd>,
    /// When it ended at the client, in virtual time.
    pub until: Duration,
}

/// How a stream ended at its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The connection was refused.
    NoConnection,
    /// With an orderly end.
    Whole,
    /// With a reset.
    Reset,
    /// The client itself closed before.
    Left,
}

/// A request from its client's point of view.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// Whether the request has a body.
    pub body: bool,
    /// Whether the body breaks off with an invalid chunk.
    pub broken: bool,
    /// When the client started to send it, in virtual time.
    pub at: Duration,
    /// When it ended; `Duration::MAX` before that.
    pub until: Duration,
    /// Its outcome.
    pub got: Got,
}

/// The outcome of a request at its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// No outcome yet.
    Waiting,
    /// The connection was refused.
    NoConnection,
    /// The client received a whole answer.
    Whole(Answer),
    /// The connection ended, or was reset, before a whole answer.
    Cut {
        /// The status, if the head arrived.
        status: Option<u16>,
    },
    /// No answer: the previous answer had announced the end of the connection.
    Told,
    /// The client itself closed before.
    Left,
    /// The request became a tunnel.
    Tunnel {
        /// Whether all bytes came back, followed by the end.
        whole: bool,
    },
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// `Tollgate-Reason`, if the gateway generated the answer.
    pub reason: Option<String>,
    /// The delivery that it answers; `None` if the gateway generated it.
    pub delivery: Option<usize>,
    /// The length of its body, in bytes.
    pub length: usize,
}

/// A request from an origin's point of view.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The request's number.
    pub request: u64,
    /// The origin's number.
    pub origin: usize,
    /// The upstream's number.
    pub upstream: usize,
    /// The `Cookie` field.
    pub cookie: Option<String>,
    /// When its head had arrived, in virtual time.
    pub at: Duration,
    /// Whether its body arrived whole.
    pub whole: bool,
    /// The answer that the origin gave; `None` before that.
    pub answer: Option<Planned>,
}

/// The answer that an origin intends to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The status.
    pub status: u16,
    /// The length that a client must count for the body, in bytes.
    pub length: usize,
    /// Whether the end of the stream marks the end of the body.
    pub to_the_end: bool,
    /// Whether the origin sent it to its end.
    pub finished: bool,
    /// Whether a client can tell an unfinished answer from a finished one.
    pub detectable: bool,
}

impl Recorder {
    /// Borrows the record for reading.
    #[must_use]
    pub fn read(&self) -> Ref<'_, RunRecord> {
        self.0.borrow()
    }

    /// Borrows the record for writing.
    pub fn write(&self) -> RefMut<'_, RunRecord> {
        self.0.borrow_mut()
    }

    /// Records a violation, and notes it in the trace.
    pub fn violation(&self, text: String) {
        simulated::note(&format!("VIOLATION: {text}"));
        self.write().violations.push(text);
    }

    /// Changes the entry of a stream.
    pub fn stream(&self, number: u64, change: impl FnOnce(&mut StreamRecord)) {
        change(self.write().streams.entry(number).or_default());
    }

    /// Records that a client starts to send a request.
    pub fn ask(&self, ask: &Ask) {
        let Ask { number, method, body, .. } = ask;
        simulated::note(&format!("ask {number} {method}"));
        let asked = Asked {
            method: (*method).to_owned(),
            body: *body != Body::None,
            broken: matches!(body, Body::Broken(_)),
            at: simulated::elapsed(),
            until: Duration::MAX,
            got: Got::Waiting,
        };
        self.write().asked.insert(*number, asked);
    }

    /// Records the outcome of a request. A second outcome of the same request is a violation.
    pub fn got(&self, number: u64, got: Got) {
        simulated::note(&format!("got {number} {got:?}"));
        let mut record = self.write();
        let Some(asked) = record.asked.get_mut(&number) else {
            return record.violations.push(format!("an answer to {number}, which nobody asked"));
        };
        asked.until = simulated::elapsed();
        let before = std::mem::replace(&mut asked.got, got);
        if before != Got::Waiting {
            record.violations.push(format!("a second end of {number}: {before:?}"));
        }
    }

    /// Records that an origin read a head. Returns the delivery's number.
    pub fn deliver(&self, request: u64, (origin, upstream): (usize, usize), cookie: Option<String>) -> usize {
        let mut record = self.write();
        let at = simulated::elapsed();
        record.deliveries.push(Delivery {
            request,
            origin,
            upstream,
            cookie,
            at,
            whole: false,
            answer: None,
        });
        let number = record.deliveries.len() - 1;
        simulated::note(&format!("delivery {number}: {request} at origin {origin}"));
        number
    }
}

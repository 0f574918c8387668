//! What happened: what was asked, what origins saw, what clients got, what the gateway wrote down.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tollgate_net::simulated;

use crate::scenario::{Ask, Body};

/// The books of a run.
#[derive(Clone, Debug, Default)]
pub struct Books(Rc<RefCell<Pages>>);

/// What is in them.
#[derive(Debug, Default)]
pub struct Pages {
    /// Every request that a client began to send, by its number.
    pub asked: BTreeMap<u64, Asked>,
    /// Every request that an origin read the head of, in order.
    pub deliveries: Vec<Delivery>,
    /// What must not be, seen at once.
    pub violations: Vec<String>,
    /// From when to when which priorities were turned away for want of means: those below this one.
    pub pressed: Vec<(Duration, Duration, u8)>,
    /// Connections on which a client got the gateway's refusal before it could ask.
    pub turned_away: u64,
}

/// A request as its client sees it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Method.
    pub method: String,
    /// Whether it has a body.
    pub body: bool,
    /// Whether its body breaks off in what is no chunk.
    pub broken: bool,
    /// When it began.
    pub at: Duration,
    /// When it ended.
    pub until: Duration,
    /// What the client got.
    pub got: Got,
}

/// What a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// Nothing yet.
    Waiting,
    /// No connection.
    NoConnection,
    /// A whole answer.
    Whole(Answer),
    /// The connection ended, or was reset, before a whole answer.
    Cut {
        /// The status, if so much came.
        status: Option<u16>,
    },
    /// Nothing: the answer before had said that the connection ends with it.
    Told,
    /// The client itself left before.
    Left,
    /// A tunnel.
    Tunnel {
        /// Whether all that was sent came back, and then the end.
        whole: bool,
    },
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// `Tollgate-Reason`, if the gateway made it.
    pub reason: Option<String>,
    /// The delivery that it answers; `None`: the gateway made it.
    pub delivery: Option<usize>,
    /// Bytes of its body.
    pub length: usize,
}

/// A request as an origin sees it.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The request's number.
    pub request: u64,
    /// The origin's number.
    pub origin: usize,
    /// The upstream's number.
    pub upstream: usize,
    /// Its `Cookie`.
    pub cookie: Option<String>,
    /// When its head was there.
    pub at: Duration,
    /// Whether its body came whole.
    pub whole: bool,
    /// What was answered.
    pub answer: Option<Planned>,
}

/// An answer that an origin makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Status.
    pub status: u16,
    /// Bytes that a client must take for the body.
    pub length: usize,
    /// Whether the stream's end is the body's.
    pub to_the_end: bool,
    /// Whether it was said to its end.
    pub finished: bool,
    /// Whether the end of an unfinished one can be told from that of a finished one.
    pub detectable: bool,
}

impl Books {
    /// To look.
    #[must_use]
    pub fn look(&self) -> Ref<'_, Pages> {
        self.0.borrow()
    }

    /// To write.
    pub fn write(&self) -> RefMut<'_, Pages> {
        self.0.borrow_mut()
    }

    /// Something that must not be.
    pub fn violation(&self, text: String) {
        simulated::note(&format!("VIOLATION: {text}"));
        self.write().violations.push(text);
    }

    /// A request begins to be sent.
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

    /// What its client got.
    pub fn got(&self, number: u64, got: Got) {
        simulated::note(&format!("got {number} {got:?}"));
        let mut pages = self.write();
        let Some(asked) = pages.asked.get_mut(&number) else {
            return pages.violations.push(format!("an answer to {number}, which nobody asked"));
        };
        asked.until = simulated::elapsed();
        let before = std::mem::replace(&mut asked.got, got);
        if before != Got::Waiting {
            pages.violations.push(format!("a second end of {number}: {before:?}"));
        }
    }

    /// An origin read a head. Gives the delivery's number.
    pub fn deliver(&self, request: u64, (origin, upstream): (usize, usize), cookie: Option<String>) -> usize {
        let mut pages = self.write();
        let at = simulated::elapsed();
        pages.deliveries.push(Delivery { request, origin, upstream, cookie, at, whole: false, answer: None });
        let number = pages.deliveries.len() - 1;
        simulated::note(&format!("delivery {number}: {request} at origin {origin}"));
        number
    }
}

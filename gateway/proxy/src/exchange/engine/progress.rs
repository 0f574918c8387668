//! The states of an exchange: what the endpoint has of the request, what the client has of the response, and
//! what happens to the client's connection. Combinations that cannot occur cannot be written.

use std::time::Duration;

use tollgate_observe::Reason;
use tollgate_plan::Timeouts;

use crate::exchange::forward::Replay;
use crate::state::peer_error::PeerStop;

/// The progress of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upload {
    /// A part of the request waits for the client or for the endpoint.
    Open,
    /// The whole request was sent.
    Done,
    /// The endpoint takes no more of the request. Its response may have arrived all the same.
    Stopped {
        /// Whether nothing more is read from the client, because the request is complete.
        whole: bool,
        /// Whether the connection was reset, without an orderly end before.
        reset: bool,
    },
}

impl Upload {
    /// Called when all of the request was passed on.
    pub fn complete(&mut self) {
        match self {
            Self::Open | Self::Done => *self = Self::Done,
            Self::Stopped { whole, .. } => *whole = true,
        }
    }

    /// Called when the endpoint takes no more.
    pub fn stop(&mut self, stop: PeerStop) {
        let (was_whole, was_reset) = match *self {
            Self::Open => (false, false),
            Self::Done => (true, false),
            Self::Stopped { whole, reset } => (whole, reset),
        };
        *self = Self::Stopped { whole: was_whole, reset: was_reset || stop == PeerStop::Reset };
    }

    /// Returns whether nothing more is sent, because all of the request was.
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Done | Self::Stopped { whole: true, .. })
    }

    pub fn is_stopped(self) -> bool {
        matches!(self, Self::Stopped { .. })
    }

    /// Returns the timeout of a wait for the endpoint before its response, and the reason if it expires.
    #[inline]
    pub fn awaited(self, timeouts: &Timeouts) -> (Option<Duration>, Reason) {
        match self {
            Self::Open => (timeouts.send, Reason::ConnectionWriteTimeout),
            Self::Done | Self::Stopped { .. } => (timeouts.response_header, Reason::HttpResponseTimeout),
        }
    }
}

/// Whether the request can be sent again, as far as its bytes decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeatable {
    /// No byte of it was written. `whole`: the body is here completely, and stays here when it is written.
    Unwritten {
        /// Whether the whole body is here.
        whole: bool,
    },
    /// Bytes were written, and the whole body is still here.
    Whole,
    /// Bytes of the body are gone.
    Gone,
}

impl Repeatable {
    /// Called when a byte was written.
    pub fn write(&mut self) {
        if let Self::Unwritten { whole } = *self {
            *self = if whole { Self::Whole } else { Self::Gone };
        }
    }

    /// Called when the endpoint has certainly not processed what was written.
    pub fn unwrite(&mut self) {
        if *self == Self::Whole {
            *self = Self::Unwritten { whole: true };
        }
    }

    /// Returns whether the request can be sent again unchanged.
    pub fn is_whole(self) -> bool {
        self != Self::Gone
    }

    pub fn replay(self) -> Replay {
        match self {
            Self::Unwritten { .. } => Replay::Unsent,
            Self::Whole => Replay::Whole,
            Self::Gone => Replay::Never,
        }
    }
}

/// The progress of the response towards the client, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DownloadProgress {
    /// Nothing was read.
    Nothing,
    /// Something was read.
    Started,
    /// An interim response was written to the client.
    InterimSent,
    /// A part of the final response was written to the client.
    FinalSent,
}

impl DownloadProgress {
    /// Records that this much has happened.
    pub fn reach(&mut self, progress: Self) {
        *self = (*self).max(progress);
    }

    /// Returns whether the request can be sent again. An interim response that the client received is a part
    /// of this attempt's response.
    pub fn replay(self, repeatable: Repeatable) -> Replay {
        if self >= Self::InterimSent { Replay::Never } else { repeatable.replay() }
    }
}

/// The fate of the client's connection after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientAfter {
    /// It carries no further request.
    Closes,
    /// It can carry another request.
    KeepsAlive,
    /// Its end is the end of the response. A client could mistake a cut response for a complete one, so only a
    /// reset shows the cut.
    EndsResponse,
}

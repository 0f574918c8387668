//! The state of a request whose error a fallback replaces.

use tollgate_observe::Reason;

/// A fallback was chosen, and the client has received nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FallbackChosen;

/// The state of a request whose error a fallback replaces.
#[derive(Debug, Default)]
pub(crate) struct FallbackState {
    /// The index of the fallback in its route's list.
    pub taken: usize,
    /// The status of the error.
    pub status: u16,
    /// The gateway's reason; [`Reason::None`]: the error is an endpoint's.
    pub reason: Reason,
    /// Fields of the endpoint's response that the client needs to react to the error.
    pub lines: Vec<u8>,
    /// The length of a request body that was collected, to be sent again.
    pub collected: Option<u64>,
    /// Whether the client's connection closes after the response. `None`: the request's body is still needed.
    pub closes: Option<bool>,
    /// The page that is requested.
    pub page: Option<ErrorPage>,
}

/// A page that replaces an error.
#[derive(Debug)]
pub(crate) struct ErrorPage {
    /// Its path and query.
    pub target: Vec<u8>,
    /// The status that the client gets.
    pub status: u16,
    /// Additional lines of the response, each with its CRLF.
    pub lines: Vec<u8>,
}

impl FallbackState {
    pub fn page(&self) -> Option<&ErrorPage> {
        self.page.as_ref()
    }

    /// Returns whether the client's connection closes after the response that replaces the error.
    pub fn closes(&self) -> bool {
        self.closes == Some(true)
    }

    pub fn collected(&self) -> Option<u64> {
        self.collected.filter(|_| self.page.is_none())
    }

    /// If a page was requested and failed, returns the error that the gateway sends instead: its reason,
    /// status and lines, and whether the connection closes.
    pub fn without_page(&mut self) -> Option<(Reason, u16, Vec<u8>, bool)> {
        self.page.take()?;
        let reason = if self.reason == Reason::None { Reason::ErrorPageUnavailable } else { self.reason };
        Some((reason, self.status, std::mem::take(&mut self.lines), self.closes()))
    }
}

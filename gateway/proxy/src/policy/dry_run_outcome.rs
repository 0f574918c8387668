//! The outcome of a request in a dry run.

use tollgate_observe::Reason;

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunOutcome {
    /// The gateway answers with its own error.
    Refused {
        /// The reason.
        reason: Reason,
        /// The HTTP status.
        status: u16,
        /// A more precise cause, if there is one.
        detail: Option<&'static str>,
    },
    /// The route forwards it.
    Forward {
        /// The path that goes upstream, without query.
        path: Vec<u8>,
        /// The head that goes upstream, from the request line to the empty line, as the route's first
        /// endpoint would get it.
        head: Vec<u8>,
        /// Whether the request asks for an upgrade that the route allows.
        upgrade: bool,
    },
    /// The route or the listener redirects it.
    Redirect {
        /// The value of `Location`.
        location: Vec<u8>,
    },
    /// The route answers with its fixed response.
    Respond,
    /// The route answers with a file, or with the list of a directory.
    File {
        /// The path of the file or directory.
        path: Vec<u8>,
        /// Whether it is the list of a directory.
        is_list: bool,
    },
    /// A policy answers it.
    Answered(tollgate_policy::PolicyResponse),
}

/// Returns the outcome of a request that the gateway refuses.
pub(crate) fn refused(reason: Reason, detail: Option<&'static str>) -> DryRunOutcome {
    DryRunOutcome::Refused { reason, status: reason.status(), detail }
}

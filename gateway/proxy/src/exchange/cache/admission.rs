//! Decides what happens with an endpoint's response: the cache stores it, refreshes a stored response with it, or
//! serves a stale response in its place.
//!
//! The [tap](super::tap) calls [`Fetch::admit`] with the head of each response. Invariant: a response that the client
//! did not ask for, because the gateway changed the request, is never passed to the client.

pub(super) mod slice;

use std::sync::Arc;

use tollgate_cache::{
    CacheStatus, Forward, Moment, Purge, PurgeMode, Received, Stored, StoredHead, Updated, admit, answer_for,
    may_serve_on_error, select_validated, write_cache_status, write_conditions,
};
use tollgate_http::h1::BodyLength;
use tollgate_http::{Answer, Head, Name, RequestHead, ResponseHead};
use tollgate_policy::CacheRules;

use self::slice::{SliceFetch, admit_for_slice};
use super::caching::Caching;
use super::clients_part::ClientsPart;
use super::part::part;

/// The name of this cache in `Cache-Status`.
pub(super) const CACHE_NAME: &str = "tollgate";

/// A fetch that took longer is not repeated for the requests that wait for it, so that an endpoint that does not answer is not
/// awaited several times.
const REPEATED_MILLIS_MAX: u64 = 5_000;

/// How long the store remembers that responses to a key are not stored.
pub(super) const UNCACHEABLE_SECONDS: u32 = 10;

/// Statuses that a stale response may replace (RFC 5861, 4).
pub(super) const ERRORS: [u16; 4] = [500, 502, 503, 504];

/// A fetch for the cache: the facts that decide about its response.
pub(super) struct Fetch<'a> {
    caching: Caching<'a>,
    /// The stored response that is validated.
    stale: Option<Arc<Stored>>,
    /// The client's own request, if it asks for a part of the response, or for none if it is unchanged. The endpoint was
    /// asked for the whole.
    own: Option<&'a RequestHead>,
    requested: Moment,
    key: Box<[u8]>,
    /// Set if a slice is fetched, until its response arrives.
    slice: Option<SliceFetch>,
    is_slice: bool,
}

/// The share of a stored response that the client gets.
pub(super) enum Wanted {
    /// All of it.
    Whole,
    /// A range of it, or a 304, as soon as that has arrived.
    Part(ClientsPart),
    /// An answer from the store, once all of it is there.
    Stored,
}

/// The decision about a response.
pub(super) enum Admitted {
    /// The stored response is still valid. Its new head, which may be stored or not; `None`: it stays as it is.
    NotModified(Arc<Stored>, Option<Updated>),
    /// The client cannot use the response, because the gateway changed its request: send the client's own request.
    AskAgain,
    /// The stale response is served in place of this error.
    StaleOnError,
    /// It is stored.
    Stored {
        head: StoredHead,
        /// The length of its body, if it is known.
        length: Option<u64>,
        wanted: Wanted,
    },
    /// It is passed on to this client, and not stored.
    Refused,
}

impl<'a> Fetch<'a> {
    pub fn new(
        caching: &Caching<'a>,
        key: &[u8],
        stale: Option<Arc<Stored>>,
        own: Option<&'a RequestHead>,
    ) -> Self {
        let requested = Moment::from(tollgate_net::wall_clock());
        Self { caching: *caching, stale, own, requested, key: key.into(), slice: None, is_slice: false }
    }

    /// Creates the fetch of a slice, for the store alone.
    pub fn of_slice(caching: &Caching<'a>, key: &[u8], slice: SliceFetch) -> Self {
        Self { slice: Some(slice), is_slice: true, ..Self::new(caching, key, None, None) }
    }

    /// Ends the manifest's fill of a slice, because the gateway itself responded and no response of an endpoint
    /// arrives.
    pub fn end_without_response(&mut self, is_failure: bool) {
        match self.slice.take() {
            Some(SliceFetch { manifest, .. }) if is_failure => manifest.fail(),
            Some(SliceFetch { manifest, .. }) => manifest.refuse(),
            None => {}
        }
    }

    /// Returns whether another request may fetch the response after this fetch has failed. The requests that wait for a slice
    /// decide that for themselves.
    pub fn may_be_repeated(&self) -> bool {
        let took = Moment::from(tollgate_net::wall_clock()).millis_since(self.requested);
        !self.is_slice && took < REPEATED_MILLIS_MAX
    }

    /// Returns the rules of the policy.
    pub fn rules(&self) -> &'a CacheRules {
        &self.caching.cache.rules
    }

    /// Returns whether a stale response may replace an error.
    pub fn may_serve(stale: &Stored, caching: &Caching<'_>) -> bool {
        let now = Moment::from(tollgate_net::wall_clock());
        may_serve_on_error(stale, &caching.control, &caching.allowances(), now)
    }

    /// Returns whether a stale response replaces an error with this status.
    pub fn serves_stale(&self, status: u16) -> bool {
        ERRORS.contains(&status)
            && self.stale.as_ref().is_some_and(|stale| Self::may_serve(stale, &self.caching))
    }

    /// Decides about an endpoint's response.
    pub fn admit(&mut self, request: &RequestHead, response: &ResponseHead) -> Admitted {
        if let Some(slice) = self.slice.take() {
            return admit_for_slice(slice, &self.caching, self.requested, request, response);
        }
        let rules = self.rules();
        let times =
            Received { requested: self.requested, received: Moment::from(tollgate_net::wall_clock()) };
        if response.status == 304
            && let Some(stale) = &self.stale
        {
            let Some(valid) = self.validated_by(stale, response) else {
                // The endpoint has another response than any that is stored, so none can be validated.
                self.caching.cache.store.purge(Purge::Key(&self.key), PurgeMode::Remove);
                return Admitted::AskAgain;
            };
            let head = valid.head();
            let admission = rules.admission(head.status());
            let mut updated = head.updated_by(request, response, admission, times);
            if let Some(updated) = &mut updated {
                let may_store = self.caching.may_store && !response.has_never_indexed;
                updated.may_be_stored &= may_store && self.may_share(&updated.head);
            }
            return Admitted::NotModified(valid, updated);
        }
        if self.serves_stale(response.status) {
            return Admitted::StaleOnError;
        }
        let length = match response.length {
            BodyLength::None => Some(0),
            BodyLength::Exactly(length) => Some(length),
            BodyLength::Chunked | BodyLength::UntilClose => None,
        };
        if !self.caching.may_store {
            return self.refused(response.status);
        }
        let admission = rules.admission(response.status);
        let is_too_long = length.is_some_and(|length| length > rules.max_object);
        // The store does not keep the never-indexed mark of a field (RFC 7541, 6.2.3).
        let is_storable = !is_too_long && !response.has_never_indexed;
        match admit(request, &self.caching.control, response, admission, times) {
            Ok(head) if is_storable && self.may_share(&head) => {
                let wanted = self.own.map_or(Wanted::Whole, |own| wanted(&head, length, own));
                Admitted::Stored { head, length, wanted }
            }
            _ => {
                self.remember_refusal(response.status, times.received);
                self.refused(response.status)
            }
        }
    }

    /// Returns the stored response that a 304 validates: `stale`, or another one of its key that the 304 selects.
    /// `None`: none of them (RFC 9111, 4.3.4).
    fn validated_by(&self, stale: &Arc<Stored>, not_modified: &ResponseHead) -> Option<Arc<Stored>> {
        let mut stored = self.caching.cache.store.variants(&self.key);
        stored.retain(|other| !Arc::ptr_eq(other, stale));
        stored.insert(0, stale.clone());
        select_validated(&stored, not_modified).cloned()
    }

    /// Returns whether other requests may use the response to this one: this request has no identity, or the response
    /// is open to all.
    fn may_share(&self, head: &StoredHead) -> bool {
        !self.caching.is_identified || head.freshness().is_open()
    }

    /// Returns the decision for a response that is not stored. A client that asked for a part must not get the whole
    /// response, which may be long.
    fn refused(&self, status: u16) -> Admitted {
        if self.own.is_some() && status == 200 { Admitted::AskAgain } else { Admitted::Refused }
    }

    /// Remembers for a while that responses to this key are not stored, so that requests do not wait for each other
    /// without success. An error does not predict the next response.
    fn remember_refusal(&self, status: u16, now: Moment) {
        if status >= 500 {
            return;
        }
        // What is stored is out of date, unless this response is for one client, or the client has forced the fetch.
        let says_so = status < 400 || matches!(status, 404 | 410);
        let stale = self.stale.as_ref().filter(|stale| !stale.is_usable(now));
        let outdated = stale.filter(|_| says_so && !self.caching.is_identified);
        if outdated.is_some() || self.stale.is_none() {
            let store = &self.caching.cache.store;
            store.mark_uncacheable(&self.key, now, UNCACHEABLE_SECONDS, outdated);
        }
    }

    /// Remembers for a while that a response is too long to store, so that requests for a part of it are forwarded
    /// unchanged.
    pub fn remember_too_long(&self) {
        self.remember_refusal(200, Moment::from(tollgate_net::wall_clock()));
    }

    /// Returns why the request was forwarded.
    fn forward(&self) -> Forward {
        match &self.stale {
            // The request did not accept it.
            Some(stored) if stored.is_usable(self.requested) => Forward::Request,
            Some(_) => Forward::Stale,
            None if self.caching.cache.store.variants(&self.key).is_empty() => Forward::UriMiss,
            // What is stored is not for clients with an identity.
            None if self.caching.is_identified => Forward::Request,
            None => Forward::VaryMiss,
        }
    }

    /// Adds what the cache did to the head of a response that goes to the client as it came.
    pub fn write_status(&self, head: &mut Vec<u8>, is_stored: bool) {
        if self.rules().status {
            insert_status(
                head,
                &CacheStatus { forward: Some(self.forward()), is_stored, ..CacheStatus::default() },
            );
        }
    }
}

/// Returns what a client gets of the response with this head. `length`: of its body, if it is known.
fn wanted(head: &StoredHead, length: Option<u64>, own: &RequestHead) -> Wanted {
    // Without a length there are no ranges: nothing has any byte of an empty body.
    let whole_length = length.unwrap_or(0);
    match answer_for(head, whole_length, own) {
        // Several ranges come from the store alone. A client whose request starts the fetch gets all of it at once.
        Some(Answer::Ranges(ranges)) if ranges.len() > 1 => Wanted::Whole,
        Some(answer @ (Answer::NotModified | Answer::NotSatisfiable | Answer::Ranges(_))) => {
            let part = part(head, whole_length, answer);
            ClientsPart::new(head, whole_length, &part).map_or(Wanted::Stored, Wanted::Part)
        }
        Some(Answer::Whole | Answer::PreconditionFailed) | None => Wanted::Whole,
    }
}

/// Adds `Cache-Status` to a whole head.
pub(super) fn insert_status(head: &mut Vec<u8>, status: &CacheStatus<'_>) {
    if head.ends_with(b"\r\n\r\n") {
        head.truncate(head.len() - 2);
        write_line(head, status);
        head.extend_from_slice(b"\r\n");
    }
}

/// Appends the line of `Cache-Status`.
pub(super) fn write_line(out: &mut Vec<u8>, status: &CacheStatus<'_>) {
    out.extend_from_slice(b"Cache-Status: ");
    write_cache_status(out, CACHE_NAME, status);
    out.extend_from_slice(b"\r\n");
}

/// Fields that ask for a part of a response, or for no body if the response is unchanged.
const CONDITIONS: [&[u8]; 4] = [b"if-none-match", b"if-modified-since", b"if-range", b"range"];
/// Fields with conditions that only the endpoint can evaluate (RFC 9110, 13.1.1 and 13.1.4).
const ENDPOINTS_CONDITIONS: [&[u8]; 2] = [b"if-match", b"if-unmodified-since"];

/// Returns whether a request asks for a part of the response, or for no body if the response is unchanged.
pub(super) fn asks_for_part(head: &Head) -> bool {
    head.has(Name::Other) && head.has_any_by_text(&CONDITIONS)
}

/// Returns whether a request has a condition that only the endpoint can evaluate.
pub(super) fn is_for_endpoint(head: &Head) -> bool {
    head.has(Name::Other) && head.has_any_by_text(&ENDPOINTS_CONDITIONS)
}

/// Adds the fields that ask the endpoint whether a stored response is still valid.
pub(super) fn add_conditions(request: &mut RequestHead, stale: &Arc<Stored>) {
    let mut lines = Vec::new();
    write_conditions(std::slice::from_ref(stale), &mut lines);
    for line in lines.split(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\r")) {
        if let Some(colon) = line.iter().position(|byte| *byte == b':') {
            request.append(&line[..colon], line[colon + 1..].trim_ascii());
        }
    }
}

/// Removes the fields that ask for a part, because the gateway fetches the whole response.
pub(super) fn remove_conditions(request: &mut RequestHead) {
    CONDITIONS.iter().for_each(|name| request.remove_all(name));
}

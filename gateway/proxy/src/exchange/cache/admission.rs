//! What the cache makes of a response: stores it, refreshes what is stored, or serves a stale one in its place.

use std::sync::Arc;

use tollgate_cache::{
    Admission, CacheStatus, Forward, Moment, Received, Stored, StoredHead, admit, directives,
    may_serve_on_error, write_cache_status, write_conditions,
};
use tollgate_http::h1::BodyLength;
use tollgate_http::{Head, Name, RequestHead, ResponseHead};
use tollgate_policy::CacheRules;

use super::caching::Caching;

/// The name of this cache in `Cache-Status`.
pub(super) const CACHE_NAME: &str = "tollgate";

/// How long it is remembered that responses to a key are not stored.
const UNCACHEABLE_SECONDS: u32 = 10;

/// Statuses in whose place a stale response may be served (RFC 5861, 4).
const ERRORS: [u16; 4] = [500, 502, 503, 504];

/// A fetch for the cache, and what it knows before the response.
pub(super) struct Fetch<'a> {
    caching: Caching<'a>,
    /// The stored response that is validated.
    stale: Option<Arc<Stored>>,
    /// Whether the client asks for a part of the response, or for none if it is unchanged.
    wants_part: bool,
    requested: Moment,
    key: Box<[u8]>,
}

/// What happens with a response.
pub(super) enum Admitted {
    /// The stored response is still valid. Its new head; `None`: it is used once more, and not stored any longer.
    NotModified(Option<StoredHead>),
    /// The stale response is served in place of this error.
    StaleOnError,
    /// It is stored.
    Stored {
        head: StoredHead,
        /// The length of its body, if it is known.
        length: Option<u64>,
        /// Whether the client is answered from the store.
        is_part_wanted: bool,
    },
    /// It is for this client alone.
    Refused,
}

impl<'a> Fetch<'a> {
    pub fn new(caching: &Caching<'a>, key: &[u8], stale: Option<Arc<Stored>>, wants_part: bool) -> Self {
        let requested = Moment::from(tollgate_net::wall_clock());
        Self { caching: *caching, stale, wants_part, requested, key: key.into() }
    }

    /// Returns the stored response that is validated.
    pub fn stale(&self) -> Option<&Arc<Stored>> {
        self.stale.as_ref()
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

    /// Decides about the endpoint's response to a request.
    pub fn admit(&self, request: &RequestHead, response: &ResponseHead) -> Admitted {
        let rules = self.rules();
        if rules.across_identities && request.head.has(Name::Authorization) {
            let mut anonymous = request.clone();
            anonymous.remove_all(b"authorization");
            return self.admit_for(&anonymous, response);
        }
        self.admit_for(request, response)
    }

    fn admit_for(&self, request: &RequestHead, response: &ResponseHead) -> Admitted {
        let rules = self.rules();
        let times =
            Received { requested: self.requested, received: Moment::from(tollgate_net::wall_clock()) };
        if response.status == 304
            && let Some(stale) = &self.stale
        {
            let head = stale.head();
            let admission = rules.admission(head.status());
            let updated = head.updated_by(request, response, admission, times);
            return Admitted::NotModified(updated.filter(|_| self.caching.may_store));
        }
        if self.serves_stale(response.status) {
            return Admitted::StaleOnError;
        }
        let length = match response.length {
            BodyLength::None => Some(0),
            BodyLength::Exactly(length) => Some(length),
            BodyLength::Chunked | BodyLength::UntilClose => None,
        };
        if !self.caching.may_store || length.is_some_and(|length| length > rules.max_object) {
            return Admitted::Refused;
        }
        let admission = rules.admission(response.status);
        if self.caching.is_identified && !allows_sharing(&response.head, admission) {
            self.remember_refusal(response.status, times.received);
            return Admitted::Refused;
        }
        match admit(request, &self.caching.control, response, admission, times) {
            Ok(head) => Admitted::Stored {
                is_part_wanted: self.wants_part && length.is_some() && head.status() == 200,
                head,
                length,
            },
            Err(_) => {
                self.remember_refusal(response.status, times.received);
                Admitted::Refused
            }
        }
    }

    /// Remembers for a while that responses to this key are not stored, so that requests do not wait for each other
    /// without success. An error says nothing about the next response.
    fn remember_refusal(&self, status: u16, now: Moment) {
        if status < 500 && self.stale.is_none() {
            self.caching.cache.store.mark_uncacheable(&self.key, now, UNCACHEABLE_SECONDS);
        }
    }

    /// Adds what the cache did to the head of a response that goes to the client as it came.
    pub fn write_status(&self, head: &mut Vec<u8>, is_stored: bool) {
        if !self.rules().status || !head.ends_with(b"\r\n\r\n") {
            return;
        }
        let forward = if self.stale.is_some() { Forward::Stale } else { Forward::UriMiss };
        let status = CacheStatus { forward: Some(forward), is_stored, ..CacheStatus::default() };
        head.truncate(head.len() - 2);
        write_line(head, &status);
        head.extend_from_slice(b"\r\n");
    }
}

/// Appends the line of `Cache-Status`.
pub(super) fn write_line(out: &mut Vec<u8>, status: &CacheStatus<'_>) {
    out.extend_from_slice(b"Cache-Status: ");
    write_cache_status(out, CACHE_NAME, status);
    out.extend_from_slice(b"\r\n");
}

/// Returns whether requests with an identity may be answered with a stored response (RFC 9111, 3.5).
pub(super) fn is_shared(stored: &Stored, rules: &CacheRules) -> bool {
    let head = stored.head();
    let admission = rules.admission(head.status());
    allows(
        |name| head.fields().filter(move |(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value),
        admission,
    )
}

fn allows_sharing(head: &Head, admission: &Admission) -> bool {
    allows(|name| head.all_by_text(name), admission)
}

/// Returns whether the directives that count allow a shared cache to store the response to a request with credentials.
fn allows<'h, I: Iterator<Item = &'h [u8]>>(
    values: impl Fn(&'h [u8]) -> I,
    admission: &'h Admission,
) -> bool {
    let targeted = admission.targeted_fields.iter().map(|name| name.as_bytes());
    let name = targeted.clone().find(|name| values(name).next().is_some()).unwrap_or(b"cache-control");
    let allowing = ["public", "s-maxage", "must-revalidate"];
    values(name).flat_map(directives).any(|directive| allowing.iter().any(|name| directive.is(name)))
}

/// Fields by which a client asks for a part of a response, or for none if it is unchanged.
const CONDITIONS: [&[u8]; 4] = [b"if-none-match", b"if-modified-since", b"if-range", b"range"];
/// Fields with conditions that only the endpoint can evaluate (RFC 9110, 13.1.1 and 13.1.4).
const ENDPOINTS_CONDITIONS: [&[u8]; 2] = [b"if-match", b"if-unmodified-since"];

/// Returns whether a request asks for a part of the response, or for none if it is unchanged.
pub(super) fn asks_for_part(head: &Head) -> bool {
    head.has(Name::Other) && CONDITIONS.iter().any(|name| head.get_by_text(name).is_some())
}

/// Returns whether a request has a condition that only the endpoint can evaluate.
pub(super) fn is_for_endpoint(head: &Head) -> bool {
    head.has(Name::Other) && ENDPOINTS_CONDITIONS.iter().any(|name| head.get_by_text(name).is_some())
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

/// Removes these fields, because the whole response is fetched.
pub(super) fn remove_conditions(request: &mut RequestHead) {
    CONDITIONS.iter().for_each(|name| request.remove_all(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_that_allow_sharing() {
        let admission = Admission::default();
        let allowed = |fields: &[(&str, &str)]| {
            let of = |name: &[u8]| {
                let name = name.to_vec();
                fields
                    .iter()
                    .filter(move |(own, _)| own.as_bytes().eq_ignore_ascii_case(&name))
                    .map(|(_, value)| value.as_bytes())
            };
            allows(of, &admission)
        };
        for (fields, expected) in [
            (&[][..], false),
            (&[("Cache-Control", "max-age=60")], false),
            (&[("Cache-Control", "max-age=60, Public")], true),
            (&[("cache-control", "max-age=60"), ("Cache-Control", "s-maxage=1")], true),
            (&[("Cache-Control", "must-revalidate")], true),
            (&[("Cache-Control", "x=\"public\"")], false),
            (&[("Cache-Control", "public"), ("CDN-Cache-Control", "max-age=60")], false),
            (&[("CDN-Cache-Control", "max-age=60, public")], true),
        ] {
            assert_eq!(allowed(fields), expected, "{fields:?}");
        }
    }
}

//! Decides whether a response is stored (RFC 9111, 3), and makes its stored head (3.1).

use tollgate_http::{Method, Name, RequestHead, ResponseHead};

use super::age::Received;
use super::facts::Facts;
use super::freshness::{Freshness, explicit_lifetime, heuristic_lifetime, is_heuristically_cacheable};
use super::request_control::RequestControl;
use super::vary::{Vary, VaryRules};
use crate::StoredHead;
use crate::stored_head::{Lines, is_left_out};

/// The configuration's part in the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Targeted fields (RFC 9213) that are read, in lower case, the most specific first.
    pub targeted_fields: Vec<Box<str>>,
    /// Whether responses with `Set-Cookie` are stored if nothing else forbids it. They concern one client, as a rule,
    /// but RFC 9111, 7.3 leaves them to `Cache-Control`.
    pub stores_cookies: bool,
    /// Whether responses to requests with `Authorization` are stored as others are, because they do not depend on it
    /// (against 3.5).
    pub stores_identified: bool,
    /// The lifetime of responses that give none, in seconds, in place of a guess. Like a guess, it is only for
    /// statuses that are cacheable by default, or `public`: an error that one odd request causes must not be stored.
    pub default_seconds: Option<u32>,
    /// The lifetime of all responses from their arrival on, in seconds. It replaces the lifetimes that they give, but
    /// does not allow to store a response that forbids it.
    pub forced_seconds: Option<u32>,
    /// The longest lifetime that is guessed, in seconds; 0 turns guesses off.
    pub heuristic_seconds_max: u32,
    /// How the fields that `Vary` names are compared.
    pub vary: VaryRules,
    /// Fields that list the tags of a response, in lower case, such as `surrogate-key`. Tags are separated by blanks
    /// or commas.
    pub tag_fields: Vec<Box<str>>,
    /// Whether clients do not see these fields.
    pub hides_tags: bool,
}

impl Default for Admission {
    /// The rules of RFC 9111 alone.
    fn default() -> Self {
        Self {
            targeted_fields: vec!["cdn-cache-control".into()],
            stores_cookies: true,
            stores_identified: false,
            default_seconds: None,
            forced_seconds: None,
            heuristic_seconds_max: super::freshness::HEURISTIC_SECONDS_MAX,
            vary: VaryRules::default(),
            tag_fields: Vec::new(),
            hides_tags: false,
        }
    }
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// Only responses to GET are stored.
    Method,
    /// The response is partial or interim, or not understood although it must be (RFC 9111, 3).
    Status,
    /// The request forbids it (5.2.1.5).
    RequestNoStore,
    /// The response forbids it (5.2.2.5).
    NoStore,
    /// The response is for one user (5.2.2.7).
    Private,
    /// The request had credentials, and the response does not allow a shared cache to store it (3.5).
    Authorization,
    /// The response sets a cookie, and the configuration does not store these.
    SetCookie,
    /// `Vary` is `*` or malformed (4.1).
    Vary,
    /// It has no lifetime, and cannot be validated.
    NoLifetime,
    /// It is a part without a strong validator, so parts of other versions would look alike.
    Validator,
}

impl NotStored {
    /// The reason as one word, for `Cache-Status` and the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Status => "status",
            Self::RequestNoStore => "request-no-store",
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::Authorization => "authorization",
            Self::SetCookie => "set-cookie",
            Self::Vary => "vary",
            Self::NoLifetime => "no-lifetime",
            Self::Validator => "validator",
        }
    }
}

/// Decides whether a response may be stored, and makes its head. `request` is the client's, on whose fields `Vary`
/// depends; look-ups must see the same fields.
///
/// # Errors
/// Why it is not stored.
pub fn admit(
    request: &RequestHead,
    control: &RequestControl,
    response: &ResponseHead,
    admission: &Admission,
    times: Received,
) -> Result<StoredHead, NotStored> {
    if request.method != Method::Get {
        return Err(NotStored::Method);
    }
    // 304 is no response of its own, 206 is stored as a slice only, and an upgrade is no response at all.
    if response.status < 200 || matches!(response.status, 206 | 304) {
        return Err(NotStored::Status);
    }
    admit_as(request, control, response, admission, times)
}

/// Decides about the response to a GET, or a part of one, after the caller has checked the method and the status.
pub(super) fn admit_as(
    request: &RequestHead,
    control: &RequestControl,
    response: &ResponseHead,
    admission: &Admission,
    times: Received,
) -> Result<StoredHead, NotStored> {
    if control.no_store {
        return Err(NotStored::RequestNoStore);
    }
    let head = &response.head;
    let fields = head.fields().iter().map(|field| (head.slice(field.name), head.slice(field.value)));
    let facts = Facts::read(fields, admission);
    may_be_stored(request, response.status, &facts, admission)?;
    let vary =
        Vary::new(facts.vary.iter().copied(), &request.head, &admission.vary).ok_or(NotStored::Vary)?;
    let kept = head.fields().iter().filter_map(|field| {
        let name = head.slice(field.name);
        let is_kept =
            !is_left_out(field.id, name) && !response.is_nominated(field) && !facts.is_withheld(name);
        is_kept.then(|| (name, head.slice(field.value)))
    });
    // The exact length, so that the lines need not be copied into a smaller allocation.
    let date_bytes = if facts.dates.date.is_none() { DATE_LINE_BYTES } else { 0 };
    let bytes = kept.clone().map(|(name, value)| Lines::bytes_of(name, value)).sum::<usize>();
    let mut lines = Lines::with_capacity(bytes + date_bytes);
    kept.for_each(|(name, value)| lines.push(name, value));
    let head = build(response.status, lines, &facts, vary, admission, times);
    if is_of_use(&head, &facts) { Ok(head) } else { Err(NotStored::NoLifetime) }
}

/// The rules of RFC 9111, 3 that look at the response.
pub(super) fn may_be_stored(
    request: &RequestHead,
    status: u16,
    facts: &Facts<'_>,
    admission: &Admission,
) -> Result<(), NotStored> {
    let control = &facts.control;
    // 5.2.2.3: with `must-understand`, a cache that understands the status ignores `no-store`.
    match (control.must_understand, is_understood(status)) {
        (true, false) => return Err(NotStored::Status),
        (false, _) if control.no_store => return Err(NotStored::NoStore),
        _ => {}
    }
    if control.private {
        return Err(NotStored::Private);
    }
    let is_personal = request.head.has(Name::Authorization) && !admission.stores_identified;
    if is_personal && !control.allows_credentials() {
        return Err(NotStored::Authorization);
    }
    if facts.sets_cookie && !admission.stores_cookies && !facts.is_withheld(b"set-cookie") {
        return Err(NotStored::SetCookie);
    }
    let is_configured = admission.forced_seconds.is_some();
    let has_expires = facts.dates.expires.is_some() && !control.is_targeted;
    let is_allowed = control.public || control.has_lifetime() || has_expires || is_configured;
    if is_allowed || is_heuristically_cacheable(status) { Ok(()) } else { Err(NotStored::NoLifetime) }
}

/// The statuses whose meaning for caches this crate implements.
const fn is_understood(status: u16) -> bool {
    is_heuristically_cacheable(status)
        || matches!(status, 302 | 303 | 307 | 400 | 401 | 403 | 406 | 409 | 411..=413 | 415..=417)
        || matches!(status, 421 | 422 | 429 | 500 | 502..=505)
}

/// Whether a stored response would answer any request: it arrived fresh, or can be validated or served stale.
pub(super) fn is_of_use(head: &StoredHead, facts: &Facts<'_>) -> bool {
    let freshness = head.freshness();
    freshness.can_be_shared()
        || freshness.stale_while_revalidate(0) > 0
        || freshness.stale_if_error(0) > 0
        || facts.has_etag
        || facts.dates.modified.is_some()
}

/// The length of a line `Date: Sun, 06 Nov 1994 08:49:37 GMT`, with its CRLF.
const DATE_LINE_BYTES: usize = 37;

/// Builds a head from field lines.
pub(super) fn build(
    status: u16,
    mut lines: Lines,
    facts: &Facts<'_>,
    vary: Vary,
    admission: &Admission,
    times: Received,
) -> StoredHead {
    let received = times.received.seconds();
    let age_millis = times.initial_age_millis(facts.age, facts.dates.date);
    let lifetime = match admission.forced_seconds {
        // It starts when the response arrives.
        Some(seconds) => {
            let age = u32::try_from(age_millis.div_ceil(1000)).unwrap_or(u32::MAX);
            seconds.saturating_add(age)
        }
        None => lifetime(status, facts, admission, received),
    };
    let freshness = Freshness::new(&facts.control, lifetime, times.received, age_millis);
    // RFC 9110, 6.6.1: a response that is stored gets a date.
    if facts.dates.date.is_none() {
        lines.remove(b"date");
        lines.push(b"Date", tollgate_http::format_date(received).as_bytes());
    }
    let tags = if facts.has_tags { tags(&mut lines, admission) } else { Vec::new() };
    StoredHead::new(status, lines.into_bytes(), freshness, vary, tags)
}

/// The lifetime in seconds that the response gives, or else the configuration, or else a guess.
fn lifetime(status: u16, facts: &Facts<'_>, admission: &Admission, received: u64) -> u32 {
    if let Some(seconds) = explicit_lifetime(&facts.control, &facts.dates, received) {
        return seconds;
    }
    let may_be_guessed = is_heuristically_cacheable(status) || facts.control.public;
    if let Some(seconds) = admission.default_seconds.filter(|_| may_be_guessed) {
        return seconds;
    }
    let most = if may_be_guessed { admission.heuristic_seconds_max } else { 0 };
    heuristic_lifetime(&facts.dates, received, most)
}

/// Reads the tags, separated by single blanks, and removes their fields if clients do not see them.
fn tags(lines: &mut Lines, admission: &Admission) -> Vec<u8> {
    let mut tags = Vec::new();
    for name in &admission.tag_fields {
        let is_separator = |byte: &u8| matches!(byte, b' ' | b'\t' | b',');
        for value in lines.values(name.as_bytes()) {
            for tag in value.split(is_separator).filter(|tag| !tag.is_empty()) {
                if !tags.is_empty() {
                    tags.push(b' ');
                }
                tags.extend_from_slice(tag);
            }
        }
        if admission.hides_tags {
            lines.remove(name.as_bytes());
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moment;
    use crate::test_messages::{request, response};

    const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    /// The second of this date.
    const NOW: u64 = 784_111_777;

    fn times() -> Received {
        let now = Moment::from_seconds(NOW);
        Received { requested: now, received: now }
    }

    fn decide(
        asked: &RequestHead,
        status: u16,
        fields: &str,
        admission: &Admission,
    ) -> Result<StoredHead, NotStored> {
        let control = RequestControl::read(&asked.head);
        admit(asked, &control, &response(status, &format!("{DATE}{fields}")), admission, times())
    }

    /// The lifetime of a response to a plain GET, or why it is not stored.
    fn plain(status: u16, fields: &str) -> Result<u32, NotStored> {
        decide(&request("GET", "/", ""), status, fields, &Admission::default())
            .map(|head| head.freshness().lifetime_seconds())
    }

    #[test]
    fn what_rfc_9111_3_stores() {
        use NotStored::{NoLifetime, NoStore, Private, Status, Vary};
        const MODIFIED: &str = "Last-Modified: Sun, 06 Nov 1994 07:49:37 GMT\r\n";
        for (status, fields, expected) in [
            (200, "Cache-Control: max-age=60\r\n", Ok(60)),
            (200, "Cache-Control: max-age=60, s-maxage=30\r\n", Ok(30)),
            (200, "Expires: Sun, 06 Nov 1994 08:50:37 GMT\r\n", Ok(60)),
            (200, "Expires: 0\r\n", Err(NoLifetime)),
            (200, "Expires: 0\r\nETag: \"a\"\r\n", Ok(0)),
            (200, "Cache-Control: max-age=60\r\nExpires: 0\r\n", Ok(60)),
            (200, MODIFIED, Ok(360)),
            (200, "", Err(NoLifetime)),
            (200, "ETag: \"a\"\r\n", Ok(0)),
            (200, "ETag: a\r\n", Err(NoLifetime)),
            (404, MODIFIED, Ok(360)),
            (302, MODIFIED, Err(NoLifetime)),
            (302, "Cache-Control: public\r\nLast-Modified: Sun, 06 Nov 1994 07:49:37 GMT\r\n", Ok(360)),
            (302, "Cache-Control: max-age=5\r\n", Ok(5)),
            (599, "Cache-Control: max-age=5\r\n", Ok(5)),
            (206, "Cache-Control: max-age=5\r\nContent-Range: bytes 0-0/2\r\n", Err(Status)),
            (304, "Cache-Control: max-age=5\r\n", Err(Status)),
            (200, "Cache-Control: max-age=5, no-store\r\n", Err(NoStore)),
            (200, "Cache-Control: max-age=5\r\nCache-Control: x, NO-STORE\r\n", Err(NoStore)),
            (200, "Cache-Control: max-age=5, private\r\n", Err(Private)),
            (200, "Cache-Control: max-age=5, private=\"x\"\r\n", Ok(5)),
            (200, "Cache-Control: no-cache\r\n", Err(NoLifetime)),
            (200, "Cache-Control: no-cache\r\nETag: \"a\"\r\n", Ok(0)),
            // 5.2.2.3.
            (200, "Cache-Control: max-age=5, no-store, must-understand\r\n", Ok(5)),
            (599, "Cache-Control: max-age=5, no-store, must-understand\r\n", Err(Status)),
            (599, "Cache-Control: max-age=5, must-understand\r\n", Err(Status)),
            (200, "Cache-Control: max-age=5\r\nVary: *\r\n", Err(Vary)),
            (200, "Cache-Control: max-age=5\r\nVary: X-A\r\nVary: *\r\n", Err(Vary)),
            (200, "Cache-Control: max-age=0, stale-while-revalidate=5\r\n", Ok(0)),
            (200, "Cache-Control: max-age=0\r\n", Err(NoLifetime)),
            // It was too old when it arrived.
            (200, "Cache-Control: max-age=5\r\nAge: 5\r\n", Err(NoLifetime)),
            (200, "Cache-Control: max-age=5\r\nAge: 4\r\n", Ok(5)),
            (200, "Cache-Control: max-age=5\r\nSet-Cookie: a=1\r\n", Ok(5)),
            // RFC 9213, 2.2.
            (200, "CDN-Cache-Control: max-age=9\r\nCache-Control: no-store\r\n", Ok(9)),
            (200, "CDN-Cache-Control: no-store\r\nCache-Control: max-age=9\r\n", Err(NoStore)),
            (200, "CDN-Cache-Control: max-age=&\r\nCache-Control: max-age=7\r\n", Ok(7)),
            (
                200,
                "CDN-Cache-Control: no-cache\r\nExpires: Sun, 06 Nov 1994 08:50:37 GMT\r\n",
                Err(NoLifetime),
            ),
        ] {
            assert_eq!(plain(status, fields), expected, "{status} {fields}");
        }
    }

    #[test]
    fn what_the_request_forbids() {
        let fresh = "Cache-Control: max-age=5\r\n";
        for (method, asked, fields, expected) in [
            ("GET", "", fresh, None),
            ("HEAD", "", fresh, Some(NotStored::Method)),
            ("POST", "", fresh, Some(NotStored::Method)),
            ("GET", "Cache-Control: no-store\r\n", fresh, Some(NotStored::RequestNoStore)),
            // 3.5.
            ("GET", "Authorization: x\r\n", fresh, Some(NotStored::Authorization)),
            ("GET", "Authorization: x\r\n", "Cache-Control: max-age=5, public\r\n", None),
            ("GET", "Authorization: x\r\n", "Cache-Control: max-age=5, must-revalidate\r\n", None),
            ("GET", "Authorization: x\r\n", "Cache-Control: s-maxage=5\r\n", None),
            (
                "GET",
                "Authorization: x\r\n",
                "Cache-Control: max-age=5, proxy-revalidate\r\n",
                Some(NotStored::Authorization),
            ),
        ] {
            let result = decide(&request(method, "/", asked), 200, fields, &Admission::default());
            assert_eq!(result.err(), expected, "{method} {asked} {fields}");
        }
    }

    #[test]
    fn what_the_configuration_changes() {
        let asked = request("GET", "/", "");
        let seconds = |fields: &str, admission: Admission| {
            decide(&asked, 200, fields, &admission).map(|head| head.freshness().lifetime_seconds())
        };
        let default = || Admission { default_seconds: Some(7), ..Admission::default() };
        let forced = || Admission { forced_seconds: Some(8), ..Admission::default() };
        assert_eq!(seconds("", default()), Ok(7));
        assert_eq!(seconds("Cache-Control: max-age=5\r\n", default()), Ok(5));
        for (status, expected) in
            [(404, Ok(7)), (400, Err(NotStored::NoLifetime)), (500, Err(NotStored::NoLifetime))]
        {
            let decided = decide(&asked, status, "", &default());
            assert_eq!(decided.map(|head| head.freshness().lifetime_seconds()), expected, "{status}");
        }
        assert_eq!(seconds("Cache-Control: max-age=5\r\n", forced()), Ok(8));
        assert_eq!(seconds("Age: 100\r\n", forced()), Ok(108), "8 from now on");
        assert_eq!(seconds("Cache-Control: no-store\r\n", forced()), Err(NotStored::NoStore));
        let modified = "Last-Modified: Sun, 06 Nov 1994 07:49:37 GMT\r\n";
        assert_eq!(
            seconds(modified, Admission { heuristic_seconds_max: 60, ..Admission::default() }),
            Ok(60)
        );
        let cookie = "Cache-Control: max-age=5\r\nSet-Cookie: a=1\r\n";
        let strict = || Admission { stores_cookies: false, ..Admission::default() };
        assert_eq!(seconds(cookie, strict()), Err(NotStored::SetCookie));
        let withheld = "Cache-Control: max-age=5, no-cache=\"set-cookie\"\r\nSet-Cookie: a=1\r\n";
        assert_eq!(seconds(withheld, strict()), Ok(5));
    }

    #[test]
    fn fields_that_are_not_stored() {
        let fields = "Cache-Control: max-age=60, private=\"x-secret\"\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\n\
             Keep-Alive: 5\r\nContent-Length: 0\r\nAge: 7\r\nTrailer: x\r\nProxy-Authenticate: x\r\n\
             Proxy-Authentication-Info: x\r\nX-Secret: 1\r\nETag: \"a\"\r\nx-b:  2 \r\n";
        let head = decide(&request("GET", "/", ""), 200, fields, &Admission::default()).expect("stored");
        let expected =
            format!("{DATE}Cache-Control: max-age=60, private=\"x-secret\"\r\nETag: \"a\"\r\nx-b: 2\r\n");
        assert_eq!(String::from_utf8_lossy(head.lines()), expected);
        assert_eq!((head.etag(), head.date(), head.modified()), (Some(&b"\"a\""[..]), Some(NOW), None));
        assert_eq!((head.age(Moment::from_seconds(NOW)), head.get(b"X-B")), (7, Some(&b"2"[..])));
    }

    #[test]
    fn a_response_without_a_date_gets_one() {
        let control = RequestControl::default();
        for fields in ["Cache-Control: max-age=60\r\n", "Cache-Control: max-age=60\r\nDate: yesterday\r\n"] {
            let asked = request("GET", "/", "");
            let head = admit(&asked, &control, &response(200, fields), &Admission::default(), times())
                .expect("stored");
            assert_eq!(String::from_utf8_lossy(head.lines()), format!("Cache-Control: max-age=60\r\n{DATE}"));
        }
    }

    #[test]
    fn tags_are_read_and_hidden() {
        let asked = request("GET", "/", "");
        let fields = "Cache-Control: max-age=60\r\nSurrogate-Key: a b\r\nCache-Tag: c,d , e\r\n";
        let tag_fields = vec!["surrogate-key".into(), "cache-tag".into()];
        let shown = Admission { tag_fields, ..Admission::default() };
        let head = decide(&asked, 200, fields, &shown).expect("stored");
        assert_eq!(head.tags().collect::<Vec<_>>(), [b"a", b"b", b"c", b"d", b"e"]);
        assert!(head.get(b"cache-tag").is_some());
        let head = decide(&asked, 200, fields, &Admission { hides_tags: true, ..shown }).expect("stored");
        assert_eq!(
            (head.tags().count(), head.get(b"cache-tag"), head.get(b"surrogate-key")),
            (5, None, None)
        );
    }
}

//! `cache`: stores responses, and answers later requests with them (RFC 9111).
//!
//! The policy decides what the cache may do for a request, and under which key. It acts last, after every policy that
//! could refuse the request, so no stored response reaches a client that would not be admitted. The proxy carries the
//! decision out ([`CacheUse`]): it looks the key up in the [store](tollgate_cache::Store) that all workers share,
//! serves, validates or fetches, and counts the [outcome](CacheOutcome).

pub(crate) mod active;
mod conditions;
mod config;
mod key;
mod outcome;
pub(crate) mod sweeper;
mod told_apart;
mod uses;

use std::sync::Arc;

use tollgate_http::h1::BodyLength;
use tollgate_http::{Head, Method, Name};

use self::key::Keyed;
use self::uses::Uses;
use crate::{Planned, Policy, PolicyStates, Request, Verdict};

pub use active::{ActiveCache, CacheIntent, CacheRules, CacheUse, StaleTimes};
pub(crate) use config::CacheSettings;
pub use key::KEY_SEPARATOR;
pub use outcome::CacheOutcome;

impl Planned for CacheRules {
    fn kind(&self) -> &'static str {
        "cache"
    }

    fn summary(&self) -> String {
        let mut parts = vec![if self.head { "GET and HEAD".to_owned() } else { "GET".to_owned() }];
        if let Some(default) = self.admission.default_seconds {
            parts.push(format!("{default} s unless the response says it"));
        }
        if !self.by_status.is_empty() {
            parts.push("lifetimes by status".to_owned());
        }
        if self.slice.is_some() {
            parts.push("in slices".to_owned());
        }
        if !(self.bypass.is_empty() && self.no_store.is_empty()) {
            parts.push("with exceptions".to_owned());
        }
        parts.join(", ")
    }

    fn cache_rules(&self) -> Option<&CacheRules> {
        Some(self)
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let place = key.strip_suffix("/cache").unwrap_or(key);
        let count = |event| shared.events().counter("cache", place, event);
        Arc::new(CachePolicy(Arc::new(ActiveCache {
            rules: Self::clone(&self),
            store: shared.cache().clone(),
            sweeper: self.key.has_values().then(|| shared.cache_sweeper().clone()),
            uses: (self.min_uses > 1).then(Uses::new),
            counts: CacheOutcome::ALL.map(|outcome| count(outcome.as_str())),
            hit_bytes: count("hit_bytes"),
            compressed_hits: count("compressed_hits"),
        })))
    }
}

impl ActiveCache {
    fn intent(&self, request: &Request<'_>) -> CacheIntent {
        let rules = &self.rules;
        let head = &request.head;
        if head.extended || head.upgrade.is_some() {
            return CacheIntent::Bypass("it asks for another protocol");
        }
        if is_grpc(head.head.get(Name::ContentType)) {
            return CacheIntent::Bypass("it is a gRPC call");
        }
        let is_read = match head.method {
            Method::Get => rules.get,
            Method::Head => rules.head,
            method if head.is_safe() || method == Method::Connect => false,
            _ => return CacheIntent::Invalidate,
        };
        if !is_read {
            return CacheIntent::Bypass("its method is not cached");
        }
        // A body may change the response, and is no part of the key (a "fat GET").
        if !matches!(head.length, BodyLength::None | BodyLength::Exactly(0)) {
            return CacheIntent::Bypass("it has a body");
        }
        if has_override(&head.head) {
            return CacheIntent::Bypass("a field replaces its method or URL");
        }
        if rules.bypass.hold(request.head) {
            return CacheIntent::Bypass("a condition of `bypass` holds");
        }
        let is_identified = !rules.across_identities
            && (request.context.consumer.is_some()
                || request.context.is_personal
                || request.origin.certificate.is_some()
                || head.head.has(Name::Authorization));
        CacheIntent::Lookup { may_store: !rules.no_store.hold(request.head), is_identified }
    }
}

/// Fields by which some frameworks replace the method or the URL of a request. They are no part of a key, so a response
/// to such a request would be stored for the URL that it seems to be for.
const OVERRIDES: [&[u8]; 5] =
    [b"x-http-method-override", b"x-http-method", b"x-method-override", b"x-original-url", b"x-rewrite-url"];

fn has_override(head: &Head) -> bool {
    // Most requests have no field under which the parser files these names.
    (head.has(Name::Other) || head.has(Name::ProxyClaim)) && head.has_any_by_text(&OVERRIDES)
}

/// Returns whether requests with this field bypass the cache.
#[must_use]
pub fn bypasses_cache(field: &str) -> bool {
    OVERRIDES.iter().any(|name| name.eq_ignore_ascii_case(field.as_bytes()))
}

fn is_grpc(content_type: Option<&[u8]>) -> bool {
    let grpc = b"application/grpc";
    content_type.and_then(|it| it.get(..grpc.len())).is_some_and(|it| it.eq_ignore_ascii_case(grpc))
}

#[derive(Debug)]
struct CachePolicy(Arc<ActiveCache>);

impl Policy for CachePolicy {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let intent = self.0.intent(request);
        let mut key = std::mem::take(&mut request.context.cache_key);
        key.clear();
        if !matches!(intent, CacheIntent::Bypass(_)) {
            let keyed = Keyed {
                secure: request.origin.secure,
                authority: request.authority(),
                path: request.path(),
                query: request.query(),
                head: &request.head.head,
                route: request.origin.route,
            };
            self.0.rules.key.write(&mut key, &keyed);
        }
        request.context.cache_key = key;
        request.context.cache = Some(CacheUse::new(self.0.clone(), intent));
        Verdict::Continue
    }

    fn cache(&self) -> Option<&Arc<ActiveCache>> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_cache::Admission;

    use super::conditions::Conditions;
    use super::key::KeyRules;
    use super::*;
    use crate::testing::{Sent, planned};
    use crate::{Consumer, Context};

    fn intent(written: &str, line: &str, fields: &str, prepare: impl FnOnce(&mut Context)) -> CacheIntent {
        let policy = planned(written, &Arc::default()).activate("route/r/cache", &Arc::default());
        let (mut sent, mut context) = (Sent::with(line, fields), Context::default());
        prepare(&mut context);
        assert!(matches!(policy.request(&mut sent.request(&mut context)), Verdict::Continue));
        let decided = context.cache.take().expect("decided");
        assert_eq!(context.cache_key.is_empty(), matches!(decided.intent, CacheIntent::Bypass(_)));
        decided.intent
    }

    fn rules() -> CacheRules {
        CacheRules {
            key: KeyRules {
                query: key::QueryRule::All,
                sorts: false,
                headers: Box::default(),
                cookies: Box::default(),
                host: true,
            },
            get: true,
            head: true,
            stale_times: StaleTimes::default(),
            bypass: Conditions::default(),
            no_store: Conditions::default(),
            max_object: 1,
            slice: None,
            min_uses: 1,
            admission: Admission::default(),
            by_status: Vec::new(),
            across_identities: false,
            client_directives: true,
            status: true,
        }
    }

    const OPEN: CacheIntent = CacheIntent::Lookup { may_store: true, is_identified: false };

    #[test]
    fn requests_that_are_looked_up() {
        let plain = |line: &str, fields: &str| intent("cache: on", line, fields, |_| ());
        assert_eq!(plain("GET / HTTP/1.1", ""), OPEN);
        assert_eq!(plain("HEAD / HTTP/1.1", ""), OPEN);
        for method in ["POST", "PUT", "DELETE", "PATCH", "PURGE"] {
            let line = format!("{method} / HTTP/1.1");
            assert_eq!(plain(&line, "Content-Length: 0\r\n"), CacheIntent::Invalidate, "{method}");
        }
        for (line, fields) in [
            ("OPTIONS / HTTP/1.1", ""),
            ("PROPFIND / HTTP/1.1", ""),
            ("SEARCH / HTTP/1.1", "Content-Length: 0\r\n"),
            ("GET / HTTP/1.1", "Content-Length: 3\r\n"),
            ("GET / HTTP/1.1", "Transfer-Encoding: chunked\r\n"),
            ("GET / HTTP/1.1", "X-HTTP-Method-Override: DELETE\r\n"),
            ("GET / HTTP/1.1", "X-Original-URL: /admin\r\n"),
            ("GET / HTTP/1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\n"),
            ("POST / HTTP/1.1", "Content-Type: application/grpc+proto\r\nContent-Length: 0\r\n"),
        ] {
            assert!(matches!(plain(line, fields), CacheIntent::Bypass(_)), "{line} {fields}");
        }
        let head = intent("cache: {methods: GET}", "HEAD / HTTP/1.1", "", |_| ());
        assert_eq!(head, CacheIntent::Bypass("its method is not cached"));
    }

    #[test]
    fn an_identity_is_an_authorization_a_consumer_or_a_service() {
        let identified = CacheIntent::Lookup { may_store: true, is_identified: true };
        let get = "GET / HTTP/1.1";
        let with = |written: &str, fields: &str| intent(written, get, fields, |_| ());
        assert_eq!(with("cache: on", "Authorization: Bearer x\r\n"), identified);
        assert_eq!(with("cache: {across_identities: on}", "Authorization: Bearer x\r\n"), OPEN);
        let consumer = |context: &mut Context| context.consumer = Some(Arc::new(Consumer::default()));
        assert_eq!(intent("cache: on", get, "", consumer), identified);
        assert_eq!(intent("cache: on", get, "", |context| context.is_personal = true), identified);
    }

    #[test]
    fn conditions_bypass_or_keep_a_response_out() {
        let bypass = "cache: {bypass: {headers: {X-Debug: true}, query: {draft: '1'}, cookies: session}}";
        for (line, fields) in [
            ("GET / HTTP/1.1", "X-Debug: x\r\n"),
            ("GET /?a&draft=1 HTTP/1.1", ""),
            ("GET / HTTP/1.1", "Cookie: a=b; session=c\r\n"),
        ] {
            let decided = intent(bypass, line, fields, |_| ());
            assert_eq!(decided, CacheIntent::Bypass("a condition of `bypass` holds"), "{line} {fields}");
        }
        assert_eq!(intent(bypass, "GET /?draft=2 HTTP/1.1", "Cookie: sessions=1\r\n", |_| ()), OPEN);
        let kept_out = CacheIntent::Lookup { may_store: false, is_identified: false };
        let no_store = "cache: {no_store: {headers: {X-Role: {not: guest}}}}";
        assert_eq!(intent(no_store, "GET / HTTP/1.1", "X-Role: admin\r\n", |_| ()), kept_out);
        assert_eq!(intent(no_store, "GET / HTTP/1.1", "X-Role: guest\r\n", |_| ()), OPEN);
    }

    #[test]
    fn the_first_range_with_a_status_counts() {
        let admission = |seconds| Admission { forced_seconds: Some(seconds), ..Admission::default() };
        let rules = CacheRules {
            by_status: vec![((404, 404), admission(30)), ((400, 499), admission(5))],
            ..rules()
        };
        let forced = |status| rules.admission(status).forced_seconds;
        assert_eq!([404, 410, 200].map(forced), [Some(30), Some(5), None]);
    }
}

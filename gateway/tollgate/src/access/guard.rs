//! What a request needs, and whether who asks has it.

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_config::Role;
use tollgate_observe::Peer;
use tollgate_tls::Presented;

use super::audit;
use super::tokens::Access;
use crate::api::problem;
use crate::surface::Surface;

/// Who asks for a change, for the history: the guard has found out.
#[derive(Clone, Debug)]
pub struct Asker(pub String);

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(|| Self("unknown".to_owned())))
    }
}

/// What an answer says that was changed, for the audit log.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The store's version before.
    pub before: u64,
    /// And after.
    pub after: u64,
    /// Whether it was only asked what would be.
    pub dry_run: bool,
    /// `routes/a` and the like.
    pub resources: Vec<String>,
}

/// The word for why an answer is a refusal, for the audit log.
#[derive(Clone, Debug)]
pub struct Problem(pub String);

/// Lets a request pass, or says why not.
pub async fn guard(State(surface): State<Surface>, mut request: Request, next: Next) -> Response {
    let Some(needed) = needed(request.method(), request.uri().path()) else {
        return next.run(request).await;
    };
    let access = surface.access.borrow().clone();
    let (asker, role) = match identified(&access, &request) {
        Ok(found) => found,
        Err(response) => return *response,
    };
    let audited = (needed > Role::Read).then(|| Audited::new(&access, &request, &asker, role)).flatten();
    let permitted = permitted(&access, &request, &asker, role, needed);
    let answered = async move {
        match permitted {
            Err(response) => *response,
            Ok(()) => {
                request.extensions_mut().insert(Asker(asker));
                request.extensions_mut().insert(role);
                next.run(request).await
            }
        }
    };
    let Some(audited) = audited else { return answered.await };
    // A task of its own: who asks may go at any time, and what was asked for is done all the same.
    let told = tokio::spawn(async move {
        let response = answered.await;
        let (to, record) = audited.told(&response);
        audit::write(to, record).await;
        response
    });
    told.await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

/// What a request needs; nothing, if it tells nothing of this gateway: whether it lives, and the dashboard's own files,
/// which ask for a token.
fn needed(method: &Method, path: &str) -> Option<Role> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    match path {
        "/" | "/healthz" | "/readyz" | "/dashboard" if reads => None,
        path if reads && path.starts_with("/dashboard/") => None,
        // What is asked for in a body is still only a question.
        "/api/v1/explain" => Some(Role::Read),
        _ if reads => Some(Role::Read),
        // These touch files of the gateway's machine.
        path if path.starts_with("/api/v1/store/") => Some(Role::Admin),
        _ => Some(Role::Write),
    }
}

/// Who asks, and what they may.
fn identified(access: &Access, request: &Request) -> Result<(String, Role), Box<Response>> {
    if let Some(role) = access.anonymous() {
        let shown = request.extensions().get::<Peer>().is_some_and(|peer| peer.certificate.is_some());
        if access.needs_certificate() && !shown {
            let message = "this connection has shown no certificate: another one is to be opened";
            return Err(Box::new(problem(StatusCode::FORBIDDEN, "forbidden", message)));
        }
        return Ok((certificate(request).unwrap_or_else(|| "local".to_owned()), role));
    }
    let headers = request.headers();
    // As clients of APISIX send it.
    let key = headers.get("x-api-key").filter(|_| request.uri().path().starts_with("/apisix/"));
    let bearer = headers.get(AUTHORIZATION).map(|value| value.as_bytes().split_at_checked(7));
    let token = match bearer {
        // The scheme's case does not matter (RFC 9110, section 11.1).
        Some(Some((scheme, token))) if scheme.eq_ignore_ascii_case(b"bearer ") => Some(token.trim_ascii()),
        Some(_) => return Err(unauthorized("the `Authorization` is not `Bearer TOKEN`", "invalid_request")),
        None => key.map(HeaderValue::as_bytes),
    };
    let Some(token) = token else {
        return Err(unauthorized("a token is needed: send `Authorization: Bearer TOKEN`", ""));
    };
    match access.find(token) {
        Some((name, role)) => Ok((name.to_owned(), role)),
        None => Err(unauthorized("nobody has this token", "invalid_token")),
    }
}

/// 401, with the challenge of RFC 6750, section 3.
fn unauthorized(message: &str, error: &str) -> Box<Response> {
    let mut response = problem(StatusCode::UNAUTHORIZED, "unauthorized", message);
    let challenge = match error {
        "" => "Bearer realm=\"tollgate\"".to_owned(),
        error => format!("Bearer realm=\"tollgate\", error=\"{error}\""),
    };
    challenged(&mut response, &challenge);
    Box::new(response)
}

fn challenged(response: &mut Response, challenge: &str) {
    if let Ok(challenge) = HeaderValue::from_str(challenge) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
}

/// Whether who asks may.
fn permitted(
    access: &Access,
    request: &Request,
    asker: &str,
    role: Role,
    needed: Role,
) -> Result<(), Box<Response>> {
    let forbidden = |message: &str| Box::new(problem(StatusCode::FORBIDDEN, "forbidden", message));
    let headers = request.headers();
    // No page of others is to change anything, nor to have a question worked out.
    if !matches!(*request.method(), Method::GET | Method::HEAD) && is_foreign(headers) {
        return Err(forbidden("a page of another origin asks for this"));
    }
    let asks_the_api = ["/api/", "/apisix/"].iter().any(|prefix| request.uri().path().starts_with(prefix));
    if !access.is_closed() && asks_the_api && !is_local_host(headers) {
        return Err(forbidden(
            "without tokens the API answers to an IP address or `localhost` alone, not to a name",
        ));
    }
    if role >= needed {
        return Ok(());
    }
    if !access.is_closed() {
        return Err(forbidden(
            "without tokens nothing is changed over an address that others reach: name who may under `admin: {tokens: \
             ...}`, or let it listen on the loopback address",
        ));
    }
    let (role, needed) = (role.as_str(), needed.as_str());
    let mut response =
        forbidden(&format!("this needs the role `{needed}`; the token `{asker}` has `{role}`"));
    // RFC 6750, section 3.1.
    let challenge = format!("Bearer realm=\"tollgate\", error=\"insufficient_scope\", scope=\"{needed}\"");
    challenged(&mut response, &challenge);
    Err(response)
}

/// Who the peer's certificate is for.
fn certificate(request: &Request) -> Option<String> {
    let der = request.extensions().get::<Peer>()?.certificate.clone()?;
    let shown = Presented::new(&der)?;
    let subject = shown.subject();
    Some(if subject.is_empty() { shown.names() } else { subject })
}

/// What the audit log says of a request.
struct Audited {
    to: PathBuf,
    record: Value,
}

impl Audited {
    fn new(access: &Arc<Access>, request: &Request, asker: &str, role: Role) -> Option<Self> {
        let to = access.audit_log.clone()?;
        let peer = request.extensions().get::<Peer>().map(|peer| peer.address.to_string());
        let record = json!({
            "at": null,
            "who": asker,
            "role": role.as_str(),
            "peer": peer,
            "certificate": certificate(request),
            "method": request.method().as_str(),
            "path": request.uri().path(),
        });
        Some(Self { to, record })
    }

    /// The record, with what came of the request.
    fn told(self, response: &Response) -> (PathBuf, Value) {
        let Self { to, mut record } = self;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let changed = response.extensions().get::<Changed>();
        let error = response.extensions().get::<Problem>().map(|problem| problem.0.as_str());
        record["at"] = crate::time::rfc3339(u64::try_from(now.as_millis()).unwrap_or(u64::MAX)).into();
        record["status"] = response.status().as_u16().into();
        record["outcome"] = match (response.status().is_success(), changed) {
            (false, _) => "refused",
            (true, Some(Changed { dry_run: true, .. })) => "dry_run",
            (true, Some(changed)) if changed.resources.is_empty() => "unchanged",
            (true, Some(_)) => "changed",
            (true, None) => "done",
        }
        .into();
        record["error"] = error.into();
        record["resources"] = changed.map(|it| it.resources.clone()).unwrap_or_default().into();
        record["version_before"] = changed.map(|it| it.before).into();
        record["version_after"] = changed.map(|it| it.after).into();
        (to, record)
    }
}

fn text(headers: &HeaderMap, name: impl axum::http::header::AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a browser says that the request comes from a page of somebody else.
fn is_foreign(headers: &HeaderMap) -> bool {
    if let Some(site) = text(headers, "sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    origin.is_none() || origin != text(headers, HOST)
}

/// Whether the host that is asked for is this machine's by a name that nobody else can give it: another name may be
/// a stranger's that was led here (DNS rebinding), with the stranger's page in a browser. One without a dot too: whoever is in
/// the same network can answer for that (RFC 4795).
fn is_local_host(headers: &HeaderMap) -> bool {
    let Some(host) = text(headers, HOST) else { return true };
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.parse::<std::net::IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn pages_of_others_are_known_by_what_browsers_say() {
        for (lines, foreign) in [
            (&[("host", "127.0.0.1:9901")][..], false),
            (&[("host", "127.0.0.1:9901"), ("origin", "http://127.0.0.1:9901")], false),
            (&[("host", "127.0.0.1:9901"), ("origin", "http://evil.example")], true),
            (&[("host", "127.0.0.1:9901"), ("origin", "null")], true),
            (&[("sec-fetch-site", "cross-site")], true),
            (&[("sec-fetch-site", "same-site")], true),
            (&[("sec-fetch-site", "same-origin"), ("origin", "http://a")], false),
        ] {
            assert_eq!(is_foreign(&headers(lines)), foreign, "{lines:?}");
        }
    }

    #[test]
    fn what_tells_nothing_is_open_and_what_is_unknown_is_not() {
        for (method, path, role) in [
            (Method::GET, "/healthz", None),
            (Method::HEAD, "/readyz", None),
            (Method::GET, "/dashboard/app.js", None),
            (Method::POST, "/dashboard/app.js", Some(Role::Write)),
            (Method::GET, "/dashboards", Some(Role::Read)),
            (Method::GET, "/metrics", Some(Role::Read)),
            (Method::GET, "/api/v1/config", Some(Role::Read)),
            (Method::POST, "/api/v1/explain", Some(Role::Read)),
            (Method::POST, "/api/v1/explain/", Some(Role::Write)),
            (Method::PUT, "/api/v1/routes/a", Some(Role::Write)),
            (Method::POST, "/api/v1/rollback/1", Some(Role::Write)),
            (Method::POST, "/api/v1/store/backup", Some(Role::Admin)),
            (Method::OPTIONS, "/healthz", Some(Role::Write)),
        ] {
            assert_eq!(needed(&method, path), role, "{method} {path}");
        }
    }

    #[test]
    fn names_that_could_be_a_strangers_are_told_from_this_machine() {
        for (host, local) in [
            ("127.0.0.1:9901", true),
            ("[::1]:9901", true),
            ("localhost", true),
            ("localhost:80", true),
            ("admin", false),
            ("localhost.evil.example", false),
            ("evil.example:9901", false),
            ("127.0.0.1.evil.example", false),
        ] {
            assert_eq!(is_local_host(&headers(&[("host", host)])), local, "{host}");
        }
    }
}

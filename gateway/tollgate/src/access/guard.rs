//! The guard of the admin listener. It determines which role a request needs, authenticates the client, and
//! writes the audit log.

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_config::Role;
use tollgate_net::component;
use tollgate_observe::{AdminRefusal, Peer, PeerAddress};
use tollgate_tls::PeerCertificate;
use tracing::warn;

use super::attempts::{ClientSource, FailedAttempt, FailedAttempts};
use super::report::{ApiErrorCode, AuditedChange, AuditedSetting, UnauditedCheck};
use super::tokens::AccessRules;
use super::{audit, host};
use crate::admin_context::AdminContext;
use crate::api::error_response;

/// The name of the client that asks for a change, for the history. The guard sets it.
#[derive(Clone, Debug)]
pub struct ClientName(pub String);

impl<S: Sync> FromRequestParts<S> for ClientName {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(|| Self("unknown".to_owned())))
    }
}

/// Axum middleware: passes a request on, or answers why it is refused.
pub async fn guard(State(context): State<AdminContext>, mut request: Request, next: Next) -> Response {
    let access = context.access.borrow().clone();
    let counts = context.admin.registry.admin_counts();
    if !host::is_allowed(&access, &request) {
        counts.refused(AdminRefusal::Host);
        let message = "the listener answers to an IP address or `localhost`, and to the names under `admin: {hosts: ...}`";
        return error_response(StatusCode::FORBIDDEN, "forbidden", message);
    }
    let Some(required) = required_role(request.method(), request.uri().path()) else {
        return next.run(request).await;
    };
    let (client, role) = match authenticate(&access, &request, &context.attempts) {
        Ok(found) => found,
        Err(refused) => {
            counts.refused(refused.why);
            let (response, failure, audited) = reject_credentials(&context, &access, &request, refused);
            // Dropped now: no handler reads its body.
            drop(request);
            if let Some((to, record)) = audited {
                audit::write(to, record).await;
            }
            if let Some(failure) = failure {
                failure.wait().await;
            }
            return response;
        }
    };
    let audited =
        (required > Role::Read).then(|| AuditEntry::new(&access, &request, Some((&client, role)))).flatten();
    let permitted = authorize(&access, &request, &client, role, required);
    let change_response = async move {
        match permitted {
            Err(response) => {
                counts.refused(AdminRefusal::Forbidden);
                *response
            }
            Ok(()) => {
                request.extensions_mut().insert(ClientName(client));
                request.extensions_mut().insert(role);
                next.run(request).await
            }
        }
    };
    let Some(audited) = audited else { return change_response.await };
    // A separate task, so that a client that disconnects cannot interrupt a change.
    let task = tokio::spawn(async move {
        let response = change_response.await;
        if response.extensions().get::<UnauditedCheck>().is_some() {
            return response;
        }
        let (to, record) = audited.complete(&response);
        audit::write(to, record).await;
        response
    });
    task.await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

/// Returns the role that a request needs. `None` for requests that reveal nothing about this gateway:
/// liveness, readiness and the dashboard's static files, which ask for a token themselves.
fn required_role(method: &Method, path: &str) -> Option<Role> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    match path {
        "/" | "/healthz" | "/readyz" | "/dashboard" if reads => None,
        path if reads && path.starts_with("/dashboard/") => None,
        // A trace shows what others send. A client that may write could route their requests to itself.
        "/api/v1/trace" => Some(Role::Write),
        // Neither do URLs that others have asked for belong to readers.
        "/api/v1/cache/objects" => Some(Role::Write),
        // A POST, but only a query.
        "/api/v1/explain" => Some(Role::Read),
        _ if reads => Some(Role::Read),
        // Ends the gateway for all its clients.
        "/api/v1/stop" => Some(Role::Admin),
        // These touch files on the gateway's machine.
        path if path.starts_with("/api/v1/store/") => Some(Role::Admin),
        _ => Some(Role::Write),
    }
}

/// The refusal of a client's credentials.
struct RefusedCredentials {
    why: AdminRefusal,
    response: Box<Response>,
}

impl RefusedCredentials {
    fn new(why: AdminRefusal, response: Box<Response>) -> Self {
        Self { why, response }
    }
}

/// Returns the source of a request's credentials.
fn client_source(request: &Request) -> ClientSource {
    request.extensions().get::<Peer>().map_or(ClientSource::User(None), |peer| peer.address.into())
}

/// Returns the answer to refused credentials. If they were wrong, returns also its delay and a record for the
/// audit log.
fn reject_credentials(
    context: &AdminContext,
    access: &Arc<AccessRules>,
    request: &Request,
    refused: RefusedCredentials,
) -> (Response, Option<FailedAttempt>, Option<(PathBuf, Value)>) {
    let RefusedCredentials { why, response } = refused;
    // A request without a token guesses nothing. A throttled request follows others that were already logged.
    if matches!(why, AdminRefusal::TokenMissing | AdminRefusal::Throttled) {
        return (*response, None, None);
    }
    let failure = context.attempts.record_failure(client_source(request));
    let peer = request.extensions().get::<Peer>().map(|peer| peer.address.to_string()).unwrap_or_default();
    if let Some(count) = failure.logged_count {
        let (reason, method) = (why.as_str(), request.method());
        // Truncated, since an unknown client chose it.
        let path: String = request.uri().path().chars().take(200).collect();
        warn!(
            target: component::ADMIN,
            "admin: wrong credentials ({reason}) from {peer}, {method} {path}: {count} within a minute"
        );
    }
    let audited = AuditEntry::new(access, request, None).map(|audited| audited.complete(&response));
    (*response, Some(failure), audited)
}

/// Writes a client certificate that a handshake refused to the log and the audit log.
pub fn report_refused_certificate(
    access: &AccessRules,
    attempts: &Arc<FailedAttempts>,
    peer: PeerAddress,
    why: &str,
) {
    // The handshake is over, so there is no answer to delay.
    let task = attempts.record_failure(peer.into()).logged_count;
    if let Some(count) = task {
        warn!(
            target: component::ADMIN,
            "admin: client certificate of {peer} refused: {why}: {count} within a minute"
        );
    }
    let Some(to) = access.audit_log.clone().filter(|_| attempts.may_audit(peer.into())) else { return };
    let record = json!({
        "at": audit_time(),
        "who": null,
        "role": null,
        "peer": peer.to_string(),
        "certificate": null,
        "method": null,
        "path": null,
        "status": null,
        "outcome": "refused",
        "error": AdminRefusal::Certificate.as_str(),
        "resources": [],
        "version_before": null,
        "version_after": null,
    });
    tokio::spawn(audit::write(to, record));
}

/// Returns the current time in the format of the audit log.
fn audit_time() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    crate::time::rfc3339(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// Authenticates the client. Returns its name and role.
fn authenticate(
    access: &AccessRules,
    request: &Request,
    attempts: &FailedAttempts,
) -> Result<(String, Role), RefusedCredentials> {
    if let Some(role) = access.anonymous() {
        let has_certificate =
            request.extensions().get::<Peer>().is_some_and(|peer| peer.certificate.is_some());
        if access.needs_certificate() && !has_certificate {
            let message = "this connection has no client certificate: open another connection with one";
            let response = Box::new(error_response(StatusCode::FORBIDDEN, "forbidden", message));
            return Err(RefusedCredentials::new(AdminRefusal::Certificate, response));
        }
        return Ok((certificate_subject(request).unwrap_or_else(|| "local".to_owned()), role));
    }
    let headers = request.headers();
    // Clients of APISIX send the token in this field.
    let key = headers.get("x-api-key").filter(|_| request.uri().path().starts_with("/apisix/"));
    let bearer = headers.get(AUTHORIZATION).map(|value| value.as_bytes().split_at_checked(7));
    let token = match bearer {
        // The scheme's case does not matter (RFC 9110, section 11.1).
        Some(Some((scheme, token))) if scheme.eq_ignore_ascii_case(b"bearer ") => Some(token.trim_ascii()),
        Some(_) => {
            let response = unauthorized("the `Authorization` is not `Bearer TOKEN`", "invalid_request");
            return Err(RefusedCredentials::new(AdminRefusal::CredentialsMalformed, response));
        }
        None => key.map(HeaderValue::as_bytes),
    };
    let Some(token) = token else {
        let response = unauthorized("a token is needed: send `Authorization: Bearer TOKEN`", "");
        return Err(RefusedCredentials::new(AdminRefusal::TokenMissing, response));
    };
    if !attempts.may_try(client_source(request)) {
        return Err(RefusedCredentials::new(AdminRefusal::Throttled, throttled()));
    }
    match access.find(token) {
        Some((name, role)) => Ok((name.to_owned(), role)),
        None => {
            let response = unauthorized("this token is not known here", "invalid_token");
            Err(RefusedCredentials::new(AdminRefusal::TokenUnknown, response))
        }
    }
}

/// Returns a 429: the address has sent too many wrong tokens.
fn throttled() -> Box<Response> {
    let message = "too many wrong tokens come from this address: try again in a moment";
    let mut response = error_response(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", message);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    Box::new(response)
}

/// Returns a 401 with the challenge of RFC 6750, section 3.
fn unauthorized(message: &str, error: &str) -> Box<Response> {
    let mut response = error_response(StatusCode::UNAUTHORIZED, "unauthorized", message);
    let challenge = match error {
        "" => "Bearer realm=\"tollgate\"".to_owned(),
        error => format!("Bearer realm=\"tollgate\", error=\"{error}\""),
    };
    set_challenge(&mut response, &challenge);
    Box::new(response)
}

fn set_challenge(response: &mut Response, challenge: &str) {
    if let Ok(challenge) = HeaderValue::from_str(challenge) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
}

/// Checks whether the client may do what it asks for.
fn authorize(
    access: &AccessRules,
    request: &Request,
    client: &str,
    role: Role,
    required: Role,
) -> Result<(), Box<Response>> {
    let forbidden = |message: &str| Box::new(error_response(StatusCode::FORBIDDEN, "forbidden", message));
    let headers = request.headers();
    // A page of another origin must neither change anything nor start an expensive query.
    let only_reads = matches!(*request.method(), Method::GET | Method::HEAD) && required == Role::Read;
    if !only_reads && is_cross_origin(headers) {
        return Err(forbidden("a page of another origin asks for this"));
    }
    if role >= required {
        return Ok(());
    }
    if !access.requires_token() {
        return Err(forbidden(
            "without tokens nothing is changed over an address that others reach: name who may under `admin: {tokens: \
             ...}`, or let it listen on the loopback address",
        ));
    }
    let (role, required) = (role.as_str(), required.as_str());
    let mut response =
        forbidden(&format!("this needs the role `{required}`; the token `{client}` has `{role}`"));
    // RFC 6750, section 3.1.
    let challenge = format!("Bearer realm=\"tollgate\", error=\"insufficient_scope\", scope=\"{required}\"");
    set_challenge(&mut response, &challenge);
    Err(response)
}

/// Returns the subject of the peer's certificate; its alternative names if the subject is empty.
fn certificate_subject(request: &Request) -> Option<String> {
    let der = request.extensions().get::<Peer>()?.certificate.clone()?;
    let certificate = PeerCertificate::new(&der)?;
    let subject = certificate.subject();
    Some(if subject.is_empty() { certificate.names() } else { subject })
}

/// A record of the audit log and the file for it.
struct AuditEntry {
    to: PathBuf,
    record: Value,
}

impl AuditEntry {
    /// Begins a record. `who` has the client's name and role; `None` if it is unknown. Returns `None` without
    /// an audit log.
    fn new(access: &Arc<AccessRules>, request: &Request, who: Option<(&str, Role)>) -> Option<Self> {
        let to = access.audit_log.clone()?;
        let peer = request.extensions().get::<Peer>().map(|peer| peer.address.to_string());
        let record = json!({
            "at": null,
            "who": who.map(|(client, _)| client),
            "role": who.map(|(_, role)| role.as_str()),
            "peer": peer,
            "certificate": certificate_subject(request),
            "method": request.method().as_str(),
            "path": request.uri().path(),
        });
        Some(Self { to, record })
    }

    /// Completes the record with the outcome of the request.
    fn complete(self, response: &Response) -> (PathBuf, Value) {
        let Self { to, mut record } = self;
        let changed = response.extensions().get::<AuditedChange>();
        let error = response.extensions().get::<ApiErrorCode>().map(|problem| problem.0.as_str());
        record["at"] = audit_time().into();
        record["status"] = response.status().as_u16().into();
        record["outcome"] = match (response.status().is_success(), changed) {
            (false, _) => "refused",
            (true, Some(AuditedChange { dry_run: true, .. })) => "dry_run",
            (true, Some(changed)) if changed.resources.is_empty() => "unchanged",
            (true, Some(_)) => "changed",
            (true, None) => "done",
        }
        .into();
        record["error"] = error.into();
        record["resources"] = changed.map(|it| it.resources.clone()).unwrap_or_default().into();
        record["version_before"] = changed.map(|it| it.before).into();
        record["version_after"] = changed.map(|it| it.after).into();
        if let Some(AuditedSetting { name, value, is_changed }) = response.extensions().get() {
            record["outcome"] = if *is_changed { "changed" } else { "unchanged" }.into();
            record["resources"] = json!([name]);
            record["value"] = value.clone();
        }
        (to, record)
    }
}

fn header_text(headers: &HeaderMap, name: impl axum::http::header::AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns whether the browser's fields show that a page of another origin sends the request.
fn is_cross_origin(headers: &HeaderMap) -> bool {
    if let Some(site) = header_text(headers, "sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    origin.is_none() || origin != header_text(headers, HOST)
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
            (&[("host", "127.0.0.1:9911")][..], false),
            (&[("host", "127.0.0.1:9911"), ("origin", "http://127.0.0.1:9911")], false),
            (&[("host", "127.0.0.1:9911"), ("origin", "http://evil.example")], true),
            (&[("host", "127.0.0.1:9911"), ("origin", "null")], true),
            (&[("sec-fetch-site", "cross-site")], true),
            (&[("sec-fetch-site", "same-site")], true),
            (&[("sec-fetch-site", "same-origin"), ("origin", "http://a")], false),
        ] {
            assert_eq!(is_cross_origin(&headers(lines)), foreign, "{lines:?}");
        }
    }

    #[test]
    fn public_paths_are_open_and_unknown_ones_are_not() {
        for (method, path, role) in [
            (Method::GET, "/healthz", None),
            (Method::HEAD, "/readyz", None),
            (Method::GET, "/dashboard/app.js", None),
            (Method::POST, "/dashboard/app.js", Some(Role::Write)),
            (Method::GET, "/dashboards", Some(Role::Read)),
            (Method::GET, "/metrics", Some(Role::Read)),
            (Method::GET, "/api/v1/config", Some(Role::Read)),
            (Method::GET, "/api/v1/trace", Some(Role::Write)),
            (Method::GET, "/api/v1/cache", Some(Role::Read)),
            (Method::GET, "/api/v1/cache/objects", Some(Role::Write)),
            (Method::POST, "/api/v1/cache/purge", Some(Role::Write)),
            (Method::POST, "/api/v1/explain", Some(Role::Read)),
            (Method::POST, "/api/v1/explain/", Some(Role::Write)),
            (Method::PUT, "/api/v1/routes/a", Some(Role::Write)),
            (Method::POST, "/api/v1/rollback/1", Some(Role::Write)),
            (Method::POST, "/api/v1/store/backup", Some(Role::Admin)),
            (Method::OPTIONS, "/healthz", Some(Role::Write)),
        ] {
            assert_eq!(required_role(&method, path), role, "{method} {path}");
        }
    }
}

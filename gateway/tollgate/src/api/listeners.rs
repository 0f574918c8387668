//! `GET /api/v1/listeners`: the listeners of the plan in force, their protocols, and their certificates with
//! expiry. It only reads, and shows no key.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_config::Http2;
use tollgate_plan::{Plan, PlannedListener};
use tollgate_tls::{CertificateSummary, TlsServerConfig};

use super::response::{body, wants_yaml};
use crate::admin_context::AdminContext;

/// `GET /api/v1/listeners`.
pub async fn list(State(context): State<AdminContext>, headers: HeaderMap) -> Response {
    let plan = context.plan.borrow().clone();
    let admin = plan.admin.as_ref().map(|tls| {
        // Its certificates have no names in the plan.
        tls_to_json(tls, &[])
    });
    let items: Vec<Value> = plan.listeners.iter().map(|listener| to_json(listener, &plan)).collect();
    body(StatusCode::OK, wants_yaml(&headers), &json!({ "items": items, "admin": { "tls": admin } }))
}

fn to_json(listener: &PlannedListener, plan: &Plan) -> Value {
    let names: Vec<&str> = listener.certificates.iter().map(|it| it.name.as_str()).collect();
    let redirect =
        listener.redirect.as_ref().map(|to| json!({ "status": to.status, "port": to.port.unwrap_or(443) }));
    json!({
        "name": listener.name,
        "address": listener.bind.to_string(),
        "routes": plan.routers.get(listener.router).len(),
        "protocols": protocols(listener.http2),
        "tls": listener.tls.as_ref().map(|tls| tls_to_json(tls, &names)),
        "redirect_to_https": redirect,
        "proxy_protocol": listener.proxy_protocol.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "half_close": listener.half_close,
        "idle_seconds": listener.idle.map(|time| time.as_secs_f64()),
        "age_seconds": listener.age.map(|time| time.as_secs_f64()),
    })
}

/// Returns the versions of HTTP that clients may use, by their names in ALPN.
fn protocols(http2: Http2) -> &'static [&'static str] {
    match http2 {
        Http2::On => &["h2", "http/1.1"],
        Http2::Off => &["http/1.1"],
        Http2::Only => &["h2"],
    }
}

/// `names` are the names of the certificates' files, in the same order.
fn tls_to_json(tls: &TlsServerConfig, names: &[&str]) -> Value {
    let certificates = tls.certificates().iter().enumerate().map(|(index, certificate)| {
        let mut value = certificate.as_ref().map_or_else(|| json!({}), certificate_to_json);
        value["file"] = json!(names.get(index));
        value
    });
    let client = tls.client_authorities().map(|client| {
        let authorities: Vec<Value> = client.authorities.iter().map(certificate_to_json).collect();
        json!({ "required": client.required, "authorities": authorities })
    });
    json!({
        "min_version": if tls.refuses_12() { "1.3" } else { "1.2" },
        "certificates": certificates.collect::<Vec<_>>(),
        "client": client,
    })
}

fn certificate_to_json(certificate: &CertificateSummary) -> Value {
    let CertificateSummary { subject, issuer, names, serial, fingerprint, not_before, not_after } =
        certificate;
    json!({
        "subject": subject,
        "issuer": issuer,
        "names": names,
        "serial": serial,
        "fingerprint": fingerprint,
        "not_before": not_before,
        "not_after": not_after,
    })
}

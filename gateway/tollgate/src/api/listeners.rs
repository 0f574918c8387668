//! `GET /api/v1/listeners`: the listeners of the plan in force, as they are written, with the address that is bound, their
//! protocols, and their certificates with expiry. It shows no key.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_config::{Http2, KINDS, ResourceKind, kind, masked};
use tollgate_plan::{ListenerProtocol, Plan, PlannedListener};
use tollgate_sources::ListedResource;
use tollgate_tls::{CertificateSummary, TlsServerConfig};

use super::resources::{ListFilter, ListOrder, ListSort};
use super::response::{body, error_response, wants_yaml};
use crate::admin_context::AdminContext;

/// The kind of listeners.
fn listeners_kind() -> &'static ResourceKind {
    kind("listeners").unwrap_or(&KINDS[0])
}

/// `GET /api/v1/listeners`.
pub async fn list(
    State(context): State<AdminContext>,
    Query(filter): Query<ListFilter>,
    headers: HeaderMap,
) -> Response {
    let yaml = wants_yaml(&headers);
    // The first request after a reload waits until the texts of the file are read.
    let made = tokio::task::spawn_blocking(move || body(StatusCode::OK, yaml, &whole(&context, &filter)));
    made.await.unwrap_or_else(|_| {
        error_response(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the list could not be made")
    })
}

fn whole(context: &AdminContext, filter: &ListFilter) -> Value {
    let plan = context.plan.borrow().clone();
    // Its certificates have no names in the plan.
    let admin = plan.admin.as_ref().map(|tls| tls_to_json(tls, None, &[]));
    let resources = context.view.list(listeners_kind());
    let resources: HashMap<&str, &ListedResource> =
        resources.iter().map(|resource| (resource.name(), resource)).collect();
    let addresses = context.admin.registry.status().listeners;
    let addresses: HashMap<&str, &Result<String, String>> =
        addresses.iter().map(|it| (it.configured.as_str(), &it.actual)).collect();
    let item = |listener: &Arc<PlannedListener>| {
        let mut item = to_json(listener, &plan);
        let address = listener.bind.to_string();
        let actual = addresses.get(address.as_str());
        item["bound"] = json!(actual.and_then(|actual| actual.as_ref().ok()));
        item["problem"] = json!(actual.and_then(|actual| actual.as_ref().err()));
        let resource = listener.name.as_deref().and_then(|name| resources.get(name));
        let resource = resource.map(|resource| resource.to_item());
        item["source"] = json!(resource.as_ref().map_or("file", |resource| resource.source.as_str()));
        item["version"] = json!(resource.as_ref().and_then(|resource| resource.version));
        item["value"] = json!(resource.map(|resource| masked(listeners_kind(), &resource.value)));
        item
    };
    let items: Vec<Value> = plan.listeners.iter().map(item).collect();
    let total = items.len();
    let (found, items) = filtered(filter, items);
    json!({ "total": total, "found": found, "items": items, "admin": { "tls": admin } })
}

/// Returns how many listeners a filter leaves, and its page of them.
fn filtered(filter: &ListFilter, mut items: Vec<Value>) -> (usize, Vec<Value>) {
    let text = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
    if let Some(after) = &filter.after {
        let place = items.iter().position(|item| text(item, "name") == *after);
        items.drain(..place.map_or(items.len(), |place| place + 1));
    }
    items.retain(|item| {
        filter.name.as_ref().is_none_or(|part| text(item, "name").contains(part.as_str()))
            && filter.source.as_ref().is_none_or(|wanted| match item["version"].is_null() {
                true => wanted == "file",
                false => *wanted == text(item, "source"),
            })
            && filter.q.as_ref().is_none_or(|part| item.to_string().contains(part.as_str()))
    });
    let found = items.len();
    match filter.sort {
        Some(ListSort::Name) => items.sort_by_key(|item| text(item, "name")),
        Some(ListSort::Source) => items.sort_by_key(|item| text(item, "source")),
        None => {}
    }
    if filter.order == ListOrder::Desc {
        items.reverse();
    }
    items.drain(..filter.offset.min(found));
    items.truncate(filter.limit.unwrap_or(usize::MAX));
    (found, items)
}

fn to_json(listener: &PlannedListener, plan: &Plan) -> Value {
    let is_http = listener.protocol == ListenerProtocol::Http;
    let names: Vec<&str> = listener.certificates.iter().map(|it| it.name.as_str()).collect();
    let redirect =
        listener.redirect.as_ref().map(|to| json!({ "status": to.status, "port": to.port.unwrap_or(443) }));
    json!({
        "name": listener.name,
        "address": listener.bind.to_string(),
        "hosts": listener.hosts,
        "routes": if is_http { plan.routers.get(listener.router).len() } else { 0 },
        "protocols": protocols(listener),
        "tls": listener.tls.as_ref().map(|tls| tls_to_json(tls, Some(&listener.own_certificates[..]), &names)),
        "redirect_to_https": redirect,
        "proxy_protocol": listener.proxy_protocol.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "half_close": listener.half_close,
        "idle_seconds": listener.idle.map(|time| time.as_secs_f64()),
        "age_seconds": listener.age.map(|time| time.as_secs_f64()),
    })
}

/// Returns the versions of HTTP that clients may use, by their names in ALPN, or the protocol of layer 4.
fn protocols(listener: &PlannedListener) -> &'static [&'static str] {
    match (listener.protocol, listener.http2) {
        (ListenerProtocol::Tcp, _) => &["tcp"],
        (ListenerProtocol::Udp, _) => &["udp"],
        (ListenerProtocol::Http, Http2::On) => &["h2", "http/1.1"],
        (ListenerProtocol::Http, Http2::Off) => &["http/1.1"],
        (ListenerProtocol::Http, Http2::Only) => &["h2"],
    }
}

/// `own` are the certificates to show; `None`: all. `names` are the names of their files, in the same order.
fn tls_to_json(tls: &TlsServerConfig, own: Option<&[usize]>, names: &[&str]) -> Value {
    let all = tls.certificates();
    let own = own.map_or_else(|| (0..all.len()).collect(), <[usize]>::to_vec);
    let own = own.iter().filter_map(|index| all.get(*index));
    let certificates = own.enumerate().map(|(index, certificate)| {
        let mut value = certificate.as_ref().map_or_else(|| json!({}), certificate_to_json);
        value["file"] = json!(names.get(index));
        value
    });
    let client = tls.client_authorities().map(|client| {
        let authorities: Vec<Value> = client.authorities.iter().map(certificate_to_json).collect();
        json!({
            "required": client.required,
            "insecure_fallback": client.insecure_fallback,
            "authorities": authorities,
        })
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

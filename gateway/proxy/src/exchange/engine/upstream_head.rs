//! Writes the request head that goes to the endpoint, in the form of HTTP/1. Hedged attempts and `dry_run`
//! use it too.

use std::net::SocketAddr;

use tollgate_http::h1::{BodyLength, write_decimal};
use tollgate_http::{Method, Name, NameSet, RequestHead, TargetForm, Version};
use tollgate_plan::{CdnLoop, GatewaySettings, HostRewrite, Route};
use tollgate_upstream::Pool;

use crate::exchange::forwarded;
use crate::state::client_certificate::{PresentedCertificate, ReservedFields};
use crate::state::fallback_state::ErrorPage;
use crate::state::request_path::upstream_path;
use crate::state::request_state::RequestState;

/// The inputs for the head.
pub(crate) struct Outgoing<'a> {
    pub state: &'a RequestState,
    pub peer: SocketAddr,
    /// Whether the client used TLS.
    pub secure: bool,
    /// The certificate that the client has presented.
    pub identity: Option<&'a PresentedCertificate>,
    pub settings: &'a GatewaySettings,
    pub route: &'a Route,
    /// The endpoint's address as text.
    pub endpoint: &'a str,
    pub upgrade: bool,
    /// Whether the endpoint speaks HTTP/2, where the end of the stream marks a request without a body.
    pub separate_heads: bool,
    pub collected: Option<u64>,
    /// Whether the request may come back to this gateway, and so gets a `CDN-Loop` (RFC 8586).
    pub may_return: bool,
}

/// Returns whether a request to this endpoint may [come back](Outgoing::may_return) to the gateway.
pub(crate) fn may_return(settings: &GatewaySettings, pool: &Pool) -> bool {
    settings.forwarded.cdn_loop == CdnLoop::Always || pool.loops_back()
}

/// Names that must be checked before they go on. The lines of a head without any of them are copied in one
/// piece. Without `Connection`, no field is nominated.
const LOOKED_AT: NameSet = NameSet::of(&[
    Name::AmbiguousSpelling,
    Name::Connection,
    Name::KeepAlive,
    Name::ProxyConnection,
    Name::Te,
    Name::TransferEncoding,
    Name::Upgrade,
    Name::Expect,
    Name::Via,
    Name::Forwarded,
    Name::XForwardedFor,
    Name::XForwardedHost,
    Name::XForwardedProto,
    Name::XForwardedPort,
    Name::XRealIp,
    Name::ClientCert,
    Name::ClientCertChain,
]);

/// Appends the head. Fields are copied as the client wrote them and in its order. Fields that concern only
/// the client's connection are left out. Fields that the gateway sets follow at the end.
pub(crate) fn write(out: &mut Vec<u8>, outgoing: &Outgoing<'_>) {
    if let Some(page) = outgoing.state.page() {
        return for_page(out, outgoing, page);
    }
    let Outgoing { state, settings, route, .. } = outgoing;
    let RequestState { request, path, rewritten, record, .. } = *state;
    let own_host = match &route.rewrite.host {
        Some(HostRewrite::To(host)) => Some(host.as_bytes()),
        Some(HostRewrite::Endpoint) => Some(endpoint_host(outgoing.endpoint)),
        // An absolute target's authority replaces `Host` (RFC 9112, 3.2.2); HTTP/1.0 may have none.
        None if request.authority.is_empty() => Some(endpoint_host(outgoing.endpoint)),
        None if request.form == TargetForm::Absolute => Some(request.slice(request.authority)),
        None => None,
    };
    let as_is = request.form == TargetForm::Origin
        && (path.is_empty() && rewritten.is_empty())
        && (request.version != Version::Http10 && own_host.is_none());
    if !as_is {
        request_line(out, state);
    }
    if let Some(host) = own_host {
        field(out, b"Host", host);
    }
    let forwarded = &settings.forwarded;
    let trusted = record.announced.is_trusted();
    let id = &settings.request_id;
    let reserved = ReservedFields::new(settings, trusted);
    let guarded = !reserved.is_empty();
    let may_change = own_host.is_some() || outgoing.collected.is_some() || guarded;
    if !may_change && !request.head.has_any(LOOKED_AT) {
        out.extend_from_slice(request.head.lines(as_is));
    } else {
        request.head.copy_lines(out, as_is, |line| {
            let keep = match line.id {
                name if name.can_be_nominated() || name == Name::XRequestId => !request.is_nominated(line),
                Name::Host => own_host.is_none(),
                Name::ContentLength => outgoing.collected.is_none(),
                Name::Expect => request.expect_continue && outgoing.collected.is_none(),
                name => !name.is_hop_by_hop() && forwarded::keeps(forwarded, trusted, name),
            };
            keep && !(guarded && reserved.has(request.slice(line.name)))
        });
    }

    match outgoing.collected {
        Some(length) => {
            out.extend_from_slice(b"Content-Length: ");
            write_decimal(out, length);
            out.extend_from_slice(b"\r\n");
        }
        None if matches!(request.length, BodyLength::Chunked | BodyLength::UntilClose) => {
            field(out, b"Transfer-Encoding", b"chunked");
        }
        // RFC 9110, 8.6: a method that expects a body needs a length without one too. Some HTTP/1 servers
        // answer 411 otherwise.
        None if request.version == Version::Http2
            && !outgoing.separate_heads
            && is_bodiless_write(request) =>
        {
            field(out, b"Content-Length", b"0");
        }
        None => {}
    }
    forwarded::write(out, forwarded, &record.announced, request, outgoing.peer, outgoing.secure);
    // The certificate of a trusted proxy does not belong to its clients.
    if let (Some(identity), Some(certificate_fields)) = (outgoing.identity, reserved.certificate_fields) {
        identity.write(out, certificate_fields);
    }
    if id.enabled {
        field(out, id.header.as_bytes(), &record.request_id);
    }
    if outgoing.may_return {
        field(out, b"CDN-Loop", tollgate_net::instance_name().as_bytes());
    }
    match (request.upgrade.filter(|_| outgoing.upgrade), request.wants_trailers) {
        (Some(protocols), _) => {
            field(out, b"Connection", b"Upgrade");
            field(out, b"Upgrade", request.slice(protocols));
        }
        // RFC 9110, 10.1.4: `TE` must be named in `Connection`.
        (None, true) => out.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n"),
        (None, false) => {}
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the head that requests a page in place of an error. It carries only those fields of the request
/// that choose among the page's forms: the page's server must not see credentials that the client sent for
/// another resource.
#[cold]
fn for_page(out: &mut Vec<u8>, outgoing: &Outgoing<'_>, page: &ErrorPage) {
    // With the fields that detect loops: the page may be this gateway's own, and end in an error itself.
    const CARRIED: [&str; 5] = ["Accept", "Accept-Language", "Accept-Encoding", "User-Agent", "CDN-Loop"];
    let Outgoing { state, settings, route, .. } = outgoing;
    let RequestState { request, record, .. } = *state;
    out.extend_from_slice(if request.method == Method::Head { b"HEAD " } else { b"GET " });
    out.extend_from_slice(&page.target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let host = match &route.rewrite.host {
        Some(HostRewrite::To(host)) => host.as_bytes(),
        None if !request.authority.is_empty() => request.slice(request.authority),
        Some(HostRewrite::Endpoint) | None => endpoint_host(outgoing.endpoint),
    };
    field(out, b"Host", host);
    for name in CARRIED {
        for value in request.head.all_by_text(name.as_bytes()) {
            field(out, name.as_bytes(), value);
        }
    }
    let Outgoing { peer, secure, .. } = *outgoing;
    forwarded::write(out, &settings.forwarded, &record.announced, request, peer, secure);
    if settings.request_id.enabled {
        field(out, settings.request_id.header.as_bytes(), &record.request_id);
    }
    if outgoing.may_return {
        field(out, b"CDN-Loop", tollgate_net::instance_name().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Returns whether the method expects a body, and the request has neither a body nor a length.
fn is_bodiless_write(request: &RequestHead) -> bool {
    request.length == BodyLength::None && matches!(request.method, Method::Post | Method::Put | Method::Patch)
}

/// Appends the request line that the route demands.
fn request_line(out: &mut Vec<u8>, state: &RequestState) {
    let request = &state.request;
    out.extend_from_slice(request.slice(request.method_text));
    out.push(b' ');
    out.extend_from_slice(upstream_path(state));
    if let Some(query) = request.query {
        out.push(b'?');
        out.extend_from_slice(request.slice(query));
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Returns the name of an endpoint for `Host`. A unix socket has no host name.
fn endpoint_host(endpoint: &str) -> &[u8] {
    if endpoint.starts_with("unix:") { b"localhost" } else { endpoint.as_bytes() }
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

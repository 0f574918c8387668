//! Sends responses of the gateway itself: errors, redirects, fixed responses, and the answers of policies.
//!
//! Each public function builds its status and field lines and calls [`answer`]. That adds the common fields,
//! lets policies change the head, writes the response, and returns what happens to the connection.

use tollgate_http::h1::{write_decimal, write_status_line};
use tollgate_http::{Method, Name, Version};
use tollgate_observe::Reason;
use tollgate_plan::{GatewaySettings, Location, Rates, Redirect, Respond};
use tollgate_route::PathError;

use crate::exchange::deliver::{Allowance, deliver};
use crate::exchange::error_body::{Flavour, error_body};
use crate::exchange::grpc;
use crate::exchange::response_policies::{self, Author};
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::request_path::normal_path;
use crate::state::request_state::RequestState;
use crate::state::time_limit::TimeLimit;
use crate::state::worker::Worker;

/// Answers with an error. `close`: the connection cannot carry another request.
pub(crate) async fn error<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    settings: &GatewaySettings,
    reason: Reason,
    close: bool,
) -> ConnectionFate {
    refusal(client, worker, state, settings, LocalError { reason, status: None, lines: b"" }, close).await
}

/// An error that the gateway reports to a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalError<'a> {
    pub reason: Reason,
    /// Replaces the reason's status.
    pub status: Option<u16>,
    /// Additional lines, each with its CRLF.
    pub lines: &'a [u8],
}

/// Answers with an error.
pub(crate) async fn refusal<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    settings: &GatewaySettings,
    LocalError { reason, status, lines: further }: LocalError<'_>,
    close: bool,
) -> ConnectionFate {
    state.record.reason = reason;
    if reason.status() == 0 {
        return ConnectionFate::Close;
    }
    let status = status.unwrap_or(reason.status());
    if client.stream.may_be_grpc() && state.grpc.is_some() {
        let lines = grpc::failure(reason, &settings.errors, &mut state.record);
        return answer(
            client,
            worker,
            state,
            settings,
            LocalResponse { status: 200, lines: &lines, body: b"", close },
        )
        .await;
    }
    let flavour = Flavour::for_accept(state.request.head.get(Name::Accept));
    let body = error_body(flavour, &settings.errors, status, reason, &state.record.request_id);
    let mut lines = further.to_vec();
    lines.reserve(128);
    for (name, value) in [("Tollgate-Reason", reason.as_str()), ("Content-Type", flavour.content_type())] {
        lines.extend_from_slice(name.as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(value.as_bytes());
        lines.extend_from_slice(b"\r\n");
    }
    if reason == Reason::ConnectRefused {
        // RFC 9110, 15.5.6 demands the allowed methods; here these are all others.
        lines.extend_from_slice(b"Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH, TRACE\r\n");
    }
    answer(
        client,
        worker,
        state,
        settings,
        LocalResponse { status, lines: &lines, body: body.as_bytes(), close },
    )
    .await
}

/// Answers with a route's fixed response.
pub(crate) async fn fixed<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    settings: &GatewaySettings,
    respond: &Respond,
    close: bool,
) -> ConnectionFate {
    let Respond { status, headers, body } = respond;
    answer(client, worker, state, settings, LocalResponse { status: *status, lines: headers, body, close })
        .await
}

/// Answers with a fixed response in place of an error. It has the error's status, reason and lines.
pub(crate) async fn page<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    settings: &GatewaySettings,
    respond: &Respond,
    LocalError { reason, status, lines: further }: LocalError<'_>,
    close: bool,
) -> ConnectionFate {
    let status = status.unwrap_or(reason.status());
    let mut lines = further.to_vec();
    if reason != Reason::None {
        state.record.reason = reason;
        for part in ["Tollgate-Reason: ", reason.as_str(), "\r\n"] {
            lines.extend_from_slice(part.as_bytes());
        }
    }
    lines.extend_from_slice(&respond.headers);
    answer(
        client,
        worker,
        state,
        settings,
        LocalResponse { status, lines: &lines, body: &respond.body, close },
    )
    .await
}

/// Answers with the response of a policy.
pub(crate) async fn policy_answer<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    settings: &GatewaySettings,
    own: &tollgate_policy::PolicyResponse,
    close: bool,
) -> ConnectionFate {
    let tollgate_policy::PolicyResponse { status, lines, body } = own;
    answer(client, worker, state, settings, LocalResponse { status: *status, lines, body, close }).await
}

/// Answers with a page that the gateway has made: the list of a directory.
pub(crate) async fn html<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    settings: &GatewaySettings,
    page: &str,
    close: bool,
) -> ConnectionFate {
    // The page needs its own style, and nothing else.
    let lines = b"Content-Type: text/html; charset=utf-8\r\n\
        Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n";
    answer(
        client,
        worker,
        state,
        settings,
        LocalResponse { status: 200, lines, body: page.as_bytes(), close },
    )
    .await
}

/// Answers with a redirect to this location.
pub(crate) async fn moved<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    settings: &GatewaySettings,
    location: &[u8],
    close: bool,
) -> ConnectionFate {
    let lines = [b"Location: ", location, b"\r\n"].concat();
    answer(client, worker, state, settings, LocalResponse { status: 301, lines: &lines, body: b"", close })
        .await
}

/// Answers with a route's redirect.
pub(crate) async fn redirect<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    settings: &GatewaySettings,
    redirect: &Redirect,
    close: bool,
) -> ConnectionFate {
    let secure = state.record.announced.is_secure(client.stream.tls().is_some());
    let mut lines = b"Location: ".to_vec();
    if let Err((reason, detail)) = location(&mut lines, redirect, state, secure) {
        state.record.remarks().detail = Some(detail.into());
        return error(client, worker, state, settings, reason, close).await;
    }
    lines.extend_from_slice(b"\r\n");
    answer(
        client,
        worker,
        state,
        settings,
        LocalResponse { status: redirect.status, lines: &lines, body: b"", close },
    )
    .await
}

/// Appends the target of a redirect. Parts that the redirect does not set are the request's. `secure`: the
/// client used TLS.
///
/// # Errors
/// If there is no host, which HTTP/1.0 need not send, or if captured groups produce a path that is refused.
pub(crate) fn location(
    out: &mut Vec<u8>,
    redirect: &Redirect,
    state: &mut RequestState,
    secure: bool,
) -> Result<(), (Reason, &'static str)> {
    let RequestState { request, path, rewritten, record, .. } = state;
    let bad_path = |error: PathError| (Reason::BadPath, error.as_str());
    match &redirect.to {
        Some(Location::Fixed(to)) => {
            out.extend_from_slice(to.as_bytes());
            return Ok(());
        }
        Some(Location::Groups(to)) => return to.fill(normal_path(request, path), out).map_err(bad_path),
        None => {}
    }
    let (own_host, own_port) = record.announced.host_and_port(request);
    if redirect.host.is_none() && own_host.is_empty() {
        return Err((Reason::BadHost, "the request names no host to lead to"));
    }
    out.extend_from_slice(
        redirect.scheme.as_deref().unwrap_or(if secure { "https" } else { "http" }).as_bytes(),
    );
    out.extend_from_slice(b"://");
    match &redirect.host {
        Some(host) => out.extend_from_slice(host.as_bytes()),
        None => out.extend_from_slice(own_host),
    }
    // The request's port belongs to its host and scheme. If the redirect sets either, the port is dropped.
    let kept = redirect.scheme.is_none() && redirect.host.is_none();
    let announced = record.announced.port().filter(|_| kept && own_port.is_empty());
    match redirect.port.or(announced) {
        Some(port) => {
            out.push(b':');
            write_decimal(out, u64::from(port));
        }
        None if kept => out.extend_from_slice(own_port),
        None => {}
    }
    // The URI of `*` has an empty path (RFC 9112, 3.2.4).
    let path = Some(normal_path(request, path)).filter(|path| *path != b"*").unwrap_or_default();
    match &redirect.path {
        Some(rewrite) => {
            rewrite.apply(path, rewritten).map_err(bad_path)?;
            out.extend_from_slice(rewritten);
        }
        None => out.extend_from_slice(path),
    }
    if let Some(query) = request.query {
        out.push(b'?');
        out.extend_from_slice(request.slice(query));
    }
    Ok(())
}

/// Returns whether one of the lines starts with `begin`, in upper or lower case.
fn has_line(lines: &[u8], begin: &[u8]) -> bool {
    let mut lines = lines.split(|byte| *byte == b'\n');
    lines.any(|line| line.get(..begin.len()).is_some_and(|it| it.eq_ignore_ascii_case(begin)))
}

/// A response of the gateway.
struct LocalResponse<'a> {
    status: u16,
    /// Field lines, each with its CRLF.
    lines: &'a [u8],
    body: &'a [u8],
    close: bool,
}

/// The head of a response of the gateway.
pub(crate) struct LocalHead<'a> {
    pub status: u16,
    /// Field lines, each with its CRLF.
    pub lines: &'a [u8],
    /// The value of `Content-Length`; `None`: there is none.
    pub length: Option<u64>,
    /// Whether the connection closes after the response.
    pub close: bool,
}

/// Writes the head of a response of the gateway, in place of what `out` holds.
pub(crate) fn write_head<S: ClientSide>(
    out: &mut Vec<u8>,
    client: &Client<S>,
    worker: &Worker,
    version: Version,
    LocalHead { status, lines, length, close }: LocalHead<'_>,
) {
    out.clear();
    write_status_line(out, status);
    out.extend_from_slice(b"Date: ");
    worker.write_date(out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(lines);
    let own = &client.connection_context.listener.strict_transport_security;
    if !own.is_empty() && !has_line(lines, b"strict-transport-security:") {
        out.extend_from_slice(own);
    }
    if let Some(length) = length {
        out.extend_from_slice(b"Content-Length: ");
        write_decimal(out, length);
        out.extend_from_slice(b"\r\n");
    }
    match version {
        Version::Http2 => {}
        _ if close => out.extend_from_slice(b"Connection: close\r\n"),
        Version::Http10 => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        Version::Http11 => {}
    }
    out.extend_from_slice(b"\r\n");
}

async fn answer<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    settings: &GatewaySettings,
    answer: LocalResponse<'_>,
) -> ConnectionFate {
    let RequestState { request, to_client, record, grpc, policy_context, .. } = state;
    let close = answer.close || client.announces_close();
    let bodiless = answer.status < 200 || matches!(answer.status, 204 | 304);
    let body = if bodiless || request.method == Method::Head { b"" } else { answer.body };
    record.status = answer.status;
    record.bytes_out = body.len() as u64;
    let answered = {
        let out = &mut *worker.output.borrow_mut();
        // The response to a gRPC call that is a head alone has no length.
        let bare = client.stream.may_be_grpc() && grpc.is_some() && request.version == Version::Http2;
        let has_length = !(bodiless || bare && body.is_empty());
        let head = LocalHead {
            status: answer.status,
            lines: answer.lines,
            length: has_length.then_some(answer.body.len() as u64),
            close,
        };
        write_head(out, client, worker, request.version, head);
        client.stream.translate(out);
        if let Some(context) = policy_context
            && !client.stream.is_withheld()
        {
            response_policies::apply(context, request, answer.status, Author::Gateway, out, None);
        }
        if worker.logs_responses.get() {
            record.keep_response(out);
        }
        client.stream.answer(to_client, out, body)
    };
    if answered.is_err() {
        record.reason = Reason::ClientClosed;
        return ConnectionFate::Reset;
    }
    // The write timeout, not the route's total: a response that reports the total timeout must still get
    // through.
    let (bound, rates) = (settings.timeouts.write, Rates::of(&settings.limits));
    let now = tollgate_net::now();
    let allowance = Allowance { bound, rates: &rates, is_stream: false, total: TimeLimit::new(now, None) };
    match deliver(client, to_client, now, allowance).await {
        Ok(()) if close => ConnectionFate::Linger,
        Ok(()) => ConnectionFate::KeepAlive,
        Err(reason) => {
            record.reason = reason;
            ConnectionFate::Reset
        }
    }
}

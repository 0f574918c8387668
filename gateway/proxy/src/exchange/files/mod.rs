//! Answers a request with a file of a directory, for routes with `files`.
//!
//! [`dispatch`](crate::exchange::dispatch) calls [`serve`], which looks the path up ([`locate`]), evaluates the
//! conditions and the range of the request, and [sends](body) the file. A short file that was asked for a moment ago is
//! in the worker's cache, and its response needs no call of the system but the write. Every look-up of another one runs
//! on a thread, so a file system that does not answer stops no other connection. Errors are responses of the gateway,
//! which the route's fallbacks can replace.

mod body;
mod locate;

use tollgate_http::{Answer, Conditions, ContentParts, Name, evaluate};
use tollgate_observe::Reason;
use tollgate_plan::{Files, Route};

use self::body::{FileResponse, send};
pub(crate) use self::locate::{Located, look_up_blocking};
use self::locate::{Unserved, locate};
use crate::exchange::choose_fallback::choose_fallback;
use crate::exchange::respond::{self, LocalError};
use crate::exchange::skip_body::skip_body;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::fallback_state::FallbackChosen;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Answers a request with a file. `close`: the client's connection closes after this request.
///
/// # Errors
/// If nothing is served, and a fallback of the route was chosen for that.
pub(crate) async fn serve<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    active: &ActivePlan,
    (route, files): (&Route, &Files),
    close: bool,
) -> Result<ConnectionFate, FallbackChosen> {
    let settings = &active.plan.settings;
    let located = match locate(client, worker, state, route, files).await {
        Ok(located) => located,
        Err(unserved) => return refuse(client, worker, state, active, route, unserved, close).await,
    };
    let file = match located {
        Located::File(file, _) => file,
        Located::List(page, _) => {
            let close = skip_body(state, close);
            return Ok(respond::html(client, worker, state, settings, &page, close).await);
        }
        Located::Moved(location) => {
            let close = skip_body(state, close);
            return Ok(respond::moved(client, worker, state, settings, &location, close).await);
        }
    };
    let conditions = Conditions::read(&state.request);
    let accept_encoding = if file.has_encoded() { accept_encoding(state) } else { Vec::new() };
    // The ranges that a client asks for must not be of another encoding than the part that it has.
    let encoded = conditions.range.is_none().then(|| file.preferred(&accept_encoding)).flatten();
    let file = encoded.unwrap_or(&file);
    let (status, lines, body) = match evaluate(&conditions, &file.selected()) {
        Answer::Whole => (200, None, ContentParts::whole(file.length())),
        Answer::NotModified => (304, Some(file.validator_lines().to_vec()), ContentParts::default()),
        Answer::Ranges(ranges) => {
            let boundary =
                format!("tollgate-{:08x}{:08x}{:08x}", worker.random(), worker.random(), file.modified());
            let (type_line, others) = (file.type_line(), file.lines_without_type());
            let (lines, body) = ContentParts::ranges(type_line, others, file.length(), &ranges, &boundary);
            (206, Some(lines), body)
        }
        Answer::PreconditionFailed => {
            let unserved = Unserved::from(Reason::PreconditionFailed);
            return refuse(client, worker, state, active, route, unserved, close).await;
        }
        Answer::NotSatisfiable => {
            let lines = format!("Content-Range: bytes */{}\r\n", file.length()).into_bytes();
            let unserved = Unserved { lines, ..Unserved::from(Reason::RangeNotSatisfiable) };
            return refuse(client, worker, state, active, route, unserved, close).await;
        }
    };
    let close = skip_body(state, close) || client.announces_close();
    let lines = lines.as_deref().unwrap_or(file.lines());
    let response = FileResponse { status, lines, file, body, close };
    Ok(match send(client, worker, state, route, response).await {
        Ok(()) if close => ConnectionFate::Linger,
        Ok(()) => ConnectionFate::KeepAlive,
        Err(reason) => {
            state.record.reason = reason;
            ConnectionFate::Reset
        }
    })
}

/// Answers with an error, unless a fallback of the route replaces it.
async fn refuse<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    active: &ActivePlan,
    route: &Route,
    Unserved { reason, detail, lines }: Unserved,
    close: bool,
) -> Result<ConnectionFate, FallbackChosen> {
    if let Some(detail) = detail {
        state.record.remarks().detail = Some(detail.into());
    }
    if route.fallback.is_some()
        && !(client.stream.may_be_grpc() && state.grpc.is_some())
        && choose_fallback(state, reason.status(), reason, true)
    {
        return Err(FallbackChosen);
    }
    let close = skip_body(state, close);
    let error = LocalError { reason, status: None, lines: &lines };
    Ok(respond::refusal(client, worker, state, &active.plan.settings, error, close).await)
}

/// The values of `Accept-Encoding`, joined by commas.
fn accept_encoding(state: &RequestState) -> Vec<u8> {
    let head = &state.request.head;
    if !head.has(Name::Other) {
        return Vec::new();
    }
    head.all_by_text(b"accept-encoding").collect::<Vec<_>>().join(&b", "[..])
}

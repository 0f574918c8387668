//! Looks the path of a request up in the directory of its route.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate_files::{Cached, Found, ServedFile, Site, Unfound, decode, find, is_hidden, threads};
use tollgate_http::Method;
use tollgate_observe::Reason;
use tollgate_plan::{Files, Route};

use crate::exchange::rewrite::rewrite;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::request_path::normal_path;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// How long a request waits for the file system.
pub(super) const FILE_WAIT: Duration = Duration::from_secs(10);
/// The same for `explain`, whose caller must not wait that long.
const EXPLAIN_WAIT: Duration = Duration::from_secs(2);

/// The answer to a request: a file, a list or a redirect.
#[derive(Debug)]
pub(crate) enum Located {
    /// A file, with its path relative to the root; empty if the file was cached.
    File(Arc<ServedFile>, Vec<u8>),
    /// The list of a directory, with the path of that relative to the root.
    List(String, Vec<u8>),
    /// A redirect to the directory's path with a slash at the end.
    Moved(Vec<u8>),
}

/// The error for a request that no file answers.
#[derive(Debug)]
pub(crate) struct Unserved {
    pub reason: Reason,
    /// A more precise cause, for the log.
    pub detail: Option<&'static str>,
    /// Additional lines of the response, each with its CRLF.
    pub lines: Vec<u8>,
}

impl From<Reason> for Unserved {
    fn from(reason: Reason) -> Self {
        Self { reason, detail: None, lines: Vec::new() }
    }
}

impl From<Unfound> for Unserved {
    fn from(unfound: Unfound) -> Self {
        let (reason, detail) = match unfound {
            Unfound::Missing(detail) => (Reason::FileNotFound, Some(detail)),
            Unfound::Forbidden(detail) => (Reason::FileForbidden, Some(detail)),
            Unfound::Failed => (Reason::FileUnavailable, Some("the file system reports an error")),
        };
        Self { reason, detail, lines: Vec::new() }
    }
}

/// Looks up each path that the route tries, until one is served.
pub(super) async fn locate<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    route: &Route,
    files: &Files,
) -> Result<Located, Unserved> {
    let path = path_below_root(state, route, files)?;
    let mut filled = Vec::new();
    let mut last = Unserved::from(Unfound::Missing("there is no such file"));
    for candidate in files.site.candidates() {
        let is_own = candidate.is_own();
        if !is_own {
            candidate.fill(&path, &mut filled);
        }
        let name = if is_own { &path } else { &filled };
        match look_up(client, worker, &files.site, name, is_own).await? {
            Ok(found) => return Ok(located(found, name, state)),
            // Something that must not be served is not passed over in silence.
            Err(unfound @ (Unfound::Forbidden(_) | Unfound::Failed)) => return Err(unfound.into()),
            Err(missing) => last = missing.into(),
        }
    }
    Err(last)
}

/// Does the same without a worker, and waits for the file system. Returns only the reason and its detail.
pub(crate) fn look_up_blocking(
    state: &mut RequestState,
    route: &Route,
    files: &Files,
) -> Result<Located, (Reason, Option<&'static str>)> {
    let short = |unserved: Unserved| (unserved.reason, unserved.detail);
    let path = path_below_root(state, route, files).map_err(short)?;
    let mut last = short(Unserved::from(Unfound::Missing("there is no such file")));
    for candidate in files.site.candidates() {
        let mut name = Vec::new();
        candidate.fill(&path, &mut name);
        let (site, wanted, is_own) = (files.site.clone(), name.clone(), candidate.is_own());
        let found = threads::run_blocking(EXPLAIN_WAIT, move || find(&site, &wanted, is_own, None));
        match found.map_err(|_| (Reason::FileUnavailable, Some("the file system does not answer")))? {
            Ok(found) => return Ok(located(found, &name, state)),
            Err(Unfound::Missing(detail)) => last = (Reason::FileNotFound, Some(detail)),
            Err(other) => return Err(short(other.into())),
        }
    }
    Err(last)
}

/// Returns the path of the request, relative to the root: what the route rewrites it to, or else what follows the
/// prefix that the route matches.
fn path_below_root(state: &mut RequestState, route: &Route, files: &Files) -> Result<Vec<u8>, Unserved> {
    if !matches!(state.request.method, Method::Get | Method::Head) {
        let lines = b"Allow: GET, HEAD\r\n".to_vec();
        return Err(Unserved { lines, ..Unserved::from(Reason::MethodNotAllowed) });
    }
    rewrite(route, state)?;
    let path = if state.rewritten.is_empty() {
        let rest = normal_path(&state.request, &state.path).get(files.matched..).unwrap_or_default();
        if rest.is_empty() { b"/" } else { rest }
    } else {
        &state.rewritten
    };
    let mut out = Vec::with_capacity(path.len());
    let decoded = decode(path, &mut out);
    decoded.map_err(|bad| Unserved { detail: Some(bad.0), ..Unserved::from(Reason::BadPath) })?;
    Ok(out)
}

/// Looks a path up in the worker's cache, or else on a thread.
async fn look_up<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    site: &Arc<Site>,
    name: &[u8],
    is_own: bool,
) -> Result<Result<Found, Unfound>, Reason> {
    let now = tollgate_net::now();
    let known = match worker.files.borrow_mut().get(site, name, now) {
        Cached::Fresh(file) => return Ok(Ok(Found::File(file, Vec::new()))),
        Cached::Stale(file) => Some(file),
        Cached::Unknown => None,
    };
    if is_hidden(name) {
        return Ok(Err(Unfound::Missing("the name of a hidden file")));
    }
    let (of, wanted) = (site.clone(), name.to_vec());
    let found = wait(client, threads::run(move || find(&of, &wanted, is_own, known.as_ref()))).await?;
    match &found {
        // The index of a directory is another answer for a path that is tried in another way.
        Ok(Found::File(file, at)) if is_own || at == name => {
            worker.files.borrow_mut().keep(site, name, file, now);
        }
        _ => worker.files.borrow_mut().forget(site, name),
    }
    Ok(found)
}

/// Waits for a call of the file system, for a bounded time.
pub(super) async fn wait<S: ClientSide, T>(
    client: &mut Client<S>,
    call: impl Future<Output = Result<T, threads::Unavailable>>,
) -> Result<T, Reason> {
    client.deadline.set(tollgate_net::now(), Some(FILE_WAIT));
    let mut call = pin!(call);
    poll_fn(|cx| match call.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(result.map_err(|_| Reason::FileUnavailable)),
        Poll::Pending => client.deadline.poll_passed(cx).map(|()| Err(Reason::FileUnavailable)),
    })
    .await
}

fn located(found: Found, name: &[u8], state: &RequestState) -> Located {
    match found {
        Found::File(file, path) => Located::File(file, path),
        Found::List(page) => Located::List(page, name.to_vec()),
        Found::Directory => {
            let request = &state.request;
            let path = normal_path(request, &state.path);
            // Two slashes at the start would name another host.
            let rest = path.iter().position(|byte| *byte != b'/').map_or(&b""[..], |start| &path[start..]);
            let mut location = [b"/", rest, b"/"].concat();
            if let Some(query) = request.query {
                location.push(b'?');
                location.extend_from_slice(request.slice(query));
            }
            Located::Moved(location)
        }
    }
}

//! `tollgate trace`, and `GET /api/v1/trace`: follows requests of a running gateway, and shows how each was
//! handled, step by step.
//!
//! `followers` holds the clients that follow, and sends the list to the workers. `api` is the endpoint: it reads
//! a `filter` from the query, and streams the traces that the workers gather as lines of JSON. The command is
//! a client of the API, and `text` prints a trace.

mod api;
mod filter;
mod followers;
mod text;

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use tollgate_observe::trace::{LostTraces, RequestTrace};

pub use self::api::routes;
pub use self::followers::RequestFollowers;
use crate::admin_client::AdminClient;
use crate::cli::TraceArgs;
use crate::print::print_error;
use crate::remote::percent_encode;

/// Shows requests of a running gateway until the limit is reached or the user ends it.
pub fn trace(args: &TraceArgs) -> ExitCode {
    match run_trace(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            print_error(format_args!("error: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn run_trace(args: &TraceArgs) -> Result<(), String> {
    let client = AdminClient::new(&args.remote)?;
    let mut result = Ok(());
    let on_open = || {
        if io::stdout().is_terminal() {
            print_error(format_args!("following the requests of {}: Ctrl-C ends", client.address()));
        }
    };
    client.stream_lines(&path(args), on_open, |line| {
        let Some(text) = shown(line, args.json) else { return ControlFlow::Continue(()) };
        match write(&text) {
            Ok(()) => ControlFlow::Continue(()),
            // A reader that closes the pipe early (`tollgate trace | head`) has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ControlFlow::Break(()),
            Err(error) => {
                result = Err(format!("cannot write to standard output: {error}"));
                ControlFlow::Break(())
            }
        }
    })?;
    result
}

/// Returns the path of the request to the API.
fn path(args: &TraceArgs) -> String {
    let TraceArgs { host, stream, path, client, status, reason, limit, .. } = args;
    let limit = limit.map(|limit| limit.to_string());
    let given = [
        ("host", host),
        ("stream", stream),
        ("path", path),
        ("client", client),
        ("status", status),
        ("reason", reason),
        ("limit", &limit),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let query: Vec<_> = given.map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
    format!("/api/v1/trace?{}", query.join("&"))
}

/// Returns the text for a line of the API; `None` for an empty line, which only keeps the connection alive.
fn shown(line: &[u8], json: bool) -> Option<String> {
    if line.is_empty() {
        return None;
    }
    if json {
        return Some(format!("{}\n", String::from_utf8_lossy(line)));
    }
    if let Ok(LostTraces { lost }) = serde_json::from_slice(line) {
        return Some(format!("({lost} requests are missing: they came faster than they could be shown)\n\n"));
    }
    Some(match serde_json::from_slice::<RequestTrace>(line) {
        Ok(trace) => text::text(&trace),
        Err(error) => format!("(a trace of another version: {error})\n\n"),
    })
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin_client::AdminOptions;

    #[test]
    fn the_query_has_what_was_given() {
        let remote = AdminOptions {
            admin: "127.0.0.1:9911".to_owned(),
            token: None,
            ca: None,
            certificate: None,
            key: None,
        };
        let mut args = TraceArgs {
            remote,
            host: None,
            stream: None,
            path: None,
            client: None,
            status: None,
            reason: None,
            limit: None,
            json: false,
        };
        assert_eq!(path(&args), "/api/v1/trace?");
        args.path = Some("/a b/*".to_owned());
        args.limit = Some(3);
        assert_eq!(path(&args), "/api/v1/trace?path=/a%20b/%2A&limit=3");
    }

    #[test]
    fn lines_of_the_api() {
        assert_eq!(shown(b"", false), None);
        assert_eq!(shown(b"{}", true).as_deref(), Some("{}\n"));
        assert!(shown(br#"{"lost":7}"#, false).is_some_and(|text| text.contains("7 requests are missing")));
        assert!(shown(b"{}", false).is_some_and(|text| text.contains("another version")));
    }
}

//! `tollgate explain [FILE] --listener NAME [--sni HOST]`: which stream takes a connection or a datagram, and where it
//! goes. The answer comes from the table that the workers use.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_config::{At, Config};
use tollgate_plan::{ListenerProtocol, Plan, PlannedListener, Stream};

/// The answer.
#[derive(Debug)]
pub struct StreamReport {
    listener: String,
    protocol: &'static str,
    server_name: Option<String>,
    /// Whether the gateway has decrypted the bytes that it relays.
    is_terminated: bool,
    /// The stream with its place in the file; `None`: none takes the connection.
    stream: Option<(Stream, Option<String>)>,
    /// The upstreams that the stream may go to.
    targets: Vec<Target>,
}

/// A share of a stream.
#[derive(Debug)]
struct Target {
    /// `None`: these connections are closed.
    upstream: Option<String>,
    weight: u32,
    endpoints: Vec<String>,
}

/// Explains what a listener does with a connection that asks for a server name.
///
/// # Errors
/// The listener has requests of HTTP, so the question needs a method and a URL.
pub fn report(
    listener: &PlannedListener,
    server_name: Option<&str>,
    config: Option<&Config>,
    plan: &Plan,
) -> Result<StreamReport, String> {
    let name = listener.name.as_deref().unwrap_or_default();
    let table = listener.streams.as_deref();
    let named = server_name.and_then(|name| table?.named(name.as_bytes()));
    let is_http = listener.protocol == ListenerProtocol::Http;
    if is_http && (server_name.is_none() || named.is_none()) {
        return Err(match server_name {
            None => format!("listener `{name}` takes requests: write the method and the URL"),
            Some(sni) => format!(
                "no stream of listener `{name}` takes `{sni}`, so its TLS is terminated: write the method and the URL"
            ),
        });
    }
    let stream = named.or_else(|| table?.other());
    let targets = stream.into_iter().flat_map(|stream| &stream.shares).map(|share| {
        let upstream = plan.upstreams.iter().find(|upstream| Some(&upstream.name) == share.upstream.as_ref());
        let endpoints = upstream.into_iter().flat_map(|upstream| &upstream.endpoints);
        let endpoints = endpoints.map(|endpoint| endpoint.address.to_string()).collect();
        Target { upstream: share.upstream.clone(), weight: share.weight, endpoints }
    });
    Ok(StreamReport {
        listener: format!("{name} ({})", listener.bind),
        protocol: listener.protocol.as_str(),
        server_name: server_name.map(str::to_owned),
        is_terminated: !is_http && listener.tls.is_some(),
        targets: targets.collect(),
        stream: stream.map(|stream| ((**stream).clone(), place(stream.at, config))),
    })
}

fn place(at: At, config: Option<&Config>) -> Option<String> {
    let file = config?.files.get(at.file as usize).filter(|_| at.line > 0)?;
    Some(format!("{}:{}", file.name, at.line))
}

impl StreamReport {
    /// Returns whether a stream takes it.
    pub fn is_taken(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns the answer as text.
    pub fn text(&self) -> String {
        let mut page = String::new();
        let mut line = |label: &str, text: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(page, "{label:<10}{text}");
        };
        line("listener", format!("{}, {}", self.listener, self.protocol));
        if let Some(name) = &self.server_name {
            line("sni", name.clone());
        }
        let Some((stream, place)) = &self.stream else {
            line("stream", "none: the connection is closed, reason `no_stream`".to_owned());
            return page;
        };
        let place = place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        line("stream", format!("{}{place}", stream.name));
        if self.targets.is_empty() {
            line("closes", "`respond: close`".to_owned());
            return page;
        }
        if self.is_terminated {
            line("tls", "terminated: the endpoint gets plain bytes".to_owned());
        } else if self.server_name.is_some() {
            line("tls", "passed through: the endpoint does the handshake".to_owned());
        }
        let mut label = "to";
        for Target { upstream, weight, endpoints } in &self.targets {
            let weight = if self.targets.len() > 1 { format!(", weight {weight}") } else { String::new() };
            let endpoints = match (upstream, endpoints.as_slice()) {
                (None, _) => String::new(),
                (Some(upstream), [only]) if only == upstream => String::new(),
                (Some(_), []) => ": no endpoints in the file".to_owned(),
                (Some(_), all) => format!(": {}", all.join(", ")),
            };
            let name = upstream.as_deref().unwrap_or("`respond: close`");
            line(std::mem::take(&mut label), format!("{name}{weight}{endpoints}"));
        }
        let duration_text =
            |time: Option<Duration>| time.map_or_else(|| "off".to_owned(), |time| format!("{time:?}"));
        let (connect, idle, total) =
            (duration_text(stream.connect), duration_text(stream.idle), duration_text(stream.total));
        line("timeouts", format!("connect {connect}, idle {idle}, total {total}"));
        let bounds = [("connections", stream.connections), ("per address", stream.per_address)];
        let bounds: Vec<_> =
            bounds.iter().filter_map(|(name, most)| Some(format!("{name} {}", (*most)?))).collect();
        if !bounds.is_empty() {
            line("limits", bounds.join(", "));
        }
        page
    }

    /// Returns the answer as JSON.
    pub fn json(&self) -> Value {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let targets = self.targets.iter().map(|Target { upstream, weight, endpoints }| match upstream {
            Some(_) => json!({ "upstream": upstream, "weight": weight, "endpoints": endpoints }),
            None => json!({ "respond": "close", "weight": weight }),
        });
        json!({
            "listener": self.listener,
            "protocol": self.protocol,
            "server_name": self.server_name,
            "stream": self.stream.as_ref().map(|(stream, place)| json!({
                "name": stream.name,
                "at": place,
                "tls": match (self.is_terminated, &self.server_name) {
                    (true, _) => Some("terminated"),
                    (false, Some(_)) => Some("passed"),
                    (false, None) => None,
                },
                "targets": targets.collect::<Vec<_>>(),
                "connect_s": seconds(stream.connect),
                "idle_s": seconds(stream.idle),
                "total_s": seconds(stream.total),
                "connections": stream.connections,
                "per_address": stream.per_address,
            })),
        })
    }
}

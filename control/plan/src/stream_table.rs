//! The streams of a plan, as the workers use them. [`streams`](crate::streams) compiles them.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::At;
use tollgate_tls::HostTable;

/// The streams of a listener. Listeners that share an address have the same ones.
#[derive(Debug, Default)]
pub struct StreamTable {
    /// `None`: an HTTP listener at the same address has the host, so no stream takes its connections.
    names: HostTable<Option<Arc<Stream>>>,
    has_names: bool,
    has_passthrough: bool,
    other: Option<Arc<Stream>>,
}

impl StreamTable {
    /// Returns whether the choice depends on the server name that a client asks for.
    #[must_use]
    pub fn has_names(&self) -> bool {
        self.has_names
    }

    /// Returns whether a stream passes TLS through although the listener terminates it.
    #[must_use]
    pub fn has_passthrough(&self) -> bool {
        self.has_passthrough
    }

    /// Returns the stream for a server name: the one with this name, else the one with the longest suffix. `None` if
    /// there is none, or if a listener of HTTP has a host that is more specific.
    #[must_use]
    pub fn named(&self, name: &[u8]) -> Option<&Arc<Stream>> {
        self.names.find(name)?.as_ref()
    }

    /// Returns the stream of all connections that no server name selects.
    #[must_use]
    pub fn other(&self) -> Option<&Arc<Stream>> {
        self.other.as_ref()
    }

    pub(crate) fn insert(&mut self, name: Option<&str>, stream: &Arc<Stream>) {
        match name {
            Some(name) => {
                self.has_names = true;
                self.has_passthrough |= stream.passthrough;
                self.names.insert(name, Some(stream.clone()));
            }
            None => drop(self.other.get_or_insert_with(|| stream.clone())),
        }
    }

    /// Leaves a host to a listener of HTTP, unless a stream has the same name.
    pub(crate) fn leave(&mut self, host: &str) {
        self.names.insert(host, None);
    }
}

/// The action of a stream for the connections or datagrams that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Name in logs and metrics.
    pub name: String,
    /// Source position.
    pub at: At,
    /// Whether it takes connections before TLS although the listener terminates it.
    pub passthrough: bool,
    /// The upstreams, by name, with their weights, and the share that it closes; empty: it closes all.
    pub shares: Vec<StreamShare>,
    /// Time to open a connection to an endpoint.
    pub connect: Option<Duration>,
    /// Time during which no byte moves.
    pub idle: Option<Duration>,
    /// The whole connection or session.
    pub total: Option<Duration>,
    /// Connections or sessions at once.
    pub connections: Option<u32>,
    /// Connections or sessions at once of one client address.
    pub per_address: Option<u32>,
    /// Bytes that a session of UDP sends to its endpoint before the endpoint answers.
    pub unanswered: Option<u64>,
    /// Bytes that a session of UDP sends to its client before the client sends again.
    pub unconfirmed: Option<u64>,
}

/// A share of a stream. It has the upstream's name instead of the number, because a connection may arrive under one
/// plan and choose under the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamShare {
    /// The name among the upstreams of the plan; `None`: these connections are closed.
    pub upstream: Option<String>,
    /// Weight relative to the other shares.
    pub weight: u32,
}

#[cfg(test)]
mod tests {
    use crate::{Plan, compile};

    fn plan(text: &str) -> Result<Plan, Vec<String>> {
        tollgate_policy::register();
        let loaded = tollgate_config::from_text("", text, &|_| None);
        let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
        match compile(&config) {
            Ok(compiled) => Ok(compiled.plan),
            Err(problems) => Err(problems.into_iter().map(|problem| problem.message).collect()),
        }
    }

    #[test]
    fn the_most_specific_name_wins() {
        let plan = plan(
            "listen: {bind: \":5432\", protocol: tcp, to: \"h:1\"}\nstreams:\n\
             - {name: exact, server_names: a.b.c, to: \"h:2\"}\n\
             - {name: deep, server_names: \"*.b.c\", to: \"h:3\"}\n\
             - {name: wide, server_names: [\"*.c\", d], to: \"h:4\"}\n",
        );
        let table = plan.expect("a plan").listeners[0].streams.clone().expect("streams");
        assert!(table.has_names());
        let named = |name: &str| table.named(name.as_bytes()).map(|stream| stream.name.clone());
        for (name, stream) in [
            ("a.b.c", "exact"),
            ("A.b.C", "exact"),
            ("x.b.c", "deep"),
            ("x.y.b.c", "deep"),
            ("b.c", "wide"),
            ("d", "wide"),
        ] {
            assert_eq!(named(name).as_deref(), Some(stream), "{name}");
        }
        assert_eq!((named("c"), named("x.d")), (None, None));
        assert_eq!(table.other().map(|stream| stream.name.as_str()), Some("[::]:5432"));
    }

    #[test]
    fn streams_without_listeners_go_where_they_fit() {
        let plan = plan(
            "listen:\n- {bind: \":1\", protocol: tcp}\n- {bind: \":1\", protocol: udp}\n\
             - {bind: \":2\", protocol: tcp, name: own, to: \"h:9\"}\n- \":3\"\n\
             streams: [{name: all, to: \"h:1\"}, {name: named, server_names: x, to: \"h:2\"}]\nroutes: []\n",
        )
        .expect("a plan");
        let shown: Vec<_> = plan
            .listeners
            .iter()
            .map(|listener| {
                let table = listener.streams.as_ref()?;
                let name = |stream: Option<&std::sync::Arc<crate::Stream>>| stream.map(|it| it.name.clone());
                Some((name(table.named(b"x")), name(table.other())))
            })
            .collect();
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(
            shown,
            [
                Some((some("named"), some("all"))),
                Some((None, some("all"))),
                Some((some("named"), some("own"))),
                None
            ]
        );
        let idle =
            |index: usize| plan.listeners[index].streams.as_ref()?.other()?.idle.map(|it| it.as_secs());
        assert_eq!((idle(0), idle(1)), (Some(3600), Some(60)));
    }

    #[test]
    fn contradictory_streams_are_an_error() {
        for (text, message) in [
            (
                "listen: {bind: \":1\", name: a, protocol: tcp}\n\
                 streams: [{name: x, to: \"h:1\"}, {name: y, listeners: a, respond: close}]",
                "another stream takes everything that arrives at listener [::]:1",
            ),
            (
                "listen: {bind: \":1\", protocol: tcp}\n\
                 streams: [{server_names: x, to: \"h:1\"}, {server_names: [y, x], to: \"h:2\"}]",
                "another stream of listener [::]:1 has `x`",
            ),
            (
                "listen: {bind: \":1\", name: a}\nroutes: []\nstreams: [{listeners: a, to: \"h:1\"}]",
                "listener `a` is one of HTTP: it passes only connections with server names on",
            ),
            (
                "listen: {bind: \":1\", name: a}\nroutes: []\n\
                 streams: [{listeners: a, server_names: x, to: \"h:1\"}]",
                "listener `a` has no `tls`, so clients ask it for no server name",
            ),
            (
                "listen: {bind: \":1\", name: a, protocol: udp}\n\
                 streams: [{listeners: a, server_names: x, to: \"h:1\"}]",
                "listener `a` receives datagrams, which have no server name",
            ),
            (
                "listen:\n- {bind: \":1\", name: a, protocol: tcp, to: \"h:1\"}\n- {bind: \":2\", name: b, protocol: tcp}\n\
                 streams: [{name: a, listeners: b, to: \"h:1\"}]",
                "two streams are named `a`",
            ),
            (
                "listen: {bind: \":1\", protocol: udp, to: \"https://h:1\"}",
                "datagrams to upstream `https://h:1` would be plain text, although it has TLS",
            ),
            (
                "listen: {bind: \":1\", protocol: udp, to: \"unix:/run/a.sock\"}",
                "upstream `unix:/run/a.sock` has a Unix socket, which takes no datagrams of UDP",
            ),
            (
                "listen: {bind: \":1\", name: a, protocol: tcp, to: \"h:1\"}\nroutes: [{listeners: a, respond: 204}]",
                "no request arrives at listener `a`: it has `protocol: tcp`",
            ),
            (
                "listen: {bind: \":1\", protocol: tcp, to: \"h:1\"}\nstreams: [{listeners: b, to: \"h:1\"}]",
                "there is no listener named `b`",
            ),
        ] {
            let problems = plan(text).err().unwrap_or_else(|| panic!("accepted: {text}"));
            assert!(problems.iter().any(|problem| problem == message), "{message}: {problems:?}");
        }
    }
}

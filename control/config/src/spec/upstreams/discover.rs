//! The keys of `discover`.

use std::time::Duration;

use super::super::{Choice, KeySpec, SectionSpec, Shape, Text};

/// The short form of `discover`.
pub(crate) static DISCOVER_TEXT: Text = Text {
    expected: "`dns://NAME:PORT`, `srv://NAME` or `file:PATH`",
    pattern: Some(r"^(dns://|srv://|file:)\S+$"),
    loose: false,
};
static NAME: Text =
    Text { expected: "a name such as `orders.internal`", pattern: Some(r"^[A-Za-z0-9_.-]+$"), loose: false };
static SRV: Text = Text {
    expected: "a name such as `_http._tcp.orders.internal`",
    pattern: Some(r"^[A-Za-z0-9_.-]+$"),
    loose: false,
};
static FILE: Text =
    Text { expected: "the path of a file such as `endpoints.yaml`", pattern: Some("."), loose: false };
static SERVER: Text = Text {
    expected: "the address of a name server such as `10.0.0.2` or `10.0.0.2:53`",
    pattern: Some(r"^[0-9A-Fa-f:.\[\]]+$"),
    loose: false,
};
static SERVER_SHAPE: Shape = Shape::Text(&SERVER);

pub(crate) static DISCOVER: SectionSpec = SectionSpec {
    name: "discover",
    noun: "`discover`",
    doc: "Source of endpoints in addition to the configured ones.",
    choice: Choice::ExactlyOne(&["dns", "srv", "file"]),
    keys: &[
        KeySpec::new("dns", "A name whose addresses are endpoints, with `port`.", Shape::Text(&NAME))
            .aliases(&["name", "host", "hostname", "address"]),
        KeySpec::new(
            "port",
            "With `dns`: the port of every endpoint.",
            Shape::Count { min: 1, max: 65_535, off: false },
        ),
        KeySpec::new(
            "srv",
            "A name whose SRV records are endpoints: they give ports, weights and priorities.",
            Shape::Text(&SRV),
        )
        .aliases(&["service", "dns_srv"]),
        KeySpec::new(
            "file",
            "A YAML or JSON list of endpoints, as under `endpoints`, reread when it changes. Relative to the \
            file that names it.",
            Shape::Text(&FILE),
        )
        .aliases(&["path", "eds"]),
        KeySpec::new(
            "min_ttl",
            "Lower bound of a record's time to live.",
            Shape::Time { min: Duration::from_millis(100), max: Duration::from_secs(86_400), off: false },
        )
        .default("1s")
        .aliases(&["refresh", "interval", "dns_refresh_rate"]),
        KeySpec::new(
            "max_ttl",
            "Upper bound of a record's time to live.",
            Shape::Time { min: Duration::from_millis(100), max: Duration::from_secs(7 * 86_400), off: false },
        )
        .default("60s")
        .aliases(&["ttl", "valid", "max_refresh"]),
        KeySpec::new(
            "servers",
            "Name servers to ask. Default: the servers of `/etc/resolv.conf`.",
            Shape::OneOrMany(&SERVER_SHAPE),
        )
        .aliases(&["server", "resolvers", "resolver", "nameservers", "nameserver"]),
    ],
};

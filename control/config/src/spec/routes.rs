//! The keys of a route.

use super::{Choice, KeySpec, POLICIES_DOC, POLICIES_SHAPE, SectionSpec, Shape, Text};
use crate::section::{Section, Value};
use crate::sections::rewrite::WithGroups;
use crate::sections::*;

static NAME: Text = Text {
    expected: "a name of letters, digits, blanks, `_`, `.`, `-` and `/`",
    pattern: Some("."),
    loose: true,
};
static PROTOCOL: Text = Text {
    expected: "a protocol such as `websocket`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z/-]+$"),
    loose: false,
};
static TARGET_SHAPE: Shape = <Target as Value>::SHAPE;
static FALLBACK_SHAPE: Shape = Shape::Section(Fallback::SPEC);
static MATCH_SHAPE: Shape = <Match as Value>::SHAPE;
static PROTOCOL_SHAPE: Shape = Shape::Text(&PROTOCOL);

pub(crate) static ROUTE: SectionSpec = SectionSpec {
    name: "route",
    noun: "a route",
    doc: "A route: the requests that it matches, and how it answers them.",
    choice: Choice::ExactlyOne(&["to", "redirect", "respond"]),
    keys: &[
        KeySpec::new("name", "Name in logs and metrics. Default: the match.", Shape::Text(&NAME)),
        KeySpec::new(
            "match",
            "The requests that it matches: `host/path`, either of which may be omitted. Default: all.",
            Shape::OneOrMany(&MATCH_SHAPE),
        )
        .aliases(&["matches", "when", "location", "path", "host", "hosts", "paths", "uri", "rule", "prefix"]),
        KeySpec::new(
            "to",
            "Forwards to endpoints or upstreams, chosen by weight.",
            Shape::OneOrMany(&TARGET_SHAPE),
        )
        .aliases(&[
            "proxy_pass",
            "upstream",
            "backend",
            "backends",
            "target",
            "targets",
            "forward",
            "service",
            "endpoints",
        ]),
        KeySpec::new(
            "redirect",
            "Answers with a redirect: a complete `Location`, or the parts that change.",
            <WithGroups<Redirect> as Value>::SHAPE,
        ),
        KeySpec::new(
            "respond",
            "Answers with a fixed response: a status, a text, or a mapping.",
            <Respond as Value>::SHAPE,
        )
        .aliases(&["return", "response", "direct_response"]),
        KeySpec::new(
            "rewrite",
            "Changes to the request before it is forwarded.",
            <WithGroups<Rewrite> as Value>::SHAPE,
        ),
        KeySpec::new("timeouts", "Overrides of the gateway's timeouts.", <RouteTimeoutKeys as Value>::SHAPE)
            .aliases(&["timeout"]),
        KeySpec::new("limits", "Overrides of the gateway's limits.", <RouteLimitKeys as Value>::SHAPE),
        KeySpec::new(
            "buffer",
            "Whether bodies are buffered before they are passed on: `on` buffers both directions, `request` \
            or `response` one of them.",
            <RouteBuffer as Value>::SHAPE,
        )
        .aliases(&["buffering", "proxy_request_buffering", "request_buffering"]),
        KeySpec::new("retry", "Retry rules, which replace the upstream's.", <Retry as Value>::SHAPE)
            .aliases(RETRY_ALSO),
        KeySpec::new(
            "priority",
            "Priority of its requests under overload: `low` is shed first and `high` last.",
            Shape::Word(&["low", "normal", "high"]),
        )
        .default("normal")
        .aliases(&["importance", "criticality"]),
        KeySpec::new(
            "grpc_web",
            "Whether gRPC-Web calls, as browsers make them, are translated to gRPC.",
            Shape::Switch,
        )
        .default("off")
        .aliases(&["grpcweb"]),
        KeySpec::new(
            "fallback",
            "Replacements for error responses: another upstream, a page from one, or a fixed response. The \
            first one that matches applies.",
            Shape::OneOrMany(&FALLBACK_SHAPE),
        )
        .aliases(&[
            "fallbacks",
            "error_page",
            "error_pages",
            "errors",
            "failover",
            "proxy_intercept_errors",
            "on_error",
        ]),
        KeySpec::new("policies", POLICIES_DOC, POLICIES_SHAPE).aliases(&[
            "policy",
            "plugins",
            "middlewares",
            "filters",
        ]),
        KeySpec::new(
            "access_log",
            "Its access logs, which replace the gateway's; `off`: none.",
            <Vec<AccessLog> as Value>::SHAPE,
        )
        .aliases(&["log", "logs", "accesslog", "access_logs"]),
        KeySpec::new(
            "upgrade",
            "Protocols that a client may request with `Upgrade`.",
            Shape::AnyOf(&[Shape::Off, Shape::OneOrMany(&PROTOCOL_SHAPE)]),
        )
        .default("websocket")
        .aliases(&["websocket", "websockets"]),
    ],
};

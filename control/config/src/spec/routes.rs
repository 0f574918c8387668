//! The keys of a route.

use super::access_log::{ACCESS_LOG_SHAPE, STATUS_RANGE_SHAPE};
use super::settings::{
    AGE_ALSO, BODY, BODY_RATE_ALSO, BODY_RATE_DOC, HEADER_NAME, IDLE_ALSO, RATE, RESPONSE_RATE_ALSO,
    RESPONSE_RATE_DOC, SIZE_MAX,
};
use super::{
    Choice, Key, POLICIES, POLICIES_DOC, RETRY, RETRY_ALSO, Section, Shape, TARGET_SHAPE, TARGET_TEXT_SHAPE,
    Text,
};

static NAME: Text = Text {
    expected: "a name of letters, digits, blanks, `_`, `.`, `-` and `/`",
    pattern: Some("."),
    loose: true,
};
static MATCH_TEXT: Text = Text {
    expected: "a host, a path or both, such as `api.example.com/v1/*`",
    pattern: Some(r"^\S+$"),
    loose: false,
};
static HOST: Text = Text {
    expected: "a host such as `api.example.com` or `*.example.com`",
    pattern: Some(r"^(\*|(\*\.)?[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])$"),
    loose: false,
};
static PATH_TEXT: Text = Text {
    expected: "a path such as `/v1`, or `/v1/*` to include everything below it",
    pattern: Some("^/"),
    loose: false,
};
static PLAIN_PATH: Text = Text { expected: "a path such as `/v1`", pattern: Some("^/"), loose: false };
static TEMPLATE: Text = Text {
    expected: "a path such as `/users/{id}`, or `/users/{id}/*` to include everything below it",
    pattern: Some("^/"),
    loose: false,
};
static REGEX: Text =
    Text { expected: "a regular expression such as `/v[0-9]+/.*`", pattern: Some("."), loose: true };
static CALL: Text = Text {
    expected: "a service such as `shop.Orders`, or a method of it such as `shop.Orders/Place`",
    pattern: Some(r"^[A-Za-z_][0-9A-Za-z_.]*(/[A-Za-z_][0-9A-Za-z_]*)?$"),
    loose: false,
};
static SERVICE: Text = Text {
    expected: "a name such as `shop.Orders`",
    pattern: Some(r"^[A-Za-z_][0-9A-Za-z_.]*$"),
    loose: false,
};
static RPC: Text =
    Text { expected: "a method such as `Place`", pattern: Some(r"^[A-Za-z_][0-9A-Za-z_]*$"), loose: false };
static NAME_REGEX: Text =
    Text { expected: "a regular expression such as `shop\\..*`", pattern: Some("."), loose: true };
static METHOD: Text = Text {
    expected: "a method such as `GET`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};
static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
static LOCATION: Text = Text {
    expected: "a URL or a path such as `https://example.com/new`",
    pattern: Some(r"^\S+$"),
    loose: false,
};
static PROTOCOL: Text = Text {
    expected: "a protocol such as `websocket`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z/-]+$"),
    loose: false,
};
static REPLACE: Text =
    Text { expected: "a text with capture groups such as `$1`", pattern: None, loose: true };
static HOST_REWRITE: Text =
    Text { expected: "`endpoint`, or a host such as `api.internal`", pattern: Some(r"^\S+$"), loose: false };
/// Not loose: an unquoted number is a status.
static RESPOND_TEXT: Text = Text { expected: "a text", pattern: None, loose: false };
static CONTENT_TYPE: Text =
    Text { expected: "a media type such as `application/json`", pattern: Some("/"), loose: false };

/// A path that may contain `{status}` and a query.
static PAGE_PATH: Text = Text {
    expected: "a path such as `/50x.html` or `/errors/{status}.html`",
    pattern: Some(r"^/[!-~]*$"),
    loose: false,
};

const RESPOND_SHAPE: Shape = Shape::AnyOf(&[
    Shape::Count { min: 200, max: 599, off: false },
    Shape::Text(&RESPOND_TEXT),
    Shape::Section(&RESPOND),
]);
static FALLBACK_SHAPE: Shape = Shape::Section(&FALLBACK);
static MATCH_SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&MATCH_TEXT), Shape::Section(&MATCH)]);
static METHOD_SHAPE: Shape = Shape::Text(&METHOD);
static VALUE_SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&VALUE), Shape::Section(&CONDITION)]);
static HEADER_VALUE: Shape = Shape::Text(&VALUE);
static HEADER_VALUES: Shape = Shape::OneOrMany(&HEADER_VALUE);
static PROTOCOL_SHAPE: Shape = Shape::Text(&PROTOCOL);

pub(crate) static ROUTE: Section = Section {
    name: "route",
    noun: "a route",
    doc: "A route: the requests that it matches, and how it answers them.",
    choice: Choice::ExactlyOne(&["to", "redirect", "respond"]),
    keys: &[
        Key::new("name", "Name in logs and metrics. Default: the match.", Shape::Text(&NAME)),
        Key::new(
            "match",
            "The requests that it matches: `host/path`, either of which may be omitted. Default: all.",
            Shape::OneOrMany(&MATCH_SHAPE),
        )
        .also(&["matches", "when", "location", "path", "host", "hosts", "paths", "uri", "rule", "prefix"]),
        Key::new(
            "to",
            "Forwards to endpoints or upstreams, chosen by weight.",
            Shape::OneOrMany(&TARGET_SHAPE),
        )
        .also(&[
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
        Key::new(
            "redirect",
            "Answers with a redirect: a complete `Location`, or the parts that change.",
            Shape::AnyOf(&[Shape::Text(&LOCATION), Shape::Section(&REDIRECT)]),
        ),
        Key::new("respond", "Answers with a fixed response: a status, a text, or a mapping.", RESPOND_SHAPE)
            .also(&["return", "response", "direct_response"]),
        Key::new("rewrite", "Changes to the request before it is forwarded.", Shape::Section(&REWRITE)),
        Key::new("timeouts", "Overrides of the gateway's timeouts.", Shape::Section(&ROUTE_TIMEOUTS))
            .also(&["timeout"]),
        Key::new("limits", "Overrides of the gateway's limits.", Shape::Section(&ROUTE_LIMITS)),
        Key::new(
            "buffer",
            "Whether bodies are buffered before they are passed on: `on` buffers both directions, `request` \
            or `response` one of them.",
            BUFFER_SHAPE,
        )
        .also(&["buffering", "proxy_request_buffering", "request_buffering"]),
        Key::new(
            "retry",
            "Retry rules, which replace the upstream's.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&RETRY)]),
        )
        .also(RETRY_ALSO),
        Key::new(
            "priority",
            "Priority of its requests under overload: `low` is shed first and `high` last.",
            Shape::Word(&["low", "normal", "high"]),
        )
        .or("normal")
        .also(&["importance", "criticality"]),
        Key::new(
            "grpc_web",
            "Whether gRPC-Web calls, as browsers make them, are translated to gRPC.",
            Shape::Switch,
        )
        .or("off")
        .also(&["grpcweb"]),
        Key::new(
            "fallback",
            "Replacements for error responses: another upstream, a page from one, or a fixed response. The \
            first one that matches applies.",
            Shape::OneOrMany(&FALLBACK_SHAPE),
        )
        .also(&[
            "fallbacks",
            "error_page",
            "error_pages",
            "errors",
            "failover",
            "proxy_intercept_errors",
            "on_error",
        ]),
        Key::new("policies", POLICIES_DOC, Shape::Section(&POLICIES)).also(&[
            "policy",
            "plugins",
            "middlewares",
            "filters",
        ]),
        Key::new(
            "access_log",
            "Its access logs, which replace the gateway's; `off`: none.",
            ACCESS_LOG_SHAPE,
        )
        .also(&["log", "logs", "accesslog", "access_logs"]),
        Key::new(
            "upgrade",
            "Protocols that a client may request with `Upgrade`.",
            Shape::AnyOf(&[Shape::Off, Shape::OneOrMany(&PROTOCOL_SHAPE)]),
        )
        .or("websocket")
        .also(&["websocket", "websockets"]),
    ],
};

pub(crate) static MATCH: Section = Section {
    name: "match",
    noun: "a match",
    doc: "Conditions that must all hold.",
    choice: Choice::AtMostOne(&["path", "grpc"]),
    keys: &[
        Key::new("host", "The host; `*.example.com` matches every subdomain.", Shape::Text(&HOST)).also(&[
            "hosts",
            "hostname",
            "server_name",
        ]),
        Key::new(
            "path",
            "The path, as in the short form, or `exact`, `prefix` or `regex`.",
            Shape::AnyOf(&[Shape::Text(&PATH_TEXT), Shape::Section(&PATH)]),
        )
        .also(&["paths", "uri", "location", "prefix", "exact", "regex"]),
        Key::new(
            "grpc",
            "gRPC calls of a service or of one of its methods: a POST to `/SERVICE/METHOD`. Replaces `path` \
            and `method`.",
            Shape::AnyOf(&[Shape::Text(&CALL), Shape::Section(&GRPC)]),
        )
        .also(&["grpc_service", "service", "rpc"]),
        Key::new("method", "One or a list of methods.", Shape::OneOrMany(&METHOD_SHAPE)).also(&["methods"]),
        Key::new("headers", "Conditions on header fields.", Shape::MapOf(&VALUE_SHAPE)).also(&["header"]),
        Key::new("query", "Conditions on query parameters.", Shape::MapOf(&VALUE_SHAPE))
            .also(&["params", "args", "queries"]),
    ],
};

pub(crate) static PATH: Section = Section {
    name: "path",
    noun: "a path",
    doc: "How a path is matched.",
    choice: Choice::ExactlyOne(&["exact", "prefix", "template", "regex"]),
    keys: &[
        Key::new("exact", "Exactly this path.", Shape::Text(&PLAIN_PATH)),
        Key::new("prefix", "This path and everything below it, by whole segments.", Shape::Text(&PLAIN_PATH)),
        Key::new(
            "template",
            "A path in which `{name}` matches one segment; `/*` at the end also matches everything below.",
            Shape::Text(&TEMPLATE),
        ),
        Key::new("regex", "A regular expression that the whole path must match.", Shape::Text(&REGEX)),
    ],
};

pub(crate) static GRPC: Section = Section {
    name: "grpc",
    noun: "a gRPC match",
    doc: "Condition on gRPC calls. The short form is `SERVICE` or `SERVICE/METHOD`.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "service",
            "The service with its package, such as `shop.Orders`. Default: any.",
            Shape::AnyOf(&[Shape::Text(&SERVICE), Shape::Section(&GRPC_NAME)]),
        ),
        Key::new(
            "method",
            "The method, such as `Place`. Default: any.",
            Shape::AnyOf(&[Shape::Text(&RPC), Shape::Section(&GRPC_NAME)]),
        ),
    ],
};

pub(crate) static GRPC_NAME: Section = Section {
    name: "grpc_name",
    noun: "a gRPC name",
    doc: "Condition on the name of a service or method. The short form is the exact name.",
    choice: Choice::ExactlyOne(&["exact", "regex"]),
    keys: &[
        Key::new("exact", "Exactly this.", Shape::Text(&SERVICE)),
        Key::new("regex", "A regular expression that the whole name must match.", Shape::Text(&NAME_REGEX)),
    ],
};

pub(crate) static CONDITION: Section = Section {
    name: "condition",
    noun: "a condition",
    doc: "Condition on a header or query value. The short form is the exact text, or `true` for any value.",
    choice: Choice::ExactlyOne(&["exact", "regex", "present"]),
    keys: &[
        Key::new("exact", "Exactly this.", Shape::Text(&VALUE)),
        Key::new("regex", "A regular expression that the whole value must match.", Shape::Text(&REGEX)),
        Key::new("present", "Whether the header or parameter must be present or absent.", Shape::Switch),
    ],
};

pub(crate) static REWRITE: Section = Section {
    name: "rewrite",
    noun: "a rewrite",
    doc: "Changes to the request before it is forwarded. The query is kept.",
    choice: Choice::AtMostOne(&["path", "prefix", "regex"]),
    keys: &[
        Key::new(
            "path",
            "The new path; `$1` is a capture group of the route's own pattern.",
            Shape::Text(&PLAIN_PATH),
        ),
        Key::new("prefix", "Replaces the prefix that matched; `/` removes it.", Shape::Text(&PLAIN_PATH))
            .also(&["strip_prefix", "strip"]),
        Key::new("regex", "Every match in the path is replaced by `replace`.", Shape::Text(&REGEX)),
        Key::new("replace", "The replacement; `$1` is a capture group.", Shape::Text(&REPLACE))
            .also(&["replacement"]),
        Key::new(
            "host",
            "The `Host` sent upstream; `endpoint` means the endpoint's own address.",
            Shape::Text(&HOST_REWRITE),
        ),
    ],
};

const CONNECT: Key = Key::new("connect", "Time to open a connection to an endpoint (504).", Shape::Duration);
const RESPONSE_HEADER: Key = Key::new(
    "response_header",
    "Time from the end of the request to the response head (504).",
    Shape::Duration,
)
.also(&["read", "proxy_read_timeout"]);
const RESPONSE_BODY: Key = Key::new(
    "response_body",
    "Time between two reads of a response body (504, or a truncated response).",
    Shape::Duration,
);
const TOTAL: Key = Key::new("total", "The whole exchange (504, or a truncated response).", Shape::Duration);

pub(crate) static EXCHANGE_TIMEOUTS: Section = Section {
    name: "exchange_timeouts",
    noun: "`timeouts` of an upstream",
    doc: "Timeouts that an upstream overrides.",
    choice: Choice::Free,
    keys: &[CONNECT, RESPONSE_HEADER, RESPONSE_BODY, TOTAL],
};

pub(crate) static ROUTE_TIMEOUTS: Section = Section {
    name: "route_timeouts",
    noun: "`timeouts` of a route",
    doc: "Timeouts that a route overrides.",
    choice: Choice::Free,
    keys: &[
        CONNECT,
        RESPONSE_HEADER,
        RESPONSE_BODY,
        TOTAL,
        Key::new(
            "idle",
            "Idle time of a client connection after a request of this route (closed).",
            Shape::Duration,
        )
        .also(IDLE_ALSO),
        Key::new(
            "age",
            "Maximum age of a client connection that has carried a request of this route; its next response \
            is its last.",
            Shape::Duration,
        )
        .also(AGE_ALSO),
    ],
};

pub(crate) static FALLBACK: Section = Section {
    name: "fallback",
    noun: "a fallback",
    doc: "A replacement for error responses. With `to` the request goes to another upstream; with `to` and \
          `path` the client gets a page from there; with `respond` it gets a fixed response.",
    choice: Choice::ExactlyOne(&["to", "respond"]),
    keys: &[
        Key::new(
            "on",
            "Statuses of the replaced errors, an endpoint's or the gateway's own: 400 to 599, one or a list.",
            Shape::OneOrMany(&STATUS_RANGE_SHAPE),
        )
        .or("[502, 503, 504]")
        .also(&["status", "statuses", "code", "codes", "when"]),
        Key::new("to", "An upstream or an endpoint.", TARGET_TEXT_SHAPE)
            .also(&["upstream", "service", "backend", "target", "fallback"]),
        Key::new(
            "path",
            "Path of a page there, which replaces the error's body; `{status}` is the error's status.",
            Shape::Text(&PAGE_PATH),
        )
        .also(&["query", "uri", "url", "page"]),
        Key::new(
            "status",
            "Status of the page. Default: the error's status.",
            Shape::Count { min: 200, max: 599, off: false },
        )
        .also(&["response_code", "rewrite_status"]),
        Key::new(
            "respond",
            "A fixed response: a text, a status or a mapping. Its default status is the error's.",
            RESPOND_SHAPE,
        )
        .also(&["body", "return", "response", "direct_response", "text", "html"]),
    ],
};

pub(crate) static ROUTE_LIMITS: Section = Section {
    name: "route_limits",
    noun: "`limits` of a route",
    doc: "Limits that a route overrides.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "body",
            "Maximum bytes of a request body (413 beyond it).",
            Shape::Size { min: 0, max: SIZE_MAX, off: false },
        )
        .also(&["client_max_body_size", "body_size", "max_body"]),
        Key::new("body_rate", BODY_RATE_DOC, RATE).also(BODY_RATE_ALSO),
        Key::new("response_rate", RESPONSE_RATE_DOC, RATE).also(RESPONSE_RATE_ALSO),
    ],
};

pub(crate) const BUFFER_SHAPE: Shape =
    Shape::AnyOf(&[Shape::Switch, Shape::Word(&["request", "response"]), Shape::Section(&BUFFER)]);

pub(crate) static BUFFER: Section = Section {
    name: "buffer",
    noun: "`buffer`",
    doc: "Bodies that are buffered, so that a slow peer does not hold a connection on the other side.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "request",
            "The request body: `on`, the maximum bytes in total, or a mapping.",
            Shape::AnyOf(&[
                Shape::Switch,
                Shape::Size { min: 1, max: SIZE_MAX, off: true },
                Shape::Section(&BUFFER_BOUNDS),
            ]),
        )
        .or("off"),
        Key::new(
            "response",
            "The response body: `on`, the maximum bytes in total, or a mapping.",
            Shape::AnyOf(&[
                Shape::Switch,
                Shape::Size { min: 1, max: SIZE_MAX, off: true },
                Shape::Section(&BUFFER_BOUNDS),
            ]),
        )
        .or("off"),
    ],
};

pub(crate) static BUFFER_BOUNDS: Section = Section {
    name: "buffer_bounds",
    noun: "a buffer",
    doc: "Bounds of the buffer.",
    choice: Choice::Free,
    keys: &[
        Key::new("memory", "Bytes kept in memory.", Shape::Size { min: 0, max: 1 << 30, off: false })
            .or("64KiB"),
        Key::new(
            "file",
            "Additional bytes in a temporary file.",
            Shape::Size { min: 0, max: SIZE_MAX, off: true },
        )
        .or("1GiB"),
    ],
};

pub(crate) static REDIRECT: Section = Section {
    name: "redirect",
    noun: "a redirect",
    doc: "A redirect: a complete `to`, or parts. Parts that are not given are kept from the request.",
    choice: Choice::AtMostOne(&["to", "path", "prefix", "regex"]),
    keys: &[
        Key::new("status", "301, 302, 303, 307 or 308.", Shape::Count { min: 301, max: 308, off: false })
            .or("302")
            .also(&["code"]),
        Key::new(
            "to",
            "A complete `Location`; `$1` is a capture group of the route's own pattern.",
            Shape::Text(&LOCATION),
        )
        .also(&["location", "url"]),
        Key::new("scheme", "`http` or `https`.", Shape::Word(&["http", "https"])),
        Key::new("host", "The host.", Shape::Text(&HOST)),
        Key::new("port", "The port.", Shape::Count { min: 1, max: 65_535, off: false }),
        Key::new(
            "path",
            "The new path; `$1` is a capture group of the route's own pattern.",
            Shape::Text(&PLAIN_PATH),
        ),
        Key::new("prefix", "Replaces the prefix that matched.", Shape::Text(&PLAIN_PATH)),
        Key::new("regex", "Every match in the path is replaced by `replace`.", Shape::Text(&REGEX)),
        Key::new("replace", "The replacement; `$1` is a capture group.", Shape::Text(&REPLACE))
            .also(&["replacement"]),
    ],
};

pub(crate) static RESPOND: Section = Section {
    name: "respond",
    noun: "a response",
    doc: "A fixed response.",
    choice: Choice::AtMostOne(&["body", "json"]),
    keys: &[
        Key::new("status", "200 to 599.", Shape::Count { min: 200, max: 599, off: false })
            .or("200")
            .also(&["code"]),
        Key::new("headers", "Header fields: a text or a list of texts each.", Shape::MapOf(&HEADER_VALUES))
            .also(&["header"]),
        Key::new("body", "The body.", Shape::Text(&BODY)).also(&["text"]),
        Key::new("json", "A body of JSON, written as YAML.", Shape::Anything),
        Key::new("content_type", "The `Content-Type`.", Shape::Text(&CONTENT_TYPE)).also(&["type"]),
    ],
};

/// Returns the expected form of a field's name in a `headers` mapping, for messages.
pub(crate) fn header_name() -> &'static str {
    HEADER_NAME.expected
}

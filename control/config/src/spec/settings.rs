//! The gateway-wide keys.

use std::time::Duration;

use crate::section::Value;
use crate::sections::texts::{ADDRESS, BODY, CIDR, HEADER_NAME, ZONE};
use crate::sections::{ListenerTimeouts, Timeouts, UPSTREAM_VALUE};

use super::{
    ACCESS_LOG_SHAPE, ADMIN, ADMIN_ADDRESS, BUFFER_SHAPE, CONSUMER_VALUE, Choice, ETCD, ETCD_ENDPOINT,
    ETCD_ENDPOINT_SHAPE, KeySpec, LOG_SHAPE, MODE, NAMED_CERTIFICATE_VALUE, OWNER, POLICIES, POLICIES_DOC,
    POLICY_SET_VALUE, ROUTE, SectionSpec, Shape, TLS, Text,
};

/// Maximum head size. A larger one is an attack or a mistake, and a receive buffer must hold a whole head.
const HEAD_MAX: u64 = 1 << 20;
/// Maximum size. No disk holds more, and sums of such sizes stay far from overflow.
pub(crate) const SIZE_MAX: u64 = 1 << 50;

/// Minimum memory bound. A smaller value is a mistake: a number that was meant in MiB.
pub(crate) const OVERLOAD_MEMORY_MIN: u64 = 16 << 20;

static PSEUDONYM: Text = Text {
    expected: "a name such as `tollgate`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};
static STORE_PATH: Text = Text {
    expected: "the path of a file such as `/var/lib/tollgate/store`",
    pattern: Some("."),
    loose: false,
};
static PATTERN: Text = Text {
    expected: "the path of a file, or a pattern such as `routes/*.yaml`",
    pattern: Some("."),
    loose: false,
};

static ADDRESS_SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&ADDRESS), Shape::Port, Shape::Section(&LISTENER)]);
pub(crate) static CIDR_SHAPE: Shape = Shape::Text(&CIDR);
static PATTERN_SHAPE: Shape = Shape::Text(&PATTERN);
static ROUTE_SHAPE: Shape = Shape::Section(&ROUTE);

pub(crate) static ROOT: SectionSpec = SectionSpec {
    name: "configuration",
    noun: "the configuration",
    doc: "The configuration of a gateway. Keys that start with `x-` are ignored, so they can hold YAML \
        anchors.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("listen", "The listeners: one address or a list.", Shape::OneOrMany(&ADDRESS_SHAPE))
            .aliases(&["listener", "port", "bind", "address", "server", "servers", "http", "entrypoints"]),
        KeySpec::new(
            "workers",
            "Number of worker threads. `auto`: the number of processors that this process may use (affinity \
            and cgroup quota).",
            Shape::AnyOf(&[Shape::Word(&["auto"]), Shape::Count { min: 1, max: 1024, off: false }]),
        )
        .default("auto")
        .aliases(&["worker_processes", "threads", "concurrency"]),
        KeySpec::new(
            "admin",
            "The admin listener, which serves the dashboard, metrics, health and the admin API. A bare port \
            means the loopback address.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&ADMIN_ADDRESS), Shape::Port, Shape::Section(&ADMIN)]),
        )
        .default("127.0.0.1:9901"),
        KeySpec::new("access_log", "One or several logs with a line per request.", ACCESS_LOG_SHAPE)
            .default("off")
            .aliases(&["logs", "accesslog", "access_logs"]),
        KeySpec::new("log", "The log of the gateway's own messages: a level, or a mapping.", LOG_SHAPE)
            .default("info")
            .aliases(&["error_log", "logging", "logger", "log_level", "loglevel", "diagnostics"]),
        KeySpec::new(
            "request_id",
            "An id for each request, sent upstream and logged.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&REQUEST_ID)]),
        )
        .default("off"),
        KeySpec::new("metrics", "Whether statistics are kept.", Shape::Switch).default("on"),
        KeySpec::new(
            "forwarded",
            "Fields that tell the upstream about the client and the proxies in between.",
            Shape::Section(&FORWARDED),
        ),
        KeySpec::new("limits", "Sizes and counts that a peer may not exceed.", Shape::Section(&LIMITS)),
        KeySpec::new("timeouts", "Timeouts.", <Timeouts as Value>::SHAPE).aliases(&["timeout"]),
        KeySpec::new(
            "buffer",
            "Whether bodies are buffered before they are passed on, unless a route overrides it: `on` \
            buffers both directions, `request` or `response` one of them.",
            BUFFER_SHAPE,
        )
        .default("off")
        .aliases(&["buffering", "proxy_request_buffering", "request_buffering"]),
        KeySpec::new("paths", "How ambiguous bytes of a path are treated.", Shape::Section(&PATHS)),
        KeySpec::new("errors", "Bodies of the gateway's own error responses.", Shape::Section(&ERRORS)),
        KeySpec::new(
            "overload",
            "Bounds on the process's memory and file descriptors. Beyond a bound the gateway sheds new work \
            before old work fails.",
            Shape::Section(&OVERLOAD),
        )
        .aliases(&["overload_manager", "shedding", "guards"]),
        KeySpec::new(
            "consumers",
            "Known consumers and their credentials, by name.",
            Shape::MapOf(&CONSUMER_VALUE),
        )
        .aliases(&["consumer", "users", "clients"]),
        KeySpec::new(
            "certificates",
            "Certificates by name, for every listener with `tls` or for some of them.",
            Shape::MapOf(&NAMED_CERTIFICATE_VALUE),
        )
        .aliases(&["certificate", "certs", "ssls"]),
        KeySpec::new("policies", POLICIES_DOC, Shape::Section(&POLICIES)).aliases(&[
            "policy",
            "plugins",
            "middlewares",
            "filters",
            "http_filters",
        ]),
        KeySpec::new(
            "policy_sets",
            "Named sets of policies, which other places refer to with `use`.",
            Shape::MapOf(&POLICY_SET_VALUE),
        )
        .aliases(&["policy_set", "policies_sets", "plugin_configs", "shared_policies"]),
        KeySpec::new(
            "store",
            "The file that stores the resources written through the admin API.",
            Shape::AnyOf(&[Shape::Text(&STORE_PATH), Shape::Section(&STORE)]),
        )
        .aliases(&["database", "db", "storage"]),
        KeySpec::new(
            "etcd",
            "The etcd that shares the resources written through the admin API between several gateways; \
            replaces `store`.",
            Shape::AnyOf(&[
                Shape::Section(&ETCD),
                Shape::Text(&ETCD_ENDPOINT),
                Shape::ListOf(&ETCD_ENDPOINT_SHAPE),
            ]),
        ),
        KeySpec::new(
            "zone",
            "The zone of this gateway; endpoints of the same zone are preferred.",
            Shape::Text(&ZONE),
        )
        .aliases(&["locality", "region", "az", "availability_zone"]),
        KeySpec::new(
            "watch",
            "Whether the gateway watches its files and reloads when one changes.",
            Shape::Switch,
        )
        .default("off")
        .aliases(&["reload", "auto_reload", "hot_reload"]),
        KeySpec::new(
            "include",
            "Other files whose routes and upstreams are added.",
            Shape::OneOrMany(&PATTERN_SHAPE),
        )
        .aliases(&["includes", "import"]),
        KeySpec::new("routes", "The routes.", Shape::ListOf(&ROUTE_SHAPE)).aliases(&[
            "route",
            "locations",
            "location",
            "rules",
        ]),
        KeySpec::new("upstreams", "Named groups of endpoints.", Shape::MapOf(&UPSTREAM_VALUE))
            .aliases(&["upstream", "backends", "backend", "clusters", "services"]),
    ],
};

pub(crate) static LISTENER: SectionSpec = SectionSpec {
    name: "listener",
    noun: "a listener",
    doc: "One listening address.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("bind", "The address.", Shape::AnyOf(&[Shape::Text(&ADDRESS), Shape::Port]))
            .required()
            .aliases(&["address", "listen", "port"]),
        KeySpec::new("mode", "The mode of the socket file, if `bind` is a Unix socket.", Shape::Text(&MODE))
            .default("666")
            .aliases(&["permissions", "socket_mode"]),
        KeySpec::new(
            "owner",
            "The owner of the socket file, as names or numbers. Default: the user and group of the process.",
            Shape::Text(&OWNER),
        )
        .aliases(&["user", "group", "socket_owner"]),
        KeySpec::new("policies", POLICIES_DOC, Shape::Section(&POLICIES)),
        KeySpec::new("tls", "TLS, with its certificates.", Shape::Section(&TLS)).aliases(&[
            "ssl",
            "https",
            "certificate",
            "certificates",
        ]),
        KeySpec::new(
            "http2",
            "Whether clients may use HTTP/2: `on` in addition to HTTP/1, `only` instead of it.",
            Shape::Word(&["on", "off", "only"]),
        )
        .default("on")
        .aliases(&["h2", "h2c", "protocols"]),
        KeySpec::new(
            "redirect_to_https",
            "Whether every request is redirected to `https` with the same host and path.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&REDIRECT_TO_HTTPS)]),
        )
        .default("off")
        .aliases(&["https_redirect", "force_https", "redirect", "ssl_redirect", "redirect_https"]),
        KeySpec::new(
            "half_close",
            "Whether an HTTP/1 client that closes its half of the connection (FIN, or TLS's close_notify) \
            still gets its responses. `off`: the gateway treats the close as an abort and cancels the \
            request.",
            Shape::Switch,
        )
        .default("off")
        .aliases(&[
            "enable_half_close",
            "allow_half_close",
            "ignore_client_abort",
            "proxy_ignore_client_abort",
        ]),
        KeySpec::new("timeouts", "Overrides of the gateway's timeouts.", <ListenerTimeouts as Value>::SHAPE)
            .aliases(&["timeout", "idle_timeout", "max_connection_age"]),
        KeySpec::new(
            "proxy_protocol",
            "Peers whose connections start with a PROXY protocol header (version 1 or 2), before TLS.",
            Shape::OneOrMany(&PROXIES_SHAPE),
        )
        .default("[]")
        .aliases(&["accept_proxy", "accept-proxy", "proxyProtocol", "proxy"]),
    ],
};

static PROXIES: Text = Text {
    expected: "the sender of the header: an address or a block of addresses such as `10.0.0.0/8`",
    pattern: Some(r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"),
    loose: false,
};
static PROXIES_SHAPE: Shape = Shape::Text(&PROXIES);

pub(crate) static REDIRECT_TO_HTTPS: SectionSpec = SectionSpec {
    name: "redirect_to_https",
    noun: "`redirect_to_https`",
    doc: "How plain-text requests are redirected to `https`.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "status",
            "301, 302, 307 or 308; the last two keep the method.",
            Shape::Count { min: 301, max: 308, off: false },
        )
        .default("308")
        .aliases(&["code"]),
        KeySpec::new("port", "The port of `https`.", Shape::Count { min: 1, max: 65535, off: false })
            .default("443"),
    ],
};

pub(crate) static STORE: SectionSpec = SectionSpec {
    name: "store",
    noun: "`store`",
    doc: "The embedded store of the admin API.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "path",
            "Path of its file, which is created if it does not exist.",
            Shape::Text(&STORE_PATH),
        )
        .required()
        .aliases(&["file", "to"]),
        KeySpec::new(
            "history",
            "Number of versions in its history.",
            Shape::Count { min: 1, max: 10_000_000, off: false },
        )
        .default("10000")
        .aliases(&["versions", "keep"]),
    ],
};

pub(crate) static REQUEST_ID: SectionSpec = SectionSpec {
    name: "request_id",
    noun: "`request_id`",
    doc: "Request ids. The mapping itself switches them on.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("enabled", "Whether requests get an id.", Shape::Switch).default("on"),
        KeySpec::new("header", "The header field that carries it.", Shape::Text(&HEADER_NAME))
            .default("X-Request-Id"),
        KeySpec::new("accept", "Whether an id from the client is passed on.", Shape::Switch).default("on"),
    ],
};

static HEADER_NAME_SHAPE: Shape = Shape::Text(&HEADER_NAME);

pub(crate) static FORWARDED: SectionSpec = SectionSpec {
    name: "forwarded",
    noun: "`forwarded`",
    doc: "Fields that tell the upstream about the client and the proxies in between.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("x_forwarded", "`X-Forwarded-For`, `-Proto` and `-Host`.", Shape::Switch).default("on"),
        KeySpec::new("forwarded", "`Forwarded` (RFC 7239).", Shape::Switch).default("off"),
        KeySpec::new(
            "via",
            "The gateway's name in `Via`; without it there is no `Via`.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&PSEUDONYM)]),
        )
        .default("off"),
        KeySpec::new(
            "trusted_proxies",
            "Trusted peers: the gateway appends to their forwarding fields, and replaces those of all \
            others.",
            Shape::OneOrMany(&CIDR_SHAPE),
        )
        .default("[]")
        .aliases(&["trusted", "real_ip_from", "set_real_ip_from"]),
        KeySpec::new(
            "keep",
            "Exceptions from the removal of proxy fields: these fields are passed on from any peer, for \
            example `X-Forwarded-Prefix` or `X-Original-URL`.",
            Shape::OneOrMany(&HEADER_NAME_SHAPE),
        )
        .default("[]")
        .aliases(&["pass", "allow", "except"]),
        KeySpec::new(
            "client_certificate",
            "Fields that describe the client's certificate: each field's name and the part that it carries. \
            `on` is `Client-Cert` (RFC 9440).",
            Shape::AnyOf(&[Shape::Switch, Shape::MapOf(&CERTIFICATE_PART)]),
        )
        .default("off")
        .aliases(&["client_cert", "forward_client_cert_details", "passTLSClientCert", "xfcc"]),
        KeySpec::new(
            "cdn_loop",
            "Requests to which the gateway adds `CDN-Loop` (RFC 8586): `own`, only requests to its own \
            addresses; `always`, every request, which also detects loops through other gateways.",
            Shape::Word(&["own", "always"]),
        )
        .default("own"),
    ],
};

static CERTIFICATE_PART: Shape =
    Shape::Word(&["certificate", "chain", "pem", "subject", "issuer", "serial", "names", "fingerprint"]);

/// Maximum of `rate_grace`. A client that may stall for longer needs no minimum rate.
const LONGEST_GRACE: Duration = Duration::from_secs(3600);
const RATE_MAX: u64 = 1 << 30;
pub(crate) const RATE: Shape = Shape::Size { min: 1, max: RATE_MAX, off: true };
pub(crate) const BODY_RATE_DOC: &str =
    "Minimum bytes per second of a request body while the gateway waits for the client (408 below it).";
pub(crate) const BODY_RATE_ALSO: &[&str] =
    &["min_body_rate", "minrate", "min_request_body_data_rate", "request_rate", "upload_rate"];
pub(crate) const RESPONSE_RATE_DOC: &str = "Minimum bytes per second of a response that the client must read \
    while the gateway waits to write (reset below it).";
pub(crate) const RESPONSE_RATE_ALSO: &[&str] =
    &["min_response_rate", "min_response_data_rate", "send_rate", "download_rate"];

pub(crate) static LIMITS: SectionSpec = SectionSpec {
    name: "limits",
    noun: "`limits`",
    doc: "Sizes and counts that a peer may not exceed.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "request_line",
            "Maximum bytes of the request line (414 beyond it).",
            Shape::Size { min: 256, max: HEAD_MAX, off: false },
        )
        .default("8KiB"),
        KeySpec::new(
            "headers",
            "Maximum bytes of a whole message head (431 for a request, 502 for a response).",
            Shape::Size { min: 1024, max: HEAD_MAX, off: false },
        )
        .default("32KiB"),
        KeySpec::new(
            "header_count",
            "Maximum number of header fields in a message head (431 for a request, 502 for a response).",
            Shape::Count { min: 8, max: 10_000, off: false },
        )
        .default("100"),
        KeySpec::new(
            "body",
            "Maximum bytes of a request body (413 beyond it).",
            Shape::Size { min: 0, max: SIZE_MAX, off: true },
        )
        .default("off")
        .aliases(&["client_max_body_size", "body_size", "max_body"]),
        KeySpec::new("body_rate", BODY_RATE_DOC, RATE).default("240").aliases(BODY_RATE_ALSO),
        KeySpec::new("response_rate", RESPONSE_RATE_DOC, RATE).default("240").aliases(RESPONSE_RATE_ALSO),
        KeySpec::new(
            "rate_grace",
            "How long a client may stay below `body_rate` or `response_rate` at the start.",
            Shape::Time { min: Duration::from_millis(100), max: LONGEST_GRACE, off: false },
        )
        .default("10s")
        .aliases(&["body_grace", "grace_period", "grace"]),
        KeySpec::new(
            "connections",
            "Maximum number of client connections of the process; beyond it a new one gets 503.",
            Shape::Count { min: 1, max: u64::MAX, off: true },
        )
        .default("off")
        .aliases(&["max_connections", "maxconn"]),
        KeySpec::new(
            "requests_per_connection",
            "Maximum number of requests per client connection.",
            Shape::Count { min: 1, max: u64::MAX, off: true },
        )
        .default("off"),
        KeySpec::new(
            "http2_streams",
            "Maximum number of concurrent streams per HTTP/2 connection; further ones are refused.",
            Shape::Count { min: 1, max: 10_000, off: false },
        )
        .default("100")
        .aliases(&["max_concurrent_streams", "http2_max_concurrent_streams", "streams"]),
        KeySpec::new(
            "http2_window",
            "Receive window of an HTTP/2 stream in bytes; the connection's window is twice as large.",
            Shape::Size { min: 16 << 10, max: 16 << 20, off: false },
        )
        .default("64KiB")
        .aliases(&["initial_window_size", "initial_stream_window_size", "http2_initial_window_size"]),
        KeySpec::new(
            "loops",
            "How often one request may return to this gateway through its own forwarding (508 beyond it).",
            Shape::Count { min: 0, max: 100, off: false },
        )
        .default("2")
        .aliases(&["max_loops", "hops", "max_hops"]),
    ],
};

pub(crate) static PATHS: SectionSpec = SectionSpec {
    name: "paths",
    noun: "`paths`",
    doc: "How ambiguous bytes of a path are treated.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("merge_slashes", "Whether `//` is merged into `/`.", Shape::Switch).default("on"),
        KeySpec::new(
            "encoded_slash",
            "`%2F` and `%5C`: rejected with 400, or kept as data that does not separate segments.",
            Shape::Word(&["reject", "keep"]),
        )
        .default("reject"),
        KeySpec::new(
            "semicolon",
            "`;` and `%3B`: kept as data, or rejected with 400 to protect origins that strip path \
            parameters.",
            Shape::Word(&["keep", "reject"]),
        )
        .default("keep")
        .aliases(&["semicolons", "path_parameters", "matrix_parameters"]),
    ],
};

pub(crate) static ERRORS: SectionSpec = SectionSpec {
    name: "errors",
    noun: "`errors`",
    doc: "Bodies of the gateway's own error responses; `{status}`, `{title}`, `{reason}` and `{request_id}` \
        are filled in.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("json", "For clients that accept JSON.", Shape::Text(&BODY)),
        KeySpec::new("html", "For clients that accept HTML.", Shape::Text(&BODY)),
        KeySpec::new("text", "For all others.", Shape::Text(&BODY)),
    ],
};

pub(crate) static OVERLOAD: SectionSpec = SectionSpec {
    name: "overload",
    noun: "`overload`",
    doc: "Bounds on the process's memory and file descriptors. Beyond a bound the gateway sheds new work \
        before old work fails.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "memory",
            "Bytes of resident memory. `auto`: 90 % of the control group's limit, if there is one.",
            Shape::AnyOf(&[
                Shape::Word(&["auto"]),
                Shape::Size { min: OVERLOAD_MEMORY_MIN, max: SIZE_MAX, off: false },
            ]),
        )
        .default("auto")
        .aliases(&["max_memory", "max_heap_size_bytes", "rss"]),
        KeySpec::new(
            "files",
            "Percentage of the process's file descriptors at which the gateway stops accepting client \
            connections.",
            Shape::Percent { min: 1, max: 100, off: false },
        )
        .default("95%")
        .aliases(&["file_descriptors", "fds", "descriptors", "open_files"]),
        KeySpec::new(
            "shed_from",
            "Percentage of a bound at which low-priority requests are shed.",
            Shape::Percent { min: 1, max: 100, off: false },
        )
        .default("90%")
        .aliases(&["shed", "shed_at", "threshold"]),
    ],
};

//! The gateway-wide keys.

use std::time::Duration;

use super::{
    ACCESS_LOG_SHAPE, ADMIN, ADMIN_ADDRESS, BUFFER_SHAPE, CONSUMER_VALUE, Choice, ETCD, ETCD_ENDPOINT,
    ETCD_ENDPOINT_SHAPE, Key, MODE, NAMED_CERTIFICATE_VALUE, OWNER, POLICIES, POLICIES_DOC, POLICY_SET_VALUE,
    ROUTE, Section, Shape, TLS, Text, UPSTREAM_VALUE, ZONE,
};

/// Maximum head size. A larger one is an attack or a mistake, and a receive buffer must hold a whole head.
const HEAD_MAX: u64 = 1 << 20;
/// Maximum size. No disk holds more, and sums of such sizes stay far from overflow.
pub(crate) const SIZE_MAX: u64 = 1 << 50;

/// Minimum memory bound. A smaller value is a mistake: a number that was meant in MiB.
pub(crate) const OVERLOAD_MEMORY_MIN: u64 = 16 << 20;

pub(crate) static ADDRESS: Text = Text {
    expected: "an IP address and a port such as `127.0.0.1:8080`, `:8080` for all addresses, or `unix:/run/tollgate.sock`",
    pattern: Some(r"^unix:/|^(.*:)?[0-9]{1,5}$"),
    loose: false,
};
pub(crate) static HEADER_NAME: Text = Text {
    expected: "the name of a header field such as `X-Request-Id`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};
static PSEUDONYM: Text = Text {
    expected: "a name such as `tollgate`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};
static CIDR: Text = Text {
    expected: "an address or a block of them such as `10.0.0.0/8`",
    pattern: Some(r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"),
    loose: false,
};
pub(crate) static BODY: Text = Text { expected: "a text", pattern: None, loose: true };
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

pub(crate) static ROOT: Section = Section {
    name: "configuration",
    noun: "the configuration",
    doc: "The configuration of a gateway. Keys that start with `x-` are ignored, so they can hold YAML \
        anchors.",
    choice: Choice::Free,
    keys: &[
        Key::new("listen", "The listeners: one address or a list.", Shape::OneOrMany(&ADDRESS_SHAPE))
            .also(&["listener", "port", "bind", "address", "server", "servers", "http", "entrypoints"]),
        Key::new(
            "workers",
            "Number of worker threads. `auto`: the number of processors that this process may use (affinity \
            and cgroup quota).",
            Shape::AnyOf(&[Shape::Word(&["auto"]), Shape::Count { min: 1, max: 1024, off: false }]),
        )
        .or("auto")
        .also(&["worker_processes", "threads", "concurrency"]),
        Key::new(
            "admin",
            "The admin listener, which serves the dashboard, metrics, health and the admin API. A bare port \
            means the loopback address.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&ADMIN_ADDRESS), Shape::Port, Shape::Section(&ADMIN)]),
        )
        .or("127.0.0.1:9901"),
        Key::new("access_log", "One or several logs with a line per request.", ACCESS_LOG_SHAPE)
            .or("off")
            .also(&["log", "logs", "accesslog", "access_logs"]),
        Key::new(
            "request_id",
            "An id for each request, sent upstream and logged.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&REQUEST_ID)]),
        )
        .or("off"),
        Key::new("metrics", "Whether statistics are kept.", Shape::Switch).or("on"),
        Key::new(
            "forwarded",
            "Fields that tell the upstream about the client and the proxies in between.",
            Shape::Section(&FORWARDED),
        ),
        Key::new("limits", "Sizes and counts that a peer may not exceed.", Shape::Section(&LIMITS)),
        Key::new("timeouts", "Timeouts.", Shape::Section(&TIMEOUTS)).also(&["timeout"]),
        Key::new(
            "buffer",
            "Whether bodies are buffered before they are passed on, unless a route overrides it: `on` \
            buffers both directions, `request` or `response` one of them.",
            BUFFER_SHAPE,
        )
        .or("off")
        .also(&["buffering", "proxy_request_buffering", "request_buffering"]),
        Key::new("paths", "How ambiguous bytes of a path are treated.", Shape::Section(&PATHS)),
        Key::new("errors", "Bodies of the gateway's own error responses.", Shape::Section(&ERRORS)),
        Key::new(
            "overload",
            "Bounds on the process's memory and file descriptors. Beyond a bound the gateway sheds new work \
            before old work fails.",
            Shape::Section(&OVERLOAD),
        )
        .also(&["overload_manager", "shedding", "guards"]),
        Key::new(
            "consumers",
            "Known consumers and their credentials, by name.",
            Shape::MapOf(&CONSUMER_VALUE),
        )
        .also(&["consumer", "users", "clients"]),
        Key::new(
            "certificates",
            "Certificates by name, for every listener with `tls` or for some of them.",
            Shape::MapOf(&NAMED_CERTIFICATE_VALUE),
        )
        .also(&["certificate", "certs", "ssls"]),
        Key::new("policies", POLICIES_DOC, Shape::Section(&POLICIES)).also(&[
            "policy",
            "plugins",
            "middlewares",
            "filters",
            "http_filters",
        ]),
        Key::new(
            "policy_sets",
            "Named sets of policies, which other places refer to with `use`.",
            Shape::MapOf(&POLICY_SET_VALUE),
        )
        .also(&["policy_set", "policies_sets", "plugin_configs", "shared_policies"]),
        Key::new(
            "store",
            "The file that stores the resources written through the admin API.",
            Shape::AnyOf(&[Shape::Text(&STORE_PATH), Shape::Section(&STORE)]),
        )
        .also(&["database", "db", "storage"]),
        Key::new(
            "etcd",
            "The etcd that shares the resources written through the admin API between several gateways; \
            replaces `store`.",
            Shape::AnyOf(&[
                Shape::Section(&ETCD),
                Shape::Text(&ETCD_ENDPOINT),
                Shape::ListOf(&ETCD_ENDPOINT_SHAPE),
            ]),
        ),
        Key::new(
            "zone",
            "The zone of this gateway; endpoints of the same zone are preferred.",
            Shape::Text(&ZONE),
        )
        .also(&["locality", "region", "az", "availability_zone"]),
        Key::new(
            "watch",
            "Whether the gateway watches its files and reloads when one changes.",
            Shape::Switch,
        )
        .or("off")
        .also(&["reload", "auto_reload", "hot_reload"]),
        Key::new(
            "include",
            "Other files whose routes and upstreams are added.",
            Shape::OneOrMany(&PATTERN_SHAPE),
        )
        .also(&["includes", "import"]),
        Key::new("routes", "The routes.", Shape::ListOf(&ROUTE_SHAPE)).also(&[
            "route",
            "locations",
            "location",
            "rules",
        ]),
        Key::new("upstreams", "Named groups of endpoints.", Shape::MapOf(&UPSTREAM_VALUE))
            .also(&["upstream", "backends", "backend", "clusters", "services"]),
    ],
};

pub(crate) static LISTENER: Section = Section {
    name: "listener",
    noun: "a listener",
    doc: "One listening address.",
    choice: Choice::Free,
    keys: &[
        Key::new("bind", "The address.", Shape::AnyOf(&[Shape::Text(&ADDRESS), Shape::Port]))
            .required()
            .also(&["address", "listen", "port"]),
        Key::new("mode", "The mode of the socket file, if `bind` is a Unix socket.", Shape::Text(&MODE))
            .or("666")
            .also(&["permissions", "socket_mode"]),
        Key::new(
            "owner",
            "The owner of the socket file, as names or numbers. Default: the user and group of the process.",
            Shape::Text(&OWNER),
        )
        .also(&["user", "group", "socket_owner"]),
        Key::new("policies", POLICIES_DOC, Shape::Section(&POLICIES)),
        Key::new("tls", "TLS, with its certificates.", Shape::Section(&TLS)).also(&[
            "ssl",
            "https",
            "certificate",
            "certificates",
        ]),
        Key::new(
            "http2",
            "Whether clients may use HTTP/2: `on` in addition to HTTP/1, `only` instead of it.",
            Shape::Word(&["on", "off", "only"]),
        )
        .or("on")
        .also(&["h2", "h2c", "protocols"]),
        Key::new(
            "redirect_to_https",
            "Whether every request is redirected to `https` with the same host and path.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&REDIRECT_TO_HTTPS)]),
        )
        .or("off")
        .also(&["https_redirect", "force_https", "redirect", "ssl_redirect", "redirect_https"]),
        Key::new(
            "half_close",
            "Whether an HTTP/1 client that closes its half of the connection (FIN, or TLS's close_notify) \
            still gets its responses. `off`: the gateway treats the close as an abort and cancels the \
            request.",
            Shape::Switch,
        )
        .or("off")
        .also(&[
            "enable_half_close",
            "allow_half_close",
            "ignore_client_abort",
            "proxy_ignore_client_abort",
        ]),
        Key::new("timeouts", "Overrides of the gateway's timeouts.", Shape::Section(&LISTENER_TIMEOUTS))
            .also(&["timeout", "idle_timeout", "max_connection_age"]),
        Key::new(
            "proxy_protocol",
            "Peers whose connections start with a PROXY protocol header (version 1 or 2), before TLS.",
            Shape::OneOrMany(&PROXIES_SHAPE),
        )
        .or("[]")
        .also(&["accept_proxy", "accept-proxy", "proxyProtocol", "proxy"]),
    ],
};

static PROXIES: Text = Text {
    expected: "the sender of the header: an address or a block of addresses such as `10.0.0.0/8`",
    pattern: Some(r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"),
    loose: false,
};
static PROXIES_SHAPE: Shape = Shape::Text(&PROXIES);

pub(crate) static REDIRECT_TO_HTTPS: Section = Section {
    name: "redirect_to_https",
    noun: "`redirect_to_https`",
    doc: "How plain-text requests are redirected to `https`.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "status",
            "301, 302, 307 or 308; the last two keep the method.",
            Shape::Count { min: 301, max: 308, off: false },
        )
        .or("308")
        .also(&["code"]),
        Key::new("port", "The port of `https`.", Shape::Count { min: 1, max: 65535, off: false }).or("443"),
    ],
};

pub(crate) static STORE: Section = Section {
    name: "store",
    noun: "`store`",
    doc: "The embedded store of the admin API.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "path",
            "Path of its file, which is created if it does not exist.",
            Shape::Text(&STORE_PATH),
        )
        .required()
        .also(&["file", "to"]),
        Key::new(
            "history",
            "Number of versions in its history.",
            Shape::Count { min: 1, max: 10_000_000, off: false },
        )
        .or("10000")
        .also(&["versions", "keep"]),
    ],
};

pub(crate) static REQUEST_ID: Section = Section {
    name: "request_id",
    noun: "`request_id`",
    doc: "Request ids. The mapping itself switches them on.",
    choice: Choice::Free,
    keys: &[
        Key::new("enabled", "Whether requests get an id.", Shape::Switch).or("on"),
        Key::new("header", "The header field that carries it.", Shape::Text(&HEADER_NAME)).or("X-Request-Id"),
        Key::new("accept", "Whether an id from the client is passed on.", Shape::Switch).or("on"),
    ],
};

static HEADER_NAME_SHAPE: Shape = Shape::Text(&HEADER_NAME);

pub(crate) static FORWARDED: Section = Section {
    name: "forwarded",
    noun: "`forwarded`",
    doc: "Fields that tell the upstream about the client and the proxies in between.",
    choice: Choice::Free,
    keys: &[
        Key::new("x_forwarded", "`X-Forwarded-For`, `-Proto` and `-Host`.", Shape::Switch).or("on"),
        Key::new("forwarded", "`Forwarded` (RFC 7239).", Shape::Switch).or("off"),
        Key::new(
            "via",
            "The gateway's name in `Via`; without it there is no `Via`.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&PSEUDONYM)]),
        )
        .or("off"),
        Key::new(
            "trusted_proxies",
            "Trusted peers: the gateway appends to their forwarding fields, and replaces those of all \
            others.",
            Shape::OneOrMany(&CIDR_SHAPE),
        )
        .or("[]")
        .also(&["trusted", "real_ip_from", "set_real_ip_from"]),
        Key::new(
            "keep",
            "Exceptions from the removal of proxy fields: these fields are passed on from any peer, for \
            example `X-Forwarded-Prefix` or `X-Original-URL`.",
            Shape::OneOrMany(&HEADER_NAME_SHAPE),
        )
        .or("[]")
        .also(&["pass", "allow", "except"]),
        Key::new(
            "client_certificate",
            "Fields that describe the client's certificate: each field's name and the part that it carries. \
            `on` is `Client-Cert` (RFC 9440).",
            Shape::AnyOf(&[Shape::Switch, Shape::MapOf(&CERTIFICATE_PART)]),
        )
        .or("off")
        .also(&["client_cert", "forward_client_cert_details", "passTLSClientCert", "xfcc"]),
        Key::new(
            "cdn_loop",
            "Requests to which the gateway adds `CDN-Loop` (RFC 8586): `own`, only requests to its own \
            addresses; `always`, every request, which also detects loops through other gateways.",
            Shape::Word(&["own", "always"]),
        )
        .or("own"),
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

pub(crate) static LIMITS: Section = Section {
    name: "limits",
    noun: "`limits`",
    doc: "Sizes and counts that a peer may not exceed.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "request_line",
            "Maximum bytes of the request line (414 beyond it).",
            Shape::Size { min: 256, max: HEAD_MAX, off: false },
        )
        .or("8KiB"),
        Key::new(
            "headers",
            "Maximum bytes of a whole message head (431 for a request, 502 for a response).",
            Shape::Size { min: 1024, max: HEAD_MAX, off: false },
        )
        .or("32KiB"),
        Key::new(
            "header_count",
            "Maximum number of header fields in a message head (431 for a request, 502 for a response).",
            Shape::Count { min: 8, max: 10_000, off: false },
        )
        .or("100"),
        Key::new(
            "body",
            "Maximum bytes of a request body (413 beyond it).",
            Shape::Size { min: 0, max: SIZE_MAX, off: true },
        )
        .or("off")
        .also(&["client_max_body_size", "body_size", "max_body"]),
        Key::new("body_rate", BODY_RATE_DOC, RATE).or("240").also(BODY_RATE_ALSO),
        Key::new("response_rate", RESPONSE_RATE_DOC, RATE).or("240").also(RESPONSE_RATE_ALSO),
        Key::new(
            "rate_grace",
            "How long a client may stay below `body_rate` or `response_rate` at the start.",
            Shape::Time { min: Duration::from_millis(100), max: LONGEST_GRACE, off: false },
        )
        .or("10s")
        .also(&["body_grace", "grace_period", "grace"]),
        Key::new(
            "connections",
            "Maximum number of client connections of the process; beyond it a new one gets 503.",
            Shape::Count { min: 1, max: u64::MAX, off: true },
        )
        .or("off")
        .also(&["max_connections", "maxconn"]),
        Key::new(
            "requests_per_connection",
            "Maximum number of requests per client connection.",
            Shape::Count { min: 1, max: u64::MAX, off: true },
        )
        .or("off"),
        Key::new(
            "http2_streams",
            "Maximum number of concurrent streams per HTTP/2 connection; further ones are refused.",
            Shape::Count { min: 1, max: 10_000, off: false },
        )
        .or("100")
        .also(&["max_concurrent_streams", "http2_max_concurrent_streams", "streams"]),
        Key::new(
            "http2_window",
            "Receive window of an HTTP/2 stream in bytes; the connection's window is twice as large.",
            Shape::Size { min: 16 << 10, max: 16 << 20, off: false },
        )
        .or("64KiB")
        .also(&["initial_window_size", "initial_stream_window_size", "http2_initial_window_size"]),
        Key::new(
            "loops",
            "How often one request may return to this gateway through its own forwarding (508 beyond it).",
            Shape::Count { min: 0, max: 100, off: false },
        )
        .or("2")
        .also(&["max_loops", "hops", "max_hops"]),
    ],
};

pub(crate) const IDLE_ALSO: &[&str] = &["keepalive", "keepalive_timeout", "keep_alive", "idle_timeout"];
pub(crate) const AGE_ALSO: &[&str] =
    &["max_age", "max_connection_age", "max_connection_duration", "keepalive_time", "max_lifetime"];

const AGE: Key = Key::new(
    "age",
    "Maximum age of a client connection; its next response is its last (`Connection: close`, GOAWAY).",
    Shape::Duration,
)
.also(AGE_ALSO);

pub(crate) static LISTENER_TIMEOUTS: Section = Section {
    name: "listener_timeouts",
    noun: "`timeouts` of a listener",
    doc: "Timeouts that a listener overrides.",
    choice: Choice::Free,
    keys: &[
        Key::new("idle", "Idle time of a client connection (closed).", Shape::Duration).also(IDLE_ALSO),
        AGE,
    ],
};

pub(crate) static TIMEOUTS: Section = Section {
    name: "timeouts",
    noun: "`timeouts`",
    doc: "Timeouts.",
    choice: Choice::Free,
    keys: &[
        Key::new("header", "From the first byte of a request head to its end (408).", Shape::Duration)
            .or("10s"),
        Key::new("body", "Between two reads of a request body (408).", Shape::Duration).or("60s"),
        Key::new("idle", "Idle time of a client connection (closed).", Shape::Duration).or("75s").also(&[
            "keepalive",
            "keepalive_timeout",
            "keep_alive",
        ]),
        AGE.or("off"),
        Key::new("write", "Time during which a client reads no byte of a response (reset).", Shape::Duration)
            .or("60s"),
        Key::new("connect", "Time to open a connection to an endpoint (504).", Shape::Duration).or("5s"),
        Key::new(
            "response_header",
            "Time from the end of the request to the response head (504).",
            Shape::Duration,
        )
        .or("60s")
        .also(&["read", "proxy_read_timeout"]),
        Key::new(
            "response_body",
            "Time between two reads of a response body (504, or a truncated response).",
            Shape::Duration,
        )
        .or("60s"),
        Key::new("total", "The whole exchange (504, or a truncated response).", Shape::Duration).or("off"),
        Key::new(
            "upgraded",
            "Idle time of an upgraded connection, in both directions (closed).",
            Shape::Duration,
        )
        .or("1h")
        .also(&["websocket", "tunnel"]),
        Key::new(
            "drain_delay",
            "Time from SIGTERM, when readiness starts to fail, until the listening sockets close.",
            Shape::Duration,
        )
        .or("off"),
        Key::new("drain", "Time for in-flight requests after SIGTERM.", Shape::Duration).or("30s"),
        Key::new(
            "takeover",
            "At a binary upgrade: time within which the workers of the new process must start.",
            Shape::Duration,
        )
        .or("30s"),
        Key::new("handshake", "Time for a client's TLS handshake.", Shape::Duration)
            .or("10s")
            .also(&["tls_handshake", "ssl_handshake_timeout"]),
    ],
};

pub(crate) static PATHS: Section = Section {
    name: "paths",
    noun: "`paths`",
    doc: "How ambiguous bytes of a path are treated.",
    choice: Choice::Free,
    keys: &[
        Key::new("merge_slashes", "Whether `//` is merged into `/`.", Shape::Switch).or("on"),
        Key::new(
            "encoded_slash",
            "`%2F` and `%5C`: rejected with 400, or kept as data that does not separate segments.",
            Shape::Word(&["reject", "keep"]),
        )
        .or("reject"),
        Key::new(
            "semicolon",
            "`;` and `%3B`: kept as data, or rejected with 400 to protect origins that strip path \
            parameters.",
            Shape::Word(&["keep", "reject"]),
        )
        .or("keep")
        .also(&["semicolons", "path_parameters", "matrix_parameters"]),
    ],
};

pub(crate) static ERRORS: Section = Section {
    name: "errors",
    noun: "`errors`",
    doc: "Bodies of the gateway's own error responses; `{status}`, `{title}`, `{reason}` and `{request_id}` \
        are filled in.",
    choice: Choice::Free,
    keys: &[
        Key::new("json", "For clients that accept JSON.", Shape::Text(&BODY)),
        Key::new("html", "For clients that accept HTML.", Shape::Text(&BODY)),
        Key::new("text", "For all others.", Shape::Text(&BODY)),
    ],
};

pub(crate) static OVERLOAD: Section = Section {
    name: "overload",
    noun: "`overload`",
    doc: "Bounds on the process's memory and file descriptors. Beyond a bound the gateway sheds new work \
        before old work fails.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "memory",
            "Bytes of resident memory. `auto`: 90 % of the control group's limit, if there is one.",
            Shape::AnyOf(&[
                Shape::Word(&["auto"]),
                Shape::Size { min: OVERLOAD_MEMORY_MIN, max: SIZE_MAX, off: false },
            ]),
        )
        .or("auto")
        .also(&["max_memory", "max_heap_size_bytes", "rss"]),
        Key::new(
            "files",
            "Percentage of the process's file descriptors at which the gateway stops accepting client \
            connections.",
            Shape::Percent { min: 1, max: 100, off: false },
        )
        .or("95%")
        .also(&["file_descriptors", "fds", "descriptors", "open_files"]),
        Key::new(
            "shed_from",
            "Percentage of a bound at which low-priority requests are shed.",
            Shape::Percent { min: 1, max: 100, off: false },
        )
        .or("90%")
        .also(&["shed", "shed_at", "threshold"]),
    ],
};

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
    doc: "What a gateway does. A key that begins with `x-` is ignored: a place for anchors.",
    choice: Choice::Free,
    keys: &[
        Key::new("listen", "Where to accept connections: one or a list.", Shape::OneOrMany(&ADDRESS_SHAPE))
            .also(&["listener", "port", "bind", "address", "server", "servers", "http", "entrypoints"]),
        Key::new(
            "workers",
            "Worker threads. `auto`: the processors that this process may really use.",
            Shape::AnyOf(&[Shape::Word(&["auto"]), Shape::Count { min: 1, max: 1024, off: false }]),
        )
        .or("auto")
        .also(&["worker_processes", "threads", "concurrency"]),
        Key::new(
            "admin",
            "Where the dashboard, metrics, health and the admin API are. A bare port means the loopback address.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&ADMIN_ADDRESS), Shape::Port, Shape::Section(&ADMIN)]),
        )
        .or("127.0.0.1:9901"),
        Key::new(
            "access_log",
            "A line for each request, in one log or several.",
            ACCESS_LOG_SHAPE,
        )
        .or("off")
        .also(&["log", "logs", "accesslog", "access_logs"]),
        Key::new(
            "request_id",
            "An id for each request, sent upstream and logged.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&REQUEST_ID)]),
        )
        .or("off"),
        Key::new("metrics", "Whether statistics are kept.", Shape::Switch).or("on"),
        Key::new("forwarded", "What is said to the upstream about the client.", Shape::Section(&FORWARDED)),
        Key::new("limits", "Sizes and counts that a peer may not exceed.", Shape::Section(&LIMITS)),
        Key::new("timeouts", "How long the gateway waits, and for what.", Shape::Section(&TIMEOUTS))
            .also(&["timeout"]),
        Key::new(
            "buffer",
            "Whether bodies are collected before they are passed on, on every route that does not say otherwise: `on` \
             collects both, `request` and `response` one of them.",
            BUFFER_SHAPE,
        )
        .or("off")
        .also(&["buffering", "proxy_request_buffering", "request_buffering"]),
        Key::new("paths", "What the ambiguous bytes of a path mean.", Shape::Section(&PATHS)),
        Key::new("errors", "Bodies of the gateway's own error answers.", Shape::Section(&ERRORS)),
        Key::new(
            "overload",
            "What of the process's own means is guarded: past a bound new work is shed before old work breaks.",
            Shape::Section(&OVERLOAD),
        )
        .also(&["overload_manager", "shedding", "guards"]),
        Key::new("consumers", "Who is known, and by what.", Shape::MapOf(&CONSUMER_VALUE)).also(&[
            "consumer",
            "users",
            "clients",
        ]),
        Key::new(
            "certificates",
            "Certificates for every listener with `tls`, or for some, by name.",
            Shape::MapOf(&NAMED_CERTIFICATE_VALUE),
        )
        .also(&["certificate", "certs", "ssls"]),
        Key::new("policies", POLICIES_DOC, Shape::Section(&POLICIES))
            .also(&["policy", "plugins", "middlewares", "filters", "http_filters"]),
        Key::new(
            "policy_sets",
            "Policies by name, for every place that names them in `use`.",
            Shape::MapOf(&POLICY_SET_VALUE),
        )
        .also(&["policy_set", "policies_sets", "plugin_configs", "shared_policies"]),
        Key::new(
            "store",
            "The file in which the resources are kept that the admin API writes.",
            Shape::AnyOf(&[Shape::Text(&STORE_PATH), Shape::Section(&STORE)]),
        )
        .also(&["database", "db", "storage"]),
        Key::new(
            "etcd",
            "The etcd in which several gateways share the resources that the admin API writes, in place of \
             `store`.",
            Shape::AnyOf(&[Shape::Section(&ETCD), Shape::Text(&ETCD_ENDPOINT), Shape::ListOf(&ETCD_ENDPOINT_SHAPE)]),
        ),
        Key::new(
            "zone",
            "The zone that this gateway is in; endpoints of the same zone are preferred.",
            Shape::Text(&ZONE),
        )
        .also(&["locality", "region", "az", "availability_zone"]),
        Key::new(
            "watch",
            "Whether the files are watched, and loaded anew when one changes.",
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
        Key::new("routes", "What is done with which requests.", Shape::ListOf(&ROUTE_SHAPE)).also(&[
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
        Key::new("mode", "The mode of the socket's file, where `bind` is a socket.", Shape::Text(&MODE))
            .or("666")
            .also(&["permissions", "socket_mode"]),
        Key::new(
            "owner",
            "The owner of the socket's file: names or numbers. Default: the user and group of the process.",
            Shape::Text(&OWNER),
        )
        .also(&["user", "group", "socket_owner"]),
        Key::new("policies", POLICIES_DOC, Shape::Section(&POLICIES)),
        Key::new("tls", "TLS: with which certificates.", Shape::Section(&TLS)).also(&[
            "ssl",
            "https",
            "certificate",
            "certificates",
        ]),
        Key::new(
            "http2",
            "Whether clients may speak HTTP/2, beside HTTP/1 or `only` that.",
            Shape::Word(&["on", "off", "only"]),
        )
        .or("on")
        .also(&["h2", "h2c", "protocols"]),
        Key::new(
            "redirect_to_https",
            "Whether every request is sent to `https`, host and path kept.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&REDIRECT_TO_HTTPS)]),
        )
        .or("off")
        .also(&["https_redirect", "force_https", "redirect", "ssl_redirect", "redirect_https"]),
        Key::new(
            "half_close",
            "Whether an HTTP/1 client that closes its half of the connection (FIN, or TLS's close_notify) still gets its answers. \
             `off`: the client has left, and its request is cancelled.",
            Shape::Switch,
        )
        .or("off")
        .also(&["enable_half_close", "allow_half_close", "ignore_client_abort", "proxy_ignore_client_abort"]),
        Key::new(
            "timeouts",
            "Timeouts that differ from the gateway's.",
            Shape::Section(&LISTENER_TIMEOUTS),
        )
        .also(&["timeout", "idle_timeout", "max_connection_age"]),
        Key::new(
            "proxy_protocol",
            "Proxies in front whose connections begin with a PROXY protocol header (version 1 or 2), before TLS.",
            Shape::OneOrMany(&PROXIES_SHAPE),
        )
        .or("[]")
        .also(&["accept_proxy", "accept-proxy", "proxyProtocol", "proxy"]),
    ],
};

static PROXIES: Text = Text {
    expected: "who sends the header: an address or a block of them such as `10.0.0.0/8`",
    pattern: Some(r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"),
    loose: false,
};
static PROXIES_SHAPE: Shape = Shape::Text(&PROXIES);

pub(crate) static REDIRECT_TO_HTTPS: Section = Section {
    name: "redirect_to_https",
    noun: "`redirect_to_https`",
    doc: "How requests that come in plain text are sent to `https`.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "status",
            "301, 302, 307 or 308; with the last two the method stays.",
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
        Key::new("path", "Its file, which is made if it is not there.", Shape::Text(&STORE_PATH))
            .required()
            .also(&["file", "to"]),
        Key::new(
            "history",
            "How many versions its history keeps.",
            Shape::Count { min: 1, max: 10_000_000, off: false },
        )
        .or("10000")
        .also(&["versions", "keep"]),
    ],
};

pub(crate) static REQUEST_ID: Section = Section {
    name: "request_id",
    noun: "`request_id`",
    doc: "Request ids; writing this mapping switches them on.",
    choice: Choice::Free,
    keys: &[
        Key::new("enabled", "Whether requests get an id.", Shape::Switch).or("on"),
        Key::new("header", "The header field that carries it.", Shape::Text(&HEADER_NAME)).or("X-Request-Id"),
        Key::new("accept", "Whether an id that the client sent is passed on.", Shape::Switch).or("on"),
    ],
};

static HEADER_NAME_SHAPE: Shape = Shape::Text(&HEADER_NAME);

pub(crate) static FORWARDED: Section = Section {
    name: "forwarded",
    noun: "`forwarded`",
    doc: "What is said to the upstream about the client.",
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
            "Peers whose own forwarding fields are appended to rather than replaced.",
            Shape::OneOrMany(&CIDR_SHAPE),
        )
        .or("[]")
        .also(&["trusted", "real_ip_from", "set_real_ip_from"]),
        Key::new(
            "keep",
            "Fields that are kept from any peer, of those that services believe to come from a proxy and that the gateway \
             removes (`X-Forwarded-Prefix`, `X-Original-URL`).",
            Shape::OneOrMany(&HEADER_NAME_SHAPE),
        )
        .or("[]")
        .also(&["pass", "allow", "except"]),
        Key::new(
            "client_certificate",
            "Fields that tell of the certificate that a client has shown: each name, and what it holds; `on` is \
             `Client-Cert` (RFC 9440).",
            Shape::AnyOf(&[Shape::Switch, Shape::MapOf(&CERTIFICATE_PART)]),
        )
        .or("off")
        .also(&["client_cert", "forward_client_cert_details", "passTLSClientCert", "xfcc"]),
        Key::new(
            "cdn_loop",
            "Requests to which the gateway adds its `CDN-Loop` (RFC 8586): `own`, those to its own addresses, or `always`, \
             which also finds loops through other gateways.",
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
pub(crate) const BODY_RATE_DOC: &str = "Bytes a second of a request body that a client has to send while the gateway waits for it (408 below it).";
pub(crate) const BODY_RATE_ALSO: &[&str] =
    &["min_body_rate", "minrate", "min_request_body_data_rate", "request_rate", "upload_rate"];
pub(crate) const RESPONSE_RATE_DOC: &str =
    "Bytes a second of a response that a client has to take while the gateway waits for it (reset below it).";
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
            "Bytes of the request line (414 past it).",
            Shape::Size { min: 256, max: HEAD_MAX, off: false },
        )
        .or("8KiB"),
        Key::new(
            "headers",
            "Bytes of a whole head (431 past it, 502 for a response).",
            Shape::Size { min: 1024, max: HEAD_MAX, off: false },
        )
        .or("32KiB"),
        Key::new(
            "header_count",
            "Header fields in a head (431 past it, 502 for a response).",
            Shape::Count { min: 8, max: 10_000, off: false },
        )
        .or("100"),
        Key::new(
            "body",
            "Bytes of a request body (413 past it).",
            Shape::Size { min: 0, max: SIZE_MAX, off: true },
        )
        .or("off")
        .also(&["client_max_body_size", "body_size", "max_body"]),
        Key::new("body_rate", BODY_RATE_DOC, RATE).or("240").also(BODY_RATE_ALSO),
        Key::new("response_rate", RESPONSE_RATE_DOC, RATE).or("240").also(RESPONSE_RATE_ALSO),
        Key::new(
            "rate_grace",
            "How long a client may fall short of `body_rate` or `response_rate` at the start.",
            Shape::Time { min: Duration::from_millis(100), max: LONGEST_GRACE, off: false },
        )
        .or("10s")
        .also(&["body_grace", "grace_period", "grace"]),
        Key::new(
            "connections",
            "Client connections of the whole process; past it a new one is answered 503.",
            Shape::Count { min: 1, max: u64::MAX, off: true },
        )
        .or("off")
        .also(&["max_connections", "maxconn"]),
        Key::new(
            "requests_per_connection",
            "Requests that one client connection may carry.",
            Shape::Count { min: 1, max: u64::MAX, off: true },
        )
        .or("off"),
        Key::new(
            "http2_streams",
            "Requests of one HTTP/2 connection at once; more are refused.",
            Shape::Count { min: 1, max: 10_000, off: false },
        )
        .or("100")
        .also(&["max_concurrent_streams", "http2_max_concurrent_streams", "streams"]),
        Key::new(
            "http2_window",
            "Bytes of a request's body that an HTTP/2 client may send ahead; twice as many for all of a connection.",
            Shape::Size { min: 16 << 10, max: 16 << 20, off: false },
        )
        .or("64KiB")
        .also(&["initial_window_size", "initial_stream_window_size", "http2_initial_window_size"]),
        Key::new(
            "loops",
            "How often a request may come back to this gateway because the gateway sent it (508 past it).",
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
    "The longest age of a client connection: the answer after it is its last (`Connection: close`, GOAWAY).",
    Shape::Duration,
)
.also(AGE_ALSO);

pub(crate) static LISTENER_TIMEOUTS: Section = Section {
    name: "listener_timeouts",
    noun: "`timeouts` of a listener",
    doc: "Timeouts that a listener changes.",
    choice: Choice::Free,
    keys: &[
        Key::new("idle", "A client connection without a request (closed).", Shape::Duration).also(IDLE_ALSO),
        AGE,
    ],
};

pub(crate) static TIMEOUTS: Section = Section {
    name: "timeouts",
    noun: "`timeouts`",
    doc: "How long the gateway waits, and for what.",
    choice: Choice::Free,
    keys: &[
        Key::new("header", "From the first byte of a request head to its end (408).", Shape::Duration)
            .or("10s"),
        Key::new("body", "Between two reads of a request body (408).", Shape::Duration).or("60s"),
        Key::new("idle", "A client connection without a request (closed).", Shape::Duration)
            .or("75s")
            .also(&["keepalive", "keepalive_timeout", "keep_alive"]),
        AGE.or("off"),
        Key::new("write", "A client that takes no byte of a response (reset).", Shape::Duration).or("60s"),
        Key::new("connect", "Opening a connection to an endpoint (504).", Shape::Duration).or("5s"),
        Key::new(
            "response_header",
            "From the end of the request to the response head (504).",
            Shape::Duration,
        )
        .or("60s")
        .also(&["read", "proxy_read_timeout"]),
        Key::new(
            "response_body",
            "Between two reads of a response body (504, or a cut response).",
            Shape::Duration,
        )
        .or("60s"),
        Key::new("total", "The whole exchange (504, or a cut response).", Shape::Duration).or("off"),
        Key::new(
            "upgraded",
            "An upgraded connection without a byte in either direction (closed).",
            Shape::Duration,
        )
        .or("1h")
        .also(&["websocket", "tunnel"]),
        Key::new(
            "drain_delay",
            "From SIGTERM, when readiness ends, until the listening sockets close.",
            Shape::Duration,
        )
        .or("off"),
        Key::new("drain", "Requests in flight at SIGTERM.", Shape::Duration).or("30s"),
        Key::new("takeover", "A new process, at an upgrade, until its workers run.", Shape::Duration)
            .or("30s"),
        Key::new("handshake", "A client's TLS handshake.", Shape::Duration)
            .or("10s")
            .also(&["tls_handshake", "ssl_handshake_timeout"]),
    ],
};

pub(crate) static PATHS: Section = Section {
    name: "paths",
    noun: "`paths`",
    doc: "What the ambiguous bytes of a path mean.",
    choice: Choice::Free,
    keys: &[
        Key::new("merge_slashes", "`//` becomes `/`.", Shape::Switch).or("on"),
        Key::new(
            "encoded_slash",
            "`%2F` and `%5C`: refused with 400, or kept as data that separates no segments.",
            Shape::Word(&["reject", "keep"]),
        )
        .or("reject"),
        Key::new(
            "semicolon",
            "`;` and `%3B`: kept as data, or refused with 400, for origins that cut path parameters off.",
            Shape::Word(&["keep", "reject"]),
        )
        .or("keep")
        .also(&["semicolons", "path_parameters", "matrix_parameters"]),
    ],
};

pub(crate) static ERRORS: Section = Section {
    name: "errors",
    noun: "`errors`",
    doc: "Bodies of the gateway's own error answers; `{status}`, `{title}`, `{reason}` and `{request_id}` are filled in.",
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
    doc: "What of the process's own means is guarded. Past a bound new work is shed before old work breaks.",
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
            "Percentage of the process's file descriptors from which on no new client connection is taken in.",
            Shape::Percent { min: 1, max: 100, off: false },
        )
        .or("95%")
        .also(&["file_descriptors", "fds", "descriptors", "open_files"]),
        Key::new(
            "shed_from",
            "Percentage of a bound from which on requests of low priority are shed.",
            Shape::Percent { min: 1, max: 100, off: false },
        )
        .or("90%")
        .also(&["shed", "shed_at", "threshold"]),
    ],
};

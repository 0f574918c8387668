//! The configuration as data: what every source (file, API, store) produces.
//!
//! What is wrong on its own never gets here, nor does a name in `to` that is not under `upstreams`: the reader
//! refuses them. Which matches are the same is for the plan's compiler to say, since it knows how requests are
//! matched; it reports positions through [`Spanned`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroize;

mod admin;
mod consumers;
mod etcd;
mod percent;
mod policies;
mod route;
mod tls;
mod upstream;

pub use admin::*;
pub use consumers::*;
pub use etcd::*;
pub use percent::Percent;
pub use policies::*;
pub use route::*;
pub use tls::*;
pub use upstream::*;

/// Where a value was written. `file` indexes [`Config::files`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct At {
    /// Index into [`Config::files`].
    pub file: u32,
    /// Line, from 1; 0 is the file as a whole.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Length in characters of the text that the caret underlines, at least 1.
    pub length: u32,
}

/// A value and where it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub at: At,
}

/// A file that took part, kept so that a problem can show its line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFile {
    /// The name as given or found by an include.
    pub name: String,
    /// Its text. It may hold secrets, and is wiped from memory when it is dropped.
    pub text: String,
}

impl Drop for SourceFile {
    fn drop(&mut self) {
        self.text.zeroize();
    }
}

/// Everything that people write, with defaults filled in.
#[derive(Clone, Debug)]
pub struct Config {
    /// The files read: the first is the one named on the command line.
    pub files: Vec<SourceFile>,
    /// Every file of certificates or keys that it names.
    pub pem_files: Vec<PathBuf>,
    /// Where to accept connections; at least one.
    pub listen: Vec<Listener>,
    /// Worker threads.
    pub workers: Workers,
    /// The admin listener (`None`: off). Default 127.0.0.1:9901.
    pub admin: Option<AdminSettings>,
    /// Directories in which files may lie that documents of the API, the store and etcd name. Default none.
    pub document_files: Vec<PathBuf>,
    /// The access logs of routes that say nothing of their own. Default none.
    pub access_log: Vec<AccessLog>,
    /// Request ids: off by default.
    pub request_id: RequestId,
    /// Whether statistics are kept. Default true.
    pub metrics: bool,
    /// What is said to the upstream about the client.
    pub forwarded: Forwarded,
    /// Sizes and counts that a peer may not exceed.
    pub limits: Limits,
    /// How long the gateway waits, and for what.
    pub timeouts: Timeouts,
    /// Whether bodies are collected before they are passed on, where no route says otherwise. Default neither.
    pub buffer: Buffer,
    /// What the path's ambiguous bytes mean.
    pub paths: Paths,
    /// Bodies of the gateway's own error answers, when replaced.
    pub errors: ErrorBodies,
    /// The routes, in the order written.
    pub routes: Vec<Route>,
    /// Named upstreams, in the order written.
    pub upstreams: Vec<Upstream>,
    /// The zone that this gateway is in; endpoints of the same zone are preferred. Default none.
    pub zone: Option<String>,
    /// Whether the files are watched, and the config loaded anew when one changes. Default false.
    pub watch: bool,
    /// What of the process's own means is guarded.
    pub overload: Overload,
    /// Policies of every route.
    pub policies: Policies,
    /// Where what the admin API changes is kept. Default nowhere: the API changes nothing then.
    pub store: Option<StoreSettings>,
    /// The etcd that several gateways share their resources in, in place of a store. Default none.
    pub etcd: Option<EtcdSettings>,
    /// Who is known, and by what.
    pub consumers: Vec<ConsumerSpec>,
    /// Certificates for several listeners.
    pub certificates: Vec<NamedCertificate>,
    /// Sets of policies, for whatever uses them.
    pub policy_sets: Vec<PolicySet>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            pem_files: Vec::new(),
            listen: Vec::new(),
            workers: Workers::default(),
            admin: Some(AdminSettings::default()),
            document_files: Vec::new(),
            access_log: Vec::new(),
            request_id: RequestId::default(),
            metrics: true,
            forwarded: Forwarded::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            buffer: Buffer::default(),
            paths: Paths::default(),
            errors: ErrorBodies::default(),
            routes: Vec::new(),
            upstreams: Vec::new(),
            zone: None,
            watch: false,
            overload: Overload::default(),
            policies: Policies::default(),
            store: None,
            etcd: None,
            consumers: Vec::new(),
            certificates: Vec::new(),
            policy_sets: Vec::new(),
        }
    }
}

/// The embedded store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Its file.
    pub path: PathBuf,
    /// How many versions the history keeps. Default 10,000.
    pub history: u64,
}

/// One listening address.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Address to bind. `:8080` is `[::]:8080`, which has to take IPv4 too (`IPV6_V6ONLY` off).
    pub bind: Spanned<ListenAddress>,
    /// TLS; `None`: plain text.
    pub tls: Option<ListenTls>,
    /// Whether HTTP/2 is spoken. Default on.
    pub http2: Http2,
    /// Whether requests are sent to `https`. Default none.
    pub redirect_to_https: Option<RedirectToHttps>,
    /// Whether an HTTP/1 client that has ended its direction still gets its answers. Default false: it has left.
    pub half_close: bool,
    /// Who begins connections with a header of the PROXY protocol. Default nobody.
    pub proxy_protocol: Vec<Cidr>,
    /// What it changes of `timeouts`.
    pub timeouts: ListenerTimeouts,
    /// Policies of the requests that come here.
    pub policies: Policies,
}

/// Timeouts that a listener changes: `Some(None)` is `off`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerTimeouts {
    /// As [`Timeouts::idle`].
    pub idle: Option<Option<Duration>>,
    /// As [`Timeouts::age`].
    pub age: Option<Option<Duration>>,
}

/// How requests that come in plain text are sent to `https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedirectToHttps {
    /// 301, 302, 307 or 308. Default 308: the method stays what it was.
    pub status: u16,
    /// The port of `https`. Default 443.
    pub port: u16,
}

impl Default for RedirectToHttps {
    fn default() -> Self {
        Self { status: 308, port: 443 }
    }
}

/// Whether clients may speak HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http2 {
    /// They may, beside HTTP/1.
    #[default]
    On,
    /// They may not.
    Off,
    /// They must.
    Only,
}

/// How many workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// The processors that this process may really use (affinity and cgroup quota).
    #[default]
    Auto,
    /// Exactly so many.
    Count(u16),
}

/// One access log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessLog {
    /// Where it goes. Default off.
    pub to: LogTarget,
    /// What a line looks like.
    pub format: LogFormat,
    /// Further fields of a line in JSON: each key, and the name of what it holds.
    pub fields: Vec<(String, String)>,
    /// It has a line of an exchange that one of these keeps. Default every exchange.
    pub filter: Vec<LogFilter>,
    /// Who is told every line, beside that. Default nobody.
    pub otlp: Option<Collector>,
}

impl AccessLog {
    /// A number that tells logs apart, wherever they are written. What a file holds that one names has no part in it.
    #[must_use]
    pub fn key(&self) -> u64 {
        let Self { to, format, fields, filter, otlp } = self;
        let format = match format {
            LogFormat::Combined => "combined",
            LogFormat::Json => "json",
            LogFormat::Template(template) => &template.value,
        };
        let mut hasher = DefaultHasher::new();
        (format!("{to:?}"), format, fields, format!("{filter:?}")).hash(&mut hasher);
        if let Some(Collector { url, service, headers, resource, ca }) = otlp {
            (url, service, headers, resource, ca.as_ref().map(|ca| &ca.path)).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Conditions that must all hold for an exchange to have a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogFilter {
    /// Ranges of statuses, first and last. Default any.
    pub statuses: Vec<(u16, u16)>,
    /// The exchange took at least so long. Default any time.
    pub min_duration: Option<Duration>,
    /// The share of the others that has a line, in millionths; errors always have one. Default all.
    pub sample: Option<u32>,
}

/// Where the access log goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    #[default]
    Off,
    /// Standard output.
    Stdout,
    /// A file, appended to; reopened on SIGUSR1.
    File(PathBuf),
    /// A syslog server (RFC 5424).
    Syslog(Syslog),
}

/// A syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syslog {
    /// How it is reached.
    pub transport: SyslogTransport,
    /// The facility, 0 to 23. Default `local7`, which is 23.
    pub facility: u8,
    /// The severity, 0 to 7. Default `info`, which is 6.
    pub severity: u8,
    /// The name of the program that messages come from. Default `tollgate`.
    pub app_name: String,
}

/// How a syslog server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogTransport {
    /// UDP: `host:port`.
    Udp(String),
    /// TCP: `host:port`.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

/// What an access log line looks like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// nginx's `combined`.
    #[default]
    Combined,
    /// One JSON object a line with every field.
    Json,
    /// Text with `{field}` placeholders, which [`access_log_template`](crate::access_log_template) splits; the
    /// reader has checked it.
    Template(Spanned<String>),
}

/// Request ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// Whether on. Default false.
    pub enabled: bool,
    /// Header that carries it. Default `X-Request-Id`.
    pub header: String,
    /// Whether an id that the client sent is passed on (`true`, the default) or replaced.
    pub accept: bool,
}

impl Default for RequestId {
    fn default() -> Self {
        Self { enabled: false, header: "X-Request-Id".to_owned(), accept: true }
    }
}

/// What is said to the upstream about the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// `X-Forwarded-For`, `-Proto`, `-Host`. Default true.
    pub x_forwarded: bool,
    /// `Forwarded` (RFC 7239). Default false.
    pub forwarded: bool,
    /// The pseudonym in `Via` (RFC 9110, 7.6.3) on requests and responses. Default none: no `Via`.
    pub via: Option<String>,
    /// Peers whose own `X-Forwarded-*` and `Forwarded` are appended to rather than replaced.
    pub trusted_proxies: Vec<Cidr>,
    /// Fields by which services believe a proxy and that are not removed, whoever sends them. Default none.
    pub keep: Vec<Spanned<String>>,
    /// Fields that tell of the certificate that a client has shown. Default none.
    pub client_certificate: Vec<(String, CertificatePart)>,
    /// Which requests say in `CDN-Loop` (RFC 8586) that they were here. Default [`CdnLoop::Own`].
    pub cdn_loop: CdnLoop,
}

/// Which requests say in `CDN-Loop` (RFC 8586) that they were here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CdnLoop {
    /// Those that go to an address of the gateway itself.
    #[default]
    Own,
    /// All: a loop over other gateways is found too.
    Always,
}

impl Default for Forwarded {
    fn default() -> Self {
        Self {
            x_forwarded: true,
            forwarded: false,
            via: None,
            trusted_proxies: Vec::new(),
            keep: Vec::new(),
            client_certificate: Vec::new(),
            cdn_loop: CdnLoop::Own,
        }
    }
}

/// A block of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// First address of the block.
    pub address: std::net::IpAddr,
    /// Length of the prefix in bits.
    pub prefix: u8,
}

/// Sizes and counts that a peer may not exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the request line (414 past it). Default 8 KiB.
    pub request_line: usize,
    /// Bytes of a whole head, request or response (431, or 502 for a response). Default 32 KiB.
    pub headers: usize,
    /// Header fields in a head (431, or 502 for a response). Default 100.
    pub header_count: usize,
    /// Bytes of a request body (413). Default none.
    pub body: Option<u64>,
    /// Bytes a second of a request body that a client has to send while the gateway waits for it (408). Default 240.
    pub body_rate: Option<u32>,
    /// Bytes a second of a response that a client has to take while the gateway waits for it (reset). Default 240.
    pub response_rate: Option<u32>,
    /// How long a client may fall short of either rate at the start. Default 10 s.
    pub rate_grace: Duration,
    /// Client connections of the whole process; past it a new one is answered 503 and closed. Default none.
    pub connections: Option<u64>,
    /// Requests a client connection before the gateway closes it. Default none.
    pub requests_per_connection: Option<u64>,
    /// Streams of an HTTP/2 connection at once (refused past it). Default 100: RFC 9113, 6.5.2 recommends no fewer.
    pub http2_streams: u32,
    /// Bytes of a request body that an HTTP/2 stream may send ahead; its connection may send twice as many. Default 64 KiB.
    pub http2_window: u32,
    /// Times that a request may come back to this gateway by its own doing (508 past it). Default 2.
    pub loops: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_line: 8 * 1024,
            headers: 32 * 1024,
            header_count: 100,
            body: None,
            body_rate: Some(240),
            response_rate: Some(240),
            rate_grace: Duration::from_secs(10),
            connections: None,
            requests_per_connection: None,
            http2_streams: 100,
            http2_window: 64 * 1024,
            loops: 2,
        }
    }
}

/// How long the gateway waits. `None` is `off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request head to its end (408). Default 10 s.
    pub header: Option<Duration>,
    /// Between two reads of a request body (408). Default 60 s.
    pub body: Option<Duration>,
    /// A keep-alive client connection without a request (closed). Default 75 s.
    pub idle: Option<Duration>,
    /// The longest age of a client connection: the answer after it is its last. Default off.
    pub age: Option<Duration>,
    /// A client that takes no byte of a response (connection reset). Default 60 s.
    pub write: Option<Duration>,
    /// Opening a connection to an endpoint (504). Default 5 s.
    pub connect: Option<Duration>,
    /// From the end of the request to the response head (504). Default 60 s.
    pub response_header: Option<Duration>,
    /// Between two reads of a response body (504, or a cut response). Default 60 s.
    pub response_body: Option<Duration>,
    /// The whole exchange (504, or a cut response). Default off.
    pub total: Option<Duration>,
    /// An upgraded connection without a byte in either direction (closed). Default 1 h.
    pub upgraded: Option<Duration>,
    /// From SIGTERM, when readiness ends and every answer tells its connection to close, until the listening sockets close:
    /// for as long as somebody may still send new clients. Default none.
    pub drain_delay: Option<Duration>,
    /// In-flight requests at SIGTERM. Default 30 s.
    pub drain: Option<Duration>,
    /// A new process that is to take this one's place, until its workers run. Default 30 s.
    pub takeover: Option<Duration>,
    /// A client's TLS handshake (closed). Default 10 s.
    pub handshake: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = |n| Some(Duration::from_secs(n));
        Self {
            header: seconds(10),
            body: seconds(60),
            idle: seconds(75),
            age: None,
            write: seconds(60),
            connect: seconds(5),
            response_header: seconds(60),
            response_body: seconds(60),
            total: None,
            upgraded: seconds(3600),
            drain_delay: None,
            drain: seconds(30),
            takeover: seconds(30),
            handshake: seconds(10),
        }
    }
}

/// What the path's ambiguous bytes mean: see `docs/paths.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// `//` becomes `/`. Default true.
    pub merge_slashes: bool,
    /// `%2F` and `%5C`. Default [`EncodedSlash::Reject`].
    pub encoded_slash: EncodedSlash,
    /// `;` and `%3B`. Default [`Semicolon::Keep`].
    pub semicolon: Semicolon,
}

impl Default for Paths {
    fn default() -> Self {
        Self { merge_slashes: true, encoded_slash: EncodedSlash::Reject, semicolon: Semicolon::Keep }
    }
}

/// What `%2F` and `%5C` in a path mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncodedSlash {
    /// The request is refused with 400.
    #[default]
    Reject,
    /// They are data: kept encoded, and not a separator when matching.
    Keep,
}

/// What `;` and `%3B` in a path mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semicolon {
    /// They are data.
    #[default]
    Keep,
    /// The request is refused with 400.
    Reject,
}

/// Bodies of the gateway's own error answers; `{status}`, `{title}`, `{reason}` and `{request_id}` are filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorBodies {
    /// For clients that accept JSON.
    pub json: Option<String>,
    /// For clients that accept HTML.
    pub html: Option<String>,
    /// For all others.
    pub text: Option<String>,
}

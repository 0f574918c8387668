//! The configuration as data, as every source (file, API, store) produces it.
//!
//! The reader rejects every value that is invalid alone, and every name in `to` that is missing under
//! `upstreams`; neither reaches these types. The plan's compiler finds routes with the same match, because it
//! knows how requests are matched. It reports positions through [`Spanned`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroize;

mod admin;
mod consumers;
mod etcd;
mod log;
mod percent;
mod policies;
mod route;
mod tls;
mod upstream;

pub use crate::sections::*;
pub use admin::*;
pub use consumers::*;
pub use etcd::*;
pub use log::*;
pub use percent::Percent;
pub use policies::*;
pub use route::*;
pub use tls::*;
pub use upstream::*;

/// Source position of a value.
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

/// A value and its source position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its source position.
    pub at: At,
}

/// A file that was read, kept so that a problem can show the offending line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFile {
    /// The name as given on the command line or found by an include.
    pub name: String,
    /// The content. It may hold secrets, so it is wiped from memory on drop.
    pub text: String,
}

impl Drop for SourceFile {
    fn drop(&mut self) {
        self.text.zeroize();
    }
}

/// The whole configuration, with defaults filled in.
#[derive(Clone, Debug)]
pub struct Config {
    /// The files read: the first is the one named on the command line.
    pub files: Vec<SourceFile>,
    /// Every file of certificates or keys that the configuration names.
    pub pem_files: Vec<PathBuf>,
    /// The listeners; at least one.
    pub listen: Vec<Listener>,
    /// Worker threads.
    pub workers: WorkerCount,
    /// The admin listener (`None`: off). Default 127.0.0.1:9901.
    pub admin: Option<AdminSettings>,
    /// Directories for files that documents of the API, the store and etcd may name. Default none.
    pub document_files: Vec<PathBuf>,
    /// The access logs of routes without their own. Default none.
    pub access_log: Vec<AccessLog>,
    /// The log of the gateway's own messages.
    pub log: DiagnosticLog,
    /// Request ids: off by default.
    pub request_id: RequestId,
    /// Whether statistics are kept. Default true.
    pub metrics: bool,
    /// Fields that tell the upstream about the client and the proxies between.
    pub forwarded: Forwarded,
    /// Sizes and counts that a peer may not exceed.
    pub limits: Limits,
    /// Timeouts of the gateway.
    pub timeouts: Timeouts,
    /// Whether bodies are buffered before they are passed on, unless a route says otherwise. Default neither.
    pub buffer: Buffer,
    /// How ambiguous bytes of the path are treated.
    pub paths: Paths,
    /// Replacement bodies of the gateway's own error responses.
    pub errors: ErrorBodies,
    /// The routes, in the order written.
    pub routes: Vec<Route>,
    /// Named upstreams, in the order written.
    pub upstreams: Vec<Upstream>,
    /// The zone of this gateway; endpoints of the same zone are preferred. Default none.
    pub zone: Option<String>,
    /// Whether the gateway watches the files and reloads when one changes. Default false.
    pub watch: bool,
    /// Bounds on the process's own memory and file descriptors.
    pub overload: Overload,
    /// Policies of every route.
    pub policies: Policies,
    /// The store that keeps changes made through the admin API. Default none: without etcd, the API is then
    /// read-only.
    pub store: Option<StoreSettings>,
    /// The etcd that shares resources between several gateways, instead of a store. Default none.
    pub etcd: Option<EtcdSettings>,
    /// Known consumers and their credentials.
    pub consumers: Vec<ConsumerSpec>,
    /// Certificates that several listeners may use.
    pub certificates: Vec<NamedCertificate>,
    /// Named sets of policies that other places use.
    pub policy_sets: Vec<PolicySet>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            pem_files: Vec::new(),
            listen: Vec::new(),
            workers: WorkerCount::default(),
            admin: Some(AdminSettings::default()),
            document_files: Vec::new(),
            access_log: Vec::new(),
            log: DiagnosticLog::default(),
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
    /// Path of its file.
    pub path: PathBuf,
    /// How many versions the history keeps. Default 10,000.
    pub history: u64,
}

/// One listening address.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Address to bind. `:8080` means `[::]:8080`, which must accept IPv4 too (`IPV6_V6ONLY` off).
    pub bind: Spanned<ListenAddress>,
    /// TLS; `None`: plain text.
    pub tls: Option<ListenTls>,
    /// Whether clients may use HTTP/2. Default on.
    pub http2: Http2,
    /// Whether plain-text requests are redirected to `https`. Default none.
    pub redirect_to_https: Option<RedirectToHttps>,
    /// Whether an HTTP/1 client that closed its sending direction still gets its responses. Default false:
    /// the gateway treats the close as an abort.
    pub half_close: bool,
    /// Peers whose connections start with a PROXY protocol header. Default none.
    pub proxy_protocol: Vec<Cidr>,
    /// Overrides of `timeouts`.
    pub timeouts: ListenerTimeouts,
    /// Policies of the requests that arrive here.
    pub policies: Policies,
}

/// How plain-text requests are redirected to `https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedirectToHttps {
    /// 301, 302, 307 or 308. Default 308, which keeps the method.
    pub status: u16,
    /// The port of `https`. Default 443.
    pub port: u16,
}

impl Default for RedirectToHttps {
    fn default() -> Self {
        Self { status: 308, port: 443 }
    }
}

/// Whether clients may use HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http2 {
    /// HTTP/1 and HTTP/2.
    #[default]
    On,
    /// HTTP/1 only.
    Off,
    /// HTTP/2 only.
    Only,
}

/// The number of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerCount {
    /// The number of processors that this process may use (affinity and cgroup quota).
    #[default]
    Auto,
    /// Exactly this number.
    Count(u16),
}

/// One access log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessLog {
    /// Destination of its lines. Default off.
    pub to: LogTarget,
    /// Format of a line.
    pub format: LogFormat,
    /// Additional fields of a JSON line: each key, and the name of the field that supplies its value.
    pub fields: Vec<(String, String)>,
    /// Filters. An exchange is logged if at least one of them keeps it; without filters, every exchange is
    /// logged.
    pub filter: Vec<LogFilter>,
    /// Collector that also receives every line. Default none.
    pub otlp: Option<Collector>,
}

impl AccessLog {
    /// Returns a number that identifies the log, wherever in the configuration it is written. The content of
    /// a CA file does not affect it.
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

/// Conditions that must all hold for an exchange to be logged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogFilter {
    /// Ranges of statuses, first and last. Default any.
    pub statuses: Vec<(u16, u16)>,
    /// Least duration of the exchange. Default any.
    pub min_duration: Option<Duration>,
    /// Sampled share of the exchanges without errors, in millionths; errors are always logged. Default all.
    pub sample: Option<u32>,
}

/// Destination of an access log.
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
    /// Transport and address of the server.
    pub transport: SyslogTransport,
    /// The facility, 0 to 23. Default `local7`, which is 23.
    pub facility: u8,
    /// The severity, 0 to 7. Default `info`, which is 6.
    pub severity: u8,
    /// The program name in its messages. Default `tollgate`.
    pub app_name: String,
}

/// Transport and address of a syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogTransport {
    /// UDP: `host:port`.
    Udp(String),
    /// TCP: `host:port`.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Format of an access log line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// nginx's `combined` format.
    #[default]
    Combined,
    /// One JSON object per line, with every field.
    Json,
    /// Text with `{field}` placeholders. The reader has checked it;
    /// [`access_log_template`](crate::access_log_template) splits it.
    Template(Spanned<String>),
}

/// Request ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// Whether requests get an id. Default false.
    pub enabled: bool,
    /// Header that carries it. Default `X-Request-Id`.
    pub header: String,
    /// Whether an id from the client is passed on (`true`, the default) or replaced.
    pub accept: bool,
}

impl Default for RequestId {
    fn default() -> Self {
        Self { enabled: false, header: "X-Request-Id".to_owned(), accept: true }
    }
}

/// Fields that tell the upstream about the client and the proxies between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// `X-Forwarded-For`, `-Proto`, `-Host`. Default true.
    pub x_forwarded: bool,
    /// `Forwarded` (RFC 7239). Default false.
    pub forwarded: bool,
    /// The pseudonym in `Via` (RFC 9110, 7.6.3) on requests and responses. Default none: no `Via`.
    pub via: Option<String>,
    /// Trusted peers. The gateway appends to their `X-Forwarded-*` and `Forwarded`; from other peers it
    /// replaces these fields.
    pub trusted_proxies: Vec<Cidr>,
    /// Fields that the gateway passes from any peer, although services take them for a proxy's own and the
    /// gateway removes such fields otherwise. Default none.
    pub keep: Vec<Spanned<String>>,
    /// Fields that describe the client's certificate. Default none.
    pub client_certificate: Vec<(String, CertificatePart)>,
    /// Requests that get this gateway's mark in `CDN-Loop` (RFC 8586). Default [`CdnLoop::Own`].
    pub cdn_loop: CdnLoop,
}

/// The requests that get this gateway's mark in `CDN-Loop` (RFC 8586).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CdnLoop {
    /// Requests to one of the gateway's own addresses.
    #[default]
    Own,
    /// All requests: this also finds a loop through other gateways.
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
    /// Bytes of the request line (414 beyond it). Default 8 KiB.
    pub request_line: usize,
    /// Bytes of a whole message head (431 for a request, 502 for a response). Default 32 KiB.
    pub headers: usize,
    /// Header fields in a head (431 for a request, 502 for a response). Default 100.
    pub header_count: usize,
    /// Bytes of a request body (413). Default none.
    pub body: Option<u64>,
    /// Minimum bytes per second of a request body while the gateway waits for the client (408). Default 240.
    pub body_rate: Option<u32>,
    /// Minimum bytes per second of a response that the client must read while the gateway waits to write
    /// (reset). Default 240.
    pub response_rate: Option<u32>,
    /// How long a client may stay below either rate at the start. Default 10 s.
    pub rate_grace: Duration,
    /// Client connections of the whole process; beyond it, a new one gets 503 and is closed. Default none.
    pub connections: Option<u64>,
    /// Requests per client connection before the gateway closes it. Default none.
    pub requests_per_connection: Option<u64>,
    /// Concurrent streams of an HTTP/2 connection (refused beyond it). Default 100: RFC 9113, 6.5.2
    /// recommends no fewer.
    pub http2_streams: u32,
    /// Receive window of an HTTP/2 stream, in bytes of request body; the connection's window is twice as
    /// large. Default 64 KiB.
    pub http2_window: u32,
    /// How often one request may return to this gateway through its own forwarding (508 beyond it). Default
    /// 2.
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

/// How ambiguous bytes of the path are treated: see `docs/paths.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Whether `//` becomes `/`. Default true.
    pub merge_slashes: bool,
    /// Treatment of `%2F` and `%5C`. Default [`EncodedSlash::Reject`].
    pub encoded_slash: EncodedSlash,
    /// Treatment of `;` and `%3B`. Default [`Semicolon::Keep`].
    pub semicolon: Semicolon,
}

impl Default for Paths {
    fn default() -> Self {
        Self { merge_slashes: true, encoded_slash: EncodedSlash::Reject, semicolon: Semicolon::Keep }
    }
}

/// How `%2F` and `%5C` in a path are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncodedSlash {
    /// The gateway rejects the request with 400.
    #[default]
    Reject,
    /// They are data: they stay encoded, and do not separate segments.
    Keep,
}

/// How `;` and `%3B` in a path are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semicolon {
    /// They are data.
    #[default]
    Keep,
    /// The gateway rejects the request with 400.
    Reject,
}

/// Bodies of the gateway's own error responses; `{status}`, `{title}`, `{reason}` and `{request_id}` are
/// filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorBodies {
    /// For clients that accept JSON.
    pub json: Option<String>,
    /// For clients that accept HTML.
    pub html: Option<String>,
    /// For all others.
    pub text: Option<String>,
}

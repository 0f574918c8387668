//! The configuration as data, as every source (file, API, store) produces it.
//!
//! The reader rejects every value that is invalid alone, and every name in `to` that is missing under
//! `upstreams`; neither reaches these types. The plan's compiler finds routes with the same match, because it
//! knows how requests are matched. It reports positions through [`Spanned`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

mod admin;
mod log;
mod percent;
mod policies;
mod route;
mod upstream;

pub use crate::position::{At, SourceFile, Spanned};
pub use crate::scalar::address::{Address, EndpointAddress, Scheme, TargetKind};
pub use crate::scalar::cidr::Cidr;
pub use crate::sections::*;
pub use admin::*;
pub use log::*;
pub use percent::Percent;
pub use policies::{Attached, Policies, PolicySet, UsedSet};
pub use route::*;
pub use upstream::{GRPC_CODES, Priority, Secret};

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
            request_id: RequestId { enabled: false, ..RequestId::default() },
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
        if let Some(Collector { url, export: ExportSettings { service, headers, resource, ca } }) = otlp {
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

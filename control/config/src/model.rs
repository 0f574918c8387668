//! The configuration as data, as every source (file, API, store) produces it.
//!
//! The reader rejects every value that is invalid alone, and every name in `to` that is missing under
//! `upstreams`; neither reaches these types. The plan's compiler finds routes with the same match, because it
//! knows how requests are matched. It reports positions through [`Spanned`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroize;

mod log;
mod percent;
mod policies;
mod route;
mod upstream;

pub use crate::sections::*;
pub use log::*;
pub use percent::Percent;
pub use policies::*;
pub use route::*;
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

/// A block of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// First address of the block.
    pub address: std::net::IpAddr,
    /// Length of the prefix in bits.
    pub prefix: u8,
}

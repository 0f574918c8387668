//! `log`: the gateway's own messages.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::suggest;

/// The log of the gateway's own messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiagnosticLog {
    /// The messages that are written.
    pub levels: LogLevels,
    /// The form of a line.
    pub format: DiagnosticFormat,
    /// The destination of the lines.
    pub output: DiagnosticOutput,
}

/// The levels of the log: a message is written if its level is at most the level of its component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLevels {
    /// The level of components without their own. Default info.
    pub level: LogLevel,
    /// The levels of single components. Default none.
    pub components: BTreeMap<LogComponent, LogLevel>,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiagnosticFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// The destination of the lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DiagnosticOutput {
    /// Standard error.
    #[default]
    Stderr,
    /// Standard output.
    Stdout,
    /// A file, appended to; reopened on SIGUSR1.
    File(PathBuf),
}

/// How important a message is. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// An operation failed.
    Error,
    /// Something needs attention.
    Warn,
    /// The normal course: start, reload, stop, changes of endpoints.
    #[default]
    Info,
    /// Single events, to find the cause of a failure.
    Debug,
    /// Every step.
    Trace,
}

impl LogLevel {
    /// All levels, the least verbose first.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// Returns the word for it in the file and in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    /// Returns the level with this word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// Returns the level that an unknown word probably means: a misspelling, or the name of another program.
    #[must_use]
    pub fn nearest(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "warning" => Some(Self::Warn),
            "notice" | "information" => Some(Self::Info),
            "fatal" | "critical" | "crit" | "alert" | "emerg" | "off" | "none" => Some(Self::Error),
            "verbose" => Some(Self::Debug),
            "all" => Some(Self::Trace),
            word => suggest::nearest(word, Self::ALL.into_iter().map(Self::as_str)).and_then(Self::from_name),
        }
    }
}

/// A part of the gateway that has a level of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogComponent {
    /// The admin listener: credentials, changes.
    Admin,
    /// Discovery of endpoints.
    Discovery,
    /// etcd as a source.
    Etcd,
    /// Start, stop, the access log, the levels themselves.
    Gateway,
    /// Probes and ejections of endpoints.
    Health,
    /// Connections of clients.
    Listener,
    /// Load that is refused for lack of memory or descriptors.
    Overload,
    /// Policies and the systems that they call.
    Policy,
    /// Reloads and changes of the plan.
    Reload,
    /// TLS with clients and endpoints.
    Tls,
    /// Binary upgrades.
    Upgrade,
    /// Connections to endpoints, retries, limits.
    Upstream,
}

impl LogComponent {
    /// All components, sorted by name.
    pub const ALL: [Self; 12] = [
        Self::Admin,
        Self::Discovery,
        Self::Etcd,
        Self::Gateway,
        Self::Health,
        Self::Listener,
        Self::Overload,
        Self::Policy,
        Self::Reload,
        Self::Tls,
        Self::Upgrade,
        Self::Upstream,
    ];

    /// Returns its name in the file and in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Discovery => "discovery",
            Self::Etcd => "etcd",
            Self::Gateway => "gateway",
            Self::Health => "health",
            Self::Listener => "listener",
            Self::Overload => "overload",
            Self::Policy => "policy",
            Self::Reload => "reload",
            Self::Tls => "tls",
            Self::Upgrade => "upgrade",
            Self::Upstream => "upstream",
        }
    }

    /// Returns the component with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.as_str() == name)
    }
}

//! `log`: the gateway's own messages.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::scalar::file_path::{self, file_path};
use crate::section::{Field, Fields, Reader, ScalarError, Section, Shape, Text, Value, Word};
use crate::suggest;

static OUTPUT: Text =
    Text { expected: "`stderr`, `stdout` or the path of a file", pattern: Some("."), loose: false };

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

/// The log of the gateway's own messages.
#[derive(Clone, Debug, Section)]
#[section(name = "log", own_forms, makes = DiagnosticLog, by = log)]
struct LogKeys {
    /// Level of the messages that are written; it includes the levels before it.
    #[key(parse = level, default = info, also = ["loglevel", "log_level", "verbosity", "severity"])]
    level: LogLevel,
    /// Levels of single components, in place of `level`.
    #[key(also = ["component", "targets", "modules", "scopes"])]
    components: ComponentLevels,
    /// `text`: lines for people. `json`: one object per line.
    #[key(default = text, also = ["encoding"])]
    format: DiagnosticFormat,
    /// Destination of the messages.
    #[key(text = OUTPUT, parse = output, default = stderr, also = ["to", "file", "path", "destination"])]
    output: DiagnosticOutput,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Word)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Word)]
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

    /// Returns the level that an unknown word probably means: a misspelling, or the name of another program.
    #[must_use]
    pub fn nearest(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "warning" => Some(Self::Warn),
            "notice" | "information" => Some(Self::Info),
            "fatal" | "critical" | "crit" | "alert" | "emerg" | "off" | "none" => Some(Self::Error),
            "verbose" => Some(Self::Debug),
            "all" => Some(Self::Trace),
            word => suggest::nearest(word, Self::WORDS.iter().copied()).and_then(Self::from_word),
        }
    }
}

/// Declares the components: the enum, and the section with the level of each.
macro_rules! components {
    ($($(#[doc = $doc:literal])* $component:ident, $key:ident, also = $also:tt;)*) => {
        /// A part of the gateway that has a level of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Word)]
        pub enum LogComponent {
            $($(#[doc = $doc])* $component,)*
        }

        impl LogComponent {
            /// All components, sorted by name.
            pub const ALL: [Self; <Self as Word>::WORDS.len()] = [$(Self::$component),*];
        }

        /// Levels of single components.
        #[derive(Clone, Debug, Section)]
        #[section(name = "log_components", noun = "`components`")]
        struct ComponentLevels {
            $($(#[doc = $doc])* #[key(parse = level, also = $also)] $key: Option<LogLevel>,)*
        }

        impl From<ComponentLevels> for BTreeMap<LogComponent, LogLevel> {
            fn from(levels: ComponentLevels) -> Self {
                let levels = [$((LogComponent::$component, levels.$key)),*];
                levels.into_iter().filter_map(|(component, level)| Some((component, level?))).collect()
            }
        }
    };
}

components! {
    /// The admin listener: credentials, changes.
    Admin, admin, also = [];
    /// The stream between a controller and its gateways.
    Controller, controller, also = ["fleet"];
    /// Discovery of endpoints.
    Discovery, discovery, also = ["dns", "resolver"];
    /// etcd as a source.
    Etcd, etcd, also = [];
    /// Start, stop, the access log, the levels themselves.
    Gateway, gateway, also = [];
    /// Probes and ejections of endpoints.
    Health, health, also = ["healthcheck", "outlier"];
    /// Kubernetes as a source.
    Kubernetes, kubernetes, also = ["k8s", "kube"];
    /// Connections of clients.
    Listener, listener, also = ["connection", "downstream", "client"];
    /// Load that is refused for lack of memory or descriptors.
    Overload, overload, also = [];
    /// Policies and the systems that they call.
    Policy, policy, also = ["policies", "redis"];
    /// Reloads and changes of the plan.
    Reload, reload, also = ["config"];
    /// TLS with clients and endpoints.
    Tls, tls, also = ["ssl"];
    /// Binary upgrades.
    Upgrade, upgrade, also = [];
    /// Connections to endpoints, retries, limits.
    Upstream, upstream, also = ["pool", "backend", "upstreams", "retry"];
}

/// A level, or a mapping.
impl Value for DiagnosticLog {
    const SHAPE: Shape = Shape::AnyOf(&[LogLevel::SHAPE, Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return reader.section(field);
        }
        let mut log = Self::default();
        log.levels.level = reader.field(field, level)?;
        Some(log)
    }
}

fn log(_: &mut Reader, _: &Fields<'_>, keys: LogKeys) -> Option<DiagnosticLog> {
    let LogKeys { level, components, format, output } = keys;
    Some(DiagnosticLog { levels: LogLevels { level, components: components.into() }, format, output })
}

fn level(text: &str) -> Result<LogLevel, ScalarError> {
    LogLevel::from_word(text).ok_or_else(|| {
        let fault = ScalarError::new("{} is not a level");
        match LogLevel::nearest(text) {
            Some(near) => fault.suggest(format!("did you mean `{}`?", near.word())),
            None if text.contains('/') => fault.help("the log of requests is `access_log`"),
            None => fault,
        }
    })
}

fn output(text: &str) -> Result<DiagnosticOutput, ScalarError> {
    match text {
        "stderr" => Ok(DiagnosticOutput::Stderr),
        "stdout" | "-" => Ok(DiagnosticOutput::Stdout),
        _ if file_path::scheme(text).is_some() || text.starts_with('|') => {
            Err(ScalarError::new("{} is neither `stderr`, `stdout` nor the path of a file"))
        }
        // A bare word is more likely a typing error than a file in the working directory.
        _ if !text.contains(['/', '.']) => {
            let fault = ScalarError::new("{} is neither `stderr`, `stdout` nor a path");
            Err(match suggest::nearest(text, ["stderr", "stdout"].into_iter()) {
                Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                None => fault.suggest(format!("write `./{text}` for a file in the working directory")),
            })
        }
        _ => file_path(text).map(DiagnosticOutput::File),
    }
}

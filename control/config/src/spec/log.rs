//! The keys of `log`.

use super::{Choice, KeySpec, SectionSpec, Shape, Text};

/// The levels, the least verbose first.
static LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

static OUTPUT: Text =
    Text { expected: "`stderr`, `stdout` or the path of a file", pattern: Some("."), loose: false };

pub(crate) static LOG: SectionSpec =
    SectionSpec {
        name: "log",
        noun: "`log`",
        doc: "The log of the gateway's own messages.",
        choice: Choice::Free,
        keys: &[
            KeySpec::new(
                "level",
                "Which messages are written; each level includes the ones before it.",
                Shape::Word(&LEVELS),
            )
            .default("info")
            .aliases(&["loglevel", "log_level", "verbosity", "severity"]),
            KeySpec::new(
                "components",
                "Levels of single components, in place of `level`.",
                Shape::Section(&LOG_COMPONENTS),
            )
            .aliases(&["component", "targets", "modules", "scopes"]),
            KeySpec::new(
                "format",
                "`text`: lines for people. `json`: one object per line.",
                Shape::Word(&["text", "json"]),
            )
            .default("text")
            .aliases(&["encoding"]),
            KeySpec::new("output", "Where the messages go.", Shape::Text(&OUTPUT))
                .default("stderr")
                .aliases(&["to", "file", "path", "destination"]),
        ],
    };

const fn component(name: &'static str, doc: &'static str) -> KeySpec {
    KeySpec::new(name, doc, Shape::Word(&LEVELS))
}

pub(crate) static LOG_COMPONENTS: SectionSpec = SectionSpec {
    name: "log_components",
    noun: "`components`",
    doc: "Levels of single components.",
    choice: Choice::Free,
    keys: &[
        component("admin", "The admin listener: credentials, changes."),
        component("discovery", "Discovery of endpoints.").aliases(&["dns", "resolver"]),
        component("etcd", "etcd as a source."),
        component("gateway", "Start, stop, the access log, the levels themselves."),
        component("health", "Probes and ejections of endpoints.").aliases(&["healthcheck", "outlier"]),
        component("listener", "Connections of clients.").aliases(&["connection", "downstream", "client"]),
        component("overload", "Load that is refused for lack of memory or descriptors."),
        component("policy", "Policies and the systems that they call.").aliases(&["policies", "redis"]),
        component("reload", "Reloads and changes of the plan.").aliases(&["config"]),
        component("tls", "TLS with clients and endpoints.").aliases(&["ssl"]),
        component("upgrade", "Binary upgrades."),
        component("upstream", "Connections to endpoints, retries, limits.").aliases(&[
            "pool",
            "backend",
            "upstreams",
            "retry",
        ]),
    ],
};

pub(crate) const LOG_SHAPE: Shape = Shape::AnyOf(&[Shape::Word(&LEVELS), Shape::Section(&LOG)]);

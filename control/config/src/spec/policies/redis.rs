//! The keys of `redis` of policies that count for several gateways.

use std::time::Duration;

use crate::spec::{Choice, KeySpec, SectionSpec, Shape, Text};

static NODE: Text = Text {
    expected: "a host and its port, such as `10.0.0.1:6379`",
    pattern: Some(r"^\S+:[0-9]+$"),
    loose: false,
};
static NODE_SHAPE: Shape = Shape::Text(&NODE);
static USER: Text = Text { expected: "the name of a user", pattern: Some(r"^\S+$"), loose: true };
static MASTER: Text =
    Text { expected: "the name of a master, such as `mymaster`", pattern: Some(r"^\S+$"), loose: true };

pub(crate) static REDIS_SENTINEL: SectionSpec = SectionSpec {
    name: "redis_sentinel",
    noun: "`sentinel`",
    doc: "The Sentinels that report the master.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("master", "Name of the master.", Shape::Text(&MASTER)).required().aliases(&[
            "name",
            "service",
            "master_name",
            "redis_master",
            "service_name",
        ]),
        KeySpec::new(
            "addresses",
            "The Sentinels. The gateway asks one after another until one knows the master.",
            Shape::OneOrMany(&NODE_SHAPE),
        )
        .required()
        .aliases(&["sentinels", "hosts", "nodes", "servers", "redis_sentinels"]),
        KeySpec::new("user", "The user at the Sentinels.", Shape::Text(&USER)).aliases(&["username"]),
        KeySpec::new("password", "The password at the Sentinels.", Shape::Text(&PASSWORD))
            .secret()
            .aliases(&["auth"]),
        KeySpec::new("tls", "Whether the Sentinels speak TLS.", Shape::Switch)
            .default("off")
            .aliases(&["ssl"]),
    ],
};

static URL: Text = Text {
    expected: "a URL such as `redis://10.0.0.1:6379/0`, `rediss://...` for TLS, or `unix:///run/redis.sock`",
    pattern: Some(r"^(rediss?|valkeys?|unix|redis\+unix|valkey\+unix)://.+$"),
    loose: false,
};
static PASSWORD: Text = Text { expected: "a password, best as `${VARIABLE}`", pattern: None, loose: true };
static PREFIX: Text = Text {
    expected: "a text of up to 128 letters, digits, `:`, `-`, `_`, `.`, `{` and `}`",
    pattern: Some(r"^[A-Za-z0-9:_.{}-]+$"),
    loose: true,
};

pub(crate) static REDIS: SectionSpec = SectionSpec {
    name: "policy_redis",
    noun: "`redis`",
    doc: "The Redis or Valkey that counts for several gateways.",
    choice: Choice::ExactlyOne(&["url", "sentinel", "cluster"]),
    keys: &[
        KeySpec::new("url", "One server, with user and database; best as `${VARIABLE}`.", Shape::Text(&URL))
            .may_hold_credentials()
            .aliases(&["address", "host", "uri", "endpoint", "server"]),
        KeySpec::new("sentinel", "The master that Sentinels report.", Shape::Section(&REDIS_SENTINEL))
            .aliases(&["sentinels", "redis_sentinels"]),
        KeySpec::new("cluster", "Some nodes of a cluster.", Shape::OneOrMany(&NODE_SHAPE)).aliases(&[
            "nodes",
            "cluster_nodes",
            "redis_cluster_nodes",
            "addresses",
        ]),
        KeySpec::new("user", "The user, with `sentinel` or `cluster`.", Shape::Text(&USER))
            .aliases(&["username"]),
        KeySpec::new(
            "database",
            "The database, with `sentinel`.",
            Shape::Count { min: 0, max: 65_535, off: false },
        )
        .default("0")
        .aliases(&["db", "redis_database"]),
        KeySpec::new(
            "tls",
            "Whether the master or the nodes speak TLS, with `sentinel` or `cluster`.",
            Shape::Switch,
        )
        .default("off")
        .aliases(&["ssl", "redis_ssl"]),
        KeySpec::new("password", "The password, if it is not in the URL.", Shape::Text(&PASSWORD))
            .secret()
            .aliases(&["auth", "secret"]),
        KeySpec::new(
            "timeout",
            "How long a request waits for an answer.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(5), off: false },
        )
        .default("50ms")
        .aliases(&["redis_timeout", "read_timeout"]),
        KeySpec::new(
            "on_failure",
            "Treatment of requests while Redis does not answer. `local`: each gateway counts on its own; \
            `open`: they are admitted; `closed`: they are rejected (503).",
            Shape::Word(&["local", "open", "closed"]),
        )
        .default("local")
        .aliases(&["failure_mode", "fault_tolerant", "fail_open", "failure_mode_deny", "fallback"]),
        KeySpec::new("prefix", "Prefix of its keys.", Shape::Text(&PREFIX))
            .default("tollgate")
            .aliases(&["key_prefix", "namespace"]),
    ],
};

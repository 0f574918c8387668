//! `redis` of policies that count for several gateways.

use std::time::Duration;

use crate::spec::{Choice, Key, Section, Shape, Text};

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

pub(crate) static REDIS: Section = Section {
    name: "policy_redis",
    noun: "`redis`",
    doc: "The Redis or Valkey that counts for several gateways.",
    choice: Choice::Free,
    keys: &[
        Key::new("url", "Where it is, with user and database; best as `${VARIABLE}`.", Shape::Text(&URL))
            .required()
            .also(&["address", "host", "uri", "endpoint", "server"]),
        Key::new("password", "The password, if it is not in the URL.", Shape::Text(&PASSWORD))
            .secret()
            .also(&["auth", "secret"]),
        Key::new(
            "timeout",
            "How long a request waits for an answer.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(5), off: false },
        )
        .or("50ms")
        .also(&["redis_timeout", "read_timeout"]),
        Key::new(
            "on_failure",
            "What becomes of requests without an answer: `local`: each gateway holds the limit by itself; `open`: they \
             pass; `closed`: they are refused (503).",
            Shape::Word(&["local", "open", "closed"]),
        )
        .or("local")
        .also(&["failure_mode", "fault_tolerant", "fail_open", "failure_mode_deny", "fallback"]),
        Key::new("prefix", "What its keys begin with.", Shape::Text(&PREFIX))
            .or("tollgate")
            .also(&["key_prefix", "namespace"]),
    ],
};

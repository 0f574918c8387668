//! The keys of `etcd`.

use super::{Choice, KeySpec, SectionSpec, Shape, Text, UPSTREAM_TLS};

pub(crate) static ETCD_ENDPOINT: Text = Text {
    expected: "an address such as `10.0.0.1:2379` or `https://etcd.internal:2379`",
    pattern: Some(r"^(https?://)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$"),
    loose: false,
};
pub(crate) static ETCD_ENDPOINT_SHAPE: Shape = Shape::Text(&ETCD_ENDPOINT);
static PREFIX: Text = Text {
    expected: "a text such as `/tollgate`, of letters, digits, `/`, `-`, `_` and `.`",
    pattern: Some(r"^/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$"),
    loose: false,
};
static CACHE: Text = Text {
    expected: "the path of a file such as `/var/lib/tollgate/etcd.json`",
    pattern: Some("."),
    loose: false,
};
static NAME: Text =
    Text { expected: "a name such as `gateway-1`", pattern: Some(r"^[A-Za-z0-9_.:-]+$"), loose: true };
static USER: Text = Text { expected: "the name of a user of etcd", pattern: Some("."), loose: true };
static PASSWORD: Text = Text { expected: "a password, best as `${VARIABLE}`", pattern: None, loose: true };

pub(crate) static ETCD: SectionSpec = SectionSpec {
    name: "etcd",
    noun: "`etcd`",
    doc: "The etcd that shares resources between several gateways.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("endpoints", "Addresses of its members.", Shape::OneOrMany(&ETCD_ENDPOINT_SHAPE))
            .required()
            .aliases(&["endpoint", "host", "hosts", "members", "address", "url", "urls"]),
        KeySpec::new("prefix", "Prefix of its keys.", Shape::Text(&PREFIX)).default("/tollgate").aliases(&[
            "root",
            "namespace",
            "path",
        ]),
        KeySpec::new(
            "cache",
            "A file that keeps the last valid state, so that the gateway starts without etcd. Relative to \
            the main file.",
            Shape::Text(&CACHE),
        )
        .aliases(&["last_good", "backup", "file", "state"]),
        KeySpec::new(
            "name",
            "Name of this gateway in etcd. Default: the host name and the process id.",
            Shape::Text(&NAME),
        )
        .aliases(&["id", "node", "instance"]),
        KeySpec::new("user", "User name, if etcd requires one.", Shape::Text(&USER)).aliases(&["username"]),
        KeySpec::new("password", "The user's password.", Shape::Text(&PASSWORD))
            .secret()
            .aliases(&["secret"]),
        KeySpec::new(
            "tls",
            "TLS settings for members written with `https://`.",
            Shape::Section(&UPSTREAM_TLS),
        ),
    ],
};

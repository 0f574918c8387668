//! The keys of `admin`: the admin listener and the rights of its clients.

use super::{Choice, KeySpec, SectionSpec, Shape, Text};
use crate::section::Value;
use crate::sections::ListenTls;
use crate::sections::listen_address::{MODE, OWNER};

pub(crate) static ADMIN_ADDRESS: Text = Text {
    expected: "an IP address and a port such as `127.0.0.1:9901`, or `unix:` and the path of a socket",
    pattern: Some(r"^(.*:)?[0-9]{1,5}$|^unix:/"),
    loose: false,
};
static TOKEN: Text = Text {
    expected: "a text of at least 16 characters, best as `${VARIABLE}`, or `sha256:` and the 64 hexadecimal digits of its SHA-256",
    pattern: Some(r"^\S+$"),
    loose: true,
};
static AUDIT_LOG: Text = Text {
    expected: "the path of a file such as `/var/log/tollgate/audit.jsonl`",
    pattern: Some("."),
    loose: false,
};
static DIRECTORY: Shape = Shape::Text(&Text {
    expected: "the path of a directory such as `/etc/tollgate/files`",
    pattern: Some("."),
    loose: false,
});
static ADMIN_HOST: Shape = Shape::Text(&Text {
    expected: "a host name such as `gateway.internal`, without a port",
    pattern: Some(r"^[^\s:/]+$"),
    loose: false,
});
static TOKEN_VALUE: Shape = Shape::Section(&ADMIN_TOKEN);

pub(crate) static ADMIN: SectionSpec = SectionSpec {
    name: "admin",
    noun: "`admin`",
    doc: "The admin listener and the rights of its clients.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "bind",
            "An address, `unix:` and the path of a socket, or `off`.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&ADMIN_ADDRESS), Shape::Port]),
        )
        .default("127.0.0.1:9901")
        .aliases(&["address", "listen", "port"]),
        KeySpec::new("mode", "The mode of the socket file, if `bind` is a Unix socket.", Shape::Text(&MODE))
            .default("600")
            .aliases(&["permissions", "socket_mode"]),
        KeySpec::new(
            "owner",
            "The owner of the socket file, as names or numbers. Default: the user and group of the process.",
            Shape::Text(&OWNER),
        )
        .aliases(&["user", "group", "socket_owner"]),
        KeySpec::new(
            "tokens",
            "Access tokens by name, with their roles. With tokens, requests without one get only the health \
            checks, `/` and the dashboard's static files. Default: every client that reaches the listener \
            has full access.",
            Shape::MapOf(&TOKEN_VALUE),
        )
        .aliases(&["token", "keys", "admin_key", "users", "auth"]),
        KeySpec::new(
            "tls",
            "TLS. With `client_certificates`, only clients with a verified certificate are admitted.",
            <ListenTls as Value>::SHAPE,
        )
        .aliases(&["ssl", "https", "mtls"]),
        KeySpec::new(
            "audit_log",
            "File that records every change and its author, one JSON line each, appended. Relative to the \
            main file.",
            Shape::Text(&AUDIT_LOG),
        )
        .aliases(&["audit", "log"]),
        KeySpec::new(
            "files",
            "Directories for files that documents of the API, the store and etcd may name: certificates, \
            keys, lists of endpoints, Unix sockets. Symbolic links are resolved before the check. Relative \
            to the main file. Default: documents may not name files.",
            Shape::OneOrMany(&DIRECTORY),
        )
        .aliases(&["directories", "allowed_files", "file_directories"]),
        KeySpec::new(
            "hosts",
            "Host names that the listener answers to, in addition to IP addresses and `localhost`. Default: \
            any name if there are `tokens`, otherwise none.",
            Shape::OneOrMany(&ADMIN_HOST),
        )
        .aliases(&["host", "names", "allowed_hosts", "server_names"]),
        KeySpec::new(
            "open",
            "Whether the listener may be reachable from other machines without tokens and client \
            certificates. Every client may then read, and none may change anything.",
            Shape::Switch,
        )
        .default("off")
        .aliases(&["public", "insecure", "allow_anonymous"]),
    ],
};

pub(crate) static ADMIN_TOKEN: SectionSpec = SectionSpec {
    name: "admin_token",
    noun: "a token",
    doc: "A token of the admin API.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "role",
            "`read`: may read; `write`: may also change resources; `admin`: may also copy the store.",
            Shape::Word(&["read", "write", "admin"]),
        )
        .required()
        .aliases(&["roles", "scope", "permission"]),
        KeySpec::new(
            "token",
            "The token that clients send as `Authorization: Bearer TOKEN`, or its hash, as `printf %s TOKEN \
            | sha256sum` prints it.",
            Shape::Text(&TOKEN),
        )
        .concealed()
        .required()
        .aliases(&["secret", "key", "value", "hash", "sha256"]),
    ],
};

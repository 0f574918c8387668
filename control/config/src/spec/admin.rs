//! The keys of `admin`: the admin listener and the rights of its clients.

use super::{Choice, Key, Section, Shape, TLS, Text};

pub(crate) static ADMIN_ADDRESS: Text = Text {
    expected: "an IP address and a port such as `127.0.0.1:9901`, or `unix:` and the path of a socket",
    pattern: Some(r"^(.*:)?[0-9]{1,5}$|^unix:/"),
    loose: false,
};
pub(crate) static MODE: Text =
    Text { expected: "three octal digits such as `660`", pattern: Some("^0?[0-7]{3}$"), loose: true };
pub(crate) static OWNER: Text = Text {
    expected: "`user`, `user:group` or `:group`",
    pattern: Some(r"^[^\s:]*(:[^\s:]+)?$"),
    loose: true,
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

pub(crate) static ADMIN: Section = Section {
    name: "admin",
    noun: "`admin`",
    doc: "The admin listener, and who may do what there.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "bind",
            "The address, `unix:` and the path of a socket, or `off`.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&ADMIN_ADDRESS), Shape::Port]),
        )
        .or("127.0.0.1:9901")
        .also(&["address", "listen", "port"]),
        Key::new("mode", "The mode of the socket's file, where `bind` is a socket.", Shape::Text(&MODE))
            .or("600")
            .also(&["permissions", "socket_mode"]),
        Key::new(
            "owner",
            "Whose the socket's file is: names or numbers. Default: whose the process is.",
            Shape::Text(&OWNER),
        )
        .also(&["user", "group", "socket_owner"]),
        Key::new(
            "tokens",
            "Who may do what, by name: without a token nothing is answered but whether the gateway lives. Default: \
             everybody who reaches the listener may.",
            Shape::MapOf(&TOKEN_VALUE),
        )
        .also(&["token", "keys", "admin_key", "users", "auth"]),
        Key::new(
            "tls",
            "TLS. With `client_certificates` only who shows one is let in.",
            Shape::Section(&TLS),
        )
        .also(&["ssl", "https", "mtls"]),
        Key::new(
            "audit_log",
            "Where it is written who changed what: a line of JSON each, added at the end. Relative to the main file.",
            Shape::Text(&AUDIT_LOG),
        )
        .also(&["audit", "log"]),
        Key::new(
            "files",
            "Directories in which files may lie that documents of the API, the store and etcd name: certificates, keys, \
             lists of endpoints, Unix sockets. Symbolic links are resolved before the comparison. Relative to the main \
             file. Default: documents name no files.",
            Shape::OneOrMany(&DIRECTORY),
        )
        .also(&["directories", "allowed_files", "file_directories"]),
        Key::new(
            "hosts",
            "Host names under which the listener answers, besides IP addresses and `localhost`. Default: any name if \
             there are `tokens`, else none.",
            Shape::OneOrMany(&ADMIN_HOST),
        )
        .also(&["host", "names", "allowed_hosts", "server_names"]),
        Key::new(
            "open",
            "Whether it may listen on an address that others reach without tokens and without client certificates. \
             Everybody may read then, and nobody may change anything.",
            Shape::Switch,
        )
        .or("off")
        .also(&["public", "insecure", "allow_anonymous"]),
    ],
};

pub(crate) static ADMIN_TOKEN: Section = Section {
    name: "admin_token",
    noun: "a token",
    doc: "A token of the admin API.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "role",
            "`read`: looking; `write`: changing resources too; `admin`: copying the store too.",
            Shape::Word(&["read", "write", "admin"]),
        )
        .required()
        .also(&["roles", "scope", "permission"]),
        Key::new(
            "token",
            "What is sent as `Authorization: Bearer TOKEN`; or its hash, which `printf %s TOKEN | sha256sum` prints.",
            Shape::Text(&TOKEN),
        )
        .required()
        .also(&["secret", "key", "value", "hash", "sha256"]),
    ],
};

//! Kinds of texts that several sections have.

use crate::section::{Shape, Text};

/// The name of a header field.
pub static HEADER_NAME: Text = Text {
    expected: "the name of a header field such as `X-Request-Id`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};
pub(crate) static CIDR: Text = Text {
    expected: "an address or a block of them such as `10.0.0.0/8`",
    pattern: Some(r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"),
    loose: false,
};
pub(crate) static ENDPOINT_TEXT: Text = Text {
    expected: "an endpoint such as `10.0.0.1:8080`, `api.internal:80` or `unix:/run/app.sock`",
    pattern: Some(r"^[^\s]*[:][^\s]*$"),
    loose: false,
};
pub(crate) static TARGET_TEXT: Text = Text {
    expected: "an endpoint such as `10.0.0.1:8080`, `api.internal:80` or `unix:/run/app.sock`, or the name of an upstream",
    pattern: Some(r"^\S+$"),
    loose: false,
};
/// The name of an upstream.
pub static UPSTREAM_NAME: Text = Text {
    expected: "the name of an entry under `upstreams`",
    pattern: Some(r"^[A-Za-z0-9_.-]+$"),
    loose: false,
};
/// The name of a route or a stream.
pub(crate) static NAME: Text = Text {
    expected: "a name of letters, digits, blanks, `_`, `.`, `-` and `/`",
    pattern: Some("."),
    loose: true,
};
/// The name of a listener.
pub(crate) static LISTENER_NAME: Text = Text {
    expected: "the name of a listener such as `public`: letters, digits, `_`, `-` and `.`",
    pattern: Some(r"^[A-Za-z0-9_.-]+$"),
    loose: false,
};
/// The zone of an endpoint or of the gateway.
pub(crate) static ZONE: Text = Text {
    expected: "the name of a zone such as `eu-west-1a`",
    pattern: Some(r"^[A-Za-z0-9_.:/-]+$"),
    loose: false,
};
pub(crate) static ADDRESS: Text = Text {
    expected: "an IP address and a port such as `127.0.0.1:8080`, `:8080` for all addresses, or `unix:/run/tollgate.sock`",
    pattern: Some(r"^unix:/|^(.*:)?[0-9]{1,5}$"),
    loose: false,
};
pub(crate) static HOST: Text = Text {
    expected: "a host such as `api.example.com` or `*.example.com`",
    pattern: Some(r"^(\*|(\*\.)?[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])$"),
    loose: false,
};
pub(crate) static PLAIN_PATH: Text =
    Text { expected: "a path such as `/v1`", pattern: Some("^/"), loose: false };
pub(crate) static BODY: Text = Text { expected: "a text", pattern: None, loose: true };

/// Maximum size. No disk holds more, and sums of such sizes stay far from overflow.
pub(crate) const SIZE_MAX: u64 = 1 << 50;
/// The URL of a service.
pub static URL: Text = Text {
    expected: "a URL such as `http://auth.internal:9000/verify`",
    pattern: Some("^https?://"),
    loose: false,
};
/// The path of a PEM file.
pub(crate) static PEM_TEXT: Text =
    Text { expected: "the path of a file such as `/etc/tollgate/ca.pem`", pattern: Some("."), loose: false };
/// The path of a PEM file, for [`pem`](crate::section::pem).
pub const PEM: Shape = Shape::Text(&PEM_TEXT);

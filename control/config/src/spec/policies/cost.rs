//! Keys for the cost of a request in a limit, and for the requests that a limit does not count.

use crate::spec::{CIDR_SHAPE, Choice, HEADER_NAME, Key, Section, Shape, Text};

/// Maximum cost of a request.
pub(crate) const MOST_COST: u64 = 1_000_000_000;

static EACH: Shape = Shape::Count { min: 0, max: MOST_COST, off: false };
static WORD: Text = Text { expected: "a name", pattern: Some("."), loose: true };
static METHOD: Text = Text { expected: "a method such as `GET`", pattern: Some("^[!-~]+$"), loose: false };
static VALUE: Text = Text { expected: "the value that it has", pattern: Some("."), loose: true };
static WORD_SHAPE: Shape = Shape::Text(&WORD);
static METHOD_SHAPE: Shape = Shape::Text(&METHOD);
static VALUE_SHAPE: Shape = Shape::Text(&VALUE);

pub(crate) const COST_DOC: &str = "How much a request counts for: a number, or where the number comes from.";
pub(crate) const COST_ALSO: &[&str] = &["weight", "hits_addend", "units", "tokens", "price", "points"];
pub(crate) const EXEMPT_DOC: &str =
    "Requests that are not counted: each request that meets one of these conditions.";
pub(crate) const EXEMPT_ALSO: &[&str] =
    &["except", "exclude", "exempted", "skip", "whitelist", "allow", "allowlist", "unless", "bypass"];
pub(crate) const STATUS_DOC: &str = "The status of a refusal.";
pub(crate) const STATUS_ALSO: &[&str] =
    &["rejected_code", "limit_req_status", "limit_conn_status", "deny_status", "status_code"];
pub(crate) const SCOPE_DOC: &str = "A name. Limits with the same name share one count, wherever they are written. Without it each place has a count of its own.";
pub(crate) const SCOPE_ALSO: &[&str] = &["group", "shared_as", "counter"];

pub(crate) static SCOPE: Text = Text {
    expected: "a name such as `per-tenant`, with letters, digits, `-`, `_`, `.` and `/`",
    pattern: Some(r"^[A-Za-z0-9_./-]+$"),
    loose: true,
};

pub(crate) static COST: Section = Section {
    name: "cost",
    noun: "`cost`",
    doc: "Where the cost of a request comes from.",
    choice: Choice::ExactlyOne(&["methods", "header", "response_header"]),
    keys: &[
        Key::new(
            "methods",
            "The cost of each method; 0: not counted. Other methods cost `default`.",
            Shape::MapOf(&EACH),
        )
        .also(&["method", "by_method"]),
        Key::new("header", "A field of the request: a whole number, at least 1.", Shape::Text(&HEADER_NAME))
            .also(&["request_header", "from_header"]),
        Key::new(
            "response_header",
            "A field of the response, which does not go on to the client. `default` is taken before the request goes on, and the \
             rest when the response is there. Not of `concurrency`.",
            Shape::Text(&HEADER_NAME),
        )
        .also(&["response", "upstream_header"]),
        Key::new(
            "default",
            "The cost of a request for which none is given.",
            Shape::Count { min: 1, max: MOST_COST, off: false },
        )
        .or("1")
        .also(&["otherwise", "min"]),
        Key::new(
            "max",
            "The largest cost that a header can give. Default: as much as the limit lets through at once.",
            Shape::Count { min: 1, max: MOST_COST, off: false },
        )
        .also(&["most", "limit", "cap"]),
    ],
};

pub(crate) static EXEMPT: Section = Section {
    name: "exempt",
    noun: "`exempt`",
    doc: EXEMPT_DOC,
    choice: Choice::Free,
    keys: &[
        Key::new("addresses", "The client's address is one of these.", Shape::OneOrMany(&CIDR_SHAPE))
            .also(&["address", "ips", "ip", "cidrs", "networks"]),
        Key::new("consumers", "It is one of these consumers.", Shape::OneOrMany(&WORD_SHAPE))
            .also(&["consumer", "users", "user"]),
        Key::new("groups", "It is a consumer in one of these groups.", Shape::OneOrMany(&WORD_SHAPE))
            .also(&["group", "roles", "role"]),
        Key::new("methods", "It has one of these methods.", Shape::OneOrMany(&METHOD_SHAPE)).also(&["method"]),
        Key::new(
            "headers",
            "A field of the request has exactly this value. Clients can write any value, so use a secret, as `${VARIABLE}`.",
            Shape::MapOf(&VALUE_SHAPE),
        )
        .also(&["header"]),
    ],
};

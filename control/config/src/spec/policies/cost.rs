//! Keys for the cost of a request in a limit, and for the requests that a limit does not count.

use crate::spec::{CIDR_SHAPE, Choice, HEADER_NAME, KeySpec, SectionSpec, Shape, Text};

/// Maximum cost of a request.
pub(crate) const MOST_COST: u64 = 1_000_000_000;

static EACH: Shape = Shape::Count { min: 0, max: MOST_COST, off: false };
static WORD: Text = Text { expected: "a name", pattern: Some("."), loose: true };
static METHOD: Text = Text { expected: "a method such as `GET`", pattern: Some("^[!-~]+$"), loose: false };
static VALUE: Text = Text { expected: "the value of the field", pattern: Some("."), loose: true };
static WORD_SHAPE: Shape = Shape::Text(&WORD);
static METHOD_SHAPE: Shape = Shape::Text(&METHOD);
static VALUE_SHAPE: Shape = Shape::Text(&VALUE);

pub(crate) const COST_DOC: &str = "The cost of a request: a number, or the source of the number.";
pub(crate) const COST_ALSO: &[&str] = &["weight", "hits_addend", "units", "tokens", "price", "points"];
pub(crate) const EXEMPT_DOC: &str = "Requests that are not counted; one of these conditions is enough.";
pub(crate) const EXEMPT_ALSO: &[&str] =
    &["except", "exclude", "exempted", "skip", "whitelist", "allow", "allowlist", "unless", "bypass"];
pub(crate) const STATUS_DOC: &str = "Status of rejected requests.";
pub(crate) const STATUS_ALSO: &[&str] =
    &["rejected_code", "limit_req_status", "limit_conn_status", "deny_status", "status_code"];
pub(crate) const SCOPE_DOC: &str = "A name. Limits with the same name share one counter, wherever they are \
    written. By default each place has its own counter.";
pub(crate) const SCOPE_ALSO: &[&str] = &["group", "shared_as", "counter"];

pub(crate) static SCOPE: Text = Text {
    expected: "a name such as `per-tenant`, with letters, digits, `-`, `_`, `.` and `/`",
    pattern: Some(r"^[A-Za-z0-9_./-]+$"),
    loose: true,
};

pub(crate) static COST: SectionSpec = SectionSpec {
    name: "cost",
    noun: "`cost`",
    doc: "Where the cost of a request comes from.",
    choice: Choice::ExactlyOne(&["methods", "header", "response_header"]),
    keys: &[
        KeySpec::new(
            "methods",
            "The cost of each method; 0: not counted. Other methods cost `default`.",
            Shape::MapOf(&EACH),
        )
        .aliases(&["method", "by_method"]),
        KeySpec::new(
            "header",
            "A field of the request: a whole number, at least 1.",
            Shape::Text(&HEADER_NAME),
        )
        .aliases(&["request_header", "from_header"]),
        KeySpec::new(
            "response_header",
            "A response field, which is not passed on to the client. The gateway charges `default` before it \
            forwards the request, and the rest when the response arrives. Not available for `concurrency`.",
            Shape::Text(&HEADER_NAME),
        )
        .aliases(&["response", "upstream_header"]),
        KeySpec::new(
            "default",
            "The cost if the source gives none.",
            Shape::Count { min: 1, max: MOST_COST, off: false },
        )
        .default("1")
        .aliases(&["otherwise", "min"]),
        KeySpec::new(
            "max",
            "The highest cost that a header can set. Default: the most that the limit admits at once.",
            Shape::Count { min: 1, max: MOST_COST, off: false },
        )
        .aliases(&["most", "limit", "cap"]),
    ],
};

pub(crate) static EXEMPT: SectionSpec = SectionSpec {
    name: "exempt",
    noun: "`exempt`",
    doc: EXEMPT_DOC,
    choice: Choice::Free,
    keys: &[
        KeySpec::new("addresses", "The client's address is one of these.", Shape::OneOrMany(&CIDR_SHAPE))
            .aliases(&["address", "ips", "ip", "cidrs", "networks"]),
        KeySpec::new("consumers", "The consumer is one of these.", Shape::OneOrMany(&WORD_SHAPE))
            .aliases(&["consumer", "users", "user"]),
        KeySpec::new("groups", "The consumer is in one of these groups.", Shape::OneOrMany(&WORD_SHAPE))
            .aliases(&["group", "roles", "role"]),
        KeySpec::new("methods", "The method is one of these.", Shape::OneOrMany(&METHOD_SHAPE)).aliases(&["method"]),
        KeySpec::new(
            "headers",
            "A field of the request has exactly this value. Clients can write any value, so use a secret, as `${VARIABLE}`.",
            Shape::MapOf(&VALUE_SHAPE),
        )
        .concealed()
        .aliases(&["header"]),
    ],
};

//! The keys that `rate_limit`, `quota` and `concurrency` share: by which key, at which cost and with which
//! exceptions requests are counted.

use tollgate_config::Cidr;
use tollgate_config::nearest;
use tollgate_config::section::{
    ADDRESSES, Field, Fields, HEADER_NAME, MappingEntry, Node, NodeKind, Problem, Reader, ScalarError,
    Section, Shape, Text, Value, addresses, header, quantity, shown,
};

use crate::texts::{method, word};
use crate::{Block, Cost, CostSource, CountKey, Exempt};

/// Maximum cost of a request.
const COST_MAX: u64 = 1_000_000_000;
/// Maximum number of parts of a combined key.
const PARTS_MAX: usize = 8;

/// The name of a limit.
pub(crate) static LIMIT_NAME: Text = Text {
    expected: "a name such as `per-tenant`, with letters, digits, blanks, `-`, `_` and `.`",
    pattern: Some(r"^[A-Za-z0-9_. -]+$"),
    loose: true,
};

/// How a limit counts requests.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub(crate) struct Counting {
    /// The key by which requests are counted, or a list of parts that form one key. Requests without the key share
    /// one counter.
    #[key(
        shape = BY, read = by, default = all,
        also = [
            "key", "keys_by", "limit_by", "source", "per_key", "zone", "identifier", "header", "group_by", "client",
        ],
    )]
    pub by: CountKey,
    /// The cost of a request: a number, or the source of the number.
    #[key(default = 1, also = ["weight", "hits_addend", "units", "tokens", "price", "points"])]
    pub cost: CostSettings,
    /// Requests that are not counted; one of these conditions is enough.
    #[key(also = [
        "except", "exclude", "exempted", "skip", "whitelist", "allow", "allowlist", "unless", "bypass",
    ])]
    pub exempt: ExemptSettings,
    /// A name. Limits with the same name share one counter, wherever they are written. By default each place has
    /// its own counter.
    #[key(
        expected = "a name such as `per-tenant`, with letters, digits, `-`, `_`, `.` and `/`",
        pattern = r"^[A-Za-z0-9_./-]+$", loose, parse = scope, also = ["group", "shared_as", "counter"],
    )]
    pub scope: Option<String>,
}

const BY_ONE: &Shape = &Shape::Text(&BY_TEXT);
/// The form of the key `by`.
pub(crate) const BY: Shape = Shape::OneOrMany(BY_ONE);
static BY_TEXT: Text = Text {
    expected: "`all`, `consumer`, `address`, `route`, `host`, `path`, `method`, `header NAME`, `claim NAME`, `cookie NAME` or \
               `query NAME`",
    pattern: Some(r"^(all|consumer|address|route|host|path|method|(header|claim|cookie|query) \S.*)$"),
    loose: false,
};

/// Keys without a name first, then keys that need one.
const WORDS: [&str; 11] =
    ["all", "consumer", "address", "route", "host", "path", "method", "header", "claim", "cookie", "query"];

/// Reads the key `by`.
pub(crate) fn by(reader: &mut Reader, field: Field<'_>) -> Option<CountKey> {
    let NodeKind::List(items) = &field.node.kind else { return reader.field(field, key) };
    let mut parts: Vec<CountKey> = Vec::new();
    for item in items {
        let Some(part) = reader.parsed(item, "`by`", BY_ONE, key) else { continue };
        let problem = if part == CountKey::All && items.len() > 1 {
            Problem::error(item.at, "`all` has no effect next to other keys").help("leave it out")
        } else if parts.contains(&part) {
            Problem::error(item.at, "this is in the list twice")
        } else if parts.len() == PARTS_MAX {
            Problem::error(item.at, format!("`by` has more than {PARTS_MAX} parts"))
        } else {
            parts.push(part);
            continue;
        };
        reader.problems.push(problem);
    }
    if items.is_empty() {
        reader.missing(field.at, "`by` is an empty list".to_owned(), BY_ONE);
    }
    match parts.len() {
        0 => Some(CountKey::All),
        1 => parts.pop(),
        _ => Some(CountKey::Many(parts.into())),
    }
}

fn key(text: &str) -> Result<CountKey, ScalarError> {
    let (word, name) = match text.split_once(' ') {
        Some((word, name)) => (word, Some(name.trim())),
        None => (text, None),
    };
    match (word, name) {
        ("all", None) => Ok(CountKey::All),
        ("consumer", None) => Ok(CountKey::Consumer),
        ("address", None) => Ok(CountKey::Address),
        ("route", None) => Ok(CountKey::Route),
        ("host", None) => Ok(CountKey::Host),
        ("path", None) => Ok(CountKey::Path),
        ("method", None) => Ok(CountKey::Method),
        ("header", Some(name)) => Ok(CountKey::Header(lower_name(name)?.into())),
        ("cookie", Some(name)) if header::is_token(name) => Ok(CountKey::Cookie(name.into())),
        ("cookie", Some(_)) => Err(ScalarError::new("{} does not name a cookie")),
        ("claim", Some(name)) => Ok(CountKey::Claim(name.into())),
        ("query", Some(name)) => Ok(CountKey::Query(name.into())),
        ("header" | "claim" | "cookie" | "query", None) => {
            Err(ScalarError::new("{} needs a name").suggest(format!("write `{text} NAME`")))
        }
        (
            "ip"
            | "client"
            | "client_ip"
            | "source_ip"
            | "client_address"
            | "remote_addr"
            | "$binary_remote_addr",
            None,
        ) => Err(ScalarError::new("{} is not supported here").help("write `address`")),
        ("user" | "credential" | "api_key" | "key", None) => {
            Err(ScalarError::new("{} is not supported here").help("write `consumer`"))
        }
        ("uri" | "url", None) => Err(ScalarError::new("{} is not supported here").help("write `path`")),
        (word, None)
            if word.split_once([':', '=']).is_some_and(|(kind, name)| {
                matches!(kind, "header" | "claim" | "cookie" | "query") && !name.is_empty()
            }) =>
        {
            Err(ScalarError::new("{} is not a key that requests can be counted by")
                .suggest(format!("write `{}`", word.replacen([':', '='], " ", 1))))
        }
        ("all" | "consumer" | "address" | "route" | "host" | "path" | "method", Some(_)) => {
            Err(ScalarError::new("{} takes no name").suggest(format!("write `{word}`")))
        }
        _ => {
            let fault = ScalarError::new("{} is not a key that requests can be counted by");
            Err(match nearest(word, WORDS.into_iter()) {
                Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                None => fault,
            })
        }
    }
}

/// The source of a request's cost.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "cost", noun = "`cost`", exactly_one = ["methods", "header", "response_header"], own_forms)]
pub(crate) struct CostSettings {
    /// The cost of each method; 0: not counted. Other methods cost `default`.
    #[key(shape = Shape::MapOf(COST_OF_METHOD), read = methods, also = ["method", "by_method"])]
    methods: Option<Vec<(String, u64)>>,
    /// A field of the request: a whole number, at least 1.
    #[key(text = HEADER_NAME, parse = lower_name, also = ["request_header", "from_header"])]
    header: Option<String>,
    /// A response field, which is not passed on to the client. The gateway charges `default` before it forwards
    /// the request, and the rest when the response arrives. Not available for `concurrency`.
    #[key(text = HEADER_NAME, parse = lower_name, also = ["response", "upstream_header"])]
    response_header: Option<String>,
    /// The cost if the source gives none.
    #[key(count = 1..=1_000_000_000, default = 1, also = ["otherwise", "min"])]
    default: u64,
    /// The highest cost that a header can set. Default: the most that the limit admits at once.
    #[key(count = 1..=1_000_000_000, also = ["most", "limit", "cap"])]
    max: Option<u64>,
}

const COST_OF_METHOD: &Shape = &Shape::Count { min: 0, max: COST_MAX, off: false };

/// A mapping, or the cost of every request.
impl Value for CostSettings {
    const SHAPE: Shape =
        Shape::AnyOf(&[Shape::Count { min: 1, max: COST_MAX, off: false }, Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if !field.is_mapping() {
            let default = reader.field(field, |text| quantity::count(text, 1, COST_MAX)).unwrap_or(1);
            return Some(Self { methods: None, header: None, response_header: None, default, max: None });
        }
        let fields = reader.fields(field.node, Self::SPEC)?;
        Self::read_keys(reader, &fields)
    }
}

impl CostSettings {
    /// Returns whether a response reports the cost.
    pub fn is_from_response(&self) -> bool {
        self.response_header.is_some()
    }

    /// Returns the cost rule of a limit that admits at most `most` at once.
    pub fn compile(&self, most: u64) -> Cost {
        let by = if let Some(header) = &self.response_header {
            CostSource::Response(header.as_str().into())
        } else if let Some(header) = &self.header {
            CostSource::Header(header.as_str().into())
        } else if let Some(methods) = &self.methods {
            CostSource::Method(methods.iter().map(|(method, cost)| (method.as_str().into(), *cost)).collect())
        } else {
            CostSource::Constant
        };
        Cost { by, default: self.default, max: self.max.unwrap_or(most) }
    }

    /// Reports costs that exceed what the limit admits at once, so that no such request could ever be admitted.
    /// `limit` names that setting.
    pub fn check(&self, reader: &mut Reader, fields: &Fields<'_>, most: u64, limit: &str) {
        let Some(field) = fields.get("cost") else { return };
        let mut affordable = |node: &Node, cost: u64| {
            if cost > most && most > 0 {
                let message = format!("a request with cost {cost} can never be admitted: {limit} is {most}");
                reader.problems.push(Problem::error(node.at, message));
            }
        };
        let NodeKind::Map(entries) = &field.node.kind else { return affordable(field.node, self.default) };
        let entry = |name: &str| entries.iter().find(|entry| entry.key == name && !entry.value.is_null());
        if let Some(default) = entry("default") {
            affordable(&default.value, self.default);
        }
        if let (Some(entry), Some(methods)) = (entry("methods"), &self.methods)
            && let NodeKind::Map(entries) = &entry.value.kind
        {
            for entry in entries {
                let cost = methods.iter().find(|(method, _)| *method == entry.key);
                cost.into_iter().for_each(|(_, cost)| affordable(&entry.value, *cost));
            }
        }
        let Some(entry) = entry("max") else { return };
        if let (Some(max), Some(_), None) = (self.max, &self.header, &self.response_header) {
            affordable(&entry.value, max);
        }
        if self.methods.is_some() && self.header.is_none() && self.response_header.is_none() {
            let problem = Problem::error(entry.at, "`max` applies only to a cost from a header");
            reader.problems.push(problem.help("the cost of a method is fixed here"));
        }
        if let Some(max) = self.max.filter(|max| *max < self.default) {
            let message = format!("`max` is {max}, and `default` is {}", self.default);
            reader.problems.push(Problem::error(entry.value.at, message));
        }
    }
}

fn methods(reader: &mut Reader, field: Field<'_>) -> Option<Vec<(String, u64)>> {
    let mut out = Vec::new();
    for entry in entries(reader, field) {
        if named(reader, entry, method(&entry.key).map(drop), "a method such as `POST`") {
            let count = |text: &str| quantity::count(text, 0, COST_MAX);
            let cost = reader.parsed(&entry.value, &shown(&entry.key), COST_OF_METHOD, count);
            out.extend(cost.map(|cost| (entry.key.clone(), cost)));
        }
    }
    Some(out)
}

/// Requests that are not counted; one of these conditions is enough.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "exempt", noun = "`exempt`", check = check_exempt)]
pub(crate) struct ExemptSettings {
    /// The client's address is one of these.
    #[key(shape = ADDRESSES, read = addresses, also = ["address", "ips", "ip", "cidrs", "networks"])]
    addresses: Vec<Cidr>,
    /// The consumer is one of these.
    #[key(expected = "a name", pattern = ".", loose, each = word, also = ["consumer", "users", "user"])]
    consumers: Vec<String>,
    /// The consumer is in one of these groups.
    #[key(expected = "a name", pattern = ".", loose, each = word, also = ["group", "roles", "role"])]
    groups: Vec<String>,
    /// The method is one of these.
    #[key(expected = "a method such as `GET`", pattern = "^[!-~]+$", each = method, also = ["method"])]
    methods: Vec<String>,
    /// A field of the request has exactly this value. Clients can write any value, so use a secret, as
    /// `${VARIABLE}`.
    #[key(shape = Shape::MapOf(FIELD_VALUE), read = exempt_headers, concealed, also = ["header"])]
    headers: Vec<(String, String)>,
}

const FIELD_VALUE: &Shape = &Shape::Text(&FIELD_VALUE_TEXT);
static FIELD_VALUE_TEXT: Text = Text { expected: "the value of the field", pattern: Some("."), loose: true };

impl ExemptSettings {
    pub fn compile(&self) -> Exempt {
        let block = |block: &Cidr| Block { address: block.address, prefix: block.prefix };
        Exempt {
            addresses: self.addresses.iter().map(block).collect(),
            consumers: self.consumers.clone(),
            groups: self.groups.clone(),
            methods: self.methods.clone(),
            headers: self.headers.clone(),
        }
    }
}

fn check_exempt(reader: &mut Reader, fields: &Fields<'_>, _: &mut ExemptSettings) {
    if fields.is_empty() {
        let problem = Problem::error(fields.at, "`exempt` has no condition");
        let expected = "some of `addresses`, `consumers`, `groups`, `methods` and `headers`";
        reader.problems.push(problem.expected(expected));
    }
}

fn exempt_headers(reader: &mut Reader, field: Field<'_>) -> Option<Vec<(String, String)>> {
    let mut out = Vec::new();
    for entry in entries(reader, field) {
        if named(reader, entry, header::name(&entry.key).map(drop), "the name of a header") {
            let value = reader.parsed(&entry.value, &shown(&entry.key), FIELD_VALUE, word);
            out.extend(value.map(|value| (entry.key.to_ascii_lowercase(), value)));
        }
    }
    Some(out)
}

fn lower_name(text: &str) -> Result<String, ScalarError> {
    header::name(text).map(|name| name.to_ascii_lowercase())
}

fn scope(text: &str) -> Result<String, ScalarError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    match !text.is_empty() && text.len() <= 128 && text.bytes().all(fits) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} is not a valid name")),
    }
}

/// Parses the name of a limit, which clients see.
pub(crate) fn limit_name(text: &str) -> Result<String, ScalarError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_. ".contains(&byte);
    if text.is_empty() || text.len() > 64 || !text.bytes().all(fits) {
        return Err(ScalarError::new("{} is not a valid name"));
    }
    Ok(text.to_owned())
}

/// Returns the name that clients see of a limit without one: its key, with a number if that is taken. Characters
/// that cannot appear in the response field that carries the name are left out.
pub(crate) fn name_by_key(key: &CountKey, taken: impl Fn(&str) -> bool) -> String {
    let fits = |c: &char| c.is_ascii_graphic() && !"\"\\".contains(*c) || *c == ' ';
    let name: String = key.to_string().chars().filter(fits).collect();
    let numbered = (2..).map(|number| format!("{name} {number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(name)
}

/// Reads a list of limits, or a single one.
pub(crate) fn limits<T: Section>(reader: &mut Reader, field: Field<'_>) -> Vec<T> {
    let name = format!("`{}`", field.key.name);
    let items = reader.bounded_items(field.node, &name);
    if items.is_empty() {
        reader.missing(field.at, format!("{name} is an empty list"), &field.key.shape);
    }
    items.iter().filter_map(|item| T::read_section(reader, item)).collect()
}

/// Returns the entries of a mapping whose keys the user chooses.
fn entries<'t>(reader: &mut Reader, field: Field<'t>) -> &'t [MappingEntry] {
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, &format!("`{}`", field.key.name), field.key.shape.expected());
        return &[];
    };
    entries
}

/// Reports an invalid key. Returns whether the key is valid.
fn named(reader: &mut Reader, entry: &MappingEntry, read: Result<(), ScalarError>, expected: &str) -> bool {
    let Err(fault) = read else { return true };
    let message = fault.message.replacen("{}", &shown(&entry.key), 1);
    reader.problems.push(Problem::error(entry.at, message).expected(expected.to_owned()));
    false
}

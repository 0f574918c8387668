//! `admin`: the admin listener and the rights of its clients.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use crate::model::{At, Secret, Spanned};
use crate::scalar::file_path::file_path;
use crate::scalar::host;
use crate::section::{
    Field, Fields, NodeKind, Problem, Reader, ScalarError, Section, Shape, Text, Value, Word, shown,
};

use super::consumers::{Digest, hexadecimal};
use super::listen_address::{
    AdminAddress, MODE, OWNER, Owner, listen_address, mode, owner, report_no_socket,
};
use super::tls::{ClientCertificateMode, ListenTls};

/// Minimum length of a token. A shorter one could be guessed.
const TOKEN_MIN_BYTES: usize = 16;
/// Maximum length of a token. It must fit in a header of a request.
const TOKEN_MAX_BYTES: usize = 1024;

static ADDRESS: Text = Text {
    expected: "an IP address and a port such as `127.0.0.1:9911`, or `unix:` and the path of a socket",
    pattern: Some(r"^(.*:)?[0-9]{1,5}$|^unix:/"),
    loose: false,
};
const BIND: Shape = Shape::AnyOf(&[Shape::Off, Shape::Text(&ADDRESS), Shape::Port]);
static TOKEN_VALUE: Shape = Shape::Section(TokenKeys::SPEC);

/// The value of `admin`.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    /// The admin listener (`None`: off).
    pub listener: Option<AdminSettings>,
    /// Directories for files that documents may name. They also apply to documents of etcd, so they are read
    /// even if the listener is off.
    pub files: Vec<PathBuf>,
}

/// The admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Address of the listener. Default 127.0.0.1:9911.
    pub bind: Spanned<AdminAddress>,
    /// TLS; `None`: plain text.
    pub tls: Option<ListenTls>,
    /// Access tokens and their roles. Without any, every client that reaches the listener has full access.
    pub tokens: Vec<AdminToken>,
    /// File that records every change and its author. Default none: changes are reported only on standard
    /// error.
    pub audit_log: Option<PathBuf>,
    /// Host names that the listener answers to, in addition to IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Whether clients on other machines may read without a token. Default false.
    pub open: bool,
    /// Base of the Prometheus that the dashboard links to, without a slash at its end; `None`: no links.
    pub prometheus: Option<String>,
}

/// The admin listener and the rights of its clients.
#[derive(Clone, Debug, Section)]
#[section(name = "admin", own_forms, check = check)]
struct AdminKeys {
    /// An address, `unix:` and the path of a socket, or `off`.
    #[key(shape = BIND, parse = bind, default = "127.0.0.1:9911", also = ["address", "listen", "port"])]
    bind: Spanned<AdminAddress>,
    /// The mode of the socket file, if `bind` is a Unix socket.
    #[key(text = MODE, parse = mode, default = 600, also = ["permissions", "socket_mode"])]
    mode: u32,
    /// The owner of the socket file, as names or numbers. Default: the user and group of the process.
    #[key(text = OWNER, parse = owner, also = ["user", "group", "socket_owner"])]
    owner: Option<Owner>,
    /// Access tokens by name, with their roles. With tokens, requests without one get only the health checks,
    /// `/` and the dashboard's static files. Default: every client that reaches the listener has full access.
    #[key(
        shape = Shape::MapOf(&TOKEN_VALUE), read = tokens,
        also = ["token", "keys", "admin_key", "users", "auth"]
    )]
    tokens: Option<Vec<AdminToken>>,
    /// TLS. With `client_certificates`, only clients with a verified certificate are admitted.
    #[key(also = ["ssl", "https", "mtls"])]
    tls: Option<ListenTls>,
    /// File that records every change and its author, one JSON line each, appended. Relative to the main file.
    #[key(
        expected = "the path of a file such as `/var/log/tollgate/audit.jsonl`", pattern = ".",
        parse = file_path, also = ["audit", "log"]
    )]
    audit_log: Option<PathBuf>,
    /// Directories for files that documents of the API, the store and etcd may name: certificates, keys, lists
    /// of endpoints, Unix sockets. Symbolic links are resolved before the check. Relative to the main file.
    /// Default: documents may not name files.
    #[key(
        expected = "the path of a directory such as `/etc/tollgate/files`", pattern = ".", each = directory,
        what = "a directory", bounded, also = ["directories", "allowed_files", "file_directories"]
    )]
    files: Vec<PathBuf>,
    /// Host names that the listener answers to, in addition to IP addresses and `localhost`. Default: any name
    /// if there are `tokens`, otherwise none.
    #[key(
        expected = "a host name such as `gateway.internal`, without a port", pattern = r"^[^\s:/]+$",
        each = host::endpoint, what = "a host name", bounded,
        also = ["host", "names", "allowed_hosts", "server_names"]
    )]
    hosts: Vec<String>,
    /// Whether the listener may be reachable from other machines without tokens and client certificates.
    /// Every client may then read, and none may change anything.
    #[key(default = off, also = ["public", "insecure", "allow_anonymous"])]
    open: bool,
    /// The Prometheus that collects the metrics of this gateway. The dashboard links to it; the gateway sends it
    /// nothing. Default: no links.
    #[key(
        expected = "a URL such as `https://prometheus.internal:9090`", pattern = r"^https?://[^\s?#]+$",
        parse = base_url, also = ["prometheus_url", "metrics_url", "grafana"]
    )]
    prometheus: Option<String>,
}

/// Parses the base of a web application's URLs, and drops the slash at its end.
fn base_url(text: &str) -> Result<String, ScalarError> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest.filter(|rest| !rest.trim_matches('/').is_empty()) else {
        return Err(ScalarError::new("{} must start with `http://` or `https://` and a host"));
    };
    if rest.contains(|sign: char| sign.is_whitespace() || sign.is_control() || matches!(sign, '?' | '#')) {
        return Err(ScalarError::new("{} must have no query, no fragment and no spaces"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// A token of the admin API.
#[derive(Clone, Debug, Section)]
#[section(name = "admin_token", noun = "a token")]
struct TokenKeys {
    /// `read`: may read; `write`: may also change resources; `admin`: may also copy the store.
    #[key(required, also = ["roles", "scope", "permission"])]
    role: Option<Role>,
    /// The token that clients send as `Authorization: Bearer TOKEN`, or its hash, as
    /// `tollgate hash` prints it.
    #[key(
        expected = "a text of at least 16 characters, best as `${VARIABLE}`, or `sha256:` and the 64 hexadecimal digits of its SHA-256",
        pattern = r"^\S+$", loose, parse = token, concealed, required,
        also = ["secret", "key", "value", "hash", "sha256"]
    )]
    token: Spanned<TokenSecret>,
}

/// A token of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminToken {
    /// Its name in the audit log and in the history.
    pub name: String,
    /// Its source position.
    pub at: At,
    /// The rights that it grants.
    pub role: Role,
    /// The secret that requests are compared with.
    pub token: TokenSecret,
}

/// The rights of a token. Each role includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Word)]
pub enum Role {
    /// Reads.
    Read,
    /// Changes resources and rolls back.
    Write,
    /// Also acts on the gateway's machine: copies the store.
    Admin,
}

impl Role {
    /// Returns the role's name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.word()
    }
}

/// A token as written in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSecret {
    /// The token.
    Plain(Secret),
    /// The SHA-256 of the token.
    Digest(Digest),
}

impl Default for AdminSettings {
    fn default() -> Self {
        AdminKeys::default().into()
    }
}

impl From<AdminKeys> for AdminSettings {
    fn from(keys: AdminKeys) -> Self {
        let AdminKeys { bind, mode: _, owner: _, tokens, tls, audit_log, files: _, hosts, open, prometheus } =
            keys;
        Self { bind, tls, tokens: tokens.unwrap_or_default(), audit_log, hosts, open, prometheus }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self { listener: Some(AdminSettings::default()), files: Vec::new() }
    }
}

/// `off`, an address or a mapping. A port alone is bound to the loopback address, because statistics are not
/// public.
impl Value for Admin {
    const SHAPE: Shape =
        Shape::AnyOf(&[Shape::Off, Shape::Text(&ADDRESS), Shape::Port, Shape::Section(AdminKeys::SPEC)]);
    const HAS_OFF: bool = true;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if !field.is_mapping() {
            let bind = if field.is_off() { None } else { reader.spanned(field, bind) };
            let listener = bind.map(|bind| AdminSettings { bind, ..AdminSettings::default() });
            if let Some(admin) = &listener {
                is_safe(reader, admin);
            }
            return Some(Self { listener, files: Vec::new() });
        }
        // After a problem there is no listener, whose address could be reported as well.
        let Some(fields) = reader.fields(field.node, AdminKeys::SPEC) else {
            return Some(Self { listener: None, files: Vec::new() });
        };
        if fields.get("bind").is_some_and(|bind| bind.is_off()) {
            let files = fields.get("files").map(|field| {
                let items = reader.list_items(field, true, false);
                reader.each(items, field, "a directory", directory)
            });
            return Some(Self { listener: None, files: files.unwrap_or_default() });
        }
        let mut keys = AdminKeys::read_keys(reader, &fields)?;
        let files = std::mem::take(&mut keys.files);
        Some(Self { listener: Some(keys.into()), files })
    }
}

fn bind(text: &str) -> Result<AdminAddress, ScalarError> {
    listen_address(text, IpAddr::V4(Ipv4Addr::LOCALHOST))
}

fn directory(text: &str) -> Result<PathBuf, ScalarError> {
    match file_path(text)? {
        path if path.parent().is_none() => {
            Err(ScalarError::new("{} is the root directory: documents could name every file of this machine"))
        }
        path => Ok(path),
    }
}

/// Gives a socket file its mode and owner, and reports settings that conflict.
fn check(reader: &mut Reader, fields: &Fields<'_>, admin: &mut AdminKeys) {
    let is_known = fields.get("bind").is_none_or(|field| field.node.at == admin.bind.at);
    match &mut admin.bind.value {
        AdminAddress::Unix(socket) => {
            socket.mode = admin.mode;
            socket.owner = admin.owner.take();
        }
        AdminAddress::Tcp(_) | AdminAddress::Udp(_) if !is_known => {}
        AdminAddress::Tcp(_) | AdminAddress::Udp(_) => report_no_socket(reader, fields),
    }
    // Unreadable tokens still show that tokens were intended.
    if admin.tokens.is_some() || fields.get("tokens").is_none() {
        is_safe(reader, &admin.clone().into());
    }
}

/// Reads the tokens. Returns `None` after an error.
fn tokens(reader: &mut Reader, field: Field<'_>) -> Option<Vec<AdminToken>> {
    let start = reader.problems.len();
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, "`tokens`", field.key.shape.expected());
        return None;
    };
    let mut out: Vec<AdminToken> = Vec::new();
    for entry in entries {
        // The name appears in logs, which people and programs read.
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.@".contains(&byte);
        if !(1..=64).contains(&entry.key.len()) || !entry.key.bytes().all(known) {
            let message = format!("{} cannot be the name of a token", shown(&entry.key));
            let expected = "up to 64 letters, digits, `_`, `-`, `.` and `@`";
            reader.problems.push(Problem::error(entry.at, message).expected(expected));
            continue;
        }
        let Some(TokenKeys { role, token: Spanned { value: token, at } }) =
            Section::read_section(reader, &entry.value)
        else {
            continue;
        };
        if let Some(twin) = out.iter().find(|other| other.token == token) {
            let problem = Problem::error(at, "two tokens are the same: they would not identify the client");
            reader.problems.push(problem.related(twin.at, "the other"));
            continue;
        }
        // Without a valid role there is an error, and the configuration is not used.
        let role = role.unwrap_or(Role::Read);
        out.push(AdminToken { name: entry.key.clone(), at: entry.at, role, token });
    }
    if entries.is_empty() {
        // An empty `tokens` is probably a mistake: its author intended to require tokens.
        reader.missing(field.node.at, "`tokens` is empty".to_owned(), &field.key.shape);
    }
    (!reader.has_errors_since(start)).then_some(out)
}

/// Parses a token. No message repeats it.
fn token(text: &str) -> Result<TokenSecret, ScalarError> {
    if let Some(digits) = text.strip_prefix("sha256:") {
        let digest = hexadecimal(digits).ok_or_else(|| ScalarError::new("this is not a SHA-256"))?;
        return Ok(TokenSecret::Digest(Digest(digest)));
    }
    if text.len() < TOKEN_MIN_BYTES {
        return Err(ScalarError::new("this token is too short: it could be guessed")
            .help("`openssl rand -base64 32` makes one"));
    }
    // The bytes that a header field can carry. RFC 6750, 2.1 is narrower: base64 and a few signs.
    if text.len() > TOKEN_MAX_BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ScalarError::new("this token cannot be sent in a header field")
            .help("it has at most 1024 letters, digits and signs of ASCII, and no blanks"));
    }
    Ok(TokenSecret::Plain(text.to_owned().into()))
}

/// Reports a listener that others than this machine can reach without authorization, unless `open` says so.
/// Also reports a mode of client certificates that verifies none, and warns of tokens in plain text.
fn is_safe(reader: &mut Reader, admin: &AdminSettings) {
    let AdminSettings { bind, tls, tokens, open, .. } = admin;
    let client = tls.as_ref().and_then(|tls| tls.client.as_ref());
    if let Some(client) = client.filter(|client| client.mode == ClientCertificateMode::InsecureFallback) {
        let message = "the admin listener admits no client whose certificate is not valid";
        let problem = Problem::error(client.ca.at, message);
        reader
            .problems
            .push(problem.help("`mode: optional` lets clients in that have no certificate, but a token"));
    }
    let Some(address) = bind.value.tcp().filter(|address| !address.ip().is_loopback()) else { return };
    let certified = tls
        .as_ref()
        .and_then(|tls| tls.client.as_ref())
        .is_some_and(|client| client.mode == ClientCertificateMode::Required);
    if tokens.is_empty() && !certified && !open {
        let message = format!("other machines can reach {address}, but no access rules are configured");
        let problem = Problem::error(bind.at, message);
        reader.problems.push(
            problem
                .help("configure `tokens`, or `client_certificates` under `tls`")
                .help("`open: on` lets every client read everything, and change nothing"),
        );
    }
    if !tokens.is_empty() && tls.is_none() {
        let problem = Problem::warning(bind.at, "clients send tokens to this address in plain text");
        reader.problems.push(problem.help("give `admin` a `tls`, or let it listen on the loopback address"));
    }
}

//! Reads `admin`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use crate::model::{AdminAddress, AdminSettings, AdminToken, Role, Spanned, TokenSecret};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::file_path::file_path;
use crate::scalar::{ScalarError, host};
use crate::sections::listen_address::{listen_address, mode, owner, report_no_socket};
use crate::spec::{ADMIN, ADMIN_TOKEN, Shape};
use crate::tree::{NodeKind, Scalar, shown};

/// Minimum length of a token. A shorter one could be guessed.
const TOKEN_MIN_BYTES: usize = 16;
/// Maximum length of a token. It must fit in a header of a request.
const TOKEN_MAX_BYTES: usize = 1024;
/// Reads the admin listener. A port alone is bound to the loopback address, because statistics are not
/// public. `document_files` also applies to documents of etcd, so it is read even if the listener is off.
pub(super) fn admin(
    reader: &mut Reader,
    field: Field<'_>,
    document_files: &mut Vec<PathBuf>,
) -> Option<AdminSettings> {
    let mut out = AdminSettings::default();
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        if is_off(field) {
            return None;
        }
        out.bind = reader.spanned(field, bind)?;
        is_safe(reader, &out);
        return Some(out);
    }
    let fields = reader.fields(field.node, &ADMIN)?;
    *document_files = directories(reader, &fields);
    let mut is_known = true;
    if let Some(field) = fields.get("bind") {
        if is_off(field) {
            return None;
        }
        match reader.spanned(field, bind) {
            Some(bind) => out.bind = bind,
            // Continue, so that other problems are reported too.
            None => is_known = false,
        }
    }
    socket(reader, &fields, &mut out.bind.value, is_known);
    reader.switch(fields.get("open"), &mut out.open);
    out.tls = fields.get("tls").and_then(|field| reader.section(field));
    if let Some(field) = fields.get("audit_log") {
        out.audit_log = reader.field(field, file_path);
    }
    out.hosts = hosts(reader, &fields);
    let start = reader.problems.len();
    if let Some(field) = fields.get("tokens") {
        out.tokens = tokens(reader, field);
    }
    // Unreadable tokens still show that tokens were intended.
    if !reader.has_errors_since(start) {
        is_safe(reader, &out);
    }
    Some(out)
}

fn is_off(field: Field<'_>) -> bool {
    field.node.scalar().is_some_and(Scalar::is_off)
}

fn bind(text: &str) -> Result<AdminAddress, ScalarError> {
    listen_address(text, IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Reads the directories in which files named by documents may lie.
fn directories(reader: &mut Reader, fields: &Fields<'_>) -> Vec<PathBuf> {
    let Some(field) = fields.get("files") else { return Vec::new() };
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let items = reader.bounded_items(field.node, "`files`");
    let directory = |text: &str| match file_path(text)? {
        path if path.parent().is_none() => {
            Err(ScalarError::new("{} is the root directory: documents could name every file of this machine"))
        }
        path => Ok(path),
    };
    items.iter().filter_map(|item| reader.parsed(item, "a directory", one, directory)).collect()
}

/// Reads the host names that the listener answers to.
fn hosts(reader: &mut Reader, fields: &Fields<'_>) -> Vec<String> {
    let Some(field) = fields.get("hosts") else { return Vec::new() };
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let items = reader.bounded_items(field.node, "`hosts`");
    items.iter().filter_map(|item| reader.parsed(item, "a host name", one, host::endpoint)).collect()
}

/// Reads mode and owner of the socket.
fn socket(reader: &mut Reader, fields: &Fields<'_>, bind: &mut AdminAddress, is_known: bool) {
    let mode = fields.get("mode").map(|field| (field, reader.field(field, mode)));
    let owner = fields.get("owner").map(|field| (field, reader.field(field, owner)));
    match bind {
        AdminAddress::Unix(socket) => {
            socket.mode = mode.and_then(|(_, mode)| mode).unwrap_or(socket.mode);
            socket.owner = owner.and_then(|(_, owner)| owner);
        }
        AdminAddress::Tcp(_) if !is_known => {}
        AdminAddress::Tcp(_) => report_no_socket(reader, fields),
    }
}

fn tokens(reader: &mut Reader, field: Field<'_>) -> Vec<AdminToken> {
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, "`tokens`", field.key.shape.expected());
        return Vec::new();
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
        let Some(fields) = reader.fields(&entry.value, &ADMIN_TOKEN) else { continue };
        let role = match reader.word(fields.get("role")) {
            Some("admin") => Role::Admin,
            Some("write") => Role::Write,
            _ => Role::Read,
        };
        let Some(Spanned { value: token, at }) =
            fields.get("token").and_then(|field| reader.spanned(field, token))
        else {
            continue;
        };
        if let Some(twin) = out.iter().find(|other| other.token == token) {
            let problem = Problem::error(at, "two tokens are the same: they would not identify the client");
            reader.problems.push(problem.related(twin.at, "the other"));
            continue;
        }
        out.push(AdminToken { name: entry.key.clone(), at: entry.at, role, token });
    }
    if entries.is_empty() {
        // An empty `tokens` is probably a mistake: its author intended to require tokens.
        reader.missing(field.node.at, "`tokens` is empty".to_owned(), &field.key.shape);
    }
    out
}

/// Parses a token. No message repeats it.
fn token(text: &str) -> Result<TokenSecret, ScalarError> {
    if let Some(digits) = text.strip_prefix("sha256:") {
        let digest = crate::sections::consumers::hexadecimal(digits)
            .ok_or_else(|| ScalarError::new("this is not a SHA-256"))?;
        return Ok(TokenSecret::Digest(crate::model::Digest(digest)));
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
/// Also warns of tokens in plain text.
fn is_safe(reader: &mut Reader, admin: &AdminSettings) {
    let AdminSettings { bind, tls, tokens, open, .. } = admin;
    let Some(address) = bind.value.tcp().filter(|address| !address.ip().is_loopback()) else { return };
    let certified = tls.as_ref().and_then(|tls| tls.client.as_ref()).is_some_and(|client| client.required);
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

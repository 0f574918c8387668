//! Reads the gateway-wide sections that need little beyond their table.

use crate::model::{
    CdnLoop, Cidr, EncodedSlash, ErrorBodies, Forwarded, Limits, Overload, Paths, RequestId, Semicolon,
    Spanned, StoreSettings, WorkerCount,
};
use crate::problem::Problem;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::file_path::file_path;
use crate::scalar::{ScalarError, cidr, field as header, quantity, template};
use crate::spec::{
    ERRORS, FORWARDED, LIMITS, OVERLOAD, OVERLOAD_MEMORY_MIN, PATHS, REQUEST_ID, SIZE_MAX, STORE, Shape,
};
use crate::tree::{NodeKind, Scalar, shown};

pub(super) fn workers(reader: &mut Reader, field: Field<'_>) -> Option<WorkerCount> {
    reader.field(field, |text| {
        if text == "auto" {
            return Ok(WorkerCount::Auto);
        }
        let count = quantity::count(text, 1, 1024)?;
        u16::try_from(count).map(WorkerCount::Count).map_err(|_| ScalarError::new("{} is too large"))
    })
}

pub(super) fn store(reader: &mut Reader, field: Field<'_>) -> Option<StoreSettings> {
    let mut history = 10_000;
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        return reader.field(field, file_path).map(|path| StoreSettings { path, history });
    }
    let fields = reader.fields(field.node, &STORE)?;
    reader.number_into(fields.get("history"), &mut history);
    let path = reader.field(fields.get("path")?, file_path)?;
    Some(StoreSettings { path, history })
}

pub(super) fn request_id(reader: &mut Reader, field: Field<'_>) -> RequestId {
    let mut id = RequestId::default();
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        reader.switch(Some(field), &mut id.enabled);
        return id;
    }
    // The mapping itself turns ids on, unless `enabled` says otherwise.
    id.enabled = true;
    let Some(fields) = reader.fields(field.node, &REQUEST_ID) else { return id };
    reader.switch(fields.get("enabled"), &mut id.enabled);
    reader.switch(fields.get("accept"), &mut id.accept);
    if let Some(field) = fields.get("header") {
        let name = reader.field(field, |text| match header::name(text) {
            Ok(name) if header::is_framing(&name) || name.eq_ignore_ascii_case("host") => {
                Err(ScalarError::new("{} has a fixed meaning and cannot carry an id"))
            }
            other => other,
        });
        id.header = name.unwrap_or(id.header);
    }
    id
}

pub(super) fn forwarded(reader: &mut Reader, field: Field<'_>) -> Forwarded {
    let mut out = Forwarded::default();
    let Some(fields) = reader.fields(field.node, &FORWARDED) else { return out };
    reader.switch(fields.get("x_forwarded"), &mut out.x_forwarded);
    reader.switch(fields.get("forwarded"), &mut out.forwarded);
    if let Some(via) = fields.get("via")
        && !via.node.scalar().is_some_and(Scalar::is_off)
    {
        out.via = reader.field(via, |text| {
            if header::is_token(text) && !matches!(text, "on" | "true" | "yes") {
                return Ok(text.to_owned());
            }
            Err(ScalarError::new("{} is not a name for `Via`")
                .help("a name has letters, digits, `-`, `_` and `.`"))
        });
    }
    if let Some(field) = fields.get("trusted_proxies") {
        out.trusted_proxies = blocks(reader, field, "a trusted proxy");
    }
    if let Some(field) = fields.get("keep") {
        let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
        for item in one_or_many(field.node) {
            let name = reader.parsed(item, "a field", one, header::name);
            out.keep.extend(name.map(|value| Spanned { value, at: item.at }));
        }
    }
    if let Some(field) = fields.get("client_certificate") {
        out.client_certificate = super::tls::certificate_fields(reader, field);
    }
    out.cdn_loop = match reader.word(fields.get("cdn_loop")) {
        Some("always") => CdnLoop::Always,
        _ => CdnLoop::Own,
    };
    out
}

/// Reads one block of addresses or a list of them.
pub(super) fn blocks(reader: &mut Reader, field: Field<'_>, what: &str) -> Vec<Cidr> {
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let mut out = Vec::new();
    for item in one_or_many(field.node) {
        let Some((block, cut)) = reader.parsed(item, what, one, cidr::cidr) else { continue };
        if cut {
            reader.problems.push(host_bits(item.scalar(), item.at, block));
        }
        out.push(block);
    }
    out
}

fn host_bits(scalar: Option<&Scalar>, at: crate::model::At, block: Cidr) -> Problem {
    let text = scalar.map(Scalar::shown).unwrap_or_default();
    let problem = Problem::warning(at, format!("{text} has bits set after its prefix"));
    if scalar.is_some_and(|scalar| scalar.written.is_some()) {
        return problem;
    }
    problem.help(format!("it is read as `{}/{}`", block.address, block.prefix))
}

pub(super) fn limits(reader: &mut Reader, field: Field<'_>) -> Limits {
    let mut out = Limits::default();
    let Some(fields) = reader.fields(field.node, &LIMITS) else { return out };
    reader.number_into(fields.get("request_line"), &mut out.request_line);
    reader.number_into(fields.get("headers"), &mut out.headers);
    reader.number_into(fields.get("header_count"), &mut out.header_count);
    reader.optional_into(fields.get("body"), &mut out.body);
    reader.optional_into(fields.get("body_rate"), &mut out.body_rate);
    reader.optional_into(fields.get("response_rate"), &mut out.response_rate);
    reader.time_into(fields.get("rate_grace"), &mut out.rate_grace);
    reader.optional_into(fields.get("connections"), &mut out.connections);
    reader.optional_into(fields.get("requests_per_connection"), &mut out.requests_per_connection);
    reader.number_into(fields.get("http2_streams"), &mut out.http2_streams);
    reader.number_into(fields.get("loops"), &mut out.loops);
    reader.number_into(fields.get("http2_window"), &mut out.http2_window);
    out
}

pub(super) fn paths(reader: &mut Reader, field: Field<'_>) -> Paths {
    let mut out = Paths::default();
    let Some(fields) = reader.fields(field.node, &PATHS) else { return out };
    reader.switch(fields.get("merge_slashes"), &mut out.merge_slashes);
    out.encoded_slash = match reader.word(fields.get("encoded_slash")) {
        Some("keep") => EncodedSlash::Keep,
        _ => EncodedSlash::Reject,
    };
    out.semicolon = match reader.word(fields.get("semicolon")) {
        Some("reject") => Semicolon::Reject,
        _ => Semicolon::Keep,
    };
    out
}

pub(super) fn errors(reader: &mut Reader, field: Field<'_>) -> ErrorBodies {
    let mut out = ErrorBodies::default();
    let Some(fields) = reader.fields(field.node, &ERRORS) else { return out };
    for (name, body) in [("json", &mut out.json), ("html", &mut out.html), ("text", &mut out.text)] {
        let Some(field) = fields.get(name) else { continue };
        *body = reader.field(field, |text| Ok(text.to_owned()));
        // A body with an expanded variable is not checked, because a message would reveal a part of it.
        let open = field.node.scalar().filter(|scalar| scalar.written.is_none());
        if let Some((word, near)) = open.and_then(|scalar| template::misspelt(&scalar.text)) {
            let message = format!("{} is not filled in", shown(&format!("{{{word}}}")));
            reader
                .problems
                .push(Problem::warning(field.node.at, message).help(format!("did you mean `{{{near}}}`?")));
        }
    }
    out
}

pub(super) fn overload(reader: &mut Reader, field: Field<'_>) -> Overload {
    let mut out = Overload::default();
    let Some(fields) = reader.fields(field.node, &OVERLOAD) else { return out };
    if let Some(field) = fields.get("memory") {
        out.memory = reader
            .field(field, |text| match text {
                "auto" => Ok(None),
                text => quantity::size(text, OVERLOAD_MEMORY_MIN, SIZE_MAX).map(Some),
            })
            .flatten();
    }
    reader.number_into(fields.get("files"), &mut out.files);
    reader.number_into(fields.get("shed_from"), &mut out.shed_from);
    out
}

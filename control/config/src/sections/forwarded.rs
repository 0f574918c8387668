//! Fields that the gateway adds: `forwarded` and `request_id`.

use crate::position::{At, Spanned};
use crate::scalar::cidr::{self, Cidr};
use crate::scalar::field as header;
use crate::section::{
    Field, NodeKind, Problem, Reader, Scalar, ScalarError, Section, Shape, Value, Word, one_or_many, shown,
};
use crate::suggest;

use super::texts::{CIDR, HEADER_NAME};

static PART: Shape = <CertificatePart as Value>::SHAPE;
const CERTIFICATE_FIELDS: Shape = Shape::AnyOf(&[Shape::Switch, Shape::MapOf(&PART)]);

/// Request ids. The mapping itself switches them on.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(own_forms)]
pub struct RequestId {
    /// Whether requests get an id.
    #[key(default = on)]
    pub enabled: bool,
    /// The header field that carries it.
    #[key(text = HEADER_NAME, parse = id_header, default = "X-Request-Id")]
    pub header: String,
    /// Whether an id from the client is passed on.
    #[key(default = on)]
    pub accept: bool,
}

impl Value for RequestId {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Switch, Shape::Section(RequestId::SPEC)]);
    const HAS_OFF: bool = true;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        match field.is_mapping() {
            true => reader.section(field),
            false => reader.read_switch(field).map(|enabled| Self { enabled, ..Self::default() }),
        }
    }
}

fn id_header(text: &str) -> Result<String, ScalarError> {
    match header::name(text) {
        Ok(name) if header::is_framing(&name) || name.eq_ignore_ascii_case("host") => {
            Err(ScalarError::new("{} has a fixed meaning and cannot carry an id"))
        }
        other => other,
    }
}

/// Fields that tell the upstream about the client and the proxies in between.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct Forwarded {
    /// `X-Forwarded-For`, `-Proto` and `-Host`.
    #[key(default = on)]
    pub x_forwarded: bool,
    /// `Forwarded` (RFC 7239).
    #[key(default = off)]
    pub forwarded: bool,
    /// The gateway's name in `Via`; without it there is no `Via`.
    #[key(
        off, expected = "a name such as `tollgate`", pattern = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        parse = pseudonym, default = off
    )]
    pub via: Option<String>,
    /// Trusted peers: the gateway appends to their forwarding fields, and replaces those of all others.
    #[key(
        text = CIDR, list, read = trusted_proxies, default = "[]",
        also = ["trusted", "real_ip_from", "set_real_ip_from"]
    )]
    pub trusted_proxies: Vec<Cidr>,
    /// Exceptions from the removal of proxy fields: these fields are passed on from any peer, for example
    /// `X-Forwarded-Prefix` or `X-Original-URL`.
    #[key(text = HEADER_NAME, each = header::name, what = "a field", default = "[]", also = ["pass", "allow", "except"])]
    pub keep: Vec<Spanned<String>>,
    /// Fields that describe the client's certificate: each field's name and the part that it carries. `on` is
    /// `Client-Cert` (RFC 9440).
    #[key(
        shape = CERTIFICATE_FIELDS, read = certificate_fields, default = off,
        also = ["client_cert", "forward_client_cert_details", "passTLSClientCert", "xfcc"]
    )]
    pub client_certificate: Vec<(String, CertificatePart)>,
    /// Requests to which the gateway adds `CDN-Loop` (RFC 8586): `own`, only requests to its own addresses;
    /// `always`, every request, which also detects loops through other gateways.
    #[key(default = own)]
    pub cdn_loop: CdnLoop,
}

/// The requests that get this gateway's mark in `CDN-Loop` (RFC 8586).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Word)]
pub enum CdnLoop {
    /// Requests to one of the gateway's own addresses.
    #[default]
    Own,
    /// All requests: this also finds a loop through other gateways.
    Always,
}

/// A part of a client's certificate that a field passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
pub enum CertificatePart {
    /// The whole certificate (RFC 9440, 2.2).
    Certificate,
    /// The certificates between it and a root (RFC 9440, 2.3).
    Chain,
    /// The whole certificate in PEM, percent-encoded.
    Pem,
    /// Its subject.
    Subject,
    /// Its issuer.
    Issuer,
    /// Its serial number.
    Serial,
    /// Its subject alternative names.
    Names,
    /// Its SHA-256 fingerprint.
    Fingerprint,
    /// Whether it was verified.
    Verified,
}

fn pseudonym(text: &str) -> Result<String, ScalarError> {
    match header::is_token(text) && !matches!(text, "on" | "true" | "yes") {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} is not a name for `Via`")
            .help("a name has letters, digits, `-`, `_` and `.`")),
    }
}

fn trusted_proxies(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Cidr>> {
    Some(blocks(reader, field, "a trusted proxy"))
}

/// The form of a list of addresses and blocks of addresses.
pub const ADDRESSES: Shape = Shape::OneOrMany(ADDRESS);
const ADDRESS: &Shape = &Shape::Text(&CIDR);

/// Reads a list of addresses and blocks of addresses.
pub fn addresses(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Cidr>> {
    Some(blocks(reader, field, "an address"))
}

/// Reads one block of addresses or a list of them.
pub(crate) fn blocks(reader: &mut Reader, field: Field<'_>, what: &str) -> Vec<Cidr> {
    let mut out = Vec::new();
    for item in one_or_many(field.node) {
        let Some((block, cut)) = reader.parsed(item, what, field.key.shape.one(), cidr::cidr) else {
            continue;
        };
        if cut {
            reader.problems.push(host_bits(item.scalar(), item.at, block));
        }
        out.push(block);
    }
    out
}

fn host_bits(scalar: Option<&Scalar>, at: At, block: Cidr) -> Problem {
    let text = scalar.map(Scalar::shown).unwrap_or_default();
    let problem = Problem::warning(at, format!("{text} has bits set after its prefix"));
    if scalar.is_some_and(|scalar| scalar.written.is_some()) {
        return problem;
    }
    problem.help(format!("it is read as `{}/{}`", block.address, block.prefix))
}

/// Reads the fields that describe the client's certificate.
fn certificate_fields(reader: &mut Reader, field: Field<'_>) -> Option<Vec<(String, CertificatePart)>> {
    let NodeKind::Map(entries) = &field.node.kind else {
        let usual = || vec![("Client-Cert".to_owned(), CertificatePart::Certificate)];
        return reader.read_switch(field).map(|on| if on { usual() } else { Vec::new() });
    };
    let mut out = Vec::new();
    for entry in entries {
        if header::is_framing(&entry.key) || entry.key.eq_ignore_ascii_case("host") {
            let message =
                format!("{} has a fixed meaning and cannot describe a certificate", shown(&entry.key));
            reader.problems.push(Problem::error(entry.at, message));
            continue;
        }
        if let Err(fault) = header::name(&entry.key) {
            let message = fault.message.replacen("{}", &shown(&entry.key), 1);
            reader.problems.push(Problem::error(entry.at, message).expected(HEADER_NAME.expected));
            continue;
        }
        let part = reader.parsed(&entry.value, &shown(&entry.key), &PART, |text| {
            CertificatePart::from_word(text).ok_or_else(|| {
                let fault = ScalarError::new("{} is not a part of a certificate");
                match suggest::nearest(text, CertificatePart::WORDS.iter().copied()) {
                    Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                    None => fault,
                }
            })
        });
        out.extend(part.map(|part| (entry.key.clone(), part)));
    }
    Some(out)
}

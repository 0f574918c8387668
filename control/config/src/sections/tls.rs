//! `tls` of listeners and of upstreams: certificates, keys and trusted CAs.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::file_access::Scope;
use crate::position::{At, Spanned};
use crate::scalar::file_path::file_path;
use crate::scalar::host;
use crate::section::{
    Field, Fields, NodeKind, Problem, Reader, Scalar, ScalarError, Section, Shape, Text, Value, Word,
};

static PEM: Text = Text {
    expected: "the path of a file such as `/etc/tollgate/example.com.pem`, or PEM text (`-----BEGIN ...`)",
    pattern: Some("."),
    loose: false,
};
static SERVER_NAME: Text = Text {
    expected: "a host name such as `api.internal`, or an IP address",
    pattern: Some(r"^[A-Za-z0-9_.:-]+$"),
    loose: false,
};
static SUBJECT_NAME: Text = Text {
    expected: "a host name such as `api.internal`, an IP address, or a URI such as `spiffe://example.org/api`",
    pattern: Some(r"^[!-~]+$"),
    loose: false,
};
static CERTIFICATE: Shape = <Certificate as Value>::SHAPE;
const CERTIFICATES: Shape = Shape::ListOf(&CERTIFICATE);

/// TLS towards clients (`tls` of a listener).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenTls {
    /// At least one. The first is the default: it serves clients whose server name is missing or covered by
    /// no other certificate.
    pub certificates: Vec<Certificate>,
    /// The oldest accepted version. Default 1.2.
    pub min_version: TlsVersion,
    /// Verification of client certificates. Default none: the gateway does not request any.
    pub client: Option<ClientCertificates>,
    /// The `Strict-Transport-Security` field of responses (RFC 6797). Default none.
    pub strict_transport_security: Option<StrictTransportSecurity>,
}

/// A certificate with its key. The subject alternative names decide which hosts it serves (RFC 6125).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, followed by the certificates between it and a root.
    pub chain: PemFile,
    /// Its private key.
    pub key: PemFile,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// Certificates or keys in PEM (RFC 7468): a file with its content at the time of reading, or the text
/// itself.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PemFile {
    /// Path of the file; `None`: the content is written inline.
    pub path: Option<PathBuf>,
    /// Directories that the file must lie in.
    pub scope: Scope,
    /// How messages name it: the path as written, or a description of the inline text.
    pub shown: String,
    /// Source position of the path or text.
    pub at: At,
    /// The content when the configuration was read.
    pub bytes: PemBytes,
}

impl fmt::Debug for PemFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, scope: _, shown, at, bytes } = self;
        let mut out = f.debug_struct("PemFile");
        out.field("path", path).field("shown", shown).field("at", at).field("bytes", bytes).finish()
    }
}

/// Bytes that may be a private key. They are never shown, and are wiped from memory on drop.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PemBytes(pub Vec<u8>);

impl Drop for PemBytes {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for PemBytes {}

impl fmt::Debug for PemBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl Value for PemFile {
    const SHAPE: Shape = Shape::Text(&PEM);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        pem_or_text(reader, field)
    }
}

/// TLS towards clients.
#[derive(Clone, Debug, Section)]
#[section(name = "tls", exactly_one = ["certificate", "certificates"], makes = ListenTls, by = listen_tls)]
struct ListenTlsKeys {
    /// A certificate with its key.
    #[key(flatten)]
    certificate: Option<Certificate>,
    /// Several certificates: a client gets the one for its server name, otherwise the first.
    #[key(shape = CERTIFICATES, read = certificates, also = ["certs"])]
    certificates: Option<Vec<Certificate>>,
    /// The oldest accepted version.
    #[key(
        expected = "`1.2` or `1.3`", pattern = r"^1\.[23]$", loose, parse = version,
        default = "1.2",
        also = ["version", "versions", "protocols", "ssl_protocols", "minVersion"]
    )]
    min_version: TlsVersion,
    /// Verification of client certificates.
    #[key(also = ["client_auth", "clientAuth", "mtls", "verify_client", "ssl_verify_client", "client_ca"])]
    client_certificates: Option<ClientCertificates>,
    /// Sends `Strict-Transport-Security`, so that browsers use only `https`.
    #[key(default = off, also = ["hsts", "HSTS", "stsSeconds", "Strict-Transport-Security"])]
    strict_transport_security: Option<StrictTransportSecurity>,
}

fn listen_tls(reader: &mut Reader, fields: &Fields<'_>, keys: ListenTlsKeys) -> Option<ListenTls> {
    if let (Some(_), Some(key)) = (fields.get("certificates"), fields.get("key")) {
        let problem = Problem::error(key.at, "`key` and `certificates` exclude each other");
        reader.problems.push(problem.help("write each key next to its certificate"));
    }
    let certificates = match fields.get("certificates") {
        Some(_) => keys.certificates?,
        None => keys.certificate.into_iter().collect(),
    };
    Some(ListenTls {
        certificates,
        min_version: keys.min_version,
        client: keys.client_certificates,
        strict_transport_security: keys.strict_transport_security,
    })
}

fn certificates(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Certificate>> {
    let NodeKind::List(items) = &field.node.kind else {
        reader.mismatch(field.node, "`certificates`", field.key.shape.expected());
        return None;
    };
    if items.is_empty() {
        reader.missing(field.node.at, "`certificates` is an empty list".to_owned(), &field.key.shape);
    }
    Some(items.iter().filter_map(|item| Certificate::read_section(reader, item)).collect())
}

/// A certificate with its key, where it may be missing.
#[derive(Clone, Debug, Section)]
#[section(makes = Option<Certificate>, by = certificate, own_forms)]
struct CertificateKeys {
    /// A PEM file or PEM text: the certificate, followed by the certificates between it and a root. A path is
    /// relative to the file that names it.
    #[key(also = ["cert", "chain", "crt", "ssl_certificate", "cert_file", "certFile"])]
    certificate: Option<PemFile>,
    /// A PEM file or PEM text with the certificate's private key. Default: the value of `certificate`.
    #[key(also = ["private_key", "ssl_certificate_key", "key_file", "keyFile"])]
    key: Option<PemFile>,
}

/// A certificate with its key.
#[derive(Clone, Debug, Section)]
#[section(name = "certificate", noun = "a certificate", makes = Certificate, by = listed_certificate)]
struct ListedCertificateKeys {
    /// A PEM file or PEM text: the certificate, followed by the certificates between it and a root. A path is
    /// relative to the file that names it.
    #[key(required, also = ["cert", "chain", "crt", "ssl_certificate", "cert_file", "certFile"])]
    certificate: PemFile,
    /// A PEM file or PEM text with the certificate's private key. Default: the value of `certificate`.
    #[key(also = ["private_key", "ssl_certificate_key", "key_file", "keyFile"])]
    key: Option<PemFile>,
}

fn certificate(_: &mut Reader, _: &Fields<'_>, keys: CertificateKeys) -> Option<Option<Certificate>> {
    let CertificateKeys { certificate, key } = keys;
    Some(certificate.map(|chain| Certificate { key: key.unwrap_or_else(|| chain.clone()), chain }))
}

fn listed_certificate(_: &mut Reader, _: &Fields<'_>, keys: ListedCertificateKeys) -> Option<Certificate> {
    let ListedCertificateKeys { certificate: chain, key } = keys;
    Some(Certificate { key: key.unwrap_or_else(|| chain.clone()), chain })
}

/// The `Strict-Transport-Security` field (RFC 6797).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(switch, check = check_preload)]
pub struct StrictTransportSecurity {
    /// How long browsers use only `https`; `0s` revokes it.
    ///
    /// The preload list recommends two years; ten are a mistake.
    #[key(time = "0s"..="3650d", default = "365d", also = ["maxAge", "max-age", "age", "stsSeconds"])]
    pub max_age: Duration,
    /// Whether it also covers every subdomain.
    #[key(default = off, also = ["includeSubDomains", "subdomains", "stsIncludeSubdomains"])]
    pub include_subdomains: bool,
    /// Whether browsers may preload it (hstspreload.org).
    #[key(default = off, also = ["stsPreload"])]
    pub preload: bool,
}

fn check_preload(reader: &mut Reader, fields: &Fields<'_>, policy: &mut StrictTransportSecurity) {
    // https://hstspreload.org requires at least a year and `includeSubDomains`.
    let year = Duration::from_secs(365 * 24 * 3600);
    let preloads = policy.include_subdomains && policy.max_age >= year;
    if let Some(preload) = fields.get("preload").filter(|_| policy.preload && !preloads) {
        let message = "`preload` needs `include_subdomains: on` and a `max_age` of at least 365d";
        reader.problems.push(Problem::error(preload.at, message));
    }
}

/// Verification of client certificates.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(check = check_client_certificates)]
pub struct ClientCertificates {
    /// A PEM file or PEM text of CA certificates, one of which must have signed them.
    #[key(required, also = ["cas", "ca_file", "trust", "client_ca", "caFile"])]
    pub ca: PemFile,
    /// `required`: a client without a certificate is rejected. `optional`: a client may send none, but one that it
    /// sends must be valid. `insecure_fallback`: a client whose certificate is missing or invalid is let in, and is
    /// marked as unverified.
    #[key(default = required, also = ["verify", "require", "required"])]
    pub mode: ClientCertificateMode,
}

/// The clients that are admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Word)]
pub enum ClientCertificateMode {
    /// Those with a valid certificate.
    #[default]
    Required,
    /// Also those without one.
    Optional,
    /// All; an invalid certificate counts as none.
    InsecureFallback,
}

fn check_client_certificates(reader: &mut Reader, fields: &Fields<'_>, client: &mut ClientCertificates) {
    let is_open = client.mode == ClientCertificateMode::InsecureFallback;
    if let Some(mode) = fields.get("mode").filter(|_| is_open) {
        let message = "clients without a valid certificate are let in here";
        let problem = Problem::warning(mode.node.at, message);
        reader.problems.push(problem.help(
            "reject them where it matters: with the policy `client_certificate`, or by the field with `verified`",
        ));
    }
}

/// TLS settings for endpoints whose addresses start with `https://`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(noun = "`tls`", name = "upstream_tls", check = check_upstream_tls)]
pub struct UpstreamTls {
    /// Source position of the settings.
    #[key(skip)]
    pub at: At,
    /// A PEM file or PEM text of CA certificates that verify the endpoints' certificates. Default: the system's
    /// trust store.
    #[key(
        also = ["cas", "ca_file", "trust", "trusted_ca", "caFile", "proxy_ssl_trusted_certificate"]
    )]
    pub ca: Option<PemFile>,
    /// The name that is sent as SNI and that the endpoints' certificates must contain. Default: each
    /// endpoint's own host.
    #[key(text = SERVER_NAME, parse = host::endpoint, also = ["host", "name", "serverName", "proxy_ssl_name"])]
    pub server_name: Option<String>,
    /// The server name to send (SNI), if it differs from the name that the certificates must contain; `off`:
    /// none.
    #[key(off, text = SERVER_NAME, parse = host::endpoint, also = ["server_name_indication", "proxy_ssl_server_name"])]
    pub sni: Option<Option<String>>,
    /// Names of which the endpoints' certificates must contain one, instead of `server_name`: host names, IP addresses,
    /// and URIs such as SPIFFE ids.
    #[key(
        text = SUBJECT_NAME, each = subject_name, what = "a name", nonempty, bounded,
        also = ["subjectAltNames", "sans", "san", "verify_subject_alt_name", "spiffe_id", "spiffe_ids"]
    )]
    pub subject_alt_names: Vec<Spanned<SubjectName>>,
    /// Whether the endpoints' certificates are verified. `dangerously_off`: not at all. An attacker on the
    /// network can then take an endpoint's place.
    #[key(
        name = "verify", shape = Shape::Word(&["on", "dangerously_off"]), read = is_unverified, default = on,
        also = ["insecure_skip_verify", "insecureSkipVerify", "proxy_ssl_verify", "ssl_verify", "insecure"]
    )]
    pub unverified: bool,
    /// The client certificate that the gateway presents.
    #[key(flatten)]
    pub certificate: Option<Certificate>,
}

/// A name in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectName {
    /// A host name in lower case, or an IP address.
    Host(String),
    /// A URI, compared byte by byte.
    Uri(String),
}

fn subject_name(text: &str) -> Result<SubjectName, ScalarError> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return host::endpoint(text).map(SubjectName::Host);
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    match is_scheme && !rest.is_empty() && text.chars().all(|c| c.is_ascii_graphic()) {
        true => Ok(SubjectName::Uri(text.to_owned())),
        false => {
            Err(ScalarError::new("{} is not a URI")
                .help("a SPIFFE id looks like `spiffe://example.org/ns/shop`"))
        }
    }
}

fn is_unverified(reader: &mut Reader, field: Field<'_>) -> Option<bool> {
    reader.word(Some(field)).map(|word| word == "dangerously_off")
}

fn check_upstream_tls(reader: &mut Reader, fields: &Fields<'_>, tls: &mut UpstreamTls) {
    tls.at = fields.at;
    if let Some(key) = fields.get("key").filter(|_| tls.certificate.is_none() && reader.complete) {
        let problem = Problem::error(key.at, "`key` needs `certificate`");
        reader.problems.push(problem.expected("the path of a file such as `client.pem`"));
    }
    if let Some(verify) = fields.get("verify").filter(|_| tls.unverified) {
        let message = "certificates are not verified here: an attacker on the network can read and change \
            this traffic";
        let problem = Problem::warning(verify.at, message);
        reader.problems.push(
            problem.help("set `ca` to the signing CA, and `server_name` to the name in the certificates"),
        );
        for useless in ["ca", "subject_alt_names"].into_iter().filter_map(|name| fields.get(name)) {
            let message = format!("`{}` has no effect with `verify: dangerously_off`", useless.key.name);
            reader.problems.push(Problem::error(useless.at, message).help("remove one of them"));
        }
    }
}

/// Reads the path of a PEM file, which the loader reads later.
pub fn pem(reader: &mut Reader, field: Field<'_>) -> Option<PemFile> {
    let shown = field.node.scalar().map(Scalar::shown).unwrap_or_default();
    let path = reader.field(field, file_path)?;
    Some(PemFile { path: Some(path), shown, at: field.node.at, ..PemFile::default() })
}

/// Reads a path or an inline PEM text. An error message does not repeat the text, because it may be a key.
fn pem_or_text(reader: &mut Reader, field: Field<'_>) -> Option<PemFile> {
    let Some(Scalar { text, .. }) = field.node.scalar() else { return pem(reader, field) };
    if text.contains("-----BEGIN ") {
        let bytes = PemBytes(text.clone().into_bytes());
        let shown = "the inline text".to_owned();
        return Some(PemFile { shown, at: field.node.at, bytes, ..PemFile::default() });
    }
    if text.chars().any(char::is_control) {
        let problem =
            Problem::error(field.node.at, format!("`{}` is neither a path nor PEM", field.key.name));
        reader.problems.push(problem.expected(field.key.shape.expected()));
        return None;
    }
    pem(reader, field)
}

fn version(text: &str) -> Result<TlsVersion, ScalarError> {
    match text {
        "1.2" => Ok(TlsVersion::Tls12),
        "1.3" => Ok(TlsVersion::Tls13),
        _ => Err(ScalarError::new("{} is not a supported version").help("older ones are broken (RFC 8996)")),
    }
}

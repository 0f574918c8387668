//! Reads `tls` of listeners and of upstreams.

use crate::model::{
    Certificate, ClientCertificates, Config, Discover, ListenTls, PemBytes, PemFile, Scheme,
    StrictTransportSecurity, TlsVersion, Upstream, UpstreamTls,
};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader, Setting};
use crate::scalar::file_path::file_path;
use crate::scalar::{ScalarError, host};
use crate::section::Value;
use crate::spec::{CERTIFICATE, CLIENT_CERTIFICATES, STRICT_TRANSPORT_SECURITY, Shape, TLS, UPSTREAM_TLS};
use crate::tree::{NodeKind, Scalar};

/// Reads `tls` of a listener.
pub(super) fn listen(reader: &mut Reader, field: Field<'_>) -> Option<ListenTls> {
    let fields = reader.fields(field.node, &TLS)?;
    let mut out = ListenTls {
        certificates: Vec::new(),
        min_version: TlsVersion::default(),
        client: None,
        strict_transport_security: fields
            .get("strict_transport_security")
            .and_then(|field| strict_transport_security(reader, field)),
    };
    if let Some(list) = fields.get("certificates") {
        if let Some(key) = fields.get("key") {
            let problem = Problem::error(key.at, "`key` and `certificates` exclude each other");
            reader.problems.push(problem.help("write each key next to its certificate"));
        }
        let NodeKind::List(items) = &list.node.kind else {
            reader.mismatch(list.node, "`certificates`", list.key.shape.expected());
            return None;
        };
        if items.is_empty() {
            reader.missing(list.node.at, "`certificates` is an empty list".to_owned(), &list.key.shape);
        }
        for item in items {
            let Some(fields) = reader.fields(item, &CERTIFICATE) else { continue };
            out.certificates.extend(certificate(reader, &fields));
        }
    } else {
        out.certificates.extend(certificate(reader, &fields));
    }
    if let Some(field) = fields.get("min_version")
        && let Some(version) = reader.field(field, version)
    {
        out.min_version = version;
    }
    if let Some(field) = fields.get("client_certificates") {
        let fields = reader.fields(field.node, &CLIENT_CERTIFICATES)?;
        let required = reader.word(fields.get("mode")) != Some("optional");
        if let Some(ca) = fields.get("ca").and_then(|field| pem(reader, field)) {
            out.client = Some(ClientCertificates { ca, required });
        }
    }
    Some(out)
}

fn strict_transport_security(reader: &mut Reader, field: Field<'_>) -> Option<StrictTransportSecurity> {
    let setting = reader.setting(field, &STRICT_TRANSPORT_SECURITY)?;
    let mut out = StrictTransportSecurity::default();
    if let Setting::Fields(fields) = &setting {
        reader.time_into(fields.get("max_age"), &mut out.max_age);
        reader.switch(fields.get("include_subdomains"), &mut out.include_subdomains);
        reader.switch(fields.get("preload"), &mut out.preload);
        // https://hstspreload.org requires at least a year and `includeSubDomains`.
        let preloads = out.include_subdomains && out.max_age >= StrictTransportSecurity::default().max_age;
        if let Some(preload) = fields.get("preload").filter(|_| out.preload && !preloads) {
            let message = "`preload` needs `include_subdomains: on` and a `max_age` of at least 365d";
            reader.problems.push(Problem::error(preload.at, message));
        }
    }
    setting.on().then_some(out)
}

impl Value for UpstreamTls {
    const SHAPE: Shape = Shape::Section(&UPSTREAM_TLS);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        upstream(reader, field)
    }
}

/// Reads `tls` of an upstream.
pub(super) fn upstream(reader: &mut Reader, field: Field<'_>) -> Option<UpstreamTls> {
    let fields = reader.fields(field.node, &UPSTREAM_TLS)?;
    let certificate = certificate(reader, &fields);
    if let Some(key) = fields.get("key").filter(|_| certificate.is_none() && reader.complete) {
        let problem = Problem::error(key.at, "`key` needs `certificate`");
        reader.problems.push(problem.expected("the path of a file such as `client.pem`"));
    }
    let sni = fields.get("sni").and_then(|field| match field.node.scalar().is_some_and(Scalar::is_off) {
        true => Some(None),
        false => reader.field(field, host::endpoint).map(Some),
    });
    let unverified = reader.word(fields.get("verify")) == Some("dangerously_off");
    if let Some(verify) = fields.get("verify").filter(|_| unverified) {
        let message = "certificates are not verified here: an attacker on the network can read and change \
            this traffic";
        let problem = Problem::warning(verify.at, message);
        reader.problems.push(
            problem.help("set `ca` to the signing CA, and `server_name` to the name in the certificates"),
        );
        if let Some(useless) = fields.get("ca") {
            let message = "`ca` has no effect with `verify: dangerously_off`";
            reader.problems.push(Problem::error(useless.at, message).help("remove one of them"));
        }
    }
    Some(UpstreamTls {
        sni,
        unverified,
        at: field.at,
        ca: fields.get("ca").and_then(|field| pem(reader, field)),
        server_name: fields.get("server_name").and_then(|field| reader.field(field, host::endpoint)),
        certificate,
    })
}

fn certificate(reader: &mut Reader, fields: &Fields<'_>) -> Option<Certificate> {
    certificate_by(pem, reader, fields)
}

/// Reads a certificate that may be written inline.
pub(super) fn certificate_or_text(reader: &mut Reader, fields: &Fields<'_>) -> Option<Certificate> {
    certificate_by(pem_or_text, reader, fields)
}

type ReadPem = fn(&mut Reader, Field<'_>) -> Option<PemFile>;

fn certificate_by(pem: ReadPem, reader: &mut Reader, fields: &Fields<'_>) -> Option<Certificate> {
    let chain = fields.get("certificate").and_then(|field| pem(reader, field))?;
    let key = fields.get("key").and_then(|field| pem(reader, field));
    Some(Certificate { key: key.unwrap_or_else(|| chain.clone()), chain })
}

pub(super) fn pem(reader: &mut Reader, field: Field<'_>) -> Option<PemFile> {
    let shown = field.node.scalar().map(Scalar::shown).unwrap_or_default();
    let path = reader.field(field, file_path)?;
    Some(PemFile { path: Some(path), shown, at: field.node.at, ..PemFile::default() })
}

/// Reads a path or an inline PEM text. An error message does not repeat the text, because it may be a key.
fn pem_or_text(reader: &mut Reader, field: Field<'_>) -> Option<PemFile> {
    let text = &field.node.scalar()?.text;
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

/// Reports TLS settings of an upstream without TLS endpoints.
pub(crate) fn check_schemes(reader: &mut Reader, upstream: &Upstream) {
    let mut schemes = upstream.endpoints.iter().map(|endpoint| endpoint.address.value.scheme);
    let Some(tls) = &upstream.tls else { return };
    let discovered = matches!(
        upstream.discover.as_ref().map(|it| &it.value),
        Some(Discover::Dns { .. } | Discover::Srv { .. })
    );
    if !discovered && !schemes.any(|scheme| scheme == Scheme::Https) && !upstream.endpoints.is_empty() {
        let problem = Problem::error(tls.at, "no endpoint of this upstream uses TLS");
        reader.problems.push(problem.help("write their addresses as `https://host:port`"));
    }
}

/// Returns every file of certificates or keys that a configuration names.
pub(crate) fn files(config: &mut Config) -> impl Iterator<Item = &mut PemFile> {
    let mut out = super::policies::files(&mut config.policies);
    out.extend(config.access_log.iter_mut().filter_map(|log| log.otlp.as_mut()?.ca.as_mut()));
    for listener in &mut config.listen {
        out.extend(super::policies::files(&mut listener.policies));
        out.extend(listener.tls.as_mut().into_iter().flat_map(of_listener));
    }
    out.extend(config.certificates.iter_mut().flat_map(|named| both(&mut named.certificate)));
    out.extend(config.admin.iter_mut().filter_map(|admin| admin.tls.as_mut()).flat_map(of_listener));
    let sets = config.policy_sets.iter_mut();
    out.extend(sets.flat_map(|set| super::policies::files(&mut set.policies)));
    for route in &mut config.routes {
        out.extend(super::policies::files(&mut route.policies));
        let logs = route.access_log.iter_mut().flatten();
        out.extend(logs.filter_map(|log| log.otlp.as_mut()?.ca.as_mut()));
    }
    for upstream in &mut config.upstreams {
        out.extend(super::policies::files(&mut upstream.policies));
        let Some(tls) = &mut upstream.tls else { continue };
        out.extend(tls.ca.iter_mut().chain(tls.certificate.iter_mut().flat_map(both)));
    }
    if let Some(tls) = config.etcd.as_mut().and_then(|etcd| etcd.tls.as_mut()) {
        out.extend(tls.ca.iter_mut().chain(tls.certificate.iter_mut().flat_map(both)));
    }
    out.into_iter()
}

fn of_listener(tls: &mut ListenTls) -> impl Iterator<Item = &mut PemFile> {
    let authorities = tls.client.as_mut().map(|client| &mut client.ca);
    tls.certificates.iter_mut().flat_map(both).chain(authorities)
}

fn both(certificate: &mut Certificate) -> [&mut PemFile; 2] {
    [&mut certificate.chain, &mut certificate.key]
}

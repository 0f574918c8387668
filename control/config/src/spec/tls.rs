//! The keys of `tls` of listeners and of upstreams.

use std::time::Duration;

use crate::sections::texts::ADDRESS;

use super::{Choice, KeySpec, SectionSpec, Shape, Text};

static PEM: Text = Text {
    expected: "the path of a file such as `/etc/tollgate/example.com.pem`",
    pattern: Some("."),
    loose: false,
};
static VERSION: Text = Text { expected: "`1.2` or `1.3`", pattern: Some(r"^1\.[23]$"), loose: true };
static SERVER_NAME: Text = Text {
    expected: "a host name such as `api.internal`, or an IP address",
    pattern: Some(r"^[A-Za-z0-9_.:-]+$"),
    loose: false,
};
static CERTIFICATE_SHAPE: Shape = Shape::Section(&CERTIFICATE);

static PEM_OR_TEXT: Text = Text {
    expected: "the path of a file such as `/etc/tollgate/example.com.pem`, or PEM text (`-----BEGIN ...`)",
    pattern: Some("."),
    loose: false,
};
static LISTENER_ADDRESS: Shape = Shape::Text(&ADDRESS);
pub(crate) static NAMED_CERTIFICATE_VALUE: Shape = Shape::Section(&NAMED_CERTIFICATE);

const CHAIN: KeySpec = KeySpec::new(
    "certificate",
    "A PEM file: the certificate, followed by the certificates between it and a root. Relative to the file \
    that names it.",
    Shape::Text(&PEM),
)
.aliases(&["cert", "chain", "crt", "ssl_certificate", "cert_file", "certFile"]);
const KEY: KeySpec = KeySpec::new(
    "key",
    "A PEM file with the certificate's private key. Default: the certificate's file.",
    Shape::Text(&PEM),
)
.aliases(&["private_key", "ssl_certificate_key", "key_file", "keyFile"]);

pub(crate) static TLS: SectionSpec = SectionSpec {
    name: "tls",
    noun: "`tls`",
    doc: "TLS towards clients.",
    choice: Choice::ExactlyOne(&["certificate", "certificates"]),
    keys: &[
        CHAIN,
        KEY,
        KeySpec::new(
            "certificates",
            "Several certificates: a client gets the one for its server name, otherwise the first.",
            Shape::ListOf(&CERTIFICATE_SHAPE),
        )
        .aliases(&["certs"]),
        KeySpec::new("min_version", "The oldest accepted version.", Shape::Text(&VERSION))
            .default("1.2")
            .aliases(&["version", "versions", "protocols", "ssl_protocols", "minVersion"]),
        KeySpec::new(
            "client_certificates",
            "Verification of client certificates.",
            Shape::Section(&CLIENT_CERTIFICATES),
        )
        .aliases(&[
            "client_auth",
            "clientAuth",
            "mtls",
            "verify_client",
            "ssl_verify_client",
            "client_ca",
        ]),
        KeySpec::new(
            "strict_transport_security",
            "Sends `Strict-Transport-Security`, so that browsers use only `https`.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&STRICT_TRANSPORT_SECURITY)]),
        )
        .default("off")
        .aliases(&["hsts", "HSTS", "stsSeconds", "Strict-Transport-Security"]),
    ],
};

/// Maximum of `max_age`. The preload list recommends two years; ten are a mistake.
const LONGEST_AGE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

pub(crate) static STRICT_TRANSPORT_SECURITY: SectionSpec = SectionSpec {
    name: "strict_transport_security",
    noun: "`strict_transport_security`",
    doc: "The `Strict-Transport-Security` field (RFC 6797).",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "max_age",
            "How long browsers use only `https`; `0s` revokes it.",
            Shape::Time { min: Duration::ZERO, max: LONGEST_AGE, off: false },
        )
        .default("365d")
        .aliases(&["maxAge", "max-age", "age", "stsSeconds"]),
        KeySpec::new("include_subdomains", "Whether it also covers every subdomain.", Shape::Switch)
            .default("off")
            .aliases(&["includeSubDomains", "subdomains", "stsIncludeSubdomains"]),
        KeySpec::new("preload", "Whether browsers may preload it (hstspreload.org).", Shape::Switch)
            .default("off")
            .aliases(&["stsPreload"]),
    ],
};

pub(crate) static CERTIFICATE: SectionSpec = SectionSpec {
    name: "certificate",
    noun: "a certificate",
    doc: "A certificate with its key.",
    choice: Choice::Free,
    keys: &[CHAIN.required(), KEY],
};

pub(crate) static NAMED_CERTIFICATE: SectionSpec = SectionSpec {
    name: "named_certificate",
    noun: "a certificate",
    doc: "A certificate with its key, for listeners with `tls`, in addition to their own.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "certificate",
            "A PEM file or PEM text: the certificate, followed by the certificates between it and a root.",
            Shape::Text(&PEM_OR_TEXT),
        )
        .required()
        .aliases(&["cert", "chain", "crt", "ssl_certificate", "cert_file", "certFile"]),
        KeySpec::new(
            "key",
            "A PEM file or PEM text with the certificate's private key. Default: the value of `certificate`.",
            Shape::Text(&PEM_OR_TEXT),
        )
        .aliases(&["private_key", "ssl_certificate_key", "key_file", "keyFile"]),
        KeySpec::new(
            "listeners",
            "Addresses of the listeners that use it, as in `listen`. Default: every listener with `tls`.",
            Shape::OneOrMany(&LISTENER_ADDRESS),
        )
        .aliases(&["listener", "listen", "bind", "for"]),
    ],
};

pub(crate) static CLIENT_CERTIFICATES: SectionSpec = SectionSpec {
    name: "client_certificates",
    noun: "`client_certificates`",
    doc: "Verification of client certificates.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "ca",
            "A PEM file of CA certificates, one of which must have signed them.",
            Shape::Text(&PEM),
        )
        .required()
        .aliases(&["cas", "ca_file", "trust", "client_ca", "caFile"]),
        KeySpec::new(
            "mode",
            "`required`: a client without a certificate is rejected. `optional`: a client may send none, but \
            one that it sends must be valid.",
            Shape::Word(&["required", "optional"]),
        )
        .default("required")
        .aliases(&["verify", "require", "required"]),
    ],
};

pub(crate) static UPSTREAM_TLS: SectionSpec = SectionSpec {
    name: "upstream_tls",
    noun: "`tls`",
    doc: "TLS settings for endpoints whose addresses start with `https://`.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "ca",
            "A PEM file of CA certificates that verify the endpoints' certificates. Default: the system's \
            trust store.",
            Shape::Text(&PEM),
        )
        .aliases(&["cas", "ca_file", "trust", "trusted_ca", "caFile", "proxy_ssl_trusted_certificate"]),
        KeySpec::new(
            "server_name",
            "The name that is sent as SNI and that the endpoints' certificates must contain. Default: each \
            endpoint's own host.",
            Shape::Text(&SERVER_NAME),
        )
        .aliases(&["host", "name", "serverName", "proxy_ssl_name"]),
        KeySpec::new(
            "sni",
            "The server name to send (SNI), if it differs from the name that the certificates must contain; \
            `off`: none.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&SERVER_NAME)]),
        )
        .aliases(&["server_name_indication", "proxy_ssl_server_name"]),
        KeySpec::new(
            "verify",
            "Whether the endpoints' certificates are verified. `dangerously_off`: not at all. An attacker on the network can \
             then take an endpoint's place.",
            Shape::Word(&["on", "dangerously_off"]),
        )
        .default("on")
        .aliases(&["insecure_skip_verify", "insecureSkipVerify", "proxy_ssl_verify", "ssl_verify", "insecure"]),
        CHAIN,
        KEY,
    ],
};

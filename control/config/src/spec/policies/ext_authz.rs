//! The keys of `ext_authz`.

use std::time::Duration;

use crate::spec::{
    CONSUMER_HEADER, Choice, GROUPS_HEADER, HEADER_NAME, KeySpec, PEM, SectionSpec, Shape, Text, URL,
    WITH_BODY_OR_BYTES,
};

static VALUE: Text = Text { expected: "a text", pattern: None, loose: true };
static VALUE_SHAPE: Shape = Shape::Text(&VALUE);
static NAME_SHAPE: Shape = Shape::Text(&HEADER_NAME);

pub(crate) static EXT_AUTHZ_POLICY: SectionSpec = SectionSpec {
    name: "ext_authz_policy",
    noun: "`ext_authz`",
    doc: "A service that speaks Envoy's gRPC protocol (`envoy.service.auth.v3.Authorization`) decides \
        whether a request may proceed.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "url",
            "URL of the service, without the method; `http://` means HTTP/2 in plain text.",
            Shape::Text(&URL),
        )
        .required()
        .aliases(&["grpc_service", "uri", "address", "service", "target_uri", "endpoint"]),
        KeySpec::new(
            "timeout",
            "Maximum time for its answer.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(60), off: false },
        )
        .default("1s"),
        KeySpec::new(
            "fail_open",
            "Whether requests proceed if the service gives no answer, or none in time.",
            Shape::Switch,
        )
        .default("off")
        .aliases(&["failure_mode_allow"]),
        KeySpec::new(
            "reserved_headers",
            "Fields that only the service may set. The gateway removes them from client requests.",
            Shape::OneOrMany(&NAME_SHAPE),
        ),
        KeySpec::new("context", "Additional context that the service receives.", Shape::MapOf(&VALUE_SHAPE))
            .aliases(&["context_extensions"]),
        WITH_BODY_OR_BYTES,
        KeySpec::new(
            "consumer",
            "The field of its answer that holds the consumer's name.",
            Shape::Text(&HEADER_NAME),
        ),
        KeySpec::new(
            "groups",
            "The field of its answer that holds the consumer's groups, separated by commas.",
            Shape::Text(&HEADER_NAME),
        ),
        CONSUMER_HEADER,
        GROUPS_HEADER,
        KeySpec::new(
            "ca",
            "A PEM file of CA certificates that verify the service's certificate. Default: the system's \
            trust store.",
            Shape::Text(&PEM),
        )
        .aliases(&["cas", "ca_file", "trust"]),
    ],
};

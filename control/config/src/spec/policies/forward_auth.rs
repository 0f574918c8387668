//! The keys of `forward_auth`.

use std::time::Duration;

use crate::spec::{
    CONSUMER_HEADER, Choice, GROUPS_HEADER, HEADER_NAME, KeySpec, PEM, SectionSpec, Shape, Text, WITH_BODY,
};

pub(crate) static URL: Text = Text {
    expected: "a URL such as `http://auth.internal:9000/verify`",
    pattern: Some("^https?://"),
    loose: false,
};
static NAME_SHAPE: Shape = Shape::Text(&HEADER_NAME);

pub(crate) static FORWARD_AUTH_POLICY: SectionSpec = SectionSpec {
    name: "forward_auth_policy",
    noun: "`forward_auth`",
    doc: "A service decides whether a request may proceed: a 2xx response admits it, any other response is \
        sent to the client.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("url", "URL of the service.", Shape::Text(&URL)).required().aliases(&[
            "uri",
            "address",
            "auth_request",
            "service",
            "endpoint",
        ]),
        KeySpec::new(
            "timeout",
            "Maximum time for its answer; after it the request is rejected.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(60), off: false },
        )
        .default("1s"),
        KeySpec::new(
            "request_headers",
            "Request fields that it receives. Default: all except connection-specific ones.",
            Shape::OneOrMany(&NAME_SHAPE),
        )
        .aliases(&["authRequestHeaders", "auth_request_headers"]),
        KeySpec::new(
            "response_headers",
            "Fields of its answer that are added to the upstream request. The gateway removes them from \
            client requests.",
            Shape::OneOrMany(&NAME_SHAPE),
        )
        .aliases(&[
            "authResponseHeaders",
            "upstream_headers",
            "copy_headers",
            "auth_response_headers",
        ]),
        WITH_BODY,
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
            "A PEM file of CA certificates that verify the certificate of the URL. Default: the system's \
            trust store.",
            Shape::Text(&PEM),
        )
        .aliases(&["cas", "ca_file", "trust"]),
    ],
};

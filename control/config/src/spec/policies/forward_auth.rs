//! The keys of `forward_auth`.

use std::time::Duration;

use crate::spec::{
    CONSUMER_HEADER, Choice, GROUPS_HEADER, HEADER_NAME, Key, PEM, Section, Shape, Text, WITH_BODY,
};

pub(crate) static URL: Text = Text {
    expected: "an URL such as `http://auth.internal:9000/verify`",
    pattern: Some("^https?://"),
    loose: false,
};
static NAME_SHAPE: Shape = Shape::Text(&HEADER_NAME);

pub(crate) static FORWARD_AUTH_POLICY: Section = Section {
    name: "forward_auth_policy",
    noun: "`forward_auth`",
    doc: "A service says whether a request may go on: its answer of 2xx lets it through, any other goes to the client.",
    choice: Choice::Free,
    keys: &[
        Key::new("url", "Where it is asked.", Shape::Text(&URL)).required().also(&[
            "uri", "address", "auth_request", "service", "endpoint",
        ]),
        Key::new(
            "timeout",
            "How long it may take; then the request is refused.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(60), off: false },
        )
        .or("1s"),
        Key::new(
            "request_headers",
            "Fields of the request that it gets. Default: all that do not concern the connection.",
            Shape::OneOrMany(&NAME_SHAPE),
        )
        .also(&["authRequestHeaders", "auth_request_headers"]),
        Key::new(
            "response_headers",
            "Fields of its answer that go upstream with the request; what a client sends there is taken out.",
            Shape::OneOrMany(&NAME_SHAPE),
        )
        .also(&["authResponseHeaders", "upstream_headers", "copy_headers", "auth_response_headers"]),
        WITH_BODY,
        Key::new("consumer", "The field of its answer that is the consumer's name.", Shape::Text(&HEADER_NAME)),
        Key::new("groups", "The field of its answer that has the consumer's groups, with commas.", Shape::Text(&HEADER_NAME)),
        CONSUMER_HEADER,
        GROUPS_HEADER,
        Key::new(
            "ca",
            "A PEM file with the authorities for the certificate of the URL. Default: the authorities that the system trusts.",
            Shape::Text(&PEM),
        )
        .also(&["cas", "ca_file", "trust"]),
    ],
};

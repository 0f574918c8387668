//! The keys of `trace`, and of the collector of an access log.

use super::forward_auth::URL;
use crate::spec::{Choice, Key, PEM, Section, Shape, Text};

static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
static VALUE_SHAPE: Shape = Shape::Text(&VALUE);
static SERVICE: Text = Text { expected: "a name such as `front-door`", pattern: Some("."), loose: true };
pub(crate) static LOG_COLLECTOR: Text = Text {
    expected: "an URL such as `http://127.0.0.1:4318/v1/logs`",
    pattern: Some("^https?://"),
    loose: false,
};
static FORM: Shape = Shape::Word(&["w3c", "b3", "b3_multi"]);

pub(crate) static TRACE_POLICY: Section = Section {
    name: "trace_policy",
    noun: "`trace`",
    doc: "Spans of requests, told to an OpenTelemetry collector, and the trace's context passed on.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "otlp",
            "Where spans go: the collector's URL for traces over OTLP/HTTP, such as `http://127.0.0.1:4318/v1/traces`.",
            Shape::Text(&URL),
        )
        .required()
        .also(&["url", "endpoint", "collector", "exporter"]),
        Key::new(
            "sample",
            "The share of new traces that is sampled. A trace that began elsewhere is sampled if it was there.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .or("100%")
        .also(&["sampling", "sampler", "ratio", "percentage"]),
        Key::new(
            "propagation",
            "The forms in which a context is understood and passed on; of several that a request has, the first here counts.",
            Shape::OneOrMany(&FORM),
        )
        .or("w3c")
        .also(&["context", "propagators", "format"]),
        Key::new("continue", "Whether a trace that a request says it belongs to goes on.", Shape::Switch)
            .or("on")
            .also(&["trust", "trust_incoming"]),
        SERVICE_KEY,
        HEADERS_KEY,
        RESOURCE_KEY,
        CA_KEY,
    ],
};

const SERVICE_KEY: Key = Key::new("service", "`service.name` of what is told.", Shape::Text(&SERVICE))
    .or("tollgate")
    .also(&["service_name", "name"]);
const HEADERS_KEY: Key =
    Key::new("headers", "Fields that the collector gets with it.", Shape::MapOf(&VALUE_SHAPE));
const RESOURCE_KEY: Key = Key::new(
    "resource",
    "Further attributes of the resource that tells it, such as `deployment.environment.name`.",
    Shape::MapOf(&VALUE_SHAPE),
);
const CA_KEY: Key = Key::new(
    "ca",
    "A PEM file with the authorities for the certificate of the collector. Default: the authorities that the system trusts.",
    Shape::Text(&PEM),
);

pub(crate) static ACCESS_LOG_OTLP: Section = Section {
    name: "access_log_otlp",
    noun: "`otlp`",
    doc: "An OpenTelemetry collector that is told every line of the access log.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "url",
            "The collector's URL for logs over OTLP/HTTP, such as `http://127.0.0.1:4318/v1/logs`.",
            Shape::Text(&LOG_COLLECTOR),
        )
        .required()
        .also(&["endpoint", "collector", "to"]),
        SERVICE_KEY,
        HEADERS_KEY,
        RESOURCE_KEY,
        CA_KEY,
    ],
};

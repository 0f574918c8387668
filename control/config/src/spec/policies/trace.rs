//! The keys of `trace`, and of the collector of an access log.

use crate::sections::policies::URL;
use crate::spec::{Choice, KeySpec, PEM, SectionSpec, Shape, Text};

static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
static VALUE_SHAPE: Shape = Shape::Text(&VALUE);
static SERVICE: Text = Text { expected: "a name such as `front-door`", pattern: Some("."), loose: true };
pub(crate) static LOG_COLLECTOR: Text = Text {
    expected: "a URL such as `http://127.0.0.1:4318/v1/logs`",
    pattern: Some("^https?://"),
    loose: false,
};
static FORM: Shape = Shape::Word(&["w3c", "b3", "b3_multi"]);

pub(crate) static TRACE_POLICY: SectionSpec = SectionSpec {
    name: "trace_policy",
    noun: "`trace`",
    doc: "Sends spans of requests to an OpenTelemetry collector and propagates the trace context.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "otlp",
            "The collector's URL for traces over OTLP/HTTP, such as `http://127.0.0.1:4318/v1/traces`.",
            Shape::Text(&URL),
        )
        .required()
        .aliases(&["url", "endpoint", "collector", "exporter"]),
        KeySpec::new(
            "sample",
            "Percentage of new traces that is sampled. A trace that started elsewhere keeps its sampling \
            decision.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .default("100%")
        .aliases(&["sampling", "sampler", "ratio", "percentage"]),
        KeySpec::new(
            "propagation",
            "Formats in which a trace context is accepted and propagated. If a request has several, the \
            first one in this list wins.",
            Shape::OneOrMany(&FORM),
        )
        .default("w3c")
        .aliases(&["context", "propagators", "format"]),
        KeySpec::new("continue", "Whether a trace context in the request is continued.", Shape::Switch)
            .default("on")
            .aliases(&["trust", "trust_incoming"]),
        SERVICE_KEY,
        HEADERS_KEY,
        RESOURCE_KEY,
        CA_KEY,
    ],
};

const SERVICE_KEY: KeySpec =
    KeySpec::new("service", "`service.name` of the exported data.", Shape::Text(&SERVICE))
        .default("tollgate")
        .aliases(&["service_name", "name"]);
const HEADERS_KEY: KeySpec =
    KeySpec::new("headers", "Header fields of requests to the collector.", Shape::MapOf(&VALUE_SHAPE))
        .concealed();
const RESOURCE_KEY: KeySpec = KeySpec::new(
    "resource",
    "Additional resource attributes of this gateway, such as `deployment.environment.name`.",
    Shape::MapOf(&VALUE_SHAPE),
);
const CA_KEY: KeySpec = KeySpec::new(
    "ca",
    "A PEM file of CA certificates that verify the collector's certificate. Default: the system's trust \
    store.",
    Shape::Text(&PEM),
);

pub(crate) static ACCESS_LOG_OTLP: SectionSpec = SectionSpec {
    name: "access_log_otlp",
    noun: "`otlp`",
    doc: "An OpenTelemetry collector that receives every line of the access log.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "url",
            "The collector's URL for logs over OTLP/HTTP, such as `http://127.0.0.1:4318/v1/logs`.",
            Shape::Text(&LOG_COLLECTOR),
        )
        .required()
        .aliases(&["endpoint", "collector", "to"]),
        SERVICE_KEY,
        HEADERS_KEY,
        RESOURCE_KEY,
        CA_KEY,
    ],
};

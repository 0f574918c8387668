//! OpenTelemetry collectors, to which the gateway exports records and spans.

use crate::model::Secret;
use crate::read::service_url;
use crate::scalar::field as header;
use crate::section::{Field, Fields, Reader, ScalarError, Section, Shape, Text, Value};

use super::texts::PEM_TEXT;
use super::tls::PemFile;

/// An OpenTelemetry collector that receives data over OTLP/HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct Collector {
    /// URL for this kind of data.
    pub url: String,
    /// Settings of the export.
    pub export: ExportSettings,
}

static LOGS_URL: Text = Text {
    expected: "a URL such as `http://127.0.0.1:4318/v1/logs`",
    pattern: Some("^https?://"),
    loose: false,
};

/// An OpenTelemetry collector that receives every line of the access log.
#[derive(Clone, Debug, Section)]
#[section(name = "access_log_otlp", noun = "`otlp`", own_forms, makes = Collector, by = collector)]
struct LogCollector {
    /// The collector's URL for logs over OTLP/HTTP, such as `http://127.0.0.1:4318/v1/logs`.
    #[key(text = LOGS_URL, parse = service_url, required, also = ["endpoint", "collector", "to"])]
    url: String,
    #[key(flatten)]
    export: ExportSettings,
}

fn collector(_: &mut Reader, _: &Fields<'_>, keys: LogCollector) -> Option<Collector> {
    Some(Collector { url: keys.url, export: keys.export })
}

/// A mapping, or the URL.
impl Value for Collector {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Off, Shape::Text(&LOGS_URL), Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            let fields = reader.fields(field.node, Self::SPEC)?;
            return Self::read_keys(reader, &fields);
        }
        let url = reader.field(field, service_url)?;
        Some(Self { url, export: ExportSettings::default() })
    }
}

/// Settings of the export to a collector.
#[derive(Clone, Debug, PartialEq, Section)]
pub struct ExportSettings {
    /// `service.name` of the exported data.
    #[key(
        expected = "a name such as `front-door`", pattern = ".", loose, parse = any_text, default = tollgate,
        also = ["service_name", "name"],
    )]
    pub service: String,
    /// Header fields of requests to the collector.
    #[key(expected = "a value", loose, pairs = (field_name, field_value), concealed)]
    pub headers: Vec<(String, Secret)>,
    /// Additional resource attributes of this gateway, such as `deployment.environment.name`.
    #[key(expected = "a value", loose, pairs = (attribute, any_text))]
    pub resource: Vec<(String, String)>,
    /// A PEM file of CA certificates that verify the collector's certificate. Default: the system's trust store.
    #[key(text = PEM_TEXT)]
    pub ca: Option<PemFile>,
}

fn any_text(text: &str) -> Result<String, ScalarError> {
    Ok(text.to_owned())
}

/// Parses the name of a field. The advice on names does not apply here.
fn field_name(text: &str) -> Result<String, ScalarError> {
    header::name(text).map_err(|fault| ScalarError { help: None, ..fault })
}

/// Parses the value of a field. It may be a token.
fn field_value(text: &str) -> Result<Secret, ScalarError> {
    header::value(text).map(Secret::from)
}

/// Checks the key of an attribute.
fn attribute(text: &str) -> Result<String, ScalarError> {
    match text {
        "" => Err(ScalarError::new("an attribute has no name")),
        "service.name" => Err(ScalarError::new("{} is set by `service`")),
        _ => Ok(text.to_owned()),
    }
}

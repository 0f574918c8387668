//! Reads `trace`.

use crate::model::Percent;
use crate::model::{Collector, Propagation, Trace};
use crate::reader::{Field, Fields, Reader, one_or_many};
use crate::scalar::{ScalarError, field as header};
use crate::sections::policies::url;
use crate::sections::tls::pem;
use crate::spec::{Shape, TRACE_POLICY};

pub(super) fn trace(reader: &mut Reader, field: Field<'_>) -> Option<Trace> {
    let fields = reader.fields(field.node, &TRACE_POLICY)?;
    let collector = collector(reader, &fields, "otlp");
    let mut out =
        Trace { collector: collector?, sample: Percent::ALL, propagation: Vec::new(), continues: true };
    reader.number_into(fields.get("sample"), &mut out.sample);
    reader.switch(fields.get("continue"), &mut out.continues);
    if let Some(field) = fields.get("propagation") {
        let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
        for item in one_or_many(field.node) {
            let form = reader.parsed(item, "`propagation`", one, |text| match text {
                "w3c" => Ok(Propagation::W3c),
                "b3" => Ok(Propagation::B3),
                "b3_multi" => Ok(Propagation::B3Multi),
                _ => Err(ScalarError::new("{} is not a format of a trace context")),
            });
            out.propagation.extend(form.filter(|form| !out.propagation.contains(form)));
        }
    }
    if out.propagation.is_empty() {
        out.propagation.push(Propagation::W3c);
    }
    Some(out)
}

/// Reads a collector that receives data over OTLP. `key` is the key of its URL.
pub(crate) fn collector(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<Collector> {
    let found = fields.get(key).and_then(|field| reader.field(field, url));
    let mut out = Collector::at(found.clone().unwrap_or_default());
    out.ca = fields.get("ca").and_then(|field| pem(reader, field));
    if let Some(field) = fields.get("service") {
        out.service = reader.field(field, |text| Ok(text.to_owned())).unwrap_or_default();
    }
    // The advice on names does not apply here.
    let name = |text: &str| header::name(text).map_err(|fault| ScalarError { help: None, ..fault });
    out.headers = reader.pairs(fields.get("headers"), name, header::value);
    let any = |text: &str| Ok(text.to_owned());
    out.resource = reader.pairs(fields.get("resource"), attribute, any);
    found.map(|_| out)
}

/// Checks the key of an attribute.
fn attribute(text: &str) -> Result<String, ScalarError> {
    match text {
        "" => Err(ScalarError::new("an attribute has no name")),
        "service.name" => Err(ScalarError::new("{} is set by `service`")),
        _ => Ok(text.to_owned()),
    }
}

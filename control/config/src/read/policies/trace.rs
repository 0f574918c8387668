//! `trace`.

use super::jwt::url;
use crate::model::{Propagation, Trace};
use crate::problem::Problem;
use crate::read::tls::pem;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::{Fault, field as header};
use crate::spec::{Shape, TRACE_POLICY};
use crate::tree::{Kind, shown};

pub(super) fn trace(reader: &mut Reader, field: Field<'_>) -> Option<Trace> {
    let fields = reader.fields(field.node, &TRACE_POLICY)?;
    let url = reader.field(fields.get("otlp")?, url)?;
    let mut out = Trace {
        url,
        sample: 100,
        propagation: Vec::new(),
        continues: true,
        service: "tollgate".to_owned(),
        headers: Vec::new(),
        ca: fields.get("ca").and_then(|field| pem(reader, field)),
    };
    reader.number_into(fields.get("sample"), &mut out.sample);
    reader.switch(fields.get("continue"), &mut out.continues);
    if let Some(field) = fields.get("propagation") {
        let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
        for item in one_or_many(field.node) {
            let form = reader.parsed(item, "`propagation`", one, |text| match text {
                "w3c" => Ok(Propagation::W3c),
                "b3" => Ok(Propagation::B3),
                "b3_multi" => Ok(Propagation::B3Multi),
                _ => Err(Fault::new("{} is not a form of a trace's context")),
            });
            out.propagation.extend(form.filter(|form| !out.propagation.contains(form)));
        }
    }
    if out.propagation.is_empty() {
        out.propagation.push(Propagation::W3c);
    }
    if let Some(field) = fields.get("service") {
        out.service = reader.field(field, |text| Ok(text.to_owned()))?;
    }
    if let Some(field) = fields.get("headers") {
        let one = if let Shape::MapOf(one) = field.key.shape { one } else { &field.key.shape };
        let Kind::Map(entries) = &field.node.kind else {
            reader.mismatch(field.node, "`headers`", "a mapping of names to values".to_owned());
            return Some(out);
        };
        for entry in entries {
            match header::name(&entry.key) {
                Ok(name) => {
                    let value = reader.parsed(&entry.value, &shown(&entry.key), one, header::value);
                    out.headers.extend(value.map(|value| (name, value)));
                }
                Err(fault) => {
                    let message = fault.message.replacen("{}", &shown(&entry.key), 1);
                    reader.problems.push(Problem::error(entry.at, message));
                }
            }
        }
    }
    Some(out)
}

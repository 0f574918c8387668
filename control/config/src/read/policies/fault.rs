//! Reads `fault`.

use std::time::Duration;

use crate::model::{Fault, Percent};
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::field as header;
use crate::spec::{FAULT, FAULT_ABORT, FAULT_DELAY};

pub(super) fn fault(reader: &mut Reader, field: Field<'_>) -> Option<Fault> {
    let fields = reader.fields(field.node, &FAULT)?;
    let mut out = Fault::default();
    if let Some(fields) = fields.get("abort").and_then(|field| reader.fields(field.node, &FAULT_ABORT)) {
        let (mut status, mut percent) = (503, Percent::ALL);
        reader.number_into(fields.get("status"), &mut status);
        reader.number_into(fields.get("percent"), &mut percent);
        out.abort = Some((status, percent));
    }
    if let Some(fields) = fields.get("delay").and_then(|field| reader.fields(field.node, &FAULT_DELAY)) {
        let (mut time, mut percent) = (Duration::ZERO, Percent::ALL);
        reader.time_into(fields.get("time"), &mut time);
        reader.number_into(fields.get("percent"), &mut percent);
        out.delay = Some((time, percent));
    }
    if fields.get("abort").is_none() && fields.get("delay").is_none() {
        let problem = Problem::error(field.at, "`fault` has neither `abort` nor `delay`: it does nothing");
        reader.problems.push(problem.expected("one of them, or both"));
    }
    out.header = fields.get("header").and_then(|field| {
        reader.field(field, |text| match text.split_once(':') {
            Some((name, value)) => Ok((header::name(name)?, Some(header::value(value.trim())?))),
            None => Ok((header::name(text)?, None)),
        })
    });
    Some(out)
}

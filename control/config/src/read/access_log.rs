//! `access_log`.

use super::policies::shared::url;
use super::policies::trace::collector;
use crate::model::{AccessLog, Collector, LogFormat, LogTarget, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::Fault;
use crate::scalar::file_path::{self, file_path};
use crate::scalar::template::{self, Piece};
use crate::spec::{ACCESS_LOG, ACCESS_LOG_OTLP};
use crate::suggest;
use crate::tree::{Kind, Scalar};

pub(super) fn access_log(reader: &mut Reader, field: Field<'_>) -> Option<AccessLog> {
    if !matches!(field.node.kind, Kind::Map(_)) {
        let to = reader.field(field, target)?;
        return Some(AccessLog { to, ..AccessLog::default() });
    }
    let fields = reader.fields(field.node, &ACCESS_LOG)?;
    let mut log = AccessLog::default();
    if let Some(to) = fields.get("to") {
        log.to = reader.field(to, target).unwrap_or_default();
    }
    if let Some(field) = fields.get("format") {
        log.format = format(reader, field).unwrap_or_default();
    }
    log.otlp = fields.get("otlp").and_then(|field| otlp(reader, field));
    Some(log)
}

/// A collector's URL, or more of it.
fn otlp(reader: &mut Reader, field: Field<'_>) -> Option<Collector> {
    if field.node.scalar().is_some_and(Scalar::is_off) {
        return None;
    }
    if !matches!(field.node.kind, Kind::Map(_)) {
        let url = reader.field(field, url)?;
        return Some(Collector::at(url));
    }
    let fields = reader.fields(field.node, &ACCESS_LOG_OTLP)?;
    collector(reader, &fields, "url")
}

fn target(text: &str) -> Result<LogTarget, Fault> {
    match text.to_ascii_lowercase().as_str() {
        "off" | "false" | "no" => Ok(LogTarget::Off),
        "stdout" | "-" => Ok(LogTarget::Stdout),
        "on" | "true" | "yes" => Err(Fault::new("{} does not say where the log goes")),
        "stderr" => Err(Fault::new("{} is kept for the gateway's own messages").help("write `stdout`")),
        _ if file_path::scheme(text).is_some() || text.starts_with('|') => Err(destination(text)),
        // A bare word is sooner a slip than a file in the working directory.
        _ if !text.contains(['/', '.']) => {
            let fault = Fault::new("{} is neither `stdout` nor a path");
            Err(match suggest::nearest(text, ["stdout", "off"].into_iter()) {
                Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                None => fault.suggest(format!("write `./{text}` for a file in the working directory")),
            })
        }
        _ => file_path(text).map(LogTarget::File),
    }
}

/// Why a text that names a destination of another program is no target, and what comes nearest to it here.
fn destination(text: &str) -> Fault {
    let fault = Fault::new("{} is neither `stdout` nor the path of a file");
    match file_path::scheme(text) {
        Some("http" | "https" | "grpc" | "otlp") => {
            fault.help("an OpenTelemetry collector is named under `otlp`")
        }
        _ => file_path(text).err().unwrap_or(fault),
    }
}

fn format(reader: &mut Reader, field: Field<'_>) -> Option<LogFormat> {
    let pieces = reader.field(field, |text| match text {
        "combined" | "json" => Ok(Vec::new()),
        _ if text.contains('{') || text.contains(' ') => template::pieces(text),
        _ => {
            let fault = Fault::new("{} is no format");
            Err(match suggest::nearest(text, ["combined", "json"].into_iter()) {
                Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                None => fault,
            })
        }
    })?;
    let scalar = field.node.scalar()?;
    match scalar.text.as_str() {
        "combined" => return Some(LogFormat::Combined),
        "json" => return Some(LogFormat::Json),
        _ => {}
    }
    if !pieces.iter().any(|piece| matches!(piece, Piece::Field(_))) {
        let problem = Problem::warning(
            field.node.at,
            format!("{} names no field: all lines would be the same", scalar.shown()),
        );
        reader.problems.push(problem.help("a field is written `{client}`"));
    }
    Some(LogFormat::Template(Spanned { value: scalar.text.clone(), at: field.node.at }))
}

//! Reads `log`.

use crate::model::{DiagnosticFormat, DiagnosticLog, DiagnosticOutput, LogComponent, LogLevel, LogLevels};
use crate::reader::{Field, Fields, Reader};
use crate::scalar::ScalarError;
use crate::scalar::file_path::{self, file_path};
use crate::spec::{LOG, LOG_COMPONENTS};
use crate::suggest;
use crate::tree::NodeKind;

/// Reads the log of the gateway's own messages: a level, or a mapping.
pub(super) fn log(reader: &mut Reader, field: Field<'_>) -> DiagnosticLog {
    let mut log = DiagnosticLog::default();
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        log.levels.level = reader.field(field, level).unwrap_or_default();
        return log;
    }
    let Some(fields) = reader.fields(field.node, &LOG) else { return log };
    log.levels = levels(reader, &fields);
    if reader.word(fields.get("format")) == Some("json") {
        log.format = DiagnosticFormat::Json;
    }
    if let Some(to) = fields.get("output") {
        log.output = reader.field(to, output).unwrap_or_default();
    }
    log
}

fn levels(reader: &mut Reader, fields: &Fields<'_>) -> LogLevels {
    let mut levels = LogLevels::default();
    if let Some(field) = fields.get("level") {
        levels.level = reader.field(field, level).unwrap_or_default();
    }
    let Some(field) = fields.get("components") else { return levels };
    let Some(fields) = reader.fields(field.node, &LOG_COMPONENTS) else { return levels };
    for component in LogComponent::ALL {
        if let Some(field) = fields.get(component.as_str()) {
            levels.components.extend(reader.field(field, level).map(|level| (component, level)));
        }
    }
    levels
}

fn level(text: &str) -> Result<LogLevel, ScalarError> {
    LogLevel::from_name(text).ok_or_else(|| {
        let fault = ScalarError::new("{} is not a level");
        match LogLevel::nearest(text) {
            Some(near) => fault.suggest(format!("did you mean `{}`?", near.as_str())),
            None if text.contains('/') => fault.help("the log of requests is `access_log`"),
            None => fault,
        }
    })
}

fn output(text: &str) -> Result<DiagnosticOutput, ScalarError> {
    match text {
        "stderr" => Ok(DiagnosticOutput::Stderr),
        "stdout" | "-" => Ok(DiagnosticOutput::Stdout),
        _ if file_path::scheme(text).is_some() || text.starts_with('|') => {
            Err(ScalarError::new("{} is neither `stderr`, `stdout` nor the path of a file"))
        }
        // A bare word is more likely a typing error than a file in the working directory.
        _ if !text.contains(['/', '.']) => {
            let fault = ScalarError::new("{} is neither `stderr`, `stdout` nor a path");
            Err(match suggest::nearest(text, ["stderr", "stdout"].into_iter()) {
                Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                None => fault.suggest(format!("write `./{text}` for a file in the working directory")),
            })
        }
        _ => file_path(text).map(DiagnosticOutput::File),
    }
}

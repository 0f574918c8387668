//! Endpoints of the admin API for the levels of the diagnostic log. They change only this process, and only
//! until the file is loaded again.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value};
use tollgate_config::section::Word;
use tollgate_config::{LogComponent, LogLevel, LogLevels, nearest};
use tollgate_net::component;
use tracing::info;

use super::body;
use super::response::{body as respond, error_response, wants_yaml};
use crate::access::{AuditedSetting, ClientName};
use crate::diagnostics;

/// `GET /api/v1/log`: returns the levels in force, the format, the output, and how many lines were lost.
pub async fn get(headers: HeaderMap) -> Response {
    respond(StatusCode::OK, wants_yaml(&headers), &diagnostics::state_to_json())
}

/// `PUT /api/v1/log`: changes the levels for all events from now on.
pub async fn put(ClientName(who): ClientName, headers: HeaderMap, content: Body) -> Response {
    let value = match body::read_put(&headers, content).await {
        Ok(body) => body.value,
        Err(response) => return *response,
    };
    let before = diagnostics::levels();
    let levels = match with_changes(before.clone(), &value) {
        Ok(levels) => levels,
        Err(message) => return error_response(StatusCode::BAD_REQUEST, "bad_request", &message),
    };
    diagnostics::set_levels(&levels);
    if levels != before {
        info!(target: component::ADMIN, "audit: log levels by {who}: {}", describe(&levels));
    }
    let mut response = respond(StatusCode::OK, wants_yaml(&headers), &diagnostics::state_to_json());
    response.extensions_mut().insert(AuditedSetting {
        name: "log",
        value: diagnostics::levels_to_json(&levels),
        is_changed: levels != before,
    });
    response
}

/// Returns the levels after a change. `level` and `components` each replace what is in force, if they are
/// given.
///
/// # Errors
/// Returns a readable reason why the value is invalid.
fn with_changes(mut levels: LogLevels, value: &Value) -> Result<LogLevels, String> {
    for (key, value) in mapping(value, "the body")? {
        match key.as_str() {
            "level" => levels.level = level(value)?,
            "components" => {
                let entries = mapping(value, "`components`")?;
                let entry = |(name, value): (&String, &Value)| Ok((component(name)?, level(value)?));
                levels.components = entries.iter().map(entry).collect::<Result<_, String>>()?;
            }
            key => return Err(unknown("key", key, &["level", "components"])),
        }
    }
    Ok(levels)
}

fn mapping<'v>(value: &'v Value, noun: &str) -> Result<&'v Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{noun} is not a mapping"))
}

fn level(value: &Value) -> Result<LogLevel, String> {
    let word = value.as_str().ok_or_else(|| format!("`{value}` is not a level"))?;
    LogLevel::from_word(word).ok_or_else(|| match LogLevel::nearest(word) {
        Some(near) => format!("`{word}` is not a level: did you mean `{}`?", near.word()),
        None => unknown("level", word, LogLevel::WORDS),
    })
}

fn component(name: &str) -> Result<LogComponent, String> {
    LogComponent::from_word(name).ok_or_else(|| unknown("component", name, LogComponent::WORDS))
}

fn unknown(noun: &str, word: &str, known: &[&str]) -> String {
    // A client chose it, and it goes into the response.
    let word: String = word.chars().take(64).collect();
    match nearest(&word, known.iter().copied()) {
        Some(near) => format!("`{word}` is not a {noun}: did you mean `{near}`?"),
        None => format!("`{word}` is not a {noun}: there are {}", known.join(", ")),
    }
}

/// Returns the levels on one line: `info, tls debug`.
fn describe(levels: &LogLevels) -> String {
    let components = levels.components.iter();
    let components = components.map(|(component, level)| format!(", {} {}", component.word(), level.word()));
    format!("{}{}", levels.level.word(), components.collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_levels_stay() {
        let change = |levels: &LogLevels, value: Value| with_changes(levels.clone(), &value);
        let first =
            change(&LogLevels::default(), json!({ "components": { "upstream": "debug", "tls": "warn" } }))
                .expect("valid");
        assert_eq!(describe(&first), "info, tls warn, upstream debug");
        let second = change(&first, json!({ "level": "error" })).expect("valid");
        assert_eq!(describe(&second), "error, tls warn, upstream debug");
        let third = change(&second, json!({ "components": {} })).expect("valid");
        assert_eq!(describe(&third), "error");
        assert_eq!(change(&first, json!({})), Ok(first));
    }

    #[test]
    fn wrong_values_have_a_reason() {
        for (value, message) in [
            (json!([]), "the body is not a mapping"),
            (json!({ "level": "warning" }), "`warning` is not a level: did you mean `warn`?"),
            (json!({ "level": "loud" }), "`loud` is not a level: there are error, warn, info, debug, trace"),
            (json!({ "level": 1 }), "`1` is not a level"),
            (json!({ "levels": "info" }), "`levels` is not a key: did you mean `level`?"),
            (json!({ "components": "debug" }), "`components` is not a mapping"),
            (json!({ "components": { "tsl": "debug" } }), "`tsl` is not a component: did you mean `tls`?"),
            (json!({ "components": { "tls": null } }), "`null` is not a level"),
        ] {
            assert_eq!(with_changes(LogLevels::default(), &value), Err(message.to_owned()), "{value}");
        }
    }
}

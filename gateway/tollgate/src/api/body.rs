//! Reads the bodies of admin API requests, bounded in size and time.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::Value;
use tollgate_config::from_yaml;
use tollgate_sources::ChangeError;

use super::response::{change_error_response, error_response};

/// The largest body, in bytes. An import of 100,000 routes is about 10 MiB.
pub const BODY_MAX_BYTES: usize = 64 << 20;
/// The most values in a body. An imported route has about 20.
const VALUES_MAX: usize = 8_000_000;
/// Bodies up to this size, in bytes, are parsed on the control thread.
const INLINE_PARSE_MAX_BYTES: usize = 64 << 10;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyForm {
    Json,
    Yaml,
    /// JSON or YAML; only a mapping or a list, since the text of a form is a scalar of YAML.
    Unnamed,
}

/// A body and its value.
#[derive(Debug)]
pub struct SentBody {
    pub value: Value,
    /// The bytes, for messages that show them.
    pub sent: Bytes,
}

/// Reads a JSON or YAML body. Its `Content-Type` must name one of them: a browser cannot send these types
/// across origins without a preflight. A body of another type is refused before it is read.
///
/// # Errors
/// The response: another type, a body that is too large or late, or malformed.
pub async fn read(headers: &HeaderMap, body: Body) -> Result<SentBody, Box<Response>> {
    let form = named_form(headers).ok_or_else(wrong_type)?;
    read_form(form, body).await
}

/// Like [`read`], for `PUT` and `PATCH`: also takes the type of a form, which `curl -d` sets by default. A
/// browser sends no `PUT` and no `PATCH` across origins without a preflight, whatever the type is.
///
/// # Errors
/// As for [`read`].
pub async fn read_put(headers: &HeaderMap, body: Body) -> Result<SentBody, Box<Response>> {
    match named_form(headers) {
        Some(form) => read_form(form, body).await,
        None if content_type(headers) == "application/x-www-form-urlencoded" => {
            read_form(BodyForm::Unnamed, body).await
        }
        None => Err(wrong_type()),
    }
}

/// Returns the media type of a body, without its parameters and in lower case.
fn content_type(headers: &HeaderMap) -> String {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the form that the `Content-Type` names.
fn named_form(headers: &HeaderMap) -> Option<BodyForm> {
    match content_type(headers).as_str() {
        "application/json" | "application/merge-patch+json" => Some(BodyForm::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Some(BodyForm::Yaml),
        _ => None,
    }
}

fn wrong_type() -> Box<Response> {
    let message = "the body must be declared as JSON or YAML: with curl, add `-H 'Content-Type: application/json'` or \
         `-H 'Content-Type: application/yaml'`";
    Box::new(error_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type", message))
}

async fn read_form(form: BodyForm, body: Body) -> Result<SentBody, Box<Response>> {
    let bad = |message: &str| Box::new(error_response(StatusCode::BAD_REQUEST, "bad_request", message));
    let sent = read_whole(body, BODY_MAX_BYTES).await?;
    if count_values(&sent) > VALUES_MAX {
        let message = format!("the body has more than {VALUES_MAX} values");
        return Err(Box::new(error_response(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &message)));
    }
    if sent.len() <= INLINE_PARSE_MAX_BYTES {
        return Ok(SentBody { value: parse(&sent, form)?, sent });
    }
    // Parsing a large body takes a while, and this thread also answers health checks.
    let bytes = sent.clone();
    match tokio::task::spawn_blocking(move || parse(&bytes, form)).await {
        Ok(parsed) => Ok(SentBody { value: parsed?, sent }),
        Err(_) => Err(bad("the body cannot be read")),
    }
}

fn parse(bytes: &[u8], form: BodyForm) -> Result<Value, Box<Response>> {
    let bad = |message: &str| Box::new(error_response(StatusCode::BAD_REQUEST, "bad_request", message));
    let text = std::str::from_utf8(bytes).map_err(|_| bad("the body is not UTF-8"))?;
    match form {
        BodyForm::Json => {}
        BodyForm::Yaml => {
            return from_yaml(text)
                .map_err(|problems| Box::new(change_error_response(&ChangeError::Invalid(problems))));
        }
        BodyForm::Unnamed => {
            let value = serde_json::from_str(text).ok().or_else(|| from_yaml(text).ok());
            let is_value = |value: &Value| value.is_object() || value.is_array();
            return value.filter(is_value).ok_or_else(wrong_type);
        }
    }
    serde_json::from_str(text).map_err(|error| bad(&format!("the body is no JSON: {error}")))
}

/// Returns an upper bound for the number of values in a text, by counting separators. A value may be two
/// bytes of text, but takes at least a hundred bytes of memory.
fn count_values(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| matches!(byte, b',' | b':' | b'\n')).count()
}

/// Reads a whole body of at most `max_bytes` bytes, if it arrives in time.
pub async fn read_whole(body: Body, max_bytes: usize) -> Result<Bytes, Box<Response>> {
    read_within(body, max_bytes, BODY_TIMEOUT).await
}

async fn read_within(body: Body, max_bytes: usize, timeout: Duration) -> Result<Bytes, Box<Response>> {
    let too_large = || {
        let message = format!("the body is larger than {} MiB, or was cut", max_bytes >> 20);
        (StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    };
    if hyper::body::Body::size_hint(&body).lower() > max_bytes as u64 {
        let (status, code, message) = too_large();
        return Err(Box::new(error_response(status, code, &message)));
    }
    let (status, code, message) = match tokio::time::timeout(timeout, to_bytes(body, max_bytes)).await {
        Ok(Ok(bytes)) => return Ok(bytes),
        Ok(Err(_)) => too_large(),
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "timeout", "the body does not come".to_owned()),
    };
    Err(Box::new(error_response(status, code, &message)))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::http::HeaderValue;
    use hyper::body::Frame;

    use super::*;

    /// A body that is announced and never arrives.
    struct Silent;

    impl hyper::body::Body for Silent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[test]
    fn a_body_of_another_type_is_not_read() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("text/plain"))]);
        for refused in [
            runtime.block_on(read(&headers, Body::new(Silent))),
            runtime.block_on(read_put(&headers, Body::new(Silent))),
        ] {
            assert_eq!(refused.expect_err("another type").status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
    }

    #[test]
    fn a_body_has_a_bound_in_time_and_in_bytes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let status = |body: Body, timeout: Duration| {
            let read = runtime.block_on(read_within(body, 1 << 20, timeout));
            read.map(|bytes| bytes.len()).map_err(|response| response.status().as_u16())
        };
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(60));
        assert_eq!(status(Body::new(Silent), short), Err(408));
        assert_eq!(status(Body::from(vec![b' '; (1 << 20) + 1]), long), Err(413));
        assert_eq!(status(Body::from(vec![b' '; 1 << 20]), long), Ok(1 << 20));
    }
}

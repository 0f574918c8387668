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

/// Reads a JSON or YAML body. Its `Content-Type` must name one of them: a browser cannot send these types
/// across origins without a preflight.
pub async fn read(headers: &HeaderMap, body: Body) -> Result<Value, Box<Response>> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let yaml = match kind.as_str() {
        "application/json" | "application/merge-patch+json" => false,
        "application/yaml" | "application/x-yaml" | "text/yaml" => true,
        _ => {
            let message = "the body must be `Content-Type: application/json` or `application/yaml`";
            return Err(Box::new(error_response(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content_type",
                message,
            )));
        }
    };
    let bad = |message: &str| Box::new(error_response(StatusCode::BAD_REQUEST, "bad_request", message));
    let bytes = read_whole(body, BODY_MAX_BYTES).await?;
    if count_values(&bytes) > VALUES_MAX {
        let message = format!("the body has more than {VALUES_MAX} values");
        return Err(Box::new(error_response(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &message)));
    }
    if bytes.len() <= INLINE_PARSE_MAX_BYTES {
        return parse(&bytes, yaml);
    }
    // Parsing a large body takes a while, and this thread also answers health checks.
    match tokio::task::spawn_blocking(move || parse(&bytes, yaml)).await {
        Ok(parsed) => parsed,
        Err(_) => Err(bad("the body cannot be read")),
    }
}

fn parse(bytes: &[u8], yaml: bool) -> Result<Value, Box<Response>> {
    let bad = |message: &str| Box::new(error_response(StatusCode::BAD_REQUEST, "bad_request", message));
    let text = std::str::from_utf8(bytes).map_err(|_| bad("the body is not UTF-8"))?;
    if yaml {
        return from_yaml(text)
            .map_err(|problems| Box::new(change_error_response(&ChangeError::Invalid(problems))));
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

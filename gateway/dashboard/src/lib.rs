//! The dashboard: one page under `/dashboard/` of the admin listener.
//!
//! `page/` holds plain modules and one style sheet; `vendor/` holds three libraries as their authors released
//! them. There is no build step. All files are embedded in the binary, and the page sends requests only to
//! its own listener: its Content-Security-Policy forbids browsers everything else.

mod files;

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, LOCATION,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;

use files::{EmbeddedFile, FILES};

/// The page's content security policy. It may load scripts, styles and images from its own origin, and send
/// requests there. It forbids inline scripts, framing and form submission.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the router of the page and its files.
pub fn router() -> Router {
    Router::new()
        // The location is relative, so that it also works under a path prefix.
        .route("/dashboard", get(async || redirect("dashboard/")))
        .route("/dashboard/", get(async |headers: HeaderMap| file_response("index.html", &headers)))
        .route(
            "/dashboard/{*file}",
            get(async |Path(file): Path<String>, headers: HeaderMap| file_response(&file, &headers)),
        )
}

fn file_response(name: &str, headers: &HeaderMap) -> Response {
    let Some(EmbeddedFile { content_type, content, .. }) = FILES.iter().find(|file| file.name == name) else {
        return response_with(
            StatusCode::NOT_FOUND,
            "the dashboard has no such file\n",
            &[(CONTENT_TYPE, "text/plain; charset=utf-8")],
        );
    };
    let tag = entity_tag(content);
    let is_current = headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == tag.as_bytes());
    let (status, body) = if is_current { (StatusCode::NOT_MODIFIED, "") } else { (StatusCode::OK, *content) };
    let mut response = response_with(
        status,
        body,
        &[
            (CONTENT_TYPE, content_type),
            (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            // Browsers revalidate each time, and download again only after an upgrade.
            (CACHE_CONTROL, "no-cache"),
        ],
    );
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

fn redirect(to: &'static str) -> Response {
    response_with(StatusCode::SEE_OTHER, "", &[(LOCATION, to)])
}

fn response_with(status: StatusCode, body: &'static str, headers: &[(HeaderName, &'static str)]) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns an entity tag: a hash of the content.
fn entity_tag(content: &str) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_with_its_policy_and_only_once() {
        let response = file_response("app.js", &HeaderMap::new());
        assert_eq!(response.status(), StatusCode::OK);
        let headers = response.headers();
        assert_eq!(headers[CONTENT_TYPE], "text/javascript; charset=utf-8");
        assert!(headers[CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src 'none'"));
        let again = HeaderMap::from_iter([(IF_NONE_MATCH, headers[ETAG].clone())]);
        assert_eq!(file_response("app.js", &again).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(file_response("style.css", &again).status(), StatusCode::OK);
        assert_eq!(file_response("../Cargo.toml", &again).status(), StatusCode::NOT_FOUND);
    }
}

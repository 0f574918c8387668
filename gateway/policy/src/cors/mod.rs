//! `cors`: decides which web pages may read responses (Fetch, 3.2: the CORS protocol).
//!
//! The policy answers preflights itself, before authentication, because browsers send them without
//! credentials. It removes the upstream's own CORS fields, so that only the configuration grants access.

mod config;

use std::sync::{Arc, LazyLock};

use regex::Regex;
use tollgate_http::FieldFinder;

use crate::{Planned, Policy, PolicyResponse, PolicyStates, Request, Response, Verdict};

pub(crate) use config::CorsSettings;

/// Decides which web pages may read responses.
#[derive(Clone, Debug, Default)]
pub struct CorsRules {
    /// Whether all origins are allowed.
    pub any: bool,
    /// The allowed origins.
    pub origins: Vec<OriginPattern>,
    /// Whether a page may use any method.
    pub any_method: bool,
    /// The allowed methods, as the value of `Access-Control-Allow-Methods`.
    pub methods: String,
    /// Whether a page may set any request header.
    pub any_header: bool,
    /// The request headers that a page may set, as the value of `Access-Control-Allow-Headers`.
    pub headers: String,
    /// The response headers that a page may read, as the value of `Access-Control-Expose-Headers`.
    pub expose: String,
    /// Whether requests may carry credentials such as cookies.
    pub credentials: bool,
    /// How many seconds a browser may cache the response to a preflight.
    pub max_age: Option<u64>,
}

/// A pattern of allowed origins. Browsers send origins in lower case.
#[derive(Clone, Debug)]
pub enum OriginPattern {
    /// This origin.
    Exactly(Box<str>),
    /// Origins of subdomains: the text before the wildcard labels and the text after them.
    Below(Box<str>, Box<str>),
    /// Origins that match an expression, which is anchored at both ends.
    Matching(Regex),
}

impl OriginPattern {
    fn matches(&self, origin: &str) -> bool {
        match self {
            Self::Exactly(own) => **own == *origin,
            Self::Below(scheme, host) => {
                let labels = origin.strip_prefix(&**scheme).and_then(|rest| rest.strip_suffix(&**host));
                // Labels only: a port, user or path must not disguise the host.
                let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
                labels.is_some_and(|labels| !labels.is_empty() && labels.bytes().all(known))
            }
            Self::Matching(regex) => regex.is_match(origin),
        }
    }
}

impl Planned for CorsRules {
    fn kind(&self) -> &'static str {
        "cors"
    }

    fn summary(&self) -> String {
        let whom =
            if self.any { "all origins".to_owned() } else { format!("{} origins", self.origins.len()) };
        format!("{whom}, {}", self.methods)
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        Arc::new(Cors(self))
    }
}

/// Fields that only the gateway writes.
static GATEWAY_FIELDS: LazyLock<FieldFinder> = LazyLock::new(|| {
    FieldFinder::new([
        &b"Access-Control-Allow-Origin"[..],
        b"Access-Control-Allow-Credentials",
        b"Access-Control-Expose-Headers",
        b"Access-Control-Allow-Methods",
        b"Access-Control-Allow-Headers",
        b"Access-Control-Max-Age",
    ])
});

#[derive(Debug)]
struct Cors(Arc<CorsRules>);

impl Policy for Cors {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let rules = &self.0;
        let origin = request.header("origin");
        let allowed = origin.and_then(|origin| rules.allows(origin)).map(<[u8]>::to_vec);
        let wanted = request.header("access-control-request-method");
        if request.method() == b"OPTIONS" && origin.is_some() && wanted.is_some() {
            let asked = request.header("access-control-request-headers");
            return Verdict::Respond(rules.preflight(allowed.as_deref(), wanted.unwrap_or_default(), asked));
        }
        rules.clone().register_fields(allowed, request);
        Verdict::Continue
    }

    fn skipped(&self, request: &mut Request<'_>) {
        let allowed = request.header("origin").and_then(|origin| self.0.allows(origin)).map(<[u8]>::to_vec);
        self.0.clone().register_fields(allowed, request);
    }
}

impl CorsRules {
    /// Returns the value of `Access-Control-Allow-Origin` for this origin; `None`: it is not allowed.
    fn allows<'o>(&self, origin: &'o [u8]) -> Option<&'o [u8]> {
        if self.any {
            return Some(b"*");
        }
        let text = std::str::from_utf8(origin).ok()?;
        self.origins.iter().any(|pattern| pattern.matches(text)).then_some(origin)
    }

    /// Registers the change of the response's CORS fields.
    fn register_fields(self: Arc<Self>, allowed: Option<Vec<u8>>, request: &mut Request<'_>) {
        request.context.on_head(move |response| self.write_fields(allowed.as_deref(), response));
    }

    /// Answers a preflight. For an origin that is not allowed it contains no permission, and the browser
    /// refuses.
    fn preflight(&self, allowed: Option<&[u8]>, method: &[u8], asked: Option<&[u8]>) -> PolicyResponse {
        let mut lines = Vec::new();
        let mut line = |name: &str, value: &[u8]| {
            if !value.is_empty() && !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                lines.extend_from_slice(name.as_bytes());
                lines.extend_from_slice(b": ");
                lines.extend_from_slice(value);
                lines.extend_from_slice(b"\r\n");
            }
        };
        if let Some(origin) = allowed {
            line("Access-Control-Allow-Origin", origin);
            // With credentials, `*` would be a literal method or field name.
            let methods = if self.any_method { method } else { self.methods.as_bytes() };
            line("Access-Control-Allow-Methods", methods);
            let headers = if self.any_header { asked.unwrap_or(b"") } else { self.headers.as_bytes() };
            line("Access-Control-Allow-Headers", headers);
            if self.credentials {
                line("Access-Control-Allow-Credentials", b"true");
            }
            // Browsers read it in the response itself; the Gateway API's conformance suite also in a preflight's.
            line("Access-Control-Expose-Headers", self.expose.as_bytes());
            if let Some(age) = self.max_age {
                line("Access-Control-Max-Age", age.to_string().as_bytes());
            }
        }
        line("Vary", b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
        PolicyResponse { status: 204, lines, body: Vec::new() }
    }

    /// Replaces the upstream's CORS fields of a response by the gateway's.
    fn write_fields(&self, allowed: Option<&[u8]>, response: &mut Response<'_>) {
        response.remove_all(&GATEWAY_FIELDS);
        if let Some(origin) = allowed {
            response.append("Access-Control-Allow-Origin", origin);
            if self.credentials {
                response.append("Access-Control-Allow-Credentials", b"true");
            }
            if !self.expose.is_empty() {
                response.append("Access-Control-Expose-Headers", self.expose.as_bytes());
            }
        }
        if !self.any {
            response.vary("Origin");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_that_may() {
        let below = OriginPattern::Below("https://".into(), ".example.com".into());
        let exactly = OriginPattern::Exactly("https://a.example".into());
        let matching =
            OriginPattern::Matching(Regex::new(r"^(?:https://pr-[0-9]+\.example\.org)$").expect("a regex"));
        let rules = CorsRules { origins: vec![below, exactly, matching], ..CorsRules::default() };
        for origin in [
            "https://a.example",
            "https://x.example.com",
            "https://x.y.example.com",
            "https://pr-7.example.org",
        ] {
            assert_eq!(rules.allows(origin.as_bytes()), Some(origin.as_bytes()), "{origin}");
        }
        for origin in [
            "https://example.com",
            "https://.example.com",
            "http://x.example.com",
            "https://evil.com/.example.com",
            "https://evil.com#.example.com",
            "https://user@x:1.example.com",
            "https://xexample.com",
            "https://x.example.com.evil.com",
            "https://a.example.evil",
            "https://a.example:8443",
            "https://pr-7.example.org.evil",
            "https://pr-7xexample.org",
            "null",
            "*",
            "",
        ] {
            assert_eq!(rules.allows(origin.as_bytes()), None, "{origin}");
        }
        assert_eq!(CorsRules { any: true, ..CorsRules::default() }.allows(b"https://b"), Some(&b"*"[..]));
    }

    #[test]
    fn a_denied_origin_gets_no_fields() {
        let rules = CorsRules { methods: "GET".into(), headers: "X-A".into(), ..CorsRules::default() };
        let answer = rules.preflight(None, b"GET", Some(b"X-A"));
        assert_eq!(answer.status, 204);
        let lines = String::from_utf8(answer.lines).expect("text");
        assert!(lines.starts_with("Vary: ") && !lines.contains("Access-Control-Allow"), "{lines}");
    }

    #[test]
    fn any_method_echoes_the_requested_one() {
        let rules = CorsRules { any_method: true, methods: "*".into(), ..CorsRules::default() };
        let answer = rules.preflight(Some(b"https://a.example"), b"PUT", None);
        let lines = String::from_utf8(answer.lines).expect("text");
        assert!(lines.contains("Access-Control-Allow-Methods: PUT\r\n"), "{lines}");
    }
}

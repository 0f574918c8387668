//! What a cell can ask of any system.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The enum, its list and its names from one table, so that none of the three can lack a row.
macro_rules! features {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Something that can be switched on for a run. Named in `system.yaml`, studies and results alike.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Feature {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant,)+
        }

        impl Feature {
            /// Every feature, in the order of reports.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

features! {
    /// One line a request into a file.
    AccessLog = "access_log",
    /// A request id is made and sent to the origin.
    RequestId = "request_id",
    /// The system's own metrics are counted.
    Statistics = "statistics",
    /// Clients come over TLS.
    Tls = "tls",
    /// Clients may come over HTTP/2.
    Http2 = "http2",
    /// Origins are spoken to over HTTP/2 in plain text, and trailers go through: gRPC.
    Http2Origin = "http2_origin",
    /// X-Forwarded-For, -Proto and -Host are set on the way to the origin.
    ForwardedHeaders = "forwarded_headers",
    /// A failed connection to an origin is tried once more.
    Retries = "retries",
    /// Many routes, 10,000 included.
    Routes = "routes",
    /// Virtual hosts.
    Hosts = "hosts",
    /// An upstream of several origins, which take turns.
    Balancing = "balancing",
    /// Bodies flow through as they come.
    Streaming = "streaming",
    /// Buffers as an expert sets them for bodies of 64 KiB and more.
    LargeBuffers = "large_buffers",
    /// Addresses of clients are allowed and denied.
    IpRules = "ip_rules",
    /// Requests of one origin are answered to another (the Fetch standard's CORS).
    Cors = "cors",
    /// A key in a header, of those that are known.
    ApiKey = "api_key",
    /// Name and password (RFC 7617).
    BasicAuth = "basic_auth",
    /// A signed token (RFC 7519), by ES256.
    Jwt = "jwt",
    /// Another service is asked about each request.
    ForwardAuth = "forward_auth",
    /// A service that speaks Envoy's gRPC protocol is asked about each request.
    ExtAuthz = "ext_authz",
    /// A signature over each request (RFC 9421), by a shared secret.
    Signatures = "signatures",
    /// With TLS: who shows a certificate that was verified.
    ClientCertificate = "client_certificate",
    /// Rules on who is known by an API key.
    Authorize = "authorize",
    /// Requests of an address a second; nobody reaches the limit.
    RateLimit = "rate_limit",
    /// The same, counted in a Redis for several gateways.
    SharedRateLimit = "shared_rate_limit",
    /// Requests of an address a day; nobody reaches the limit.
    Quota = "quota",
    /// Requests of an address at once; nobody reaches the limit.
    ConcurrencyLimit = "concurrency_limit",
    /// Requests with a header that nobody sends are answered with an error.
    Fault = "fault",
    /// One request in twenty goes to a second upstream.
    Canary = "canary",
    /// Every request is sent to the origin a second time, and the answer thrown away.
    Mirror = "mirror",
    /// One header is removed and one set on the way in, one set on the way out.
    HeaderEdits = "header_edits",
    /// One parameter of the query is removed and one set.
    QueryEdits = "query_edits",
    /// Attributes are added to cookies that the origin sets.
    CookieEdits = "cookie_edits",
    /// Headers that tell browsers to be careful.
    SecurityHeaders = "security_headers",
    /// Responses are compressed for clients that accept it.
    Compression = "compression",
    /// Bodies of requests and responses are decoded.
    Decompression = "decompression",
    /// A request for `/aggregate` becomes two, and one document of their answers.
    Aggregate = "aggregate",
    /// Spans of one request in ten go to a collector.
    Tracing = "tracing",
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a system can do about a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Its template switches it on and off.
    Switched,
    /// It does so in any case.
    Always,
    /// It cannot, or its template does not.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_in_files_is_the_one_that_serde_reads() {
        for feature in Feature::ALL {
            let read: Feature = serde_saphyr::from_str(feature.name()).expect("a feature");
            assert_eq!(read, feature);
        }
    }
}

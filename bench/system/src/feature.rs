//! The features that a cell can ask of any system.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Generates the enum, its list and its names from one table, so that they always agree.
macro_rules! features {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A feature that can be switched on for a run. `system.yaml`, studies and results use the same
        /// names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Feature {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant,)+
        }

        impl Feature {
            /// All features, in the order of reports.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name in files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

features! {
    /// A file gets one line for each request.
    AccessLog = "access_log",
    /// The system generates a request id and sends it to the origin.
    RequestId = "request_id",
    /// The system counts its own metrics.
    Statistics = "statistics",
    /// Clients connect over TLS.
    Tls = "tls",
    /// Clients may use HTTP/2.
    Http2 = "http2",
    /// The system sends requests to origins over HTTP/2 in plain text and passes trailers on: gRPC.
    Http2Origin = "http2_origin",
    /// The system sets X-Forwarded-For, -Proto and -Host on requests to the origin.
    ForwardedHeaders = "forwarded_headers",
    /// A failed connection to an origin is retried once.
    Retries = "retries",
    /// Many routes, up to 10,000.
    Routes = "routes",
    /// Virtual hosts.
    Hosts = "hosts",
    /// An upstream of several origins, used in rotation.
    Balancing = "balancing",
    /// Bodies are streamed instead of buffered.
    Streaming = "streaming",
    /// Buffers as an expert sets them for bodies of 64 KiB and more.
    LargeBuffers = "large_buffers",
    /// Rules allow and deny client addresses.
    IpRules = "ip_rules",
    /// Cross-origin requests are answered (CORS of the Fetch standard).
    Cors = "cors",
    /// A header carries one of the known API keys.
    ApiKey = "api_key",
    /// User name and password (RFC 7617).
    BasicAuth = "basic_auth",
    /// A token signed with ES256 (RFC 7519).
    Jwt = "jwt",
    /// Another service authorizes each request over HTTP.
    ForwardAuth = "forward_auth",
    /// A service that speaks Envoy's gRPC protocol authorizes each request.
    ExtAuthz = "ext_authz",
    /// A signature over each request (RFC 9421), with a shared secret.
    Signatures = "signatures",
    /// With TLS: clients must present a certificate that the system verifies.
    ClientCertificate = "client_certificate",
    /// Rules restrict which clients with an API key are admitted.
    Authorize = "authorize",
    /// Requests per second are limited for each address; no client reaches the limit.
    RateLimit = "rate_limit",
    /// As `rate_limit`, with the counter in a Redis that several gateways share.
    SharedRateLimit = "shared_rate_limit",
    /// Requests per day are limited for each address; no client reaches the limit.
    Quota = "quota",
    /// Concurrent requests are limited for each address; no client reaches the limit.
    ConcurrencyLimit = "concurrency_limit",
    /// Requests with a certain header are answered with an error; no client sends it.
    Fault = "fault",
    /// One request in twenty goes to a second upstream.
    Canary = "canary",
    /// Every request is also sent to the origin a second time, and that answer is discarded.
    Mirror = "mirror",
    /// One request header is removed and one set; one response header is set.
    HeaderEdits = "header_edits",
    /// One query parameter is removed and one set.
    QueryEdits = "query_edits",
    /// The system adds attributes to cookies that the origin sets.
    CookieEdits = "cookie_edits",
    /// The system adds the response headers by which browsers restrict a page.
    SecurityHeaders = "security_headers",
    /// Responses are compressed for clients that accept it.
    Compression = "compression",
    /// Bodies of requests and responses are decompressed.
    Decompression = "decompression",
    /// Responses are stored for an hour, whatever they say, and later requests answered with them.
    Cache = "cache",
    /// A request for `/aggregate` becomes two requests, whose answers are combined into one document.
    Aggregate = "aggregate",
    /// The spans of one request in ten are sent to a collector.
    Tracing = "tracing",
    /// Connections are relayed as bytes, whatever they carry (layer 4).
    Tcp = "tcp",
    /// With `tcp` and `tls`: the server name of the handshake selects the origin, which does the handshake.
    Passthrough = "passthrough",
    /// With `tcp`: datagrams to the same port are relayed to the origin, and its answers back.
    Udp = "udp",
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a system supports a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// The template switches it on and off.
    Switched,
    /// The system always has it.
    Always,
    /// The system lacks it, or its template does not offer it.
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

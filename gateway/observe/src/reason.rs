//! The reasons for which the gateway answers, or ends, an exchange itself. The log, the metric label and the
//! response use one spelling.

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:literal;)+) => {
        /// Why the gateway answered, or ended, the exchange itself. [`Reason::None`] means that it did not:
        /// the upstream's answer went through. Names follow the error types of RFC 9209, section 2.3, where
        /// one fits.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Reason {
            $($(#[$doc])* $variant,)+
        }

        impl Reason {
            /// Every reason, in order of its number.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant),+];

            /// Returns the spelling in logs, metrics and the `Tollgate-Reason` response header.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Reason::$variant => $text,)+ }
            }

            /// Returns the status of the answer that the gateway generates; 0: it generates none.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Reason::$variant => $status,)+ }
            }
        }
    };
}

reasons! {
    /// The upstream's answer went through, or a route answered as configured.
    #[default]
    None = "-", 0;
    /// The request line cannot be parsed.
    BadRequestLine = "bad_request_line", 400;
    /// A header field breaks the grammar of RFC 9112, section 5.
    BadHeader = "bad_header", 400;
    /// The end of the message is ambiguous (RFC 9112, section 6).
    AmbiguousLength = "ambiguous_length", 400;
    /// A chunk breaks the grammar of RFC 9112, section 7.1.
    BadChunk = "bad_chunk", 400;
    /// `Host` is missing, repeated, malformed or disagrees with the request target.
    BadHost = "bad_host", 400;
    /// The host differs from the one for which the TLS connection was opened (RFC 9110, section 7.4).
    MisdirectedRequest = "misdirected_request", 421;
    /// The path holds bytes that different parsers would interpret differently.
    BadPath = "bad_path", 400;
    /// A transfer coding other than chunked.
    UnknownTransferCoding = "unknown_transfer_coding", 501;
    /// An HTTP version other than 1.0 and 1.1.
    UnsupportedVersion = "unsupported_version", 505;
    /// `Expect` asks for something other than `100-continue`.
    ExpectationFailed = "expectation_failed", 417;
    /// `CONNECT`, which a reverse proxy does not serve.
    ConnectRefused = "connect_refused", 405;
    /// The request line is longer than `limits.request_line`.
    RequestLineTooLong = "request_line_too_long", 414;
    /// The head is longer than `limits.headers`.
    HeadersTooLarge = "headers_too_large", 431;
    /// More fields than `limits.header_count`.
    TooManyHeaders = "too_many_headers", 431;
    /// The trailer section after the body is longer than `limits.headers`, or has more fields than
    /// `limits.header_count`.
    TrailersTooLarge = "trailers_too_large", 431;
    /// The body is longer than the limit.
    BodyTooLarge = "body_too_large", 413;
    /// The body is not encoded as `Content-Encoding` says (`policies.decompression`).
    BadContentCoding = "bad_content_coding", 400;
    /// The head did not arrive within `timeouts.header`.
    HeaderTimeout = "header_timeout", 408;
    /// The body stalled for `timeouts.body`.
    BodyTimeout = "body_timeout", 408;
    /// The body arrived more slowly than `limits.body_rate`.
    BodyTooSlow = "body_too_slow", 408;
    /// The client ended the connection in the middle of its request.
    IncompleteRequest = "incomplete_request", 400;
    /// The process has reached its limit of client connections (`limits.connections`).
    ConnectionLimit = "connection_limit", 503;
    /// No route matches.
    NoRoute = "no_route", 404;
    /// The route serves files, and the method is neither GET nor HEAD.
    MethodNotAllowed = "method_not_allowed", 405;
    /// There is no file for the path, or none that is served.
    FileNotFound = "file_not_found", 404;
    /// The file may not be read, is not a regular file, or a symbolic link leads out of the root.
    FileForbidden = "file_forbidden", 403;
    /// The file system reported an error, or did not answer in time.
    FileUnavailable = "file_unavailable", 503;
    /// The file became shorter while it was sent; the client's copy is cut.
    FileTruncated = "file_truncated", 500;
    /// The file does not fulfil the request's condition (RFC 9110, section 13.1).
    PreconditionFailed = "precondition_failed", 412;
    /// The file has none of the ranges that the request asks for (RFC 9110, section 14.2).
    RangeNotSatisfiable = "range_not_satisfiable", 416;
    /// The client wants a stored response only, and none can be used (`policies.cache`; RFC 9111, section 5.2.1.7).
    NotCached = "not_cached", 504;
    /// The client's address is not admitted (`policies.ip`).
    AddressDenied = "address_denied", 403;
    /// The route requires credentials, and the request carries none.
    CredentialsMissing = "credentials_missing", 401;
    /// The route requires a client certificate, and the client presented none. The status is not 401, because
    /// no HTTP authentication scheme can ask for a certificate.
    CertificateMissing = "certificate_missing", 403;
    /// The request's credentials are not valid: an unknown key, or an invalid token.
    CredentialsRefused = "credentials_refused", 401;
    /// The authorization service could not be reached, or gave no answer.
    AuthorizationUnavailable = "authorization_unavailable", 503;
    /// The client is identified, but not permitted.
    NotAuthorized = "not_authorized", 403;
    /// The client exceeded its rate (`policies.rate_limit`).
    RateLimited = "rate_limited", 429;
    /// The quota of the day or the month is used up (`policies.quota`).
    QuotaExceeded = "quota_exceeded", 429;
    /// The limit of concurrent requests is reached (`policies.concurrency`).
    ConcurrencyLimited = "concurrency_limited", 429;
    /// The store that counts for several gateways cannot be reached, and the limit then refuses
    /// (`on_failure: closed`).
    LimitUnavailable = "limit_unavailable", 503;
    /// A plugin refused the request (`policies.plugins`).
    PluginRefused = "plugin_refused", 403;
    /// A plugin refuses requests for now: maintenance, or a dependency of the plugin is unavailable
    /// (`policies.plugins`).
    PluginUnavailable = "plugin_unavailable", 503;
    /// The request passed through this gateway more often than `limits.loops` allows (RFC 8586).
    LoopDetected = "loop_detected", 508;
    /// The upstream has no endpoint that takes requests.
    DestinationUnavailable = "destination_unavailable", 503;
    /// The upstream is configured without endpoints (`endpoints: []`).
    NoEndpoints = "no_endpoints", 503;
    /// The upstream's connection limit is reached, and its queue is full.
    ConnectionLimitReached = "connection_limit_reached", 503;
    /// No connection became free within the queue's timeout.
    QueueTimeout = "queue_timeout", 503;
    /// The upstream has reached its limit of requests in flight (`limits.requests`).
    RequestLimit = "request_limit", 503;
    /// The upstream has reached the part of its adaptive limit that the route's priority may use.
    AdaptiveLimit = "adaptive_limit", 503;
    /// The process is short of memory or file descriptors (`overload`).
    Overload = "overload", 503;
    /// The upstream's breaker is open: too many requests to it have failed, or were slow.
    CircuitOpen = "circuit_open", 503;
    /// The endpoint's name does not resolve.
    DnsError = "dns_error", 502;
    /// The endpoint refused the connection, or is not reachable.
    ConnectionRefused = "connection_refused", 502;
    /// The endpoint does not speak TLS, or violates the protocol.
    TlsProtocolError = "tls_protocol_error", 502;
    /// The endpoint's certificate is not valid for its name, or not signed by a trusted authority.
    TlsCertificateError = "tls_certificate_error", 502;
    /// The endpoint refused the TLS handshake. It may require a client certificate.
    TlsAlertReceived = "tls_alert_received", 502;
    /// The connection did not open within `timeouts.connect`.
    ConnectionTimeout = "connection_timeout", 504;
    /// The endpoint closed or reset the connection before a whole response head.
    ConnectionTerminated = "connection_terminated", 502;
    /// The response head did not arrive within `timeouts.response_header`.
    HttpResponseTimeout = "http_response_timeout", 504;
    /// The response body stalled for `timeouts.response_body`.
    ConnectionReadTimeout = "connection_read_timeout", 504;
    /// The endpoint accepted no byte of the request within `timeouts.send`.
    ConnectionWriteTimeout = "connection_write_timeout", 504;
    /// The response breaks HTTP, or its length is ambiguous.
    HttpProtocolError = "http_protocol_error", 502;
    /// The endpoint did not switch to the requested protocol, and one side speaks HTTP/2.
    UpgradeFailed = "http_upgrade_failed", 502;
    /// The response head is longer than `limits.headers`, or has too many fields.
    ResponseHeadersTooLarge = "http_response_header_section_size", 502;
    /// The trailer section after the response is longer than `limits.headers`, or has too many fields.
    ResponseTrailersTooLarge = "http_response_trailer_section_size", 502;
    /// The answer to a part of an aggregate (`policies.aggregate`) is too long, as received or after decoding
    /// (`policies.decompression`).
    ResponseBodyTooLarge = "http_response_body_size", 502;
    /// The response's body is not encoded as its `Content-Encoding` says (`policies.decompression`). The
    /// client's copy is cut.
    ResponseContentCoding = "http_response_content_coding", 502;
    /// A required part of an aggregate (`policies.aggregate`) failed: an error, or an answer that cannot
    /// stand in the document.
    PartFailed = "part_failed", 502;
    /// The page that replaces an endpoint's error (`fallback`) could not be obtained.
    ErrorPageUnavailable = "error_page_unavailable", 502;
    /// The response ended before its declared length; the client's copy is cut too.
    HttpResponseIncomplete = "http_response_incomplete", 502;
    /// A gRPC call was routed to an HTTP/1 endpoint, which cannot carry it.
    GrpcNeedsHttp2 = "grpc_needs_http2", 502;
    /// The exchange took longer than `timeouts.total`.
    RequestTimeout = "request_timeout", 504;
    /// The client reset its connection before the answer was complete.
    ClientClosed = "client_closed", 0;
    /// The client accepted no byte of the answer within `timeouts.write`.
    ClientWriteTimeout = "client_write_timeout", 0;
    /// The client received the answer more slowly than `limits.response_rate`.
    ClientTooSlow = "client_too_slow", 0;
    /// No stream takes the connection or datagram: no server name matches, or the stream closes it.
    NoStream = "no_stream", 0;
    /// The bytes with which a TLS connection of layer 4 begins are no valid ClientHello.
    BadClientHello = "bad_client_hello", 0;
    /// The client did not send its ClientHello within `timeouts.handshake`.
    HandshakeTimeout = "handshake_timeout", 0;
    /// No byte of a stream moved in either direction within its idle timeout.
    IdleTimeout = "idle_timeout", 0;
    /// The stream lasted longer than its `timeouts.total`.
    TotalTimeout = "total_timeout", 0;
    /// The stream has reached its limit of connections or sessions (`limits.connections`).
    StreamLimit = "stream_limit", 0;
    /// The client's address has reached the stream's limit of connections or sessions (`limits.per_address`).
    AddressLimit = "address_limit", 0;
    /// The endpoint of a session of UDP takes nothing more: it is unhealthy, ejected, or no longer one of the upstream's.
    EndpointLeft = "endpoint_left", 0;
    /// The gateway is stopping.
    ShuttingDown = "shutting_down", 503;
    /// A defect of the gateway; please report it.
    ProxyInternalError = "proxy_internal_error", 500;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_are_unique() {
        let mut seen = std::collections::HashSet::new();
        assert!(Reason::ALL.iter().all(|reason| seen.insert(reason.as_str())));
    }

    #[test]
    fn numbers_index_all() {
        assert!(Reason::ALL.iter().enumerate().all(|(index, reason)| *reason as usize == index));
    }
}

//! The table of all annotations: the theme that reads each, and whether it behaves as in ingress-nginx.
//!
//! To add an annotation, add a row to its theme here, and read it in the theme's function.

use super::reader::Reader;
use super::wanted::Wanted;
use super::{
    addresses, basic_auth, bodies, canary, cors, errors, external_auth, headers, hosts, limits, mirror,
    observation, redirects, retries, rewrite, timeouts, unsupported, upstreams,
};

/// Whether an annotation behaves as in ingress-nginx.
#[derive(Clone, Copy, Debug)]
pub enum Support {
    /// It does.
    Same,
    /// It is translated, with this difference.
    Differs(&'static str),
    /// It is not followed; this is what to do instead.
    Unsupported(&'static str),
}

/// An annotation.
#[derive(Clone, Copy, Debug)]
pub struct Annotation {
    /// Its name without the prefix.
    pub name: &'static str,
    /// Whether it behaves as in ingress-nginx.
    pub support: Support,
}

/// Annotations that are read together.
pub struct Theme {
    /// Reads them, if an Ingress has one of them.
    pub read: fn(&mut Reader<'_>, &mut Wanted),
    /// The annotations.
    pub annotations: &'static [Annotation],
}

const fn same(name: &'static str) -> Annotation {
    Annotation { name, support: Support::Same }
}

const fn differs(name: &'static str, how: &'static str) -> Annotation {
    Annotation { name, support: Support::Differs(how) }
}

const fn unsupported(name: &'static str, instead: &'static str) -> Annotation {
    Annotation { name, support: Support::Unsupported(instead) }
}

const SNIPPET: &str = "the gateway runs no nginx configuration; use its policies";
const WAF: &str = "the gateway has no ModSecurity; `ext_authz` and `forward_auth` with `body` ask a firewall";
const BUFFER: &str = "not needed: the gateway streams, within bounds of its own";
const CLIENT_CERTIFICATE: &str =
    "all paths of its hosts answer 503; a Gateway verifies client certificates (`tls.frontend.validation`)";
const TLS_CLIENT: &str = "the gateway chooses versions and ciphers of TLS itself";
const AUTH_CONNECTION: &str = "not needed: connections to the service are kept anyway";
const FASTCGI: &str = "the gateway speaks no FastCGI; put a server in front of the application";

/// All annotations. A theme that combines policies of others comes after them.
pub const THEMES: &[Theme] = &[
    Theme {
        read: rewrite::read,
        annotations: &[
            differs("rewrite-target", "a parameter after the `?` replaces a parameter of the same name"),
            same("use-regex"),
            same("app-root"),
        ],
    },
    Theme {
        read: redirects::read,
        annotations: &[
            same("ssl-redirect"),
            same("force-ssl-redirect"),
            same("preserve-trailing-slash"),
            same("permanent-redirect"),
            differs("permanent-redirect-code", "301, 302, 303, 307 and 308"),
            same("temporal-redirect"),
            differs("temporal-redirect-code", "301, 302, 303, 307 and 308"),
            same("from-to-www-redirect"),
            differs("relative-redirects", "a `Location` is as long as it is written"),
            differs("use-port-in-redirects", "redirects to https name no port"),
        ],
    },
    Theme {
        read: timeouts::read,
        annotations: &[same("proxy-connect-timeout"), same("proxy-read-timeout"), same("proxy-send-timeout")],
    },
    Theme {
        read: bodies::read,
        annotations: &[
            same("proxy-body-size"),
            same("proxy-request-buffering"),
            differs("client-body-buffer-size", BUFFER),
            differs("proxy-buffering", BUFFER),
            differs("proxy-buffer-size", BUFFER),
            differs("proxy-buffers-number", BUFFER),
            differs("proxy-busy-buffers-size", BUFFER),
            differs("proxy-max-temp-file-size", BUFFER),
        ],
    },
    Theme {
        read: retries::read,
        annotations: &[
            differs(
                "proxy-next-upstream",
                "an attempt waits up to 25 ms, doubled each time, before it follows a failed one",
            ),
            differs("proxy-next-upstream-tries", "16 attempts at most, also for 0"),
            same("proxy-next-upstream-timeout"),
        ],
    },
    Theme {
        read: upstreams::protocol,
        annotations: &[
            differs("backend-protocol", "HTTP, HTTPS, GRPC and GRPCS; with others all paths answer 503"),
            same("proxy-ssl-secret"),
            same("proxy-ssl-name"),
            same("proxy-ssl-server-name"),
            same("proxy-ssl-verify"),
            unsupported("proxy-ssl-verify-depth", "chains may have any depth"),
            unsupported("proxy-ssl-ciphers", TLS_CLIENT),
            unsupported("proxy-ssl-protocols", TLS_CLIENT),
        ],
    },
    Theme {
        read: upstreams::affinity,
        annotations: &[
            same("affinity"),
            differs(
                "affinity-mode",
                "a client stays with its endpoint as long as there is one (`persistent`)",
            ),
            unsupported("affinity-canary-behavior", "the weight decides for each request independently"),
            same("session-cookie-name"),
            differs("session-cookie-path", "the default is `/`, not the path of the rule"),
            differs("session-cookie-expires", "the cookie has `Max-Age`, not `Expires`"),
            same("session-cookie-max-age"),
            differs("session-cookie-secure", "the default is off, also for requests over TLS"),
            differs("session-cookie-samesite", "with `None` the cookie is also `Secure`, as browsers demand"),
            unsupported("session-cookie-conditional-samesite-none", "all browsers get the same cookie"),
            same("session-cookie-domain"),
            differs("session-cookie-change-on-failure", "a client always moves if its endpoint is gone"),
        ],
    },
    Theme {
        read: upstreams::choice,
        annotations: &[
            differs(
                "load-balance",
                "`ewma` is `least_requests`: fewest active requests out of two endpoints",
            ),
            differs(
                "upstream-hash-by",
                "one part of the request; `$request_uri` is the path without the query",
            ),
            unsupported("upstream-hash-by-subset", "each value has one endpoint"),
            unsupported("upstream-hash-by-subset-size", "each value has one endpoint"),
        ],
    },
    Theme {
        read: hosts::read,
        annotations: &[
            differs("server-alias", "host names only, no expressions"),
            differs("ssl-passthrough", "requests in plain text go to the same Service over TLS"),
            differs("upstream-vhost", "a host name only, no variables"),
        ],
    },
    Theme {
        read: headers::read,
        annotations: &[
            same("x-forwarded-prefix"),
            same("custom-headers"),
            unsupported("connection-proxy-header", "the gateway manages its connections itself"),
        ],
    },
    Theme {
        read: cors::read,
        annotations: &[
            same("enable-cors"),
            differs("cors-allow-origin", "`*` within a name stands for several labels, too"),
            same("cors-allow-methods"),
            same("cors-allow-headers"),
            same("cors-expose-headers"),
            differs("cors-allow-credentials", "not with `*`, where browsers refuse them anyway"),
            differs("cors-max-age", "a day at most"),
        ],
    },
    Theme {
        read: addresses::read,
        annotations: &[
            same("whitelist-source-range"),
            same("allowlist-source-range"),
            same("denylist-source-range"),
        ],
    },
    Theme {
        read: basic_auth::read,
        annotations: &[
            differs("auth-type", "`basic` only; with `digest` all paths answer 503"),
            differs("auth-secret", "users whose passwords are hashed by crypt with DES cannot sign in"),
            same("auth-secret-type"),
            same("auth-realm"),
        ],
    },
    Theme {
        read: external_auth::read,
        annotations: &[
            differs("auth-url", "the client gets every answer of the service but 2xx, not only 401 and 403"),
            same("auth-signin"),
            same("auth-signin-redirect-param"),
            same("auth-response-headers"),
            differs("auth-method", "all but CONNECT and TRACE"),
            unsupported("auth-request-redirect", "the service reads `X-Forwarded-Uri` and `X-Original-Url`"),
            unsupported("auth-proxy-set-headers", "the service gets the fields of the request"),
            differs("auth-cache-key", "it must identify the client; `$remote_user` includes the password"),
            differs("auth-cache-duration", "a day at most"),
            same("auth-always-set-cookie"),
            unsupported("auth-snippet", SNIPPET),
            differs("auth-keepalive", AUTH_CONNECTION),
            differs("auth-keepalive-share-vars", AUTH_CONNECTION),
            differs("auth-keepalive-requests", AUTH_CONNECTION),
            differs("auth-keepalive-timeout", AUTH_CONNECTION),
            differs(
                "enable-global-auth",
                "`policies.forward_auth` in the gateway's file holds for all routes",
            ),
        ],
    },
    Theme { read: addresses::satisfy, annotations: &[same("satisfy")] },
    Theme {
        read: limits::read,
        annotations: &[
            same("limit-rps"),
            same("limit-rpm"),
            same("limit-burst-multiplier"),
            same("limit-connections"),
            same("limit-allowlist"),
            same("limit-whitelist"),
            differs("limit-rate", "it also holds without `proxy-buffering`"),
            differs("limit-rate-after", "it also holds without `proxy-buffering`"),
        ],
    },
    Theme {
        read: canary::read,
        annotations: &[
            same("canary"),
            same("canary-weight"),
            same("canary-weight-total"),
            same("canary-by-header"),
            same("canary-by-header-value"),
            same("canary-by-header-pattern"),
            same("canary-by-cookie"),
        ],
    },
    Theme {
        read: errors::read,
        annotations: &[
            differs(
                "custom-http-errors",
                "the page is a GET of `/` with the error's status, without `X-Code`",
            ),
            differs(
                "default-backend",
                "its first port; it also takes requests that an endpoint answers with 503",
            ),
            same("disable-proxy-intercept-errors"),
        ],
    },
    Theme {
        read: mirror::read,
        annotations: &[
            differs("mirror-target", "a server, with the path of the request; bodies of up to 64 KiB"),
            same("mirror-host"),
            differs("mirror-request-body", "with `off`, a request with a body is not copied at all"),
        ],
    },
    Theme {
        read: observation::read,
        annotations: &[
            same("enable-access-log"),
            unsupported("enable-rewrite-log", "`tollgate trace` shows how each request is changed"),
            differs(
                "enable-opentelemetry",
                "it only switches off; `policies.trace` in the gateway's file switches on",
            ),
            unsupported(
                "opentelemetry-trust-incoming-span",
                "`policies.trace.continue` in the gateway's file",
            ),
            unsupported("opentelemetry-operation-name", "spans have the names of routes"),
        ],
    },
    Theme {
        read: unsupported::client_certificates,
        annotations: &[
            unsupported("auth-tls-secret", CLIENT_CERTIFICATE),
            unsupported("auth-tls-verify-client", CLIENT_CERTIFICATE),
            unsupported("auth-tls-verify-depth", CLIENT_CERTIFICATE),
            unsupported("auth-tls-match-cn", CLIENT_CERTIFICATE),
            unsupported("auth-tls-error-page", CLIENT_CERTIFICATE),
            unsupported("auth-tls-pass-certificate-to-upstream", CLIENT_CERTIFICATE),
        ],
    },
    Theme {
        read: unsupported::report,
        annotations: &[
            unsupported("configuration-snippet", SNIPPET),
            unsupported("server-snippet", SNIPPET),
            unsupported("stream-snippet", SNIPPET),
            unsupported("enable-modsecurity", WAF),
            unsupported("enable-owasp-core-rules", WAF),
            unsupported("modsecurity-transaction-id", WAF),
            unsupported("modsecurity-snippet", WAF),
            unsupported("proxy-cookie-domain", "the policy `cookies` sets the domain of cookies"),
            unsupported("proxy-cookie-path", "the policy `cookies` sets the path of cookies"),
            unsupported("proxy-redirect-from", "the `Location` of endpoints passes unchanged"),
            unsupported("proxy-redirect-to", "the `Location` of endpoints passes unchanged"),
            differs("proxy-http-version", "endpoints are asked with HTTP/1.1, or with HTTP/2"),
            differs("service-upstream", "requests go to the endpoints, which the gateway follows"),
            unsupported("http2-push-preload", "browsers no longer take what servers push"),
            unsupported("ssl-ciphers", TLS_CLIENT),
            unsupported("ssl-prefer-server-ciphers", TLS_CLIENT),
            unsupported("fastcgi-index", FASTCGI),
            unsupported("fastcgi-params-configmap", FASTCGI),
            unsupported("global-rate-limit", "`rate_limit` with `redis` counts for several gateways"),
            unsupported("global-rate-limit-window", "`rate_limit` with `redis` counts for several gateways"),
            unsupported("global-rate-limit-key", "`rate_limit` with `redis` counts for several gateways"),
            unsupported("global-rate-limit-ignored-cidrs", "`exempt` of `rate_limit` names addresses"),
        ],
    },
];

//! Words of other gateways, and keys that are written in the wrong place, with what to write instead.
//!
//! The reader asks for a [`hint`] when a section does not have a key. A word that only renames a key is one of the
//! names under `also` at that key. [`WORDS`] has the others: words for a setting of another section, of another
//! form, or for something that the gateway does not have. [`PLACES`] lists the keys of the large sections.
//! [`file`] recognises whole files of other gateways.

use crate::spec::{SectionSpec, Shape};
use crate::tree::{MappingEntry, NodeKind, Scalar};

pub(crate) mod file;

/// Foreign words that have one meaning.
struct Words {
    /// The sections in which they are explained, by name.
    sections: &'static [&'static str],
    words: &'static [&'static str],
    /// The key to write instead. `{}` is the value that the user wrote, if it is a short text.
    help: &'static str,
    /// The value that stands for `{}` otherwise.
    example: &'static str,
}

const fn words(
    sections: &'static [&'static str],
    words: &'static [&'static str],
    help: &'static str,
    example: &'static str,
) -> Words {
    Words { sections, words, help, example }
}

const ROUTE: &[&str] = &["route"];
const UPSTREAM: &[&str] = &["upstream"];
const GATEWAY: &[&str] = &["configuration"];
const GATEWAY_LISTENER: &[&str] = &["configuration", "listener"];
const ROUTE_UPSTREAM: &[&str] = &["route", "upstream"];
const ROUTE_GATEWAY: &[&str] = &["route", "configuration"];
const EXCHANGE: &[&str] = &["route", "upstream", "configuration"];
const ANY: &[&str] = &["route", "upstream", "listener", "configuration", "policies"];

/// The words. A word is explained by the first row that has it and the section.
const WORDS: &[Words] = &[
    // Matches.
    words(
        ROUTE,
        &["path", "uri", "location", "url", "pattern"],
        "write `match: {}`; a path that ends in `/*` includes everything below it",
        "/api/*",
    ),
    words(
        ROUTE,
        &["prefix", "path_prefix", "pathPrefix", "PathPrefix"],
        "write the path with `/*` at its end: `match: /api/*`",
        "",
    ),
    words(ROUTE, &["paths", "uris"], "write a list: `match: [/api/*, /v1/*]`", ""),
    words(
        ROUTE,
        &["host", "hostname", "server_name", "domain"],
        "write `match: {}`, or host and path together: `match: {}/api/*`",
        "api.example.com",
    ),
    words(
        ROUTE,
        &["hosts", "hostnames", "server_names", "domains"],
        "write a list: `match: [a.example.com, b.example.com/api/*]`",
        "",
    ),
    words(
        ROUTE,
        &["method", "methods", "verbs"],
        "write `match: {path: /api/*, method: {}}`; several methods are a list",
        "GET",
    ),
    words(
        ROUTE,
        &["rule", "expression"],
        "write `match: HOST/PATH`, such as `match: api.example.com/v1/*`",
        "",
    ),
    words(&["match"], &["path_prefix", "pathPrefix"], "write `path: {}/*`", "/api"),
    words(
        &["match", "target", "endpoint"],
        &[
            "cors",
            "jwt",
            "basic",
            "api_key",
            "authorize",
            "forward_auth",
            "rate_limit",
            "canary",
            "mirror",
            "compression",
        ],
        "a policy is written under `policies` of a route, an upstream, a listener or the gateway",
        "",
    ),
    // The action of a route.
    words(
        ROUTE,
        &["strip_prefix", "stripPrefix", "strip_path", "strip_uri", "handle_path", "uri_strip_prefix"],
        "write `rewrite: {prefix: /}`, with a `match` that ends in `/*`",
        "",
    ),
    words(
        ROUTE,
        &["add_prefix", "addPrefix", "prefix_rewrite", "prefixRewrite", "replace_prefix"],
        "write `rewrite: {prefix: {}}`, with a `match` that ends in `/*`",
        "/v1",
    ),
    words(
        ROUTE,
        &["replace_path", "replacePath", "rewrite_path", "path_rewrite"],
        "write `rewrite: {path: {}}`",
        "/v1/status",
    ),
    words(
        ROUTE,
        &["regex_uri", "regex_rewrite", "replacePathRegex"],
        "write `rewrite: {regex: '^/old/(.*)', replace: '/new/$1'}`",
        "",
    ),
    words(
        ROUTE_UPSTREAM,
        &["preserve_host", "passHostHeader", "pass_host", "host_header", "host_rewrite", "upstream_host"],
        "`Host` is passed on as the client sent it; `rewrite: {host: endpoint}` of a route sends the endpoint's own",
        "",
    ),
    // Limits and timeouts.
    words(
        ROUTE_GATEWAY,
        &[
            "max_body_size",
            "client_max_body_size",
            "max_body",
            "max_request_body",
            "max_request_bytes",
            "max_request_body_size",
            "request_body_limit",
            "body_limit",
            "body_size",
        ],
        "write `limits: {body: {}}`",
        "10MiB",
    ),
    words(
        GATEWAY,
        &["worker_connections", "max_connections", "maxconn"],
        "write `limits: {connections: {}}`",
        "10000",
    ),
    words(
        EXCHANGE,
        &["connect_timeout", "proxy_connect_timeout", "connection_timeout"],
        "write `timeouts: {connect: {}}`",
        "5s",
    ),
    words(
        EXCHANGE,
        &["read_timeout", "proxy_read_timeout", "response_timeout", "response_header_timeout"],
        "write `timeouts: {response_header: {}}`",
        "60s",
    ),
    words(
        EXCHANGE,
        &["request_timeout", "total_timeout", "timeout", "backend_timeout"],
        "write `timeouts: {total: {}}`",
        "30s",
    ),
    words(
        ROUTE_GATEWAY,
        &["websocket_timeout", "tunnel_timeout", "upgrade_timeout"],
        "write `timeouts: {upgraded: {}}`",
        "1h",
    ),
    words(
        &["route", "listener", "configuration"],
        &["idle_timeout", "keepalive_timeout", "keep_alive_timeout", "client_idle_timeout"],
        "write `timeouts: {idle: {}}`",
        "75s",
    ),
    // Upstreams.
    words(ROUTE, &["weight", "weights"], "write it at a target: `to: [{upstream: NAME, weight: {}}]`", "90"),
    words(
        UPSTREAM,
        &["weight", "backup"],
        "write it at an endpoint: `endpoints: [{address: \"10.0.0.1:8080\", weight: 3}]`",
        "",
    ),
    words(UPSTREAM, &["url", "uri"], "write `endpoints: {}`", "http://10.0.0.1:8080"),
    words(
        ROUTE,
        &[
            "health_check",
            "health_checks",
            "healthcheck",
            "healthchecks",
            "healthCheck",
            "health_uri",
            "active_health_check",
        ],
        "write `health: /healthz` at an upstream under `upstreams`, and name that upstream in `to`",
        "",
    ),
    words(
        ROUTE,
        &[
            "lb",
            "lb_policy",
            "load_balancing",
            "load_balancer",
            "loadBalancer",
            "least_conn",
            "ip_hash",
            "hash",
        ],
        "write `balance` at an upstream under `upstreams`, and name that upstream in `to`",
        "",
    ),
    words(
        ROUTE,
        &[
            "circuit_breaker",
            "circuitBreaker",
            "outlier_detection",
            "max_fails",
            "keepalive",
            "sticky",
            "dns",
        ],
        "it belongs to an upstream: write one under `upstreams`, and name it in `to`",
        "",
    ),
    // Listeners, certificates and the process.
    words(
        ANY,
        &[
            "acme",
            "letsencrypt",
            "lets_encrypt",
            "auto_https",
            "automatic_https",
            "cert_resolver",
            "certResolver",
            "certificatesResolvers",
        ],
        "Tollgate does not obtain certificates: let an ACME client such as certbot write the files that a \
         listener's `tls` names",
        "",
    ),
    words(
        &["route", "configuration"],
        &["ssl", "https", "tls_certificate", "ssl_certificate", "ssl_certificate_key"],
        "write it at the listener: `listen: {bind: \":443\", tls: {certificate: site.pem, key: site.key}}`",
        "",
    ),
    words(GATEWAY, &["log_level", "loglevel", "logLevel"], "write `log: {}`", "info"),
    words(
        GATEWAY,
        &["dashboard", "prometheus", "stats", "pprof", "ping", "api"],
        "the admin listener has the dashboard, `/metrics`, `/healthz` and the API: `admin: 127.0.0.1:9911`",
        "",
    ),
    words(
        GATEWAY_LISTENER,
        &["default_server", "default_backend", "default_type"],
        "write a route with `match: /*`: it takes the requests that no other route does",
        "",
    ),
    words(
        &["configuration"],
        &["stream", "tcp", "udp"],
        "Tollgate proxies HTTP and gRPC, not TCP or UDP",
        "",
    ),
];

/// A section with keys that users look for in other sections.
struct Place {
    section: &'static str,
    /// The section with its article.
    noun: &'static str,
    /// The help text: the place for a key of this section.
    help: &'static str,
    keys: &'static [&'static str],
}

/// The sections, in the order in which a key is looked for. The declarations of the keys use the reader, so this
/// module cannot ask them.
const PLACES: [Place; 4] = [
    Place {
        section: "route",
        noun: "a route",
        help: "write it in an entry of `routes`",
        keys: &[
            "name",
            "match",
            "listeners",
            "to",
            "redirect",
            "respond",
            "rewrite",
            "timeouts",
            "limits",
            "buffer",
            "retry",
            "priority",
            "grpc_web",
            "fallback",
            "policies",
            "access_log",
            "upgrade",
        ],
    },
    Place {
        section: "upstream",
        noun: "an upstream",
        help: "write it at an entry of `upstreams`, and name that upstream in `to`",
        keys: &[
            "endpoints",
            "discover",
            "timeouts",
            "http2",
            "tls",
            "pool",
            "source_address",
            "proxy_protocol",
            "policies",
            "balance",
            "limits",
            "queue",
            "breaker",
            "retry",
            "hedge",
            "health",
            "outlier",
            "adaptive",
        ],
    },
    Place {
        section: "listener",
        noun: "a listener",
        help: "write it under `listen`",
        keys: &[
            "bind",
            "name",
            "mode",
            "owner",
            "tls",
            "http2",
            "redirect_to_https",
            "half_close",
            "timeouts",
            "proxy_protocol",
            "policies",
        ],
    },
    Place {
        section: "configuration",
        noun: "the whole gateway",
        help: "write it at the top level of the file",
        keys: &[
            "listen",
            "workers",
            "admin",
            "access_log",
            "log",
            "request_id",
            "metrics",
            "forwarded",
            "limits",
            "timeouts",
            "buffer",
            "paths",
            "errors",
            "overload",
            "cache",
            "consumers",
            "certificates",
            "policies",
            "policy_sets",
            "store",
            "etcd",
            "kubernetes",
            "controller",
            "fleet",
            "zone",
            "watch",
            "include",
            "routes",
            "upstreams",
        ],
    },
];

/// Returns what to write instead of a key that a section does not have; `None` if that is unknown.
pub(crate) fn hint(section: &SectionSpec, entry: &MappingEntry) -> Option<String> {
    let key = entry.key.as_str();
    let explained = |row: &&Words| row.sections.contains(&section.name) && row.words.contains(&key);
    let is_alias = section.keys.iter().any(|known| known.aliases.contains(&key));
    // The user may have the right form under another name.
    let is_renamed = is_alias && matches!(entry.value.kind, NodeKind::Map(_));
    if let Some(row) = WORDS.iter().find(explained).filter(|_| !is_renamed) {
        let written = entry.value.scalar().filter(|scalar| is_plain(scalar)).map(|scalar| &*scalar.text);
        return Some(row.help.replace("{}", written.unwrap_or(row.example)));
    }
    let policies = policies_of(section);
    if policies.is_some_and(|policies| policies.keys.iter().any(|policy| policy.name == key)) {
        return Some(format!("`{key}` is a policy: write it as `policies: {{{key}: ...}}`"));
    }
    if is_alias {
        return None;
    }
    if let Some(policy) =
        policies.and_then(|policies| policies.keys.iter().find(|it| it.aliases.contains(&key)))
    {
        return Some(format!(
            "the policy `{0}` does this: write it as `policies: {{{0}: ...}}`",
            policy.name
        ));
    }
    misplaced(section, key)
}

/// Explains a key that another of the large sections has.
fn misplaced(section: &SectionSpec, key: &str) -> Option<String> {
    let is_policies = section.name == "policies";
    if !is_policies && PLACES.iter().all(|place| place.section != section.name) {
        return None;
    }
    let place = PLACES.iter().find(|place| place.keys.contains(&key))?;
    Some(match is_policies && place.keys.contains(&"policies") && place.section != "configuration" {
        true => format!("`{key}` is a key of {}, not a policy: write it beside `policies`", place.noun),
        false => format!("`{key}` is a key of {}: {}", place.noun, place.help),
    })
}

/// Returns the section `policies` that a section may contain.
fn policies_of(section: &SectionSpec) -> Option<&'static SectionSpec> {
    let key = section.keys.iter().find(|key| key.name == "policies")?;
    if let Shape::Registered(policies) = key.shape { Some(policies()) } else { None }
}

/// Returns whether a message can repeat a value: a short word that no variable has filled in.
fn is_plain(scalar: &Scalar) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | ':' | '_' | '-' | '*' | '%');
    scalar.written.is_none() && (1..=40).contains(&scalar.text.len()) && scalar.text.chars().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::from_text;
    use crate::section::Section;
    use crate::sections::listen::Listener;
    use crate::sections::route::RouteKeys;
    use crate::sections::upstream::Upstream;
    use crate::spec::ROOT;

    #[test]
    fn the_places_have_declared_keys() {
        for (place, section) in PLACES.iter().zip([RouteKeys::SPEC, Upstream::SPEC, Listener::SPEC, ROOT]) {
            assert_eq!(place.section, section.name);
            for key in place.keys {
                assert!(section.keys.iter().any(|known| known.name == *key), "{}: {key}", section.name);
            }
        }
    }

    #[test]
    fn no_foreign_word_is_a_key_of_its_section() {
        for section in [RouteKeys::SPEC, Upstream::SPEC, Listener::SPEC, ROOT] {
            for row in WORDS.iter().filter(|row| row.sections.contains(&section.name)) {
                for word in row.words {
                    assert!(!section.keys.iter().any(|key| key.name == *word), "{}: {word}", section.name);
                }
            }
        }
    }

    fn help(text: &str) -> Vec<String> {
        let problems = from_text("t", text, &|_| None).problems;
        problems.iter().flat_map(|problem| problem.help.clone()).collect()
    }

    #[test]
    fn the_user_s_value_is_in_the_hint_if_it_is_a_plain_word() {
        let route = |line: &str| help(&format!("listen: :80\nroutes:\n- match: /*\n  to: a:80\n  {line}\n"));
        assert_eq!(route("max_body_size: 5MiB"), ["write `limits: {body: 5MiB}`"]);
        assert_eq!(route("max_body_size: [1, 2]"), ["write `limits: {body: 10MiB}`"]);
        assert_eq!(route("request_timeout: 'a `b`'"), ["write `timeouts: {total: 30s}`"]);
        assert!(route("methods: GET")[0].contains("method: GET}"));
    }

    #[test]
    fn a_key_of_another_section_is_sent_there() {
        assert_eq!(
            help("listen: :80\nroutes: [{to: 'a:80', health: /x}]\n"),
            [
                "`health` is a key of an upstream: write it at an entry of `upstreams`, and name that upstream in `to`"
            ]
        );
        assert_eq!(
            help("listen: :80\nroutes: [{to: 'a:80', policies: {rewrite: {prefix: /}}}]\n"),
            ["`rewrite` is a key of a route, not a policy: write it beside `policies`"]
        );
        assert_eq!(
            help("listen: :80\nroutes: [{to: 'a:80', workers: 2}]\n"),
            ["`workers` is a key of the whole gateway: write it at the top level of the file"]
        );
    }
}

//! A registered policy is accepted, and a request passes it at its place. A policy that is accepted and then left out
//! would let requests through that it should refuse.

use tollgate_config::from_text;
use tollgate_plan::compile;
use tollgate_policy::{REGISTRY, register};

/// Returns short settings of a policy.
fn settings(key: &str) -> &'static str {
    match key {
        "trace" => "{otlp: 'http://127.0.0.1:4318/v1/traces'}",
        "ip" => "{deny: 10.0.0.1}",
        "cors" => "{origins: '*'}",
        "intercept" => "{path: /x}",
        "jwt" => "{secret: 0123456789abcdef0123456789abcdef}",
        "forward_auth" | "ext_authz" => "{url: 'http://127.0.0.1:9000'}",
        "any_of" => "[{api_key: on}]",
        "authorize" => "{allow: {groups: a}}",
        "rate_limit" => "{rate: 1/s}",
        "quota" => "{limit: 1, per: day}",
        "concurrency" => "{limit: 1}",
        "bandwidth" => "{rate: 1MiB}",
        "fault" => "{abort: {status: 500}}",
        "canary" | "mirror" => "{to: a}",
        "headers" => "{request: {remove: A}}",
        "query" => "{remove: a}",
        "cookies" => "{secure: on}",
        "aggregate" => "{parts: {a: {to: a}}}",
        "cache" | "client_certificate" | "hmac" | "api_key" | "basic" | "security_headers"
        | "compression" | "decompression" => "on",
        "plugins" => "{}",
        other => panic!("give `{other}` settings in this test"),
    }
}

#[test]
fn a_request_passes_every_registered_policy_in_order() {
    register();
    let keys: Vec<_> = REGISTRY.iter().filter_map(|entry| entry.kind()).map(|kind| kind.key().name).collect();
    // Written in the opposite order, since the order of a file has no meaning.
    let policies: Vec<_> = keys.iter().rev().map(|key| format!("{key}: {}", settings(key))).collect();
    let text = format!(
        "listen: 127.0.0.1:0\nupstreams: {{a: '127.0.0.1:1'}}\nroutes: [{{to: a, policies: {{{}}}}}]\n",
        policies.join(", ")
    );
    let loaded = from_text("t", &text, &|_| None);
    let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
    let plan = compile(&config).unwrap_or_else(|problems| panic!("{problems:?}")).plan;
    let chain = plan.routes[0].policies.as_ref().and_then(|chains| chains.default).expect("a chain");
    let chain = plan.chains[chain as usize].iter().map(|index| plan.policies[*index as usize].policy.kind());
    // The plugins under `plugins` are policies of their own.
    assert_eq!(
        chain.collect::<Vec<_>>(),
        keys.into_iter().filter(|key| *key != "plugins").collect::<Vec<_>>()
    );
}

//! Policies: where they are attached, in which order the gateway evaluates them, and what each does.

mod aggregate;
mod any_of;
pub mod api_key;
mod auth;
mod bandwidth;
pub mod basic;
mod canary;
mod client_certificate;
mod compression;
mod concurrency;
mod cookies;
mod cors;
mod decompression;
mod early_answers;
mod explained;
mod ext_authz;
mod fault;
mod forward_auth;
mod forward_auth_cache;
mod headers;
pub mod hmac;
mod intercept;
mod ip;
mod jwt;
mod keys;
mod mirror;
mod query;
mod quota;
mod rate_limit;
mod refused_at_start;
mod security_headers;
mod shared_limits;
mod trace;

use tollgate_tests::{Gateway, Origin, Signal, eventually, tollgate};

const OPEN: &str = "GET /open HTTP/1.1\r\nHost: a\r\n\r\n";
const SHUT: &str = "GET /shut HTTP/1.1\r\nHost: a\r\n\r\n";

/// Starts a gateway with the routes `/open` and `/shut` to one upstream, with these policies of the gateway,
/// of `/open` and of the upstream.
fn attached(origin: &Origin, gateway: &str, open: &str, upstream: &str) -> Gateway {
    Gateway::start(&format!(
        "policies: {{{gateway}}}\nroutes:\n\
         - {{match: /open, to: it, policies: {{{open}}}}}\n\
         - {{match: /shut, to: it}}\n\
         upstreams: {{it: {{endpoints: \"{}\", policies: {{{upstream}}}}}}}\n",
        origin.address()
    ))
}

#[test]
fn the_policy_that_is_written_closest_holds() {
    let origin = Origin::ok();
    let (deny, allow) = ("ip: {deny: 127.0.0.0/8}", "ip: {allow: 127.0.0.0/8}");
    for (gateway, open, expected) in [
        (deny, "", [403, 403]),
        (deny, "ip: off", [200, 403]),
        (deny, allow, [200, 403]),
        ("", deny, [403, 200]),
    ] {
        let gateway = attached(&origin, gateway, open, "");
        let mut client = gateway.client();
        let statuses = [client.ask(OPEN).status, client.ask(SHUT).status];
        assert_eq!(statuses, expected, "{gateway:?} {open}");
    }
}

#[test]
fn an_upstreams_policies_come_on_top() {
    let origin = Origin::ok();
    let (route, upstream) =
        ("headers: {request: {set: {X-A: route}}}", "headers: {request: {add: {X-A: upstream}}}");
    let gateway = attached(&origin, "", route, upstream);
    let mut client = gateway.client();
    assert_eq!((client.ask(OPEN).status, client.ask(SHUT).status), (200, 200));
    let seen: Vec<_> = origin.requests().iter().map(|request| request.headers.all("X-A").join(",")).collect();
    assert_eq!(seen, ["route,upstream", "upstream"]);
}

#[test]
fn a_listener_has_policies_of_its_own() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "listen: [{{bind: $LISTEN, policies: {{ip: {{deny: 127.0.0.0/8}}}}}}]\nroutes: [{{match: /open, to: \"{0}\", \
         policies: {{ip: off}}}}, {{to: \"{0}\"}}]\n",
        origin.address()
    ));
    let mut client = gateway.client();
    assert_eq!([client.ask(OPEN).status, client.ask(SHUT).status], [200, 403]);
}

#[test]
fn policies_hold_for_answers_of_the_gateways_own_and_after_a_reload() {
    let gateway = Gateway::start(
        "policies: {headers: {response: {set: {X-A: one}}}}\nroutes: [{match: /open, respond: 204}]\n",
    );
    let mut client = gateway.client();
    assert_eq!(client.ask(OPEN).headers.get("X-A"), Some("one"));
    gateway.write_config("listen: $LISTEN\nadmin: $ADMIN\npolicies: {ip: {deny: 127.0.0.1}}\nroutes: [{match: /open, respond: 204}]\n");
    gateway.signal(Signal::HUP);
    eventually("the new policies", || client.ask(OPEN).status == 403);
}

#[test]
fn explain_lists_the_policies_and_their_verdicts() {
    let file = std::env::temp_dir().join(format!("tollgate-policies-{}.yaml", std::process::id()));
    let text = "listen: 127.0.0.1:8080\npolicies: {headers: {response: {remove: Server}}}\nroutes:\n\
                - {name: r, match: /open, to: u, policies: {ip: {allow: 192.0.2.1}}}\n\
                upstreams: {u: {endpoints: a:80, policies: {headers: {request: {set: {X-A: b}}}}}}\n";
    std::fs::write(&file, text).expect("the file is written");
    let explain = |from: &str| {
        let name = file.to_str().expect("text");
        tollgate(&["explain", name, "GET", "http://a/open", "--from", from]).out
    };
    let passes = explain("192.0.2.1");
    for line in [
        "policies  ip of route/r (1 allowed, 0 denied): continues",
        "          headers of gateway (0 of the request, 1 of the response): continues",
        "          headers of upstream/u (1 of the request, 0 of the response): continues",
        "+ X-A: b",
    ] {
        assert!(passes.contains(line), "{line} is not in\n{passes}");
    }
    let refused = explain("192.0.2.2");
    for line in [
        "reason `address_denied`",
        "ip of route/r (1 allowed, 0 denied): ends here",
        "of gateway",
        "not reached",
    ] {
        assert!(refused.contains(line), "{line} is not in\n{refused}");
    }
    std::fs::remove_file(file).expect("it is there");
}

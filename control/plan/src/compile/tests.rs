//! Tests the compilation of upstreams, routes and rewrites.

use std::time::Duration;

use tollgate_config::{Spanned, Target, TargetKind, from_text};

use super::*;
use crate::{PathRewrite, Pool, Targets};

fn config(text: &str) -> Config {
    tollgate_policy::register();
    let loaded = from_text("t", text, &|_| None);
    loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)))
}

/// Compiles a config that has a listener and these lines.
fn plan(lines: &str) -> Plan {
    match compile(&config(&format!("listen: :80\n{lines}"))) {
        Ok(Compiled { plan, warnings }) => {
            assert!(warnings.is_empty(), "{warnings:?}");
            plan
        }
        Err(problems) => panic!("{problems:?}"),
    }
}

/// Returns the upstreams of a route, by name, with their shares.
fn shares(plan: &Plan, route: usize) -> Vec<(&str, u32)> {
    let Action::Forward(Targets { shares, .. }) = &plan.routes[route].action else {
        panic!("{:?}", plan.routes[route])
    };
    shares.iter().map(|share| (plan.upstreams[share.upstream].name.as_str(), share.weight)).collect()
}

/// Returns the endpoints of an upstream, as text, with their weights.
fn endpoints(plan: &Plan, upstream: usize) -> Vec<(String, u32)> {
    let endpoints = plan.upstreams[upstream].endpoints.iter();
    endpoints.map(|endpoint| (endpoint.address.to_string(), endpoint.weight)).collect()
}

fn owned<const N: usize>(endpoints: [(&str, u32); N]) -> Vec<(String, u32)> {
    endpoints.map(|(address, weight)| (address.to_owned(), weight)).to_vec()
}

#[test]
fn named_upstreams_have_a_share_each_and_endpoints_in_place_one_together() {
    let plan = plan(
        "upstreams:\n  users: {endpoints: [10.0.0.1:80, {address: 10.0.0.2:80, weight: 3}], pool: {max_idle: 7}}\n  \
         beta: 10.0.0.3:80\nroutes:\n- to: [{upstream: users, weight: 9}, {address: 10.0.0.4:80, weight: 2}, beta, \
         'unix:/run/a.sock']\n",
    );
    assert_eq!(
        shares(&plan, 0),
        [("users", 9), ("beta", 1), ("10.0.0.4:80+1", 3)],
        "an upstream in place takes the sum of its endpoints"
    );
    assert_eq!(endpoints(&plan, 0), owned([("10.0.0.1:80", 1), ("10.0.0.2:80", 3)]));
    assert_eq!(plan.upstreams[0].pool.max_idle, 7);
    assert_eq!(endpoints(&plan, 2), owned([("10.0.0.4:80", 2), ("unix:/run/a.sock", 1)]));
    assert_eq!(plan.upstreams[2].pool, Pool::default());
}

#[test]
fn routes_with_the_same_endpoints_share_an_upstream() {
    let plan = plan(
        "routes:\n- {match: /a, to: [10.0.0.1:80, 10.0.0.2:80]}\n- {match: /b, to: [10.0.0.1:80, 10.0.0.2:80]}\n\
         - {match: /c, to: [10.0.0.1:80, {address: 10.0.0.2:80, weight: 2}]}\n",
    );
    assert_eq!(shares(&plan, 0), shares(&plan, 1));
    assert_eq!(shares(&plan, 2), [("10.0.0.1:80+1~a4ddae", 3)]);
    assert_ne!(shares(&plan, 0)[0].0, "10.0.0.1:80+1~a4ddae");
    assert_eq!(plan.upstreams.len(), 2);
}

#[test]
fn an_endpoint_or_upstream_of_weight_0_is_kept() {
    let plan = plan(
        "upstreams: {a: 10.0.0.1:80}\nroutes:\n\
         - to: [{upstream: a, weight: 0}, {address: 10.0.0.2:80, weight: 0}, 10.0.0.3:80]\n",
    );
    assert_eq!(shares(&plan, 0), [("a", 0), ("10.0.0.2:80+1", 1)]);
}

#[test]
fn a_route_changes_the_timeouts_of_its_upstream_and_that_the_gateways() {
    let plan = plan(
        "timeouts: {connect: 1s, response_header: 1s, response_body: 1s, idle: 9s}\n\
         upstreams: {a: {endpoints: 10.0.0.1:80, timeouts: {response_header: 2s, response_body: off, total: 2s}}, \
         b: 10.0.0.2:80}\nroutes:\n- {match: /one, to: a, timeouts: {response_header: 3s, total: off}}\n\
         - {match: /two, to: [a, b], timeouts: {total: 3s}}\n- {match: /three, to: 10.0.0.1:80}\n",
    );
    let seconds = |n| Some(Duration::from_secs(n));
    let of = |route: usize| {
        let all = &plan.routes[route].timeouts;
        [all.connect, all.response_header, all.response_body, all.total, all.idle]
    };
    assert_eq!(of(0), [seconds(1), seconds(3), None, None, seconds(9)]);
    // With several upstreams, the timeouts of none of them apply.
    assert_eq!(of(1), [seconds(1), seconds(1), seconds(1), seconds(3), seconds(9)]);
    assert_eq!(of(2), [seconds(1), seconds(1), seconds(1), None, seconds(9)]);
}

#[test]
fn the_body_limit_of_a_route_wins() {
    let plan = plan(
        "limits: {body: 1KiB}\nroutes:\n- {match: /a, respond: 204}\n\
         - {match: /b, respond: 204, limits: {body: 2KiB}}\n",
    );
    assert_eq!([plan.routes[0].body_limit, plan.routes[1].body_limit], [Some(1024), Some(2048)]);
}

#[test]
fn a_route_without_a_name_is_called_by_its_match() {
    let names = |lines: &str| -> Vec<String> {
        plan(&format!("routes:\n{lines}")).routes.into_iter().map(|route| route.name.clone()).collect()
    };
    assert_eq!(
        names(
            "- {name: home, match: /, respond: 204}\n- {match: a.b/v1/*, respond: 204}\n- {respond: 204}\n\
             - {match: '*.b', respond: 204}\n- {match: {path: /x, method: [get, PUT]}, respond: 204}\n\
             - {match: {path: {regex: /y+}}, respond: 204}\n- {match: a.b/*, respond: 204}\n"
        ),
        ["home", "a.b/v1/*", "/*", "*.b/*", "GET,PUT /x", "~/y+", "a.b/*"]
    );
}

/// Returns what the first route makes of a path.
fn rewritten(route: &str, path: &str) -> String {
    let plan = plan(&format!("routes:\n- {{{route}, to: 10.0.0.1:80}}\n"));
    let mut out = Vec::new();
    plan.routes[0]
        .rewrite
        .path
        .as_ref()
        .expect("a rewrite")
        .apply(path.as_bytes(), &mut out)
        .expect("a path");
    String::from_utf8(out).expect("a path is ASCII")
}

#[test]
fn rewrites() {
    assert_eq!(rewritten("match: /v1/*, rewrite: {path: /x}", "/v1/a"), "/x");
    assert_eq!(rewritten("match: /v1/*, rewrite: {prefix: /v2/}", "/v1/a"), "/v2/a");
    assert_eq!(rewritten("match: /v1/*, rewrite: {prefix: /}", "/v1/a"), "/a");
    assert_eq!(rewritten("match: a.b, rewrite: {prefix: /v2}", "/a"), "/v2/a");
    assert_eq!(rewritten("match: /*, rewrite: {prefix: /v2}", "/a"), "/v2/a");
    assert_eq!(rewritten("rewrite: {regex: '^/(.)/', replace: /$1-}", "/a/b"), "/a-b");
    assert_eq!(rewritten("match: {path: {regex: '/(.*)/(.*)'}}, rewrite: {path: /$2/$1}", "/a/b"), "/b/a");
    assert_eq!(rewritten("match: '/u/{id}/*', rewrite: {path: '/x/$$id/$id'}", "/u/7/b"), "/x/$id/7");
    assert_eq!(rewritten("match: /v1/*, rewrite: {path: /a//b}", "/v1/a"), "/a/b");
}

#[test]
fn a_prefix_is_as_long_as_its_normal_form() {
    // Requests arrive in normal form, so the prefix is measured in normal form too.
    assert_eq!(rewritten("match: /a//b/*, rewrite: {prefix: /v2}", "/a/b/c"), "/v2/c");
    assert_eq!(rewritten("match: /%7Eu/*, rewrite: {prefix: /v2}", "/~u/c"), "/v2/c");
    assert_eq!(rewritten("match: /é/*, rewrite: {prefix: /v2}", "/%C3%A9/c"), "/v2/c");
}

#[test]
fn redirects_rewrite_as_routes_do() {
    let plan = plan("routes:\n- {match: /a//b/*, redirect: {prefix: /v2, status: 301, scheme: https}}\n");
    let Action::Redirect(redirect) = &plan.routes[0].action else { panic!("{:?}", plan.routes[0]) };
    assert_eq!((redirect.status, redirect.scheme.as_deref()), (301, Some("https")));
    let Some(PathRewrite::Prefix { matched, with }) = &redirect.path else { panic!("{redirect:?}") };
    assert_eq!((*matched, with.as_str()), ("/a/b".len(), "/v2"));
}

#[test]
fn a_body_has_a_type() {
    let headers = |respond: &str| {
        let plan = plan(&format!("routes: [{{respond: {respond}}}]\n"));
        let Action::Respond(respond) = &plan.routes[0].action else { panic!("{:?}", plan.routes[0]) };
        String::from_utf8(respond.headers.clone()).expect("text")
    };
    assert_eq!(headers("204"), "");
    assert_eq!(headers("hello"), "Content-Type: text/plain; charset=utf-8\r\n");
    let own = headers("{body: <p>, headers: {content-type: text/html, X-A: b}}");
    assert_eq!(own, "content-type: text/html\r\nX-A: b\r\n");
}

#[test]
fn errors_that_the_reader_missed_have_a_position() {
    let mut config = config("listen: :80\nroutes: [{match: /x, to: 10.0.0.1:80, rewrite: {path: /y}}]\n");
    let at = |line| At { line, column: 1, length: 1, file: 0 };
    let target = |line, to| Target { to, weight: 1, at: at(line) };
    let route = &mut config.routes[0];
    route.action = config::Action::Forward(vec![
        target(10, TargetKind::Upstream("none".to_owned())),
        target(11, TargetKind::Upstream("nobody".to_owned())),
    ]);
    route.rewrite.path = Some(Spanned { value: config::PathRewrite::Prefix("/z".to_owned()), at: at(12) });
    let mut unreadable = route.clone();
    unreadable.matches.path =
        Some(Spanned { value: config::PathMatch::Exact("/other".to_owned()), at: at(13) });
    let regex = config::PathRewrite::Regex { pattern: "secret(".to_owned(), replace: String::new() };
    unreadable.rewrite.path = Some(Spanned { value: regex, at: at(14) });
    unreadable.action = config::Action::Forward(Vec::new());
    config.routes.push(unreadable);
    let problems = compile(&config).expect_err("four mistakes");
    let lines: Vec<_> = problems.iter().map(|problem| problem.at.line).collect();
    assert_eq!(lines, [10, 11, 12, 14], "{problems:?}");
    assert!(
        problems.iter().all(|p| !p.message.contains('\n') && !p.message.contains("secret")),
        "{problems:?}"
    );
}

/// A worker decides by this field alone that a request passes no policy; `make count` measures the cost of
/// that case.
#[test]
fn a_route_without_policies_has_no_chain_beside_one_that_has_some() {
    let plan = plan(
        "routes:\n- {match: /plain, to: 10.0.0.1:80}\n\
         - {match: /other, to: 10.0.0.1:80, policies: {security_headers: on, rate_limit: {rate: 1/s}}}\n",
    );
    let has_chain: Vec<_> = plan.routes.iter().map(|route| route.policies.is_some()).collect();
    assert_eq!((has_chain, plan.upstream_chains), (vec![false, true], vec![None]));
}

//! Tests the policies that sets bring to a place, and the errors about their names.

use std::path::PathBuf;
use std::sync::Arc;

use tollgate_config::file_access::Scope;
use tollgate_config::{CombinedResources, Config, Documents, Problem, from_text, kind};

use crate::{CompileCache, Compiled, Plan, compile, compile_with_cache};

const SETS: &str = "policy_sets:\n  \
    strict: {rate_limit: {rate: 1/s}, ip: {deny: 192.0.2.0/24}}\n  \
    loose: {rate_limit: {rate: 99/s}, security_headers: on}\n  \
    none: {rate_limit: off}\n";

fn config(text: &str) -> Config {
    tollgate_policy::register();
    let loaded = from_text("t", &format!("listen: 127.0.0.1:0\n{SETS}{text}"), &|_| None);
    loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)))
}

fn plan(text: &str) -> Plan {
    compile(&config(text)).map(|Compiled { plan, .. }| plan).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn wrong(text: &str) -> Vec<Problem> {
    compile(&config(text)).expect_err("a mistake")
}

/// Returns the policies of a route: where each is attached, by which set, and its summary.
fn policies_of(plan: &Plan, name: &str) -> Vec<(String, Option<String>, String)> {
    let route = plan.routes.iter().find(|route| route.name == name).expect("a route");
    let chain = route.policies.as_ref().and_then(|chains| chains.default);
    let indices = chain.map(|chain| plan.chains[chain as usize].as_slice()).unwrap_or_default();
    let policies = indices.iter().map(|index| {
        let attached = &plan.policies[*index as usize];
        (attached.key.clone(), attached.set.as_deref().map(str::to_owned), attached.policy.summary())
    });
    policies.collect()
}

/// Like [`policies_of`], without the summaries.
fn by(plan: &Plan, name: &str) -> Vec<(String, String)> {
    policies_of(plan, name).into_iter().map(|(key, set, _)| (key, set.unwrap_or_default())).collect()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(key, set)| ((*key).to_owned(), (*set).to_owned())).collect()
}

#[test]
fn the_last_set_wins_and_the_places_own_policies_win_over_sets() {
    let plan = plan(
        "policies: {use: strict}\nroutes:\n\
         - {name: usual, match: /a, respond: a}\n\
         - {name: later, match: /b, respond: a, policies: {use: [strict, loose]}}\n\
         - {name: earlier, match: /c, respond: a, policies: {use: [loose, strict]}}\n\
         - {name: own, match: /d, respond: a, policies: {use: [loose, strict], rate_limit: {rate: 5/s}, ip: off}}\n\
         - {name: none, match: /e, respond: a, policies: {use: [strict, none]}}\n",
    );
    assert_eq!(by(&plan, "usual"), pairs(&[("gateway/ip", "strict"), ("gateway/rate_limit", "strict")]));
    let later = pairs(&[
        ("route/later/ip", "strict"),
        ("route/later/rate_limit", "loose"),
        ("route/later/security_headers", "loose"),
    ]);
    assert_eq!(by(&plan, "later"), later);
    let earlier = pairs(&[
        ("route/earlier/ip", "strict"),
        ("route/earlier/rate_limit", "strict"),
        ("route/earlier/security_headers", "loose"),
    ]);
    assert_eq!(by(&plan, "earlier"), earlier);
    assert_eq!(
        by(&plan, "own"),
        pairs(&[("route/own/rate_limit", ""), ("route/own/security_headers", "loose")])
    );
    assert_eq!(by(&plan, "none"), pairs(&[("route/none/ip", "strict")]), "`off` in a set counts too");
    let rate =
        |name: &str| policies_of(&plan, name).into_iter().find(|(key, ..)| key.ends_with("rate_limit"));
    assert!(rate("later").expect("a limit").2.contains("99"), "{:?}", rate("later"));
    // Counters are found by the key of a place: each policy has its own, and no key occurs twice.
    let mut keys: Vec<&str> = plan.policies.iter().map(|attached| attached.key.as_str()).collect();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count, "{keys:?}");
}

#[test]
fn listeners_and_upstreams_use_sets_too() {
    let text = format!(
        "listen: [{{bind: \"127.0.0.1:0\", policies: {{use: loose}}}}]\n{SETS}\
         upstreams: {{u: {{endpoints: \"h:1\", policies: {{use: [strict]}}}}}}\n\
         routes: [{{name: a, match: /a, to: u}}]\n"
    );
    tollgate_policy::register();
    let loaded = from_text("t", &text, &|_| None);
    let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
    let plan = compile(&config).unwrap_or_else(|problems| panic!("{problems:?}")).plan;
    let keys: Vec<&str> = plan.policies.iter().map(|attached| attached.key.as_str()).collect();
    let listener = |kind: &str| format!("listener/127.0.0.1:0/{kind}");
    assert_eq!(
        keys,
        [
            listener("rate_limit").as_str(),
            &listener("security_headers"),
            "upstream/u/ip",
            "upstream/u/rate_limit"
        ]
    );
    assert!(plan.upstream_chains[0].is_some());
    assert!(plan.routes[0].policies.as_ref().is_some_and(|chains| chains.listeners[0].1.is_some()));
}

#[test]
fn an_unknown_set_is_reported_once_with_the_nearest_name() {
    let problems = wrong(
        "routes:\n- {match: [/a, /b], respond: x, policies: {use: [strct, far-away]}}\n\
         - {match: /c, respond: x, policies: {use: lose}}\n",
    );
    let found: Vec<_> = problems.iter().map(|problem| (problem.message.as_str(), &problem.help)).collect();
    assert_eq!(
        found,
        [
            ("there is no policy set `far-away`", &Vec::new()),
            ("there is no policy set `strct`", &vec!["did you mean `strict`?".to_owned()]),
            ("there is no policy set `lose`", &vec!["did you mean `loose`?".to_owned()]),
        ]
    );
    assert_eq!((problems[1].at.line, problems[1].at.column, problems[1].at.length), (7, 50, 5));
    // No suggestion reveals what a variable holds.
    let text = format!("listen: 127.0.0.1:0\n{SETS}routes: []\npolicies: {{use: \"${{SET}}\"}}\n");
    tollgate_policy::register();
    let config = from_text("t", &text, &|_| Some("strct".to_owned())).config.expect("it can be read");
    let problems = compile(&config).expect_err("unknown");
    assert_eq!(
        (problems[0].message.as_str(), problems[0].help.len()),
        ("there is no policy set `${SET}`", 0)
    );
}

#[test]
fn an_error_in_a_set_is_reported_once() {
    let loaded = |sets: &str, text: &str| {
        let text = format!(
            "listen: 127.0.0.1:0\npolicy_sets: {sets}\nupstreams: {{u: \"h:1\", v: \"h:2\"}}\n{text}"
        );
        tollgate_policy::register();
        from_text("t", &text, &|_| None)
    };
    let read = |text: &str| {
        let loaded =
            loaded("{one: {canary: {to: u}}, all: {aggregate: {parts: {a: {to: u, path: /}}}}}", text);
        loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)))
    };
    let of = |config: &Config| -> Vec<(String, u32, Option<u32>)> {
        let problems = compile(config).expect_err("mistakes");
        let found = problems.into_iter().map(|problem| {
            let other = problem.related.first().map(|(at, _)| at.line);
            (problem.message, problem.at.line, other)
        });
        found.collect()
    };
    let used =
        "routes:\n- {match: /a, to: v, policies: {use: far}}\n- {match: /b, to: v, policies: {use: far}}\n";
    for (text, what) in [("routes: []\n", "not used"), (used, "used twice")] {
        let problems = loaded("{far: {mirror: {to: nowhere}}}", text).problems;
        let found: Vec<_> =
            problems.iter().map(|problem| (problem.message.as_str(), problem.at.line)).collect();
        assert_eq!(found, [("there is no upstream `nowhere`", 2)], "{what}");
    }
    let off = read(
        "routes:\n- {match: /a, to: v, policies: {use: one}}\n- {match: /b, to: [u, v], policies: {use: one}}\n- {match: /c, to: v, policies: {use: one, canary: off}}\n",
    );
    let found = of(&off);
    assert!(found[0].0.contains("`u` is none of the upstreams of this route"), "{found:?}");
    assert_eq!((found.len(), found[0].1, found[0].2), (1, 5, Some(2)), "{found:?}");
    let behind = read("routes: []\npolicies: {use: all}\n");
    assert!(compile(&behind).is_ok(), "without routes, nothing is behind the gateway");
    let mut behind = read("routes: [{match: /, to: v}]\n");
    behind.upstreams[0].policies = read("routes: []\npolicies: {use: all}\n").policies;
    let found = of(&behind);
    assert!(
        found.iter().any(|(message, _, other)| message.contains("an upstream has none") && *other == Some(2)),
        "{found:?}"
    );
}

#[test]
fn a_set_that_changes_leaves_the_routes_as_they_are() {
    let text = "routes:\n- {name: a, match: /a, respond: a, policies: {use: strict}}\n\
        - {name: b, match: /b, respond: b, policies: {use: loose}}\n- {name: c, match: /c, respond: c}\n";
    let (mut now, mut cache) = (config(text), CompileCache::default());
    let again = |config: &Config, cache: &mut CompileCache| {
        compile_with_cache(&CombinedResources::of(config), cache)
            .unwrap_or_else(|problems| panic!("{problems:?}"))
            .plan
    };
    let same = |one: &Plan, other: &Plan| -> Vec<bool> {
        one.routes.iter().zip(&other.routes).map(|(one, other)| Arc::ptr_eq(one, other)).collect()
    };
    let first = again(&now, &mut cache);
    // With another rate, the routes are the same objects, but not the policies that their requests pass.
    let other = format!("listen: 127.0.0.1:0\n{}{text}", SETS.replace("rate: 1/s", "rate: 7/s"));
    tollgate_policy::register();
    now.policy_sets = from_text("t", &other, &|_| None).config.expect("good").policy_sets;
    let second = again(&now, &mut cache);
    assert_eq!(same(&first, &second), [true, true, true]);
    assert!(policies_of(&first, "a")[1].2.contains('1') && policies_of(&second, "a")[1].2.contains('7'));
    assert_eq!(policies_of(&first, "b"), policies_of(&second, "b"));
    // Without any policy the set attaches nothing, and only the route that uses it changes.
    now.policy_sets[0].policies.list.clear();
    let third = again(&now, &mut cache);
    let fresh = again(&now, &mut CompileCache::default());
    assert!(policies_of(&third, "a").is_empty());
    assert!(same(&second, &third)[2], "who uses no set is taken over");
    assert_eq!(format!("{:?}", third.routes), format!("{:?}", fresh.routes));
    // Removing a set that a route uses is an error each time.
    now.policy_sets.remove(0);
    for _ in 0..2 {
        let problems = compile_with_cache(&CombinedResources::of(&now), &mut cache).expect_err("in use");
        assert_eq!(problems[0].message, "there is no policy set `strict`");
    }
}

#[test]
fn a_set_that_only_a_store_can_have_is_a_warning_as_long_as_the_store_is_not_looked_at() {
    let text = "store: s\nroutes: [{name: a, match: /a, respond: x, policies: {use: [strict, stored]}}]\n";
    let config = config(text);
    let Compiled { plan, warnings } = compile(&config).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(warnings[0].message, "there is no policy set `stored`");
    assert!(warnings[0].help.iter().any(|help| help.contains("the store has to have it")), "{warnings:?}");
    assert_eq!(by(&plan, "a").len(), 2, "what is known is there");
    // `compile_with_cache` runs after the store has been read, so an unknown set is an error.
    let problems = compile_with_cache(&CombinedResources::of(&config), &mut CompileCache::default())
        .expect_err("unknown");
    assert_eq!((problems.len(), problems[0].message.as_str()), (1, "there is no policy set `stored`"));
}

#[test]
fn with_etcd_the_file_uses_its_own_sets() {
    let file =
        config("etcd: 127.0.0.1:2379\nroutes: [{name: a, match: /a, respond: x, policies: {use: theirs}}]\n");
    tollgate_policy::register();
    let mut documents = Documents::new("etcd", PathBuf::new(), Scope::default());
    let mut put = |kind_name: &str, name: &str, value: serde_json::Value| {
        drop(documents.put(kind(kind_name).expect("a kind"), name, value).expect("good"));
    };
    put("policies", "theirs", serde_json::json!({"ip": {"deny": "192.0.2.0/24"}}));
    put(
        "routes",
        "b",
        serde_json::json!({"match": "/b", "respond": "x", "policies": {"use": ["strict", "theirs"]}}),
    );
    let found =
        compile_with_cache(&CombinedResources::of(&file).with(&documents), &mut CompileCache::default())
            .expect_err("refused");
    assert_eq!((found.len(), found[0].message.as_str()), (1, "there is no policy set `theirs`"));
    assert!(found[0].help.iter().any(|help| help.contains("before etcd answers")), "{found:?}");
    let file = config("etcd: 127.0.0.1:2379\nroutes: []\n");
    let parts = CombinedResources::of(&file).with(&documents);
    let plan = compile_with_cache(&parts, &mut CompileCache::default()).expect("good").plan;
    assert_eq!(by(&plan, "b"), pairs(&[("route/b/ip", "theirs"), ("route/b/rate_limit", "strict")]));
}

//! Tests that the table of keys and the readers agree.

use crate::load::from_text;
use crate::model::Config;
use crate::section::Section;
use crate::sections::*;
use crate::spec::{ROOT, SectionSpec};

/// Returns `{key: default, ...}` with the defaults of the table.
fn defaults(section: &SectionSpec) -> String {
    let keys = section.keys.iter().filter_map(|key| Some(format!("{}: {}", key.name, key.default?)));
    format!("{{{}}}", keys.collect::<Vec<_>>().join(", "))
}

fn read(text: &str) -> Config {
    let loaded = from_text("t", text, &|_| None);
    loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)))
}

#[test]
fn the_defaults_of_the_table_match_the_types() {
    let mut text = String::from("listen: :80\nroutes: []\n");
    for key in ROOT.keys {
        if let Some(default) = key.default {
            text.push_str(&format!("{}: {default}\n", key.name));
        }
    }
    for section in [Forwarded::SPEC, Limits::SPEC, Timeouts::SPEC, Paths::SPEC, Overload::SPEC] {
        text.push_str(&format!("{}: {}\n", section.name, defaults(section)));
    }
    text.push_str(&format!("upstreams: {{a: {{endpoints: 'a:80', pool: {}}}}}\n", defaults(Pool::SPEC)));
    let (config, default) = (read(&text), Config::default());
    assert_eq!(config.workers, default.workers);
    assert_eq!(config.admin.map(|admin| admin.bind.value), default.admin.map(|admin| admin.bind.value));
    assert_eq!(config.access_log, default.access_log);
    assert_eq!(config.log, default.log);
    assert_eq!(config.request_id, default.request_id);
    assert_eq!(config.metrics, default.metrics);
    assert_eq!(config.forwarded, default.forwarded);
    assert_eq!(config.limits, default.limits);
    assert_eq!(config.timeouts, default.timeouts);
    assert_eq!(config.paths, default.paths);
    assert_eq!(config.zone, default.zone);
    assert_eq!(config.watch, default.watch);
    assert_eq!(config.overload, Overload::default());
    assert_eq!(config.upstreams[0].pool, Pool::default());
}

/// Reads one upstream with these keys.
fn upstream(keys: &str) -> crate::Upstream {
    read(&format!("listen: :80\nroutes: []\nupstreams: {{a: {{{keys}}}}}\n")).upstreams.remove(0)
}

#[test]
fn the_defaults_of_an_upstream_match_the_types() {
    let defaults_of = |section: &SectionSpec| format!("{}: {}", section.name, defaults(section));
    let balance = defaults_of(Balance::SPEC).replace("choices: two, ", "");
    let limits = format!("limits: {}", defaults(Caps::SPEC));
    let rest = [Queue::SPEC, Retry::SPEC, Outlier::SPEC].map(defaults_of).join(", ");
    let long = upstream(&format!("endpoints: ['a:80', 'b:80'], {balance}, {limits}, {rest}"));
    assert_eq!(long.rules, Rules::default());
    assert_eq!(
        upstream(&format!("endpoints: 'a:80', {}", defaults(Upstream::SPEC)[1..].trim_end_matches('}')))
            .rules,
        Rules::default()
    );
    let endpoint =
        upstream(&format!("endpoints: {}", defaults(Endpoint::SPEC).replace('{', "{address: 'a:80', ")));
    assert_eq!((endpoint.endpoints[0].weight, endpoint.endpoints[0].priority), (1, 0));
}

#[test]
fn a_section_that_is_on_has_the_defaults_of_its_mapping() {
    let long = upstream(&format!(
        "endpoints: ['a:80', 'b:80'], breaker: {}, adaptive: {}, health: {}, balance: {{sticky: {}}}",
        defaults(Breaker::SPEC).replace("slow: 100%, ", ""),
        defaults(Adaptive::SPEC),
        defaults(Health::SPEC).replace('{', "{http: /, "),
        defaults(Sticky::SPEC),
    ));
    let short =
        upstream("endpoints: ['a:80', 'b:80'], breaker: on, adaptive: on, health: /, balance: {sticky: on}");
    assert_eq!(long.rules, short.rules);
    let found =
        upstream(&format!("discover: {}", defaults(Discover::SPEC).replace('{', "{dns: a, port: 80, ")));
    let rules = DnsRules::default();
    assert_eq!(
        found.discover.map(|found| found.value),
        Some(Discover::Dns { name: "a".into(), port: 80, rules })
    );
    let hedge = |text: &str| upstream(&format!("endpoints: ['a:80', 'b:80'], hedge: {text}")).rules.hedge;
    assert_eq!(hedge("{after: 50ms}"), hedge("50ms"));
    assert!(matches!(hedge("50ms"), Some(Hedge { .. })) && hedge("off").is_none());
}

#[test]
fn defaults_of_mappings_match_the_short_forms() {
    let log = defaults(AccessLog::SPEC).replace('{', "{to: stdout, ");
    let long = read(&format!(
        "listen: :80\nrequest_id: {}\naccess_log: {log}\nroutes: [{{to: 'a:80', buffer: {{request: {}}}}}]\n",
        defaults(RequestId::SPEC),
        defaults(BufferBounds::SPEC),
    ));
    let short = read(
        "listen: :80\nrequest_id: on\naccess_log: stdout\nroutes: [{to: 'a:80', buffer: {request: on}}]\n",
    );
    assert_eq!(long.request_id, short.request_id);
    assert_eq!(long.access_log, short.access_log);
    assert_eq!(long.routes[0].buffer, short.routes[0].buffer);
}

#[test]
fn an_empty_section_is_the_default() {
    let config = read("listen: :80\nroutes: [{to: 'a:80'}]\n");
    let default = Config::default();
    assert_eq!(config.limits, default.limits);
    assert_eq!(config.timeouts, default.timeouts);
    assert_eq!(config.admin, default.admin);
    assert_eq!(config.routes[0].upgrade, ["websocket"]);
    assert_eq!(config.routes[0].matches.path, None);
}

/// Returns the hosts of the routes that can still be compared.
fn partial(text: &str) -> Option<Vec<String>> {
    let loaded = from_text("t", text, &|_| None);
    assert!(loaded.config.is_none(), "{text}");
    let name = |route: crate::Route| route.matches.host.map_or_else(String::new, |host| host.value);
    loaded.partial.map(|partial| partial.routes.into_iter().map(name).collect())
}

#[test]
fn routes_beside_a_mistake_can_still_be_compared() {
    let hosts = partial(
        "listn: :80\nroutes:\n- {match: a, to: 'a:80'}\n- {match: b, to: none, timeouts: {total: fast}}\n\
         - {match: c, respond: 99}\n- {match: 'd:80', respond: 200}\n- {mach: e, respond: 200}\n\
         - {match: {host: f, path: '${UNSET}'}, respond: 200}\n- {match: '${UNSET}', respond: 200}\n",
    );
    assert_eq!(hosts, Some(["a", "b", "c"].map(str::to_owned).to_vec()));
}

#[test]
fn a_match_with_an_error_is_not_compared() {
    for wrong in [
        "paths: {merge_slashes: perhaps}\n",
        "path: {merge_slashes: off}\n",
        "paths: '${UNSET}'\n",
        "routes: []\n",
        "x: [1, 2\n",
    ] {
        let text = format!("listen: :80\nroutes:\n- {{match: a, to: 'a:80'}}\n{wrong}");
        assert_eq!(partial(&text), None, "{wrong}");
    }
}

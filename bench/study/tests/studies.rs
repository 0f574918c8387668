//! Tests that every study of the project can be read, uses only existing names, and fits a machine with two
//! cores.

use std::path::Path;
use tollgate_lab_study::{Limits, Names, load, names, plan};

fn bench() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn systems() -> Vec<String> {
    let folders = std::fs::read_dir(bench().join("systems")).unwrap();
    folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

const TOOLS: [&str; 13] = [
    "builtin",
    "wrk",
    "wrk2",
    "ab",
    "siege",
    "hey",
    "vegeta",
    "h2load",
    "oha",
    "k6",
    "fortio",
    "bombardier",
    "gatling",
];

const FEATURES: [&str; 42] = [
    "access_log",
    "request_id",
    "statistics",
    "tls",
    "http2",
    "http2_origin",
    "forwarded_headers",
    "retries",
    "routes",
    "hosts",
    "balancing",
    "streaming",
    "large_buffers",
    "ip_rules",
    "cors",
    "api_key",
    "basic_auth",
    "jwt",
    "forward_auth",
    "ext_authz",
    "signatures",
    "client_certificate",
    "authorize",
    "rate_limit",
    "shared_rate_limit",
    "quota",
    "concurrency_limit",
    "fault",
    "canary",
    "mirror",
    "header_edits",
    "query_edits",
    "cookie_edits",
    "security_headers",
    "compression",
    "decompression",
    "cache",
    "aggregate",
    "tracing",
    "tcp",
    "passthrough",
    "udp",
];

#[test]
fn the_five_founding_studies_and_ours_are_read_and_planned() {
    let folder = bench().join("studies");
    let known = Names {
        systems: systems(),
        tools: TOOLS.map(str::to_owned).to_vec(),
        features: FEATURES.map(str::to_owned).to_vec(),
    };
    let found = names(&folder);
    for name in [
        "apisix-envoy",
        "bars",
        "cache",
        "features",
        "four-gateways",
        "ingress",
        "kong-envoy-nginx",
        "quick",
        "sidecar",
        "tls",
        "toll",
        "training",
    ] {
        assert!(found.iter().any(|other| other == name), "{name} is missing: {found:?}");
    }
    for name in &found {
        let study = load(&folder, name, &known).unwrap_or_else(|problem| panic!("{problem}"));
        let limits = Limits {
            connections: 9_000,
            target_cores: 2,
            origin_cores: 1,
            load_cores: 1,
            seconds: None,
            rounds: None,
            systems: vec![],
            sections: vec![],
        };
        let plan = plan(&study, &limits);
        assert!(!plan.cells.is_empty() && plan.seconds > 0.0, "{name} measures nothing");
        if name == "quick" {
            assert!(plan.seconds < 180.0, "quick takes {} s", plan.seconds);
        }
    }
}

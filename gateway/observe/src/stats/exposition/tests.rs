//! Tests the text in both formats, and that docs/metrics.md names every family.

use std::collections::BTreeSet;

use crate::record::sample;
use crate::upstreams::sample::{Fixed, shop};
use crate::{Exposition, Reason, Registry, Tally};

fn busy() -> std::sync::Arc<Registry> {
    let registry = Registry::new(true);
    let worker = registry.worker();
    let upstream_slot = registry.upstream_slot("shop");
    let route_slot = registry.route_slot("a\"b\\c\nd");
    worker.upstream_opened(upstream_slot);
    worker.upstream_failed(upstream_slot, Reason::DnsError);
    worker.request_started();
    worker.record(&Tally { route_slot, upstream_slot, ..sample::tally() }, || route_slot);
    registry
}

#[test]
fn the_state_of_endpoints() {
    let registry = busy();
    registry.watch_upstreams(std::sync::Arc::new(Fixed(vec![shop()])));
    let text = registry.render_as(Exposition::Text);
    for line in [
        "tollgate_upstream_endpoints{upstream=\"shop\",state=\"available\"} 1",
        "tollgate_upstream_endpoints{upstream=\"shop\",state=\"ejected\"} 1",
        "tollgate_endpoint_up{upstream=\"shop\",endpoint=\"10.0.0.1:8080\"} 1",
        "tollgate_endpoint_up{upstream=\"shop\",endpoint=\"10.0.0.2:8080\"} 0",
        "tollgate_endpoint_attempts_total{upstream=\"shop\",endpoint=\"10.0.0.1:8080\"} 1000",
        "tollgate_endpoint_failures_total{upstream=\"shop\",endpoint=\"10.0.0.2:8080\"} 10",
        "tollgate_upstream_limit{upstream=\"shop\",resource=\"connections\"} 500",
        "tollgate_upstream_adaptive_shed_total{upstream=\"shop\",priority=\"low\"} 0",
        "tollgate_upstream_probes_total{upstream=\"shop\",result=\"connection_refused\"} 18",
        "tollgate_upstream_ejections_total{upstream=\"shop\",cause=\"consecutive_5xx\"} 3",
        "tollgate_upstream_ejections_refused_total{upstream=\"shop\"} 2",
        "tollgate_upstream_lookups_total{upstream=\"shop\"} 90",
        "tollgate_upstream_lookup_failures_total{upstream=\"shop\"} 4",
        "tollgate_upstream_lookup_age_seconds{upstream=\"shop\"} 15.0",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} in {text}");
    }
}

fn declared(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect()
}

#[test]
fn open_metrics() {
    let text = busy().render();
    assert!(text.ends_with("# EOF\n"));
    assert!(text.contains("# TYPE tollgate_requests counter\n"), "{text}");
    assert!(
        text.contains("tollgate_requests_total{route=\"a\\\"b\\\\c\\nd\",code=\"200\",method=\"GET\"} 1\n"),
        "{text}"
    );
    assert!(text.contains("tollgate_reasons_total{route=\"a\\\"b\\\\c\\nd\",reason=\"-\"} 1\n"));
    assert!(text.contains("tollgate_upstream_failures_total{upstream=\"shop\",reason=\"dns_error\"} 1\n"));
    let names = declared(&text);
    assert_eq!(text.matches("# TYPE ").count(), names.len(), "a family is declared twice");
}

#[test]
fn prometheus_text() {
    let text = busy().render_as(Exposition::Text);
    assert!(!text.contains("# EOF"));
    assert!(text.contains("# TYPE tollgate_requests_total counter\n"));
    assert!(text.contains("tollgate_upstream_connections_opened_total{upstream=\"shop\"} 1\n"), "{text}");
    assert!(text.contains("tollgate_request_duration_seconds_bucket{le=\"0.0032\",route="), "{text}");
    assert!(text.contains("le=\"+Inf\""));
    assert!(text.contains("tollgate_sent_bytes_total 1234\n"));
    assert_eq!(text.matches("# TYPE ").count(), declared(&text).len());
}

#[test]
fn every_sample_belongs_to_the_family_declared_above_it() {
    for format in [Exposition::Text, Exposition::OpenMetrics] {
        let text = busy().render_as(format);
        let mut family = "";
        for line in text.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(declaration) => family = declaration.split(' ').next().unwrap(),
                None if line.starts_with('#') => {}
                None => assert!(line.starts_with(family), "{line:?} under {family:?}"),
            }
        }
    }
}

#[test]
fn unknown_costs_have_no_series() {
    let text = busy().render();
    assert!(!text.contains("\ntollgate_headroom_requests_per_second "));
    assert!(!text.contains("\ntollgate_cost_cpu_seconds_per_request "));
}

#[test]
fn the_page_names_exactly_what_is_exposed() {
    let page = include_str!("../../../../../docs/metrics.md");
    let documented: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split(['`', '{']).next())
        .filter(|name| name.starts_with("tollgate_") || name.starts_with("process_"))
        .collect();
    let registry = busy();
    // The metrics of sources are exposed only if they are in use.
    registry.update_status(|status| {
        status.etcd = Some(crate::EtcdStatus::default());
        status.cache = Some(crate::CacheStatus::default());
        status.controller = Some(crate::ControllerStatus::default());
        status.fleet = Some(crate::FleetStatus::default());
    });
    assert_eq!(documented, declared(&registry.render_as(Exposition::Text)));
}

//! The cells, one of each kind, with their findings.

use std::collections::BTreeMap;

use tollgate_lab_record::*;

use super::builder::{Builder, Load, of};

/// Adds all cells.
pub(super) fn cells(out: &mut Builder) {
    toll(out);
    rates(out);
    connections(out);
    workers(out);
    quota(out);
    features(out);
}

fn toll(out: &mut Builder) {
    let all = [
        "direct",
        "tollgate",
        "nginx",
        "haproxy",
        "hyper",
        "pingora",
        "envoy",
        "envoy-contour",
        "caddy",
        "kong",
    ];
    let section = "Toll at an equal rate";
    out.cell(
        cell("toll-64", "64 connections, 2 B", section, None, &all),
        |name| {
            (name != "kong").then(|| Load {
                histograms: ["direct", "tollgate", "nginx", "envoy"].contains(&name),
                rounds: 6,
                windows: true,
                ..Load::open(10_000.0)
            })
        },
        nothing,
    );
    out.cell(
        cell("toll-64k", "64 connections, 64 KiB", section, None, &all),
        |name| (name != "kong").then(|| Load { dear: 3.6, ..Load::open(3_000.0) }),
        |name| match name {
            "pingora" => (
                VerdictKind::Invalid,
                vec!["it kept 81 % of the rate while no core, thread or quota was at a limit"],
            ),
            "caddy" => {
                (VerdictKind::HotWorker, vec!["thread `caddy` used 0.98 of a core, the others under 0.10"])
            }
            _ => (VerdictKind::Nothing, vec![]),
        },
    );
    out.lines.push(Line::Note {
        section: section.into(),
        text: "HAProxy and nginx *tie* on small bodies; the `64 KiB` cell separates them.".into(),
    });
}

fn rates(out: &mut Builder) {
    for rate in [2_000.0, 6_000.0, 10_000.0, 14_000.0, 17_000.0, 19_000.0, 20_300.0] {
        out.cell(
            cell(
                &format!("rate-{rate:.0}"),
                &format!("{} requests/s", tollgate_lab_report::number::whole(rate)),
                "Latency against offered rate",
                Some(("rate", rate)),
                &["direct", "tollgate", "nginx", "haproxy", "envoy"],
            ),
            |_| Some(Load { rounds: 3, ..Load::open(rate) }),
            |name| match name {
                "envoy" if rate >= 20_000.0 => {
                    (VerdictKind::Gateway, vec!["core 0 was 99 % busy, 98 % of it envoy"])
                }
                _ => (VerdictKind::Nothing, vec![]),
            },
        );
    }
}

fn connections(out: &mut Builder) {
    let printed: [(f64, [f64; 4]); 4] = [
        (16.0, [36_290.0, 42_112.0, 36_836.0, 32_576.0]),
        (64.0, [96_422.0, 86_598.0, 72_906.0, 57_054.0]),
        (640.0, [105_249.0, 95_653.0, 84_067.0, 57_913.0]),
        (6400.0, [99_480.0, 88_109.0, 107_235.0, 54_581.0]),
    ];
    for (connections, [direct, nginx, envoy, kong]) in printed {
        let mut one = cell(
            &format!("connections-{connections:.0}"),
            &format!("{} connections", tollgate_lab_report::number::whole(connections)),
            "Throughput against connections",
            Some(("connections", connections)),
            &["direct", "tollgate", "nginx", "haproxy", "envoy", "kong"],
        );
        one.published = BTreeMap::from([
            ("direct".to_owned(), published(&[direct], None)),
            ("nginx".to_owned(), published(&[nginx * 0.99, nginx, nginx * 1.02], None)),
            ("envoy".to_owned(), published(&[envoy], None)),
            ("kong".to_owned(), published(&[kong], None)),
        ]);
        let most = move |name: &str| {
            let fall = 1.0 - 0.06 * (connections / 64.0f64).ln().abs();
            if name == "direct" { 112_000.0 * fall } else { 84_000.0 * fall }
        };
        out.cell(
            one,
            |name| {
                (name != "kong").then(|| Load { connections: connections as u32, ..Load::closed(most(name)) })
            },
            |name| match name {
                "direct" => (VerdictKind::Generator, vec!["core 1 was 99 % busy, 64 % of it wrk"]),
                "envoy" if connections > 6000.0 => {
                    (VerdictKind::Errors, vec!["31 % of the answers were 503"])
                }
                "tollgate" => (VerdictKind::Generator, vec!["core 1 was 98 % busy, 61 % of it wrk"]),
                "haproxy" if connections > 6000.0 => {
                    (VerdictKind::Connections, vec!["2,113 connections met a full listen queue"])
                }
                _ => (VerdictKind::Gateway, vec!["core 0 was 99 % busy"]),
            },
        );
    }
}

fn workers(out: &mut Builder) {
    for (workers, apisix) in [(1.0, 1.0), (2.0, 1.88), (3.0, 2.81)] {
        let mut one = cell(
            &format!("workers-{workers:.0}"),
            &format!("workers: {workers:.0}, each a quarter core"),
            "Scaling with workers",
            Some(("workers", workers)),
            &["tollgate", "nginx", "envoy"],
        );
        one.published = BTreeMap::from([
            ("nginx".to_owned(), published(&[18_608.4 * apisix], Some(960.0))),
            ("envoy".to_owned(), published(&[15_625.56 * apisix * 0.98], Some(1020.0))),
        ]);
        out.cell(
            one,
            |name| {
                let single = 0.25e6 / (of(name).user + of(name).system);
                let kept = 1.0 - 0.035 * (workers - 1.0);
                Some(Load { connections: (16.0 * workers) as u32, ..Load::closed(single * workers * kept) })
            },
            |_| (VerdictKind::Quota, vec!["its quota held it back in 93 % of the periods"]),
        );
    }
}

fn quota(out: &mut Builder) {
    for quota in [0.125, 0.25, 0.5, 1.0] {
        let mut one = cell(
            &format!("quota-{}", (quota * 1000.0) as u32),
            &format!("quota of {quota}"),
            "Under a CPU quota",
            Some(("quota", quota)),
            &["tollgate", "nginx", "haproxy", "envoy"],
        );
        one.settings.insert("quota".into(), quota.to_string());
        out.cell(
            one,
            |name| {
                Some(Load {
                    rounds: 3,
                    quota: Some(quota),
                    ..Load::closed(quota * 0.97e6 / (of(name).user + of(name).system))
                })
            },
            |name| match name {
                "tollgate" if quota == 1.0 => {
                    (VerdictKind::Generator, vec!["core 1 was 99 % busy, 66 % of it wrk"])
                }
                _ => (
                    VerdictKind::Quota,
                    vec!["its quota held it back in 97 % of the periods, 61 % of the time"],
                ),
            },
        );
    }
}

fn features(out: &mut Builder) {
    let prices = [
        ("plain", 1.0),
        ("access log", 1.06),
        ("request id", 1.03),
        ("rate limit", 1.045),
        ("TLS to the client", 1.31),
        ("all of them", 1.47),
    ];
    for (at, (feature, dear)) in prices.into_iter().enumerate() {
        out.cell(
            cell(
                &format!("feature-{at}"),
                feature,
                "What features add",
                None,
                &["tollgate", "nginx", "haproxy"],
            ),
            |_| Some(Load { rounds: 4, dear, ..Load::open(8_000.0) }),
            nothing,
        );
    }
    let about = |estimate: f64, half: f64| {
        Known::Is(Summary { estimate, low: estimate - half, high: estimate + half, rounds: 4 })
    };
    for (at, (feature, dear)) in prices.into_iter().enumerate() {
        for name in ["tollgate", "nginx", "haproxy"] {
            let model = of(name);
            let part = if at == 0 { 1.0 } else { dear - 1.0 };
            let cpu_us = (model.user + model.system) * part;
            let cannot = name == "haproxy" && feature == "rate limit";
            let lacks = || Known::Not("cannot".to_owned());
            out.lines.push(Line::Price(Price {
                section: "What features add".into(),
                system: name.into(),
                feature: feature.into(),
                whole: at == 0,
                cpu_us: if cannot { lacks() } else { about(cpu_us, 0.3) },
                p99_us: if cannot { lacks() } else { about(part * 400.0 * model.tail, 25.0) },
                instructions: match name {
                    "haproxy" => Known::Not("valgrind is not installed".into()),
                    _ => Known::Is((model.user * 4_000.0 * part).round()),
                },
            }));
        }
    }
    out.lines.extend(["feature-0", "feature-1"].map(|cell| {
        let (cell, system) = (cell.to_owned(), "nginx".to_owned());
        Line::Instructions(Instructions { cell, system, requests: 1_000, each: Known::Is(15_600.0) })
    }));
    out.cell(
        cell("stats", "64 connections, 2 B", "Statistics", None, &["nginx", "envoy", "envoy+stats"]),
        |_| Some(Load::open(8_000.0)),
        nothing,
    );
}

fn cell(id: &str, title: &str, section: &str, axis: Option<(&str, f64)>, systems: &[&str]) -> Cell {
    Cell {
        id: id.into(),
        title: title.into(),
        section: section.into(),
        axis: axis.map(|(name, value)| (name.to_owned(), value)),
        settings: BTreeMap::from(
            [("body", "2"), ("connections", "64"), ("keep-alive", "yes"), ("workers", "1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        ),
        systems: systems.iter().map(|name| (*name).to_owned()).collect(),
        published: BTreeMap::new(),
    }
}

fn nothing(_: &str) -> (VerdictKind, Vec<&'static str>) {
    (VerdictKind::Nothing, vec![])
}

fn published(rps: &[f64], mean_us: Option<f64>) -> Published {
    Published { rps: rps.to_vec(), mean_us, ..Published::default() }
}

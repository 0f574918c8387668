//! A made-up result file that holds every kind of line and verdict. Figures come from a seed and small models (a cost a
//! request, a queue that grows with load), so that charts have the shapes of real ones. No figure here was measured.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use tollgate_lab_record::*;
use tollgate_lab_stats::histogram::Histogram;

/// Splitmix64: small, seeded, the same everywhere.
pub struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal around 1 with this spread.
    fn near_one(&mut self, spread: f64) -> f64 {
        let sum: f64 = (0..6).map(|_| self.next()).sum();
        1.0 + (sum - 3.0) * spread * 1.4
    }
}

struct Model {
    name: &'static str,
    title: &'static str,
    version: &'static str,
    user: f64,
    system: f64,
    tail: f64,
    rss: u64,
}

const fn model(
    name: &'static str,
    title: &'static str,
    version: &'static str,
    user: f64,
    system: f64,
    tail: f64,
    rss: u64,
) -> Model {
    Model { name, title, version, user, system, tail, rss }
}

const MODELS: [Model; 10] = [
    model("direct", "Direct", "", 0.0, 0.0, 1.0, 0),
    model("tollgate", "Tollgate", "0.1.0", 2.9, 7.0, 1.1, 9_900),
    model("nginx", "nginx", "1.22.1", 3.9, 9.1, 1.2, 6_400),
    model("haproxy", "HAProxy", "2.8.1", 4.0, 9.2, 1.2, 14_100),
    model("hyper", "hyper", "1.12.0", 6.1, 10.6, 1.4, 5_200),
    model("pingora", "Pingora", "0.9.0", 16.9, 14.3, 1.9, 31_000),
    model("envoy", "Envoy", "1.40.0", 31.2, 17.9, 2.3, 58_000),
    model("caddy", "Caddy", "2.11.0", 52.0, 25.1, 3.4, 71_500),
    model("envoy-contour", "Envoy (Contour)", "1.40.0", 35.4, 18.6, 2.6, 62_300),
    model("envoy+stats", "Envoy, statistics on", "1.40.0", 33.0, 18.1, 2.3, 60_100),
];

fn of(name: &str) -> &'static Model {
    let plain = name.trim_end_matches("#2");
    MODELS.iter().find(|model| model.name == plain).expect("a model for each measured system")
}

pub struct Builder {
    pub lines: Vec<Line>,
    dice: Dice,
    at: f64,
}

struct Load {
    rounds: u32,
    rate: Option<f64>,
    connections: u32,
    /// Factor on the cost of a request.
    dear: f64,
    /// Most requests a second that the system, or whoever limits it, reaches.
    most: Option<f64>,
    histograms: bool,
    windows: bool,
    tool: &'static str,
    quota: Option<f64>,
}

impl Load {
    fn open(rate: f64) -> Self {
        Self {
            rounds: 6,
            rate: Some(rate),
            connections: 64,
            dear: 1.0,
            most: None,
            histograms: false,
            windows: false,
            tool: "builtin",
            quota: None,
        }
    }

    fn closed(most: f64) -> Self {
        Self { rate: None, most: Some(most), tool: "wrk", rounds: 4, ..Self::open(0.0) }
    }
}

/// Three decimals, to keep the file small.
fn short(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

impl Builder {
    fn times(&mut self, base: f64, tail: f64, stall: f64, count: u64, whole: bool) -> Distribution {
        let mut histogram = Histogram::new();
        // Log-normal body, a heavy tail, and (corrected times only) what queued behind a stall.
        for _ in 0..2_000 {
            let normal = (0..6).map(|_| self.dice.next()).sum::<f64>() - 3.0;
            let mut us = base * (normal * 0.45).exp();
            if self.dice.next() < 0.012 * tail {
                us *= 1.0 + tail * 2.5 * -self.dice.next().max(1e-9).ln();
            }
            if self.dice.next() < stall {
                us += 9_000.0 * self.dice.next();
            }
            histogram.record((us * 1e3) as u64);
        }
        Distribution {
            count,
            mean_us: short(histogram.mean_us()),
            stdev_us: Some(short(histogram.stdev_us())),
            min_us: Some(histogram.min() as f64 / 1e3),
            max_us: Some(histogram.max() as f64 / 1e3),
            percentiles: histogram
                .percentiles()
                .into_iter()
                .map(|(at, nanos)| (at, nanos as f64 / 1e3))
                .collect(),
            histogram: whole.then(|| histogram.encode()),
        }
    }

    fn trial(&mut self, cell: &str, system: &str, round: u32, turn: u32, load: &Load, drift: f64) {
        let model = of(system);
        let seconds = 10.0;
        let capacity = 1e6 / ((model.user + model.system) * load.dear).max(4.0);
        let most = load.most.unwrap_or(f64::MAX).min(capacity);
        let rps = load.rate.unwrap_or(most).min(most) * self.dice.near_one(0.002);
        let busy = (rps / capacity).min(0.97);
        let base = 55.0 + (model.user + model.system) * load.dear * (1.0 + busy / (1.0 - busy) * 0.6);
        let closed = f64::from(load.connections) / rps * 1e6;
        let base = if load.rate.is_some() { base } else { closed.max(base) };
        let ok = (rps * seconds) as u64;
        let noise = drift * self.dice.near_one(0.008);
        let cost = Cost {
            user_us: short(model.user * load.dear * noise),
            system_us: short(model.system * load.dear * noise),
        };
        let direct = model.user == 0.0;
        let stall = if load.rate.is_some() { 0.002 * model.tail } else { 0.0 };
        let response = load.rate.map(|_| self.times(base, model.tail, stall, ok, load.histograms));
        let service = self.times(base * 0.97, model.tail, stall * 0.12, ok, load.histograms);
        let wall_us = seconds * 1e6;
        let target = Tree {
            user_us: short(cost.user_us * ok as f64),
            system_us: short(cost.system_us * ok as f64),
            threads: vec![ThreadShare { name: model.name.to_owned(), share: cost.total_us() * rps / 1e6 }],
            thread_count: u32::from(!direct),
            rss_kib: (model.rss as f64 * self.dice.near_one(0.01)) as u64,
            pss_kib: model.rss * 9 / 10,
            peak_kib: model.rss * 11 / 10,
            ..Tree::default()
        };
        let origin = Tree { user_us: 2.0 * ok as f64, system_us: 5.0 * ok as f64, ..Tree::default() };
        self.at += 12.0;
        self.lines.push(Line::Trial(Box::new(Trial {
            cell: cell.into(),
            system: system.into(),
            round,
            turn,
            at: self.at,
            load: Some(LoadResult {
                tool: load.tool.into(),
                tool_version: if load.tool == "wrk" { "4.1.0" } else { "0.1.0" }.into(),
                command: vec![load.tool.into(), "http://127.0.0.1:18080/".into()],
                threads: 1,
                connections: load.connections,
                keep_alive: true,
                model: load.rate.map_or(LoadModel::Closed, |rps| LoadModel::Constant { rps }),
                verification: Verification::Full,
                seconds,
                sent: Some(ok),
                ok,
                failures: Failures::default(),
                statuses: BTreeMap::new(),
                body_bytes: Some(ok * 2),
                connections_opened: Some(u64::from(load.connections)),
                response_time: response,
                service_time: Some(service),
                send_lag: None,
                windows: Vec::new(),
            }),
            evidence: Evidence {
                wall_us,
                target: if direct { Tree::default() } else { target },
                origin,
                target_quota: load.quota.map(|cores| Throttled {
                    cores,
                    periods: 100,
                    throttled: 95,
                    held_us: wall_us * 0.61,
                }),
                upstream: Connections {
                    opened: Some(64),
                    peak: u64::from(load.connections.min(1000)),
                    requests: Some(ok),
                },
                ..Evidence::default()
            },
            cost: (!direct).then_some(cost),
            warm_up: 2.0,
            status: Status::Good,
        })));
    }

    /// The trace of a warm-up, as a trial that is none.
    fn warm_up(&mut self, cell: &str, system: &str) {
        let model = of(system);
        let most = 1e6 / (model.user + model.system).max(9.0);
        let slow = if model.name == "caddy" { 9.0 } else { 0.6 * model.tail };
        let windows: Vec<Window> = (0..40u32)
            .map(|second| {
                let warm = 1.0 - 0.55 * (-f64::from(second) / slow).exp();
                let unrest = if model.name == "envoy-contour" && second % 4 == 0 { 0.7 } else { 1.0 };
                let ok = (most * warm * unrest * self.dice.near_one(0.006)) as u64;
                Window { start: f64::from(second), seconds: 1.0, ok, failed: 0, p99_us: None }
            })
            .collect();
        let ok = windows.iter().map(|window| window.ok).sum();
        self.trial(cell, system, 0, 0, &Load::closed(most), 1.0);
        if let Some(Line::Trial(trial)) = self.lines.last_mut() {
            trial.status = Status::Bad { reason: "a trace of the warm-up, not a measurement".into() };
            trial.cost = None;
            trial.evidence = Evidence::default();
            if let Some(load) = &mut trial.load {
                (load.windows, load.ok, load.seconds) = (windows, ok, 40.0);
            }
        }
    }

    fn verdict(&mut self, cell: &str, system: &str, kind: VerdictKind, findings: &[&str]) {
        let control =
            (system == "nginx").then_some(Summary { estimate: 1.003, low: 0.991, high: 1.014, rounds: 6 });
        self.lines.push(Line::Verdict(Verdict {
            cell: cell.into(),
            system: system.into(),
            kind,
            findings: findings.iter().map(|text| Finding { text: (*text).to_owned() }).collect(),
            control: control.or(Some(Summary { estimate: 0.998, low: 0.986, high: 1.012, rounds: 6 })),
            ratios: BTreeMap::new(),
        }));
    }

    /// All rounds of a cell, then a verdict for each system.
    fn cell(
        &mut self,
        cell: Cell,
        load_of: impl Fn(&str) -> Option<Load>,
        judge: impl Fn(&str) -> (VerdictKind, Vec<&'static str>),
    ) {
        let (id, systems) = (cell.id.clone(), cell.systems.clone());
        self.lines.push(Line::Cell(cell));
        let rounds =
            systems.iter().filter_map(|system| load_of(system)).map(|load| load.rounds).max().unwrap_or(0);
        for system in systems.iter().filter(|system| load_of(system).is_some_and(|load| load.windows)) {
            self.warm_up(&id, system);
        }
        for round in 1..=rounds {
            let drift = self.dice.near_one(0.015);
            self.lines.push(Line::Ceiling(Ceiling {
                cell: id.clone(),
                round,
                rps: short(118_000.0 * self.dice.near_one(0.01)),
                generator_us: 4.1,
                origin_us: 7.0,
            }));
            for (turn, system) in systems.iter().enumerate() {
                if let Some(load) = load_of(system) {
                    self.trial(&id, system, round, turn as u32 + 1, &load, drift);
                }
            }
        }
        for system in &systems {
            if load_of(system).is_some() {
                let (kind, findings) = judge(system);
                self.verdict(&id, system, kind, &findings);
            }
        }
    }
}

fn cell(id: &str, title: &str, section: &str, axis: Option<(&str, f64)>, systems: &[&str]) -> Cell {
    Cell {
        id: id.into(),
        title: title.into(),
        section: section.into(),
        axis: axis.map(|(name, value)| (name.to_owned(), value)),
        settings: BTreeMap::from([
            ("body".to_owned(), "2".to_owned()),
            ("workers".to_owned(), "1".to_owned()),
        ]),
        systems: systems.iter().map(|name| (*name).to_owned()).collect(),
        published: BTreeMap::new(),
    }
}

fn nothing(_: &str) -> (VerdictKind, Vec<&'static str>) {
    (VerdictKind::Nothing, vec![])
}

fn system(name: &str, title: &str, version: &str) -> SystemUsed {
    SystemUsed {
        name: name.into(),
        title: title.into(),
        version: version.into(),
        missing: None,
        marked: None,
        terms: vec![],
        command: vec![],
        files: vec![],
    }
}

fn systems(out: &mut Vec<Line>) {
    for model in &MODELS {
        let mut used = system(model.name, model.title, model.version);
        if model.name != "direct" {
            used.command = vec![model.name.into(), "-c".into(), format!("{}.conf", model.name)];
            used.files = vec![RenderedFile {
                name: format!("{}.conf", model.name),
                text: format!("# {} <made up>\nlisten 127.0.0.1:18080\nto 127.0.0.1:18081\n", model.title),
            }];
        }
        if model.name == "envoy-contour" {
            used.marked = Some("Envoy with Contour's published settings".into());
        }
        if model.name == "caddy" {
            used.terms = vec!["adds X-Forwarded-Host, which cannot be switched off".into()];
        }
        out.push(Line::System(used));
    }
    let mut kong = system("kong", "Kong", "");
    kong.missing = Some(Missing {
        reason: "no package of it for this system".into(),
        get: "install Kong 3 from its vendor and put `kong` on the PATH".into(),
    });
    out.push(Line::System(kong));
}

fn published(rps: &[f64], mean_us: Option<f64>) -> Published {
    Published { rps: rps.to_vec(), mean_us, ..Published::default() }
}

/// The whole file.
pub fn lines() -> Vec<Line> {
    let mut out = Builder {
        lines: vec![Line::Header(Box::new(Header {
            format: FORMAT,
            study: "canned".into(),
            title: "Canned example (made-up figures)".into(),
            about: "Every figure on this page comes from a random generator; **none was measured**. It shows what a report \
                    looks like, with each kind of row, verdict and chart."
                .into(),
            seed: 7,
            command: "tollgate bench run canned --seed 7 --rounds 6".into(),
            started: "2026-01-02T03:04:05Z".into(),
            version: "0.1.0".into(),
            host: Host {
                cpu: "Example CPU @ 2.00GHz".into(),
                cores: 2.0,
                memory_kib: 8 << 20,
                kernel: "6.1.0".into(),
                open_files: 20_000,
                own_quota: None,
                placement: "system under test on core 0; origin and generator on core 1".into(),
            },
            scaled: vec!["64,000 connections became 6,400: this machine allows 20,000 open files".into()],
            baseline: Some("nginx".into()),
            planned_seconds: 5400.0,
        }))],
        dice: Dice(7),
        at: 0.0,
    };
    systems(&mut out.lines);
    toll(&mut out);
    rates(&mut out);
    connections(&mut out);
    workers(&mut out);
    quota(&mut out);
    features(&mut out);
    rest(&mut out);
    out.lines
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

fn rest(out: &mut Builder) {
    let received = |system: &str, version: &str, connections: u64, differences: &[&str]| {
        Line::Received(Received {
            system: system.into(),
            version: version.into(),
            headers: vec![("host".into(), "127.0.0.1:18080".into())],
            connections,
            requests: 100,
            differences: differences.iter().map(|text| (*text).to_owned()).collect(),
        })
    };
    out.lines.extend([
        received("tollgate", "HTTP/1.1", 1, &[]),
        received("nginx", "HTTP/1.1", 1, &[]),
        received("caddy", "HTTP/1.1", 1, &["adds `x-forwarded-host`"]),
        received("envoy", "HTTP/1.1", 1, &["adds `x-request-id`", "lower-cases header names"]),
    ]);
    out.lines.push(Line::Table {
        section: "Capacity plan".into(),
        head: ["Gateway", "Ceiling, k requests/s", "Cores", "Share of the cluster"]
            .map(str::to_owned)
            .to_vec(),
        rows: vec![
            ["nginx", "338.8", "85.0", "4.3 %"].map(str::to_owned).to_vec(),
            ["Kong", "157.8", "182.5", "9.1 %"].map(str::to_owned).to_vec(),
        ],
    });
    out.lines.push(Line::Note { section: String::new(), text: "The A/A control tied in every cell.".into() });
    out.lines.push(Line::End { seconds: 5_312.0 });
}

/// As a file's bytes.
pub fn bytes() -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines() {
        append(&mut out, &line).expect("a vector takes everything");
    }
    out
}

/// As read.
pub fn results() -> Results {
    static ONCE: LazyLock<Results> =
        LazyLock::new(|| read(&bytes()[..]).expect("the canned lines are a result file"));
    ONCE.clone()
}

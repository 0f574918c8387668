//! Generates trials from a seed and small models of the systems.

use std::collections::BTreeMap;

use tollgate_lab_record::*;
use tollgate_lab_stats::histogram::Histogram;

/// Splitmix64: small, seeded, the same on every machine.
pub(super) struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a roughly normal value around 1 with this spread.
    fn near_one(&mut self, spread: f64) -> f64 {
        let sum: f64 = (0..6).map(|_| self.next()).sum();
        1.0 + (sum - 3.0) * spread * 1.4
    }
}

pub(super) struct Model {
    pub name: &'static str,
    pub title: &'static str,
    pub version: &'static str,
    pub user: f64,
    pub system: f64,
    pub tail: f64,
    pub rss: u64,
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

pub(super) const MODELS: [Model; 10] = [
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

pub(super) fn of(name: &str) -> &'static Model {
    let plain = name.trim_end_matches("#2");
    MODELS.iter().find(|model| model.name == plain).expect("a model for each measured system")
}

pub(super) struct Builder {
    pub lines: Vec<Line>,
    pub dice: Dice,
    pub at: f64,
}

pub(super) struct Load {
    pub rounds: u32,
    pub rate: Option<f64>,
    pub connections: u32,
    /// A factor on the cost of a request.
    pub dear: f64,
    /// The most requests per second that the system, or the component that limits it, reaches.
    pub most: Option<f64>,
    pub histograms: bool,
    pub windows: bool,
    pub tool: &'static str,
    pub quota: Option<f64>,
}

impl Load {
    pub fn open(rate: f64) -> Self {
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

    pub fn closed(most: f64) -> Self {
        Self { rate: None, most: Some(most), tool: "wrk", rounds: 4, ..Self::open(0.0) }
    }
}

/// Rounds to three decimals, to keep the file small.
fn short(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

impl Builder {
    fn times(&mut self, base: f64, tail: f64, stall: f64, count: u64, whole: bool) -> Distribution {
        let mut histogram = Histogram::new();
        // Log-normal body, a heavy tail, and (for corrected times only) requests queued behind a stall.
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
                    ..Connections::default()
                },
                ..Evidence::default()
            },
            cost: (!direct).then_some(cost),
            warm_up: 2.0,
            status: Status::Good,
        })));
    }

    /// Adds the trace of a warm-up, as a trial that is not a measurement.
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

    /// Adds all rounds of a cell, then a verdict for each system.
    pub fn cell(
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

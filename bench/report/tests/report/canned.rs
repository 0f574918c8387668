//! A synthetic result file with every kind of line and verdict. The figures come from a seed and small models
//! (a cost for each request, a queue that grows with load), so that charts have realistic shapes. No figure
//! here was measured.

use std::sync::LazyLock;

use tollgate_lab_record::*;

use self::builder::{Builder, Dice, MODELS};
use self::cells::cells;

mod builder;
mod cells;

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

/// Returns all lines of the file.
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
                ..Host::default()
            },
            scaled: vec!["64,000 connections became 6,400: this machine allows 20,000 open files".into()],
            baseline: Some("nginx".into()),
            decides: None,
            planned_seconds: 5400.0,
        }))],
        dice: Dice(7),
        at: 0.0,
    };
    systems(&mut out.lines);
    cells(&mut out);
    rest(&mut out);
    out.lines
}

fn rest(out: &mut Builder) {
    let received = |system: &str, version: &str, connections: u64, differences: &[&str]| {
        Line::Received(Received {
            system: system.into(),
            section: "Toll at an equal rate".into(),
            version: version.into(),
            headers: vec![("host".into(), "127.0.0.1:18080".into())],
            connections,
            requests: 100,
            response: vec![],
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

/// Returns the file's bytes.
pub fn bytes() -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines() {
        append(&mut out, &line).expect("a vector takes everything");
    }
    out
}

/// Returns the parsed file.
pub fn results() -> Results {
    static ONCE: LazyLock<Results> =
        LazyLock::new(|| read(&bytes()[..]).expect("the canned lines are a result file"));
    ONCE.clone()
}

/// A figure's key: cell, system, and the figure's name.
pub type Key = (String, String, String);

/// Returns the numbers of a page's JSON, row by row in its order.
pub fn embedded_rows(page: &str) -> Vec<Vec<(Key, f64)>> {
    let (_, rest) =
        page.split_once("<script type=\"application/json\" id=\"figures\">").expect("the block of figures");
    let (json, _) = rest.split_once("</script>").expect("its end");
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let columns: Vec<&str> =
        json["columns"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let place = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let (cell, system) = (place("cell"), place("system"));
    let rows = json["rows"].as_array().unwrap().iter().map(|row| {
        let row = row.as_array().unwrap();
        let text = |at: usize| row[at].as_str().unwrap().to_owned();
        let numbers = columns.iter().zip(row).filter_map(|(name, value)| {
            Some(((text(cell), text(system), (*name).to_owned()), value.as_f64()?))
        });
        numbers.collect()
    });
    rows.collect()
}

/// Returns a figure of a page's JSON; `None` if the page has none.
pub fn embedded(page: &str, cell: &str, system: &str, figure: &str) -> Option<f64> {
    let all = embedded_rows(page).into_iter().flatten();
    all.into_iter()
        .find(|((one, two, three), _)| one == cell && two == system && three == figure)
        .map(|(_, value)| value)
}

//! Tests the page in headless Chromium without any network.

use crate::canned;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tollgate_lab_record::Results;
use tollgate_lab_report::html;

/// Starts Chromium on a file with an empty profile of its own. No name can be resolved.
fn chromium(folder: &Path, page: &Path, more: &[String]) -> Output {
    let run = Command::new("chromium")
        .args(["--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions"])
        // The tests run as root in containers, where Chromium's own sandbox cannot start; the page is
        // trusted.
        .arg("--no-sandbox")
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--window-size=1240,1600"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .output();
    run.expect("this test needs Chromium; to install it: scripts/install-test-tools chromium:chromium")
}

/// Returns what the page logged: console messages and failed requests.
fn complaints(output: &Output) -> Vec<String> {
    let log = String::from_utf8_lossy(&output.stderr);
    let of_page = |line: &&str| {
        line.contains(":CONSOLE") || line.contains("Not allowed to load") || line.contains("net::ERR_")
    };
    log.lines().filter(of_page).map(str::to_owned).collect()
}

/// A script that records, once the page has loaded, the resources that it requested.
const WITNESS: &str = "<script id=\"witness\">addEventListener('load', () => { document.documentElement.dataset.asked = \
    performance.getEntriesByType('resource').map((one) => one.name).join(' ') })</script>";

/// Returns the resources that the page requested, as [`WITNESS`] recorded them.
fn asked(dom: &str) -> String {
    let attribute = Regex::new(r#"<html[^>]* data-asked="([^"]*)""#).unwrap();
    let reported = attribute.captures(dom).unwrap_or_else(|| panic!("the witness is silent: {:.400}", dom));
    reported[1].to_owned()
}

/// The tests below rely on this: a page that logs an error or requests an external resource is detected.
#[test]
fn what_a_page_does_wrong_is_noticed() {
    let page = page(&format!(
        "<!doctype html><html><title>x</title><script>console.error('oh')</script>\
         <script src='http://example.invalid/x.js'></script>{WITNESS}</html>"
    ));
    let output = chromium(&page.folder, &page.file, &["--dump-dom".to_owned()]);
    assert!(complaints(&output).join(" ").contains("oh"), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(asked(&String::from_utf8_lossy(&output.stdout)), "http://example.invalid/x.js");
}

struct Page {
    _folder: tempfile::TempDir,
    folder: PathBuf,
    file: PathBuf,
}

fn page(text: &str) -> Page {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, text).unwrap();
    Page { folder: folder.path().to_owned(), _folder: folder, file }
}

fn rendered(text: &str) -> String {
    let page = page(&text.replace("</body>", &format!("{WITNESS}</body>")));
    let output = chromium(&page.folder, &page.file, &["--dump-dom".to_owned()]);
    assert!(
        output.status.success(),
        "Chromium ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(complaints(&output), Vec::<String>::new());
    let dom = String::from_utf8(output.stdout).unwrap();
    assert_eq!(asked(&dom), "", "the page asked for something beside itself");
    dom
}

type Key = (String, String, String);

/// Returns the figures of the page's JSON.
fn embedded(dom: &str) -> BTreeMap<Key, f64> {
    let block = Regex::new(r#"(?s)<script type="application/json" id="figures">(.*?)</script>"#).unwrap();
    let json: Value = serde_json::from_str(&block.captures(dom).expect("the block of figures")[1]).unwrap();
    let mut out = BTreeMap::new();
    for row in json["rows"].as_array().unwrap() {
        for (name, value) in row.as_object().unwrap() {
            if let Some(value) = value.as_f64() {
                let text = |key: &str| row[key].as_str().unwrap().to_owned();
                out.insert((text("cell"), text("system"), name.clone()), value);
            }
        }
    }
    out
}

/// Returns the figures of the page's tables as a reader sees them: key, exact value, text.
fn shown(dom: &str) -> Vec<(Key, f64, String)> {
    let cell = Regex::new(concat!(
        r#"<td[^>]* data-cell="([^"]*)" data-system="([^"]*)" data-figure="([^"]*)" data-value="([^"]*)">"#,
        r#"(?:<small[^>]*>[^<]*</small> ?)?<span>([^<]*)</span>"#
    ))
    .unwrap();
    cell.captures_iter(dom)
        .map(|one| {
            let key = (one[1].to_owned(), one[2].to_owned(), one[3].to_owned());
            (key, one[4].parse().unwrap(), one[5].to_owned())
        })
        .collect()
}

/// Parses a printed figure, in the unit of the JSON.
fn as_number(text: &str) -> f64 {
    let text = text.trim_end_matches(['*', '†']).replace(',', "").replace('−', "-");
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let factor = match unit {
        "" | "µs" | "KiB" => 1.0,
        "%" => 0.01,
        "ms" => 1e3,
        "s" => 1e6,
        "MiB" => 1024.0,
        "GiB" => 1_048_576.0,
        other => panic!("unit {other} in {text}"),
    };
    number.parse::<f64>().unwrap_or_else(|_| panic!("{text} is no number")) * factor
}

/// Returns the median of a cell's throughputs, directly from the result file.
fn middle_rps(results: &Results, cell: &str, system: &str) -> f64 {
    let mut all: Vec<f64> = results
        .trials_of(cell, system)
        .filter_map(|trial| trial.load.as_ref())
        .map(|load| load.ok as f64 / load.seconds)
        .collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

#[test]
fn the_rendered_figures_are_those_of_the_result_file() {
    let results = canned::results();
    let dom = rendered(&html(&results));
    let json = embedded(&dom);
    let shown = shown(&dom);
    assert!(shown.len() > 500, "only {} figures in the rendered tables", shown.len());
    for (key, exact, text) in &shown {
        let from_json = json.get(key).unwrap_or_else(|| panic!("{key:?} is not in the JSON"));
        assert!(
            (from_json - exact).abs() <= from_json.abs() * 1e-12,
            "{key:?}: {exact} in the page, {from_json} in its JSON"
        );
        let read = as_number(text);
        // Three significant digits, or two decimals of a ratio.
        assert!((read - exact).abs() <= (exact.abs() * 0.006).max(0.0051), "{key:?}: {text:?} for {exact}");
    }
    let mut held = 0;
    for (cell, system, name) in json.keys().filter(|(_, _, name)| name == "rps") {
        let from_trials = middle_rps(&results, cell, system);
        let printed = json[&(cell.clone(), system.clone(), name.clone())];
        assert!(
            (printed / from_trials - 1.0).abs() < 0.01,
            "{system} in {cell}: {printed}, trials say {from_trials}"
        );
        held += 1;
    }
    assert!(held > 60, "{held}");
}

#[test]
fn every_section_chart_and_switch_is_there() {
    let dom = rendered(&html(&canned::results()));
    let count = |what: &str| dom.matches(what).count();
    assert!(count("role=\"img\"") >= 14, "{} charts", count("role=\"img\""));
    assert_eq!(
        count("role=\"img\""),
        Regex::new(r#"aria-labelledby="[^"]+"><title"#).unwrap().find_iter(&dom).count()
    );
    let (seen, _) = dom.split_once("<script").expect("figures and script come last");
    assert!(!seen.contains("NaN") && !seen.contains("inf ") && !seen.contains("undefined"));
    for text in [
        "Canned example (made-up figures)",
        "In short",
        "invalid: it kept 81 % of the rate",
        "missing: no package of it for this system",
        "errors: 31 % of the answers were 503",
        "never steady",
        "connection limit",
        "CPU quota",
        "tollgate bench run canned --seed 7 --rounds 6",
        "Percentiles, corrected",
        "Percentiles, uncorrected",
        "# nginx &lt;made up&gt;",
    ] {
        assert!(dom.contains(text), "the page does not say: {text}");
    }
    // The script sets this attribute, so it ran.
    assert!(dom.contains("aria-pressed=\"true\""), "legends are no switches");
    assert!(
        Regex::new("<th[^>]*><button>System</button>").unwrap().is_match(&dom),
        "tables cannot be sorted"
    );
}

#[test]
fn the_page_refers_to_nothing_outside_itself() {
    let text = html(&canned::results());
    assert!(text.len() < 600_000, "{} bytes", text.len());
    let outward = Regex::new(
        r#"(?i)(src|href|action|data|poster|xlink:href)\s*=\s*["']?\s*(https?:|//|[a-z]+\.)|@import|url\("#,
    )
    .unwrap();
    assert!(outward.find(&text).is_none(), "{:?}", outward.find(&text));
    assert!(!text.contains("http-equiv"));
    assert_eq!(text.matches("</html>").count(), 1);
}

#[test]
fn a_hostile_name_stays_text() {
    let mut results = canned::results();
    let evil = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>";
    results.systems[1].title = evil.to_owned();
    results.header.title = evil.to_owned();
    results.notes.push((String::new(), evil.to_owned()));
    results.cells[0].title = evil.to_owned();
    for file in &mut results.systems[1].files {
        file.text = evil.to_owned();
    }
    let dom = rendered(&html(&results));
    assert!(!dom.contains("<title>owned"), "a name ran as script");
    assert!(!dom.contains("<img"), "a name became an element");
}

#[test]
fn a_screenshot_shows_something() {
    let page = page(&html(&canned::results()));
    for (name, scheme) in [("light", 1), ("dark", 0)] {
        let picture = page.folder.join(format!("{name}.png"));
        let more = [
            format!("--screenshot={}", picture.display()),
            format!("--blink-settings=preferredColorScheme={scheme}"),
        ];
        let output = chromium(&page.folder, &page.file, &more);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let bytes = std::fs::read(&picture).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"), "no PNG");
        // An empty page of this size compresses to about 10 kB.
        assert!(bytes.len() > 60_000, "the {name} screenshot has only {} bytes", bytes.len());
        std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("canned-{name}.png")), bytes)
            .unwrap();
    }
}

/// On a phone only tables and charts scroll sideways, within the page.
#[test]
fn no_page_is_wider_than_a_phone() {
    let mut pages = vec![("canned".to_owned(), html(&canned::results()))];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies");
    for study in ["apisix-envoy", "features", "four-gateways", "ingress", "kong-envoy-nginx", "sidecar"] {
        let text = std::fs::read_to_string(folder.join(format!("{study}.html"))).unwrap();
        pages.push((study.to_owned(), text));
    }
    let width = Regex::new(r#"<html[^>]* data-wide="(\d+)""#).unwrap();
    for (name, text) in pages {
        let inner = Value::String(text).to_string().replace('<', "\\u003c");
        let outer = format!(
            "<!doctype html><title>x</title><iframe id=f style='width:390px;height:800px;border:0'></iframe><script>\
             f.onload=()=>{{document.documentElement.dataset.wide=f.contentDocument.documentElement.scrollWidth}};\
             f.srcdoc={inner}</script>"
        );
        let page = page(&outer);
        let output = chromium(
            &page.folder,
            &page.file,
            &["--dump-dom".to_owned(), "--virtual-time-budget=5000".to_owned()],
        );
        let dom = String::from_utf8_lossy(&output.stdout).into_owned();
        let wide: u32 =
            width.captures(&dom).unwrap_or_else(|| panic!("{name}: {:.400}", dom))[1].parse().unwrap();
        assert!(wide <= 390, "{name} is {wide} px wide on a phone of 390 px");
    }
}

//! Tests the page in headless Chromium without any network.

use crate::canned::{self, Key};
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

/// Returns the figures of the page's tables as a reader sees them: the place in the JSON, the figure's name, and the
/// text.
fn shown(dom: &str) -> Vec<(usize, String, String)> {
    let table = Regex::new(r#"(?s)<table.*?</table>"#).unwrap();
    let head = Regex::new(r#"<th scope="col"[^>]*>"#).unwrap();
    let named = Regex::new(r#"data-figure="([^"]*)""#).unwrap();
    let row = Regex::new(r#"(?s)<tr data-row="(\d+)">(.*?)</tr>"#).unwrap();
    let cell = Regex::new(r#"(?s)<td[^>]*>(?:<small>[^<]*</small> )?([^<]*)"#).unwrap();
    let mut out = Vec::new();
    for table in table.find_iter(dom) {
        let figures: Vec<Option<String>> = head
            .find_iter(table.as_str())
            .map(|head| named.captures(head.as_str()).map(|name| name[1].to_owned()))
            .collect();
        for row in row.captures_iter(table.as_str()) {
            // The first column is the head of the row.
            for (cell, figure) in cell.captures_iter(&row[2]).zip(figures.iter().skip(1)) {
                if let Some(figure) = figure {
                    out.push((row[1].parse().unwrap(), figure.clone(), cell[1].to_owned()));
                }
            }
        }
    }
    out
}

/// Parses a printed figure, in the unit of the JSON.
fn as_number(text: &str) -> f64 {
    let text = text.replace(',', "").replace('−', "-");
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
    let rows = canned::embedded_rows(&dom);
    let shown = shown(&dom);
    // A baseline and a figure that a system lacks have a sign in place of a number.
    let numbers = || shown.iter().filter(|(_, _, text)| !matches!(text.as_str(), "–" | "1" | "limit"));
    assert!(numbers().count() > 500, "only {} figures in the rendered tables", numbers().count());
    for (row, figure, text) in numbers() {
        let known = rows[*row].iter().find(|((_, _, name), _)| name == figure);
        let (key, exact) =
            known.unwrap_or_else(|| panic!("{figure} = {text} of row {row} is not in the JSON"));
        let read = as_number(text);
        // Three significant digits, or two decimals of a ratio.
        assert!((read - exact).abs() <= (exact.abs() * 0.006).max(0.0051), "{key:?}: {text:?} for {exact}");
    }
    let json: BTreeMap<Key, f64> = rows.into_iter().flatten().collect();
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
        "All pages",
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
    assert!(text.len() < 400_000, "{} bytes", text.len());
    let outward = Regex::new(
        r#"(?i)(src|href|action|data|poster|xlink:href)\s*=\s*["']?\s*(https?:|//|[a-z]+\.)|@import|url\("#,
    )
    .unwrap();
    assert!(outward.find(&text).is_none(), "{:?}", outward.find(&text));
    assert!(!text.contains("http-equiv"));
    assert_eq!(text.matches("</html>").count(), 1);
}

/// A script that records, once the page has loaded, the pages of the file that a reader sees.
const VISIBLE: &str = "<script>addEventListener('load', () => { document.documentElement.dataset.seen = \
    [...document.querySelectorAll('.page')].filter((one) => one.offsetHeight > 0).map((one) => one.id).join(' ') })</script>";

#[test]
fn one_page_shows_at_a_time_without_the_script_and_all_on_paper() {
    let whole = html(&canned::results());
    let (before, after) = whole.rsplit_once("<script>").unwrap();
    let (_, end) = after.split_once("</script>").unwrap();
    let text = format!("{before}{VISIBLE}{end}");
    let page = page(&text);
    let seen = Regex::new(r#"<html[^>]* data-seen="([^"]*)""#).unwrap();
    let at = |address: &str| {
        let file = PathBuf::from(format!("{}{address}", page.file.display()));
        let output = chromium(&page.folder, &file, &["--dump-dom".to_owned()]);
        let dom = String::from_utf8_lossy(&output.stdout).into_owned();
        seen.captures(&dom).unwrap_or_else(|| panic!("{:.400}", dom))[1].to_owned()
    };
    assert_eq!(at(""), "overview");
    assert_eq!(at("#overview"), "overview");
    assert_eq!(at("#p3-2"), "p3-2", "640 connections");
    // An address within a page shows the page.
    assert_eq!(at("#words"), "systems");
    let all = at("#all");
    assert!(all.starts_with("overview p1 ") && all.ends_with("systems provenance"), "{all}");
    let pages = whole.matches("class=\"page").count();
    assert_eq!(all.split(' ').count(), pages);
    let paper = page.folder.join("paper.pdf");
    let output = chromium(&page.folder, &page.file, &[format!("--print-to-pdf={}", paper.display())]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&paper).unwrap();
    let sheets = bytes.windows(12).filter(|bytes| bytes == b"/Type /Page\n").count();
    assert!(sheets >= pages, "{sheets} sheets for {pages} pages");
}

#[test]
fn a_page_has_one_connection_kind_or_one_number_of_connections() {
    let dom = html(&canned::results());
    let pages: Vec<&str> = dom.split("<section id=\"").skip(1).collect();
    let of = |id: &str| *pages.iter().find(|page| page.starts_with(&format!("{id}\""))).expect(id);
    for (id, count, others) in
        [("p3-1", "16 connections", "64 connections"), ("p3-2", "64 connections", "640 connections")]
    {
        let (_, tables) = of(id).split_once("</p>").expect("the links to other pages");
        assert!(of(id).contains(&format!("<h2>Throughput against connections, {count}</h2>")), "{id}");
        assert!(!tables.contains(&format!(">{others}<")), "{id}");
    }
    // The overview needs no explanation: nothing refers to the words below.
    for word in ["Usable", "from sending", "†", "*", "own rate", "footnote"] {
        assert!(!of("overview").contains(word), "{word}");
    }
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

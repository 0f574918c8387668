//! Checks that the published pages equal the reports of the kept result files, and that the picture of the toll shows
//! the cells of its table. To write the pages again after a change of the report, run these tests with `BLESS=1`.

use crate::canned;
use regex::Regex;
use std::path::{Path, PathBuf};
use tollgate_lab_record::{Results, append, read};
use tollgate_lab_report::{Report, comment, condense, html, markdown, number, svg_of};

const STUDIES: [&str; 6] =
    ["apisix-envoy", "features", "four-gateways", "ingress", "kong-envoy-nginx", "sidecar"];

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Returns the kept results of a study, without its commentary.
fn measured(study: &str) -> Results {
    let bytes = std::fs::read(docs(&format!("studies/results/{study}.jsonl"))).unwrap();
    read(&bytes[..]).unwrap()
}

fn kept(study: &str) -> Results {
    let mut results = measured(study);
    if let Ok(text) = std::fs::read_to_string(docs(&format!("studies/commentary/{study}.md"))) {
        comment(&mut results, &text).unwrap_or_else(|error| panic!("{study}: {error}"));
    }
    results
}

/// Compares a file with what the report gives, or writes it with `BLESS=1`.
fn compare(name: &str, text: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(docs(name), text).unwrap();
    }
    let written = std::fs::read_to_string(docs(name)).unwrap();
    assert!(
        written == text,
        "docs/{name} is not what its kept result file gives; run this test with BLESS=1"
    );
}

#[test]
fn commentary_is_in_a_file_of_its_own_that_names_its_run() {
    for study in STUDIES {
        let results = measured(study);
        assert!(results.notes.iter().all(|(_, note)| !note.starts_with("**What was learned")), "{study}");
        let text = std::fs::read_to_string(docs(&format!("studies/commentary/{study}.md"))).unwrap();
        assert!(text.starts_with(&format!("Run: {}\n", results.header.started)), "{study}");
    }
}

#[test]
fn the_pages_are_what_the_kept_results_give() {
    for study in STUDIES {
        let results = kept(study);
        compare(&format!("studies/{study}.html"), &html(&results));
        compare(&format!("studies/{study}.md"), &markdown(&results));
    }
}

#[test]
fn the_picture_of_the_toll_is_what_the_kept_results_give() {
    compare("toll.svg", &svg_of(&[&kept("bars"), &kept("tls")]).unwrap());
}

/// Returns the rows of the first tables of CPU time in a document: the texts of their cells.
fn rows(document: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(document).unwrap();
    let lines = text.lines().skip_while(|line| !line.starts_with("| CPU us per request"));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|line| line.trim_matches('|').split('|').map(|text| text.trim().to_owned()).collect()).collect()
}

#[test]
fn table_and_picture_of_the_toll_have_the_same_cells() {
    let mut drawn: Vec<Vec<String>> = Vec::new();
    for study in ["bars", "tls"] {
        let results = kept(study);
        for cell in Report::new(&results).sections.iter().flat_map(|section| &section.cells) {
            let figure = |system: &str| match cell.row(system) {
                None => "-".to_owned(),
                Some(row) => row
                    .figures()
                    .and_then(|figures| figures.cpu_us)
                    .map_or_else(|| "invalid".to_owned(), |cpu| number::plain(cpu.estimate)),
            };
            drawn.push(["tollgate", "nginx", "haproxy"].map(figure).to_vec());
        }
    }
    let mut listed: Vec<Vec<String>> =
        rows(docs("benchmarks.md").to_str().unwrap()).iter().map(|row| row[1..4].to_vec()).collect();
    let readme = rows(docs("../README.md").to_str().unwrap());
    assert!(readme.len() >= 4, "README.md has no table of the toll");
    for row in readme {
        assert!(listed.contains(&row[1..4].to_vec()), "README.md: {row:?} is not in docs/benchmarks.md");
    }
    drawn.sort();
    listed.sort();
    assert_eq!(drawn, listed, "docs/toll.svg and the table of docs/benchmarks.md differ");
}

/// Compares two reports. The last bit of a number in JSON may be lost, so that numbers may differ by the last
/// digit that is printed.
fn same(one: &str, other: &str) {
    let number = Regex::new(r"\d+(\.\d+)?").unwrap();
    let texts = |report: &str| number.split(report).map(str::to_owned).collect::<Vec<_>>();
    let (texts_one, texts_other) = (texts(one), texts(other));
    for (at, (one, other)) in texts_one.iter().zip(&texts_other).enumerate() {
        assert_eq!(one, other, "after {:?}", &texts_one[at.saturating_sub(20)..at]);
    }
    assert_eq!(texts_one.len(), texts_other.len());
    for (one, other) in number.find_iter(one).zip(number.find_iter(other)) {
        let (one, other): (f64, f64) = (one.as_str().parse().unwrap(), other.as_str().parse().unwrap());
        assert!((one - other).abs() <= (one.abs() * 2e-5).max(0.11), "{one} and {other}");
    }
}

#[test]
fn a_condensed_file_gives_the_same_report() {
    let results = canned::results();
    let mut bytes = Vec::new();
    for line in condense(&results) {
        append(&mut bytes, &line).unwrap();
    }
    assert!(bytes.len() < canned::bytes().len() / 3, "{} bytes", bytes.len());
    let condensed = read(&bytes[..]).unwrap();
    assert!(condensed.trials.is_empty());
    same(&markdown(&condensed), &markdown(&results));
    same(&html(&condensed), &html(&results));
}

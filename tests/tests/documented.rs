//! Every configuration that the page on upstreams and the examples show is run, not only checked: a request to each of
//! its upstreams gets an answer, with endpoints that are not there.

use std::fs;
use std::path::Path;

use tollgate_tests::{Authority, Gateway, tollgate};

/// What may be answered when no endpoint is there.
const ANSWERS: [&str; 4] =
    ["connection_refused", "connection_limit_reached", "destination_unavailable", "circuit_open"];

fn root(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names under `upstreams`.
fn upstreams(yaml: &str) -> Vec<String> {
    let inside = yaml.lines().skip_while(|line| *line != "upstreams:").skip(1);
    let inside = inside.take_while(|line| line.is_empty() || line.starts_with([' ', '#']));
    let names = inside.filter_map(|line| line.strip_prefix("  ")?.split_once(':'));
    let names = names.map(|(name, _)| name.to_owned());
    names.filter(|name| !name.is_empty() && !name.starts_with([' ', '#', '-'])).collect()
}

/// Endpoints on this machine, at a port where nobody listens (tcpmux, RFC 1078), and a route to each upstream.
fn runnable(yaml: &str) -> String {
    let mut out = String::new();
    for line in yaml.lines().filter(|line| !line.starts_with("listen:")) {
        let line = line.replace("10.0.", "127.9.").replace("10.9.", "127.8.");
        out.push_str(&line.replace(":8080", ":1").replace(":9000", ":1").replace(":5000", ":1"));
        out.push('\n');
    }
    if !yaml.lines().any(|line| line == "routes:") {
        out.push_str("routes:\n");
    }
    for name in upstreams(yaml) {
        out.push_str(&format!("  - match: /to-{name}\n    to: {name}\n"));
    }
    out
}

fn run(yaml: &str) {
    let names = upstreams(yaml);
    assert!(!names.is_empty(), "{yaml}");
    let gateway = Gateway::start(&runnable(yaml));
    let mut client = gateway.client();
    for name in &names {
        let answer = client.get(&format!("/to-{name}"));
        assert!(matches!(answer.status, 502 | 503), "{yaml}\n{name}: {answer:?}");
    }
    let records = gateway.wait_records(names.len());
    for (name, record) in names.iter().zip(&records) {
        let reason = record["reason"].as_str().unwrap_or_default();
        assert!(ANSWERS.contains(&reason), "{yaml}\n{name}: {record}");
    }
}

#[test]
fn what_the_page_on_upstreams_shows_runs() {
    let page = root("docs/upstreams.md");
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let blocks: Vec<&str> = blocks.filter(|block| block.contains("upstreams:\n")).collect();
    assert!(blocks.len() >= 15, "{} blocks", blocks.len());
    blocks.into_iter().for_each(run);
}

#[test]
fn the_examples_of_upstreams_run() {
    for name in [
        "canary",
        "dns-discovery",
        "health-checks",
        "limits-and-queue",
        "retries",
        "sticky-and-hash",
        "weights",
    ] {
        run(&root(&format!("examples/{name}.yaml")));
    }
}

#[test]
fn what_the_pages_on_policies_show_is_good() {
    let folder = std::env::temp_dir().join(format!("tollgate-documented-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    // The files that examples name.
    let authority = Authority::new();
    let own = authority.issue(&["a.example"]);
    fs::write(folder.join("server.pem"), own.chain + &own.key).expect("written");
    fs::write(folder.join("clients-ca.pem"), authority.pem()).expect("written");
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/policies");
    let mut seen = 0;
    for page in fs::read_dir(pages).expect("the pages").map(|entry| entry.expect("a page").path()) {
        let text = fs::read_to_string(&page).expect("a page");
        let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        for block in blocks.filter(|block| block.starts_with("listen:")) {
            let file = folder.join("example.yaml");
            fs::write(&file, block).expect("written");
            let ran = tollgate(&["check", file.to_str().expect("text")]);
            assert_eq!(ran.code, Some(0), "{}: {ran:?}", page.display());
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen} examples");
    fs::remove_dir_all(folder).expect("it is there");
}

//! Tests a route that is added under load, in each way that a system's description names.

use crate::bench::{Answer, Bench, LAB};
use std::fs;
use std::path::Path;

fn study(systems: &str) -> String {
    format!(
        "
title: One more
about: Any.
settings: {{origin: builtin, connections: 1, rate: 50, seconds: 0.3, rounds: 1, warm_up: 0}}
analyses: [{{kind: runtime-route, systems: [{systems}], routes: [3], rate: 50, times: 2}}]
sections: [{{title: None, systems: [{systems}], points: [{{}}]}}]
"
    )
}

/// Returns the numbers of a cell such as `1.2 (1.1, 1.3)`.
fn numbers(cell: &str) -> Vec<f64> {
    let words = cell.split([' ', '(', ')', ',']).filter(|word| !word.is_empty());
    words.map(|word| word.parse().unwrap_or_else(|_| panic!("{cell:?}"))).collect()
}

#[test]
fn a_route_is_added_by_the_admin_api_and_by_files() {
    let gateway = Path::new(LAB).with_file_name("tollgate");
    assert!(gateway.is_file(), "build the gateway first: cargo build -p tollgate");
    let bench = Bench::new();
    bench.write("own.yaml", &study("tollgate, nginx, apisix"));
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let given = ["run", "own.yaml", "--out", "r.jsonl", "--sections", "run time", "--markdown", "r.md"];
    let answer = Answer::from(bench.command_on(data, &given).output().unwrap()).well();
    bench.no_process_is_left();
    let results = bench.results("r.jsonl");
    let [(title, head, rows)] = &results.tables[..] else { panic!("{:?}", results.tables) };
    assert_eq!(title, "A route added at run time");
    assert_eq!(head[1], "how it is told");
    let reported: Vec<(&str, &str)> = rows.iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    assert_eq!(
        reported[..3],
        [
            ("tollgate", "PUT /apisix/admin/routes/1"),
            ("tollgate", "files and SIGHUP"),
            ("nginx", "files and SIGHUP")
        ]
    );
    for (at, row) in rows[..3].iter().enumerate() {
        match at {
            0 => assert_eq!(numbers(&row[3]).len(), 3, "{row:?}"),
            _ => assert_eq!(row[3], "-", "files have no answer: {row:?}"),
        }
        let served = numbers(&row[4]);
        assert!(served.len() == 3 && served.iter().all(|ms| *ms > 0.0), "{row:?}");
        assert_eq!(row[2], "3", "{row:?}");
        // nginx sometimes fails one request: on a connection that it closes as it ends a worker.
        assert!(row[5].ends_with(" of 400"), "{row:?}");
        assert!(row[0] == "nginx" || row[5].starts_with("0 "), "no request failed: {row:?}");
        assert!(row[6..].iter().all(|p99| p99.parse::<f64>().unwrap() > 0.0), "{row:?}");
    }
    assert!(rows[3][1].starts_with("missing: Apache APISIX comes as "), "{:?}", rows[3]);
    let markdown = fs::read_to_string(bench.path("r.md")).unwrap();
    for report in [&answer.stdout, &markdown] {
        assert!(report.contains("PUT /apisix/admin/routes/1"), "{report}");
    }
}

#[test]
fn a_system_whose_description_names_no_way_has_a_row_that_says_so() {
    let bench = Bench::new();
    bench.study("one", &study("wire"));
    bench.run(&["run", "one", "--out", "r.jsonl", "--sections", "run time"]).well();
    let results = bench.results("r.jsonl");
    assert_eq!(results.tables[0].2[0][..2], ["wire", "missing: no way is described"]);
}

#[test]
fn a_refused_route_is_reported_in_its_row() {
    let bench = Bench::new();
    let wire = bench.path("data/systems/wire/system.yaml");
    let text = fs::read_to_string(&wire).unwrap()
        + "features: [routes]\nadd_route: {method: PUT, path: /nowhere, body: '{{ (routes|last).prefix }}'}\n";
    fs::write(&wire, text).unwrap();
    bench.study("one", &study("wire"));
    bench.run(&["run", "one", "--out", "r.jsonl", "--sections", "run time"]).well();
    let results = bench.results("r.jsonl");
    let row = &results.tables[0].2[0];
    assert_eq!(row[..3], ["wire", "PUT /nowhere", "3"]);
    assert!(row[3].starts_with("asking for the route: "), "nobody listens there: {row:?}");
}

//! Tests the founding studies of `bench/studies`: their published figures appear in the tables, computed from
//! the studies' own data, even if nothing could be measured.

use std::path::Path;
use tollgate_lab_analysis::analyse;
use tollgate_lab_record::{FORMAT, Header, Host, Known, Line, Price, Results, append, read};
use tollgate_lab_study::{Limits, Study, plan};

fn study(name: &str) -> Study {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(format!("studies/{name}.yaml"));
    serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Returns the result of a run that was stopped after writing its cells.
fn unmeasured(study: &Study) -> Results {
    let header = Header {
        format: FORMAT,
        study: study.name.clone(),
        title: study.title.clone(),
        about: String::new(),
        seed: 1,
        command: String::new(),
        started: String::new(),
        version: String::new(),
        host: Host::default(),
        scaled: vec![],
        baseline: None,
        decides: None,
        planned_seconds: 0.0,
    };
    let limits = Limits {
        connections: 9_000,
        target_cores: 2,
        origin_cores: 1,
        load_cores: 1,
        seconds: None,
        rounds: None,
        systems: vec![],
        sections: vec![],
    };
    let mut file = Vec::new();
    append(&mut file, &Line::Header(Box::new(header))).unwrap();
    for planned in plan(study, &limits).cells {
        append(&mut file, &Line::Cell(planned.cell)).unwrap();
    }
    read(&file[..]).unwrap()
}

fn tables(name: &str) -> Vec<(Vec<String>, Vec<Vec<String>>)> {
    let study = study(name);
    let lines = analyse(&study, &unmeasured(&study)).into_iter();
    lines
        .filter_map(|line| match line {
            Line::Table { section, head, rows } => {
                assert!(study.sections.iter().any(|known| known.title == section), "{section}");
                assert!(rows.iter().all(|row| row.len() == head.len()), "{head:?}");
                Some((head, rows))
            }
            _ => None,
        })
        .collect()
}

/// Returns a column's texts in the rows of a system.
fn column(rows: &[Vec<String>], system: (usize, &str), at: usize) -> Vec<String> {
    rows.iter().filter(|row| row[system.0] == system.1).map(|row| row[at].clone()).collect()
}

#[test]
fn the_capacity_plan_has_the_printed_and_the_exact_figures() {
    let tables = tables("kong-envoy-nginx");
    let (head, rows) = tables.iter().find(|(head, _)| head[0] == "Figures").unwrap();
    assert_eq!(head[5], "Gateway cores for 3,000,000/s");
    for (system, ceiling, cores, in_use) in [
        ("nginx", "338.8", ["284", "283.3"], ["94", "85.0"]),
        ("kong", "157.8", ["611", "608.3"], ["203", "182.5"]),
        ("envoy", "230.4", ["417", "416.7"], ["139", "125.0"]),
    ] {
        assert_eq!(column(rows, (1, system), 4), [ceiling; 2], "{system}");
        assert_eq!(column(rows, (1, system), 5), cores, "{system}");
        assert_eq!(column(rows, (1, system), 6), in_use, "{system}");
    }
}

#[test]
fn the_published_workers_have_their_efficiencies() {
    let tables = tables("apisix-envoy");
    let (head, rows) = tables.iter().find(|(head, _)| head[0] == "Each point").unwrap();
    assert_eq!(head[8], "Published efficiency");
    assert_eq!(column(rows, (0, "apisix"), 8), ["1.000", "0.940", "0.937"]);
    assert_eq!(column(rows, (0, "envoy"), 8), ["1.000", "0.930", "0.908"]);
    assert_eq!(column(rows, (0, "nginx"), 2), ["-"; 3], "nothing was measured");
}

#[test]
fn without_measurements_there_is_a_reason_in_the_place_of_each_size_and_price() {
    let (_, sizes) = &tables("sidecar")[0];
    assert_eq!(sizes.len(), 12, "four systems, three rates");
    assert!(sizes.iter().all(|row| row[2..] == ["-", "-", "no advice: the run ended before"]), "{sizes:?}");
    let study = study("features");
    let prices: Vec<Price> = analyse(&study, &unmeasured(&study))
        .into_iter()
        .filter_map(|line| match line {
            Line::Price(price) => Some(price),
            _ => None,
        })
        .collect();
    assert_eq!(
        prices.len(),
        4 * (7 + 25 + 2 + 2),
        "four systems; plain and six features, plain and twenty-four policies, plain and one over TLS, plain and the cache"
    );
    for price in &prices {
        assert!(price.cpu_us.figure().is_none() && price.p99_us.figure().is_none(), "{price:?}");
        assert_eq!(price.instructions, Known::Not("not counted".into()));
    }
}

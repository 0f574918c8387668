//! Tests the cores of the roles: chosen by proportion, asked for, and refused.

use crate::bench::Bench;
use tollgate_lab_meter::machine::allowed_cores;

/// Writes a copy of `/sys/devices/system`: two nodes with eight physical cores each, and two threads on each
/// physical core.
fn large_machine(bench: &Bench) -> String {
    for node in 0..2usize {
        let first = node * 8;
        bench.write(
            &format!("sys/node/node{node}/cpulist"),
            &format!("{first}-{},{}-{}\n", first + 7, first + 16, first + 23),
        );
        for core in first..first + 8 {
            for thread in [core, core + 16] {
                let file = format!("sys/cpu/cpu{thread}/topology/thread_siblings_list");
                bench.write(&file, &format!("{core},{}\n", core + 16));
            }
        }
    }
    bench.write("sys/cpu/online", "0-31\n");
    bench.path("sys").display().to_string()
}

#[test]
fn another_machine_is_divided_by_proportion_along_its_nodes() {
    let bench = Bench::new();
    let system = large_machine(&bench);
    let answer = bench.run(&["cores", "--sys", &system]).well();
    assert_eq!(
        answer.stdout,
        "32 cores on 16 physical cores, 2 NUMA nodes\n\
         system under test on cores 0-7,16-23, origin on cores 8-11,24-27, generator on cores 12-15,28-31\n"
    );
    let asked = ["cores", "--sys", &system, "--cores", "target=0-3,8-9,load=24"];
    let answer = bench.run(&asked).well();
    assert!(answer.stdout.contains("system under test on cores 0-3,8-9"), "{answer:?}");
    assert!(answer.stdout.contains("generator on core 24"), "{answer:?}");
    let twins =
        "warning: core 8 of the system under test and core 24 of the load generator are threads of one";
    assert!(answer.stdout.contains(twins), "{answer:?}");
    assert!(answer.stdout.contains("on the NUMA nodes 0-1"), "{answer:?}");
    let wrong = ["cores", "--sys", &system, "--cores", "target=32"];
    bench.run(&wrong).refused(1, &["`cores.target` names core 32", "only 0-31"]);
    bench.run(&["cores", "--cores", "gateway=1"]).refused(2, &["no role is called `gateway`"]);
}

#[test]
fn a_study_runs_on_the_cores_that_it_or_the_option_names() {
    let allowed = allowed_cores().unwrap();
    let (Some(first), Some(last)) = (allowed.first(), allowed.last()) else { panic!("no cores") };
    let bench = Bench::new();
    let study = |cores: &str| {
        format!(
            "
title: Where
about: Any.
cores: {cores}
settings: {{origin: builtin, connections: 2, rate: 100, seconds: 0.3, rounds: 1, warm_up: 0}}
sections: [{{title: One, systems: [wire], points: [{{}}]}}]
"
        )
    };
    bench.study("where", &study(&format!("{{target: {last}, origin: {first}, load: {first}}}")));
    bench.run(&["run", "where", "--out", "r.jsonl"]).well();
    let results = bench.results("r.jsonl");
    let expected = format!("system under test on core {last}, origin and generator on core {first}");
    assert_eq!(results.header.host.placement, expected);
    let shares = format!("origin and load generator share core {first}: each takes time from the other");
    assert!(results.notes.iter().any(|(_, text)| text == &shares), "{:?}", results.notes);

    let all = format!("target={first},origin={first},load={first}");
    let answer = bench.run(&["run", "where", "--fresh", "--out", "r.jsonl", "--cores", &all]).well();
    assert!(answer.stderr.contains("warning: system under test and origin share core"), "{answer:?}");
    assert!(bench.results("r.jsonl").header.command.ends_with(&format!("--cores {all}")));

    bench.study("where", &study("{target: 0-x}"));
    bench.run(&["run", "where"]).refused(1, &["where.yaml:4:", "`0-x` are no cores", "such as 0-7"]);
    bench.study("where", &study("{gateway: 0}"));
    bench.run(&["run", "where"]).refused(1, &["where.yaml:4:", "unknown key `gateway`"]);
}

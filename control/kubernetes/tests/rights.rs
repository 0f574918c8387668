//! The rights that the manifest and the chart give to a gateway: the same ones, and those of every kind that it
//! watches.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use tollgate_kubernetes::Kind;

fn read(path: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the rights as sets of group, resource and verb.
fn rights(rules: &[Value]) -> BTreeSet<(String, String, String)> {
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut out = BTreeSet::new();
    for rule in rules {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    out.insert((group.clone(), resource.clone(), verb));
                }
            }
        }
    }
    out
}

fn of_the_manifest() -> BTreeSet<(String, String, String)> {
    let role = read("kubernetes/tollgate.yaml").into_iter().find(|object| object["kind"] == "ClusterRole");
    rights(role.expect("a role")["rules"].as_array().expect("rules"))
}

#[test]
fn the_chart_gives_the_rights_of_the_manifest() {
    let mut rules = read("helm/tollgate/files/rules.yaml").remove(0).as_array().expect("rules").clone();
    // The chart narrows these to namespaces, if the gateway has some.
    rules.push(json!({
        "apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["list", "watch"],
    }));
    assert_eq!(rights(&rules), of_the_manifest());
}

#[test]
fn every_kind_may_be_watched() {
    let rights = of_the_manifest();
    for kind in Kind::WATCHED.into_iter().chain([Kind::Secret, Kind::ConfigMap]) {
        let (group, _, _, resource) = kind.names();
        for verb in ["list", "watch"] {
            let right = (group.to_owned(), resource.to_owned(), verb.to_owned());
            assert!(rights.contains(&right), "{right:?}");
        }
    }
}

//! Tests that the description is complete, and usable for generators of clients.

use super::*;

/// Every `$ref` resolves, and every variable in a path is a parameter.
#[test]
fn the_description_is_whole() {
    tollgate_policy::register();
    let document = openapi();
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 50);
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("a local reference");
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let parameters = operation["parameters"].as_array().expect("parameters");
            for part in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
                assert!(parameters.iter().any(|it| it["name"] == part), "{method} {path}: {part}");
            }
        }
    }
}

/// The document describes exactly the paths that the routers have.
#[test]
fn the_description_is_of_the_paths_that_there_are() {
    tollgate_policy::register();
    let sources = [
        include_str!("../mod.rs"),
        include_str!("../../live.rs"),
        include_str!("../../etcd.rs"),
        include_str!("../../controller.rs"),
        include_str!("../../fleet.rs"),
        include_str!("../../trace/api.rs"),
    ]
    .concat();
    let quoted = sources.split('"').filter(|text| text.starts_with("/api/v1"));
    let mut there: Vec<String> = Vec::new();
    for path in quoted {
        let path = path.replace("{*name}", "{name}");
        match path.contains("{kind}") {
            true => there.extend(KINDS.iter().map(|kind| path.replace("{kind}", kind.name))),
            false => there.push(path),
        }
    }
    there.sort();
    // The list of listeners has its own path next to the generic path of all kinds.
    there.dedup();
    let document = openapi();
    let mut described: Vec<_> = document["paths"].as_object().expect("paths").keys().cloned().collect();
    described.sort();
    assert_eq!(described, there);
}

/// Client generators and Redocly's linter need an id for each operation, an error response, and a declaration of each
/// required property.
#[test]
fn generators_of_clients_find_what_they_need() {
    tollgate_policy::register();
    let document = openapi();
    let mut ids = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path}: no id"));
            assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
            ids.push(id.to_owned());
            let mut statuses = operation["responses"].as_object().expect("responses").keys();
            assert!(statuses.any(|status| status.starts_with('4')), "{method} {path}: no 4xx");
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "an id occurs twice");
    assert!(count >= 30, "{count}");
    assert_eq!(document["servers"][0]["url"], "/");
    assert_eq!(document["info"]["license"]["identifier"], "Apache-2.0");
    check_required(&document);
}

/// Checks that every required property is declared in the same schema.
fn check_required(value: &Value) {
    match value {
        Value::Object(entries) => {
            if let Some(Value::Array(required)) = entries.get("required") {
                let declared = entries.get("properties").and_then(Value::as_object).expect("properties");
                let names = required.iter().filter_map(Value::as_str);
                names.for_each(|name| assert!(declared.contains_key(name), "{name} in {value}"));
            }
            entries.values().for_each(check_required);
        }
        Value::Array(items) => items.iter().for_each(check_required),
        _ => {}
    }
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            found.extend(entries.get("$ref").and_then(Value::as_str).map(str::to_owned));
            entries.values().for_each(|value| collect(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

//! The translation as a table: `cases/NAME.yaml` has objects, `cases/NAME.out.yaml` the documents and statuses
//! that they become. `BLESS=1` writes the latter.

mod settings;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tollgate_kubernetes::{Kind, Objects, RawObject, Translation, translate};

use settings::settings;

fn objects(text: &str) -> Vec<(Kind, Value)> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    all.into_iter()
        .map(|value| {
            let kind = value["kind"].as_str().and_then(Kind::by_name).expect("a kind");
            (kind, value)
        })
        .collect()
}

fn translated(objects: impl IntoIterator<Item = (Kind, Value)>) -> Translation {
    let mut all = Objects::default();
    for (kind, value) in objects {
        all.put(kind, serde_json::from_value::<RawObject>(value).expect("an object"));
    }
    translate(&all, &settings())
}

/// Formats a translation. A certificate's content is shortened, because it is in the objects.
fn shown(translation: &Translation) -> String {
    let documents: Map<String, Value> = translation
        .documents
        .iter()
        .map(|(key, document)| {
            let owners: Vec<String> = document.owners.iter().map(ToString::to_string).collect();
            let mut value = document.content.value();
            shorten(&mut value);
            (format!("{}/{}", key.kind, key.name), json!({ "value": value, "from": owners }))
        })
        .collect();
    let statuses: Map<String, Value> = translation
        .statuses
        .iter()
        .map(|(reference, status)| {
            let mut status = status.clone();
            if let Some(features) = status.get_mut("supportedFeatures") {
                *features = features.as_array().map(Vec::len).unwrap_or_default().into();
            }
            (reference.to_string(), status)
        })
        .collect();
    let references: Vec<String> = translation.references.iter().map(ToString::to_string).collect();
    let notes: Map<String, Value> =
        translation.notes.iter().map(|(object, notes)| (object.to_string(), json!(notes))).collect();
    let mut all = json!({ "documents": documents, "statuses": statuses, "references": references });
    if !notes.is_empty() {
        all["notes"] = notes.into();
    }
    tollgate_config::to_yaml(&all)
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("-----BEGIN") => *text = "(PEM)".to_owned(),
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let files = std::fs::read_dir(folder).expect("cases").map(|entry| entry.expect("a file").path());
    let name =
        |file: &PathBuf| file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let mut cases: Vec<_> = files.filter(|file| !name(file).ends_with(".out.yaml")).collect();
    cases.sort();
    assert!(!cases.is_empty());
    cases
}

#[test]
fn objects_become_documents_and_statuses() {
    let mut wrong = Vec::new();
    for case in cases() {
        let text = std::fs::read_to_string(&case).expect("a case");
        let shown = shown(&translated(objects(&text)));
        let expected = case.with_extension("out.yaml");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected, &shown).expect("written");
        }
        if std::fs::read_to_string(&expected).unwrap_or_default() != shown {
            wrong.push(format!("{}:\n{shown}", expected.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_order_of_arrival_does_not_matter() {
    for case in cases() {
        let all = objects(&std::fs::read_to_string(&case).expect("a case"));
        let forwards = translated(all.clone());
        assert_eq!(translated(all.into_iter().rev()), forwards, "{}", case.display());
    }
}

/// The documents of each case are valid, alone and together.
#[test]
fn the_documents_compile() {
    tollgate_plan::register_policies();
    let config = tollgate_config::from_text("t", "kubernetes: {addresses: 192.0.2.0/24}", &|_| None).config;
    let config = config.expect("a configuration");
    for case in cases() {
        let translation = translated(objects(&std::fs::read_to_string(&case).expect("a case")));
        let scope = tollgate_config::file_access::Scope::below(&[]);
        let mut documents = tollgate_config::Documents::new("kubernetes", PathBuf::new(), scope);
        for (key, document) in &translation.documents {
            let kind = tollgate_config::kind(key.kind).expect("a kind of resource");
            if let Err(problems) = documents.put(kind, &key.name, document.content.value()) {
                panic!("{}: {}/{}: {:?}", case.display(), key.kind, key.name, problems);
            }
        }
        let all = tollgate_config::CombinedResources::of(&config).with(&documents);
        if let Err(problems) = tollgate_plan::compile_parts(&all) {
            panic!("{}: {problems:?}", case.display());
        }
    }
}

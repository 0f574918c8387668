//! The objects of manifests: YAML files with one or more documents.

use serde_json::Value;
use std::fs;
use std::path::Path;

/// Reads the objects of a file.
///
/// # Errors
/// If it cannot be read, or a document lacks what every object has.
pub fn read(file: &Path) -> Result<Vec<Value>, String> {
    let say = |text: String| format!("{}: {text}", file.display());
    let text = fs::read_to_string(file).map_err(|error| say(error.to_string()))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| say(error.to_string()))?;
    let mut objects = Vec::new();
    for document in documents {
        if document.is_null() {
            continue;
        }
        let has = |pointer: &str| document.pointer(pointer).is_some_and(Value::is_string);
        if !has("/apiVersion") || !has("/kind") || !has("/metadata/name") {
            let missing = "a document without `apiVersion`, `kind` or `metadata.name`";
            return Err(say(format!("{missing}; lists and generated names are not supported")));
        }
        objects.push(document);
    }
    if objects.is_empty() {
        return Err(say("no objects".into()));
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_is_an_object() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("web.yaml");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            super::read(&file)
        };
        let two = "# A comment.\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n---\n\
                   apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n";
        let kinds: Vec<Value> = read(two).unwrap().iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["Service", "Deployment"]);
        let error = read("apiVersion: v1\nkind: List\nitems: []\n").unwrap_err();
        assert!(error.contains("web.yaml") && error.contains("metadata.name"), "{error}");
        assert!(read("# nothing\n").unwrap_err().contains("no objects"));
        assert!(super::read(&folder.path().join("none.yaml")).unwrap_err().contains("none.yaml"));
    }
}

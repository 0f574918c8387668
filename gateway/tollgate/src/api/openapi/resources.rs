//! The paths of resources: the list of a kind, and one resource.

use serde_json::{Value, json};
use tollgate_config::ResourceKind;

use super::operations::{
    CHANGE, CHANGE_WITH_BODY, READ, READ_ONE, changed, header, name, ok, operation, query, query_of,
};

/// Returns the name of a kind in the ids of operations: `PolicySet`.
fn type_name(kind: &ResourceKind) -> String {
    if kind.name == "apisix" {
        return "ApisixObject".to_owned();
    }
    let words = kind.noun.split(' ').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

/// Returns the path of a list.
pub(super) fn list(kind: &ResourceKind) -> Value {
    let parameters = json!([
        query("name", "string"),
        query("source", "string"),
        query("q", "string"),
        query("after", "string"),
        query("offset", "integer"),
        query("limit", "integer"),
        query_of("sort", &["name", "source"]),
        query_of("order", &["asc", "desc"]),
    ]);
    let mut item = json!({ "type": "object", "properties": {
        "name": { "type": "string" }, "source": { "type": "string" }, "version": { "type": ["integer", "null"] },
        "value": {},
    } });
    if kind.name == "routes" {
        item["properties"]["shadowed_by"] = json!({ "type": "string" });
    }
    if kind.name == "listeners" {
        let properties = &mut item["properties"];
        // A listener of the file may have none.
        properties["name"] = json!({ "type": ["string", "null"] });
        for key in ["address", "bound", "problem"] {
            properties[key] = json!({ "type": ["string", "null"] });
        }
        properties["hosts"] = json!({ "type": "array", "items": { "type": "string" } });
        properties["routes"] = json!({ "type": "integer" });
        properties["protocols"] = json!({ "type": "array", "items": { "type": "string" } });
        properties["tls"] = json!({ "type": ["object", "null"] });
    }
    let schema = json!({ "type": "object", "properties": {
        "total": { "type": "integer" }, "found": { "type": "integer" }, "items": { "type": "array", "items": item },
    } });
    let id = format!("list{}s", type_name(kind));
    let summary = format!("Lists the {}s of the file and of the store.", kind.noun);
    json!({ "get": operation(&id, &summary, parameters, None, ok(schema), READ) })
}

/// Returns the path of a resource, whose value has this schema.
pub(super) fn one(kind: &ResourceKind, schema: &Value) -> Value {
    let (noun, name_of_type) = (kind.noun, type_name(kind));
    let parameters = json!([
        name(),
        query("dry_run", "boolean"),
        query("check", "boolean"),
        header("If-Match"),
        header("If-None-Match"),
    ]);
    let write = |verb: &str, summary: String, body: Option<Value>| {
        let refused = if body.is_some() { CHANGE_WITH_BODY } else { CHANGE };
        let id = format!("{verb}{name_of_type}");
        operation(&id, &summary, parameters.clone(), body, changed(), refused)
    };
    let id = format!("get{name_of_type}");
    let summary = format!("Returns one {noun}, as it is written.");
    let mut put = write("put", format!("Creates or replaces one {noun}."), Some(schema.clone()));
    put["responses"]["201"] = put["responses"]["200"].clone();
    put["responses"]["201"]["description"] =
        "The resource is new; it is durable, and all workers run it.".into();
    json!({
        "get": operation(&id, &summary, json!([name()]), None, ok(schema.clone()), READ_ONE),
        "put": put,
        "patch": write("patch", format!("Merges a patch into one {noun} (RFC 7396)."), Some(json!({}))),
        "delete": write("delete", format!("Removes one {noun}."), None),
    })
}

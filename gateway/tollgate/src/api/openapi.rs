//! The OpenAPI 3.1 description of the admin API, generated from the kinds of resources and the configuration's schema.
//!
//! [`paths`], [`live_lists`] and [`resources`] have the paths; `resources` generates one set for each kind of resource.
//! [`operations`] has the parts of an operation, and [`schemas`] the bodies. A test compares the paths with the routers.

use axum::Json;
use serde_json::{Map, Value, json};
use tollgate_config::{KINDS, schema};

use self::live_lists::{live_routes, live_upstreams};
use self::operations::refusals;
use self::paths::Paths;
use self::resources::{list, one};
use self::schemas::{done, problem};

mod live_lists;
mod operations;
mod paths;
mod resources;
mod schemas;

/// `GET /api/v1/openapi.json`.
pub async fn document() -> Json<Value> {
    Json(openapi())
}

/// Returns the document.
pub fn openapi() -> Value {
    let mut schemas = definitions();
    schemas.insert("problem".to_owned(), problem());
    schemas.insert("done".to_owned(), done());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Shows what the gateway runs, and changes it under traffic.",
            "license": { "name": "Apache License 2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "The admin listener that serves this document." }],
        "paths": all_paths(),
        "components": {
            "schemas": schemas,
            "responses": refusals(),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn all_paths() -> Map<String, Value> {
    let mut paths = Paths::default();
    for kind in &KINDS {
        paths.add(&format!("/api/v1/{}", kind.name), list(kind));
        let mut one = one(kind, &moved((kind.schema)()));
        // Objects of APISIX can only be read here. They are written through the APISIX front.
        if let (true, Some(methods)) = (kind.name == "apisix", one.as_object_mut()) {
            methods.retain(|method, _| !matches!(method.as_str(), "put" | "patch" | "delete"));
        }
        paths.add(&format!("/api/v1/{}/{{name}}", kind.name), one);
    }
    paths::about(&mut paths);
    paths::store(&mut paths);
    paths::live(&mut paths);
    paths.add("/api/v1/live/routes", live_routes());
    paths.add("/api/v1/live/upstreams", live_upstreams());
    paths::log(&mut paths);
    paths::cache(&mut paths);
    paths::requests(&mut paths);
    paths::sources(&mut paths);
    paths::process(&mut paths);
    paths.into_map()
}

/// Returns the definitions of the configuration's schema, with references that point into this document.
fn definitions() -> Map<String, Value> {
    let Value::Object(mut definitions) = moved(schema()["$defs"].clone()) else { return Map::new() };
    definitions.retain(|name, _| name != "configuration");
    definitions
}

/// Converts a part of the configuration's schema. References point into this document. A mapping that only requires
/// keys, such as an alternative of `oneOf`, also declares them, because generators of clients expect that.
fn moved(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let mut entries: Map<String, Value> = entries
                .into_iter()
                .map(|(key, value)| match (key.as_str(), value.as_str()) {
                    ("$ref", Some(to)) => {
                        (key.clone(), to.replace("#/$defs/", "#/components/schemas/").into())
                    }
                    _ => (key, moved(value)),
                })
                .collect();
            if let (Some(Value::Array(required)), None) = (entries.get("required"), entries.get("properties"))
            {
                let names = required.iter().filter_map(Value::as_str);
                let declared: Map<String, Value> = names.map(|name| (name.to_owned(), json!({}))).collect();
                entries.insert("properties".to_owned(), declared.into());
            }
            Value::Object(entries)
        }
        Value::Array(items) => items.into_iter().map(moved).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests;

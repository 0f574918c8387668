//! `tollgate export`, `import`, `diff` and `backup`, which handle all resources at once.

use std::path::Path;
use std::process::ExitCode;

use hyper::Method;
use serde_json::{Map, Value, json};
use tollgate_config::{KINDS, ResourceKind};

use super::CommandOutput;
use crate::api::is_optional_key;

use super::args::{BackupArgs, DiffArgs, ExportArgs, ImportArgs, OutputFormat};
use super::format;
use super::request::{AdminApi, read_document};
use crate::admin_client::RequestContent;

/// Prints all resources.
pub fn export(args: &ExportArgs) -> Result<CommandOutput, String> {
    let gateway = AdminApi::new(&args.remote)?;
    let whole = match args.stored {
        false => gateway.get("/api/v1/config")?,
        true => {
            let mut whole = Map::new();
            for kind in &KINDS {
                let mut items =
                    list_resources(&gateway, kind)?.into_iter().filter(|item| item.stored).peekable();
                if items.peek().is_none() && is_optional_key(kind) {
                    continue;
                }
                whole.insert(kind.key.to_owned(), join_resources(kind, items));
            }
            Value::Object(whole)
        }
    };
    Ok(CommandOutput::success(format::document(&whole, args.output)))
}

/// A resource of the gateway.
struct ApiResource {
    name: String,
    value: Value,
    stored: bool,
}

fn list_resources(gateway: &AdminApi, kind: &ResourceKind) -> Result<Vec<ApiResource>, String> {
    let list = gateway.get(&format!("/api/v1/{}", kind.name))?;
    let items = list["items"].as_array().into_iter().flatten();
    Ok(items
        .map(|item| {
            let mut value = item["value"].clone();
            // Resources of the file contain their name; stored ones do not.
            if let (true, Some(entries)) = (kind.is_list(), value.as_object_mut()) {
                entries.shift_remove("name");
            }
            ApiResource { name: format::text(&item["name"]), value, stored: !item["version"].is_null() }
        })
        .collect())
}

/// Combines resources to the form of a file: a list with names, or a mapping of names.
fn join_resources(kind: &ResourceKind, items: impl Iterator<Item = ApiResource>) -> Value {
    if !kind.is_list() {
        return Value::Object(items.map(|item| (item.name, item.value)).collect());
    }
    let named = items.map(|ApiResource { name, mut value, .. }| {
        if let Value::Object(entries) = &mut value {
            entries.shift_insert(0, "name".to_owned(), name.into());
        }
        value
    });
    named.collect()
}

/// Writes all resources of a file: all of them, or none.
pub fn import(args: &ImportArgs) -> Result<CommandOutput, String> {
    let how = &args.how;
    let gateway = AdminApi::new(&how.remote)?;
    let file = args.file.as_deref().unwrap_or(Path::new("-"));
    let (answer, unchanged) = import_file(&gateway, file, args.prune, how.dry_run)?;
    Ok(CommandOutput::success(match how.output {
        OutputFormat::Text => format::change(&answer, how.dry_run) + &unchanged_note(unchanged),
        output => format::document(&answer, output),
    }))
}

fn unchanged_note(unchanged: usize) -> String {
    match unchanged {
        0 => String::new(),
        1 => "1 resource is the gateway's file's, and says the same there\n".to_owned(),
        unchanged => format!("{unchanged} resources are the gateway's file's, and say the same there\n"),
    }
}

/// Writes a file's resources, or reports what that would change. Also returns how many resources the
/// gateway's own file already has.
fn import_file(
    gateway: &AdminApi,
    file: &Path,
    prune: bool,
    dry_run: bool,
) -> Result<(Value, usize), String> {
    let whole = read_document(file)?;
    let entries =
        whole.as_object().ok_or("the file holds no mapping of kinds of resources, such as `routes`")?;
    if let Some(key) = entries.keys().find(|key| KINDS.iter().all(|kind| kind.key != key.as_str())) {
        let kinds: Vec<_> = KINDS.iter().map(|kind| format!("`{}`", kind.key)).collect();
        return Err(format!(
            "`{key}` is for the gateway's own file: what is imported has resources ({}), as `tollgate export` writes them",
            kinds.join(", ")
        ));
    }
    let (mut changes, mut unchanged) = (Vec::new(), 0);
    for kind in &KINDS {
        let current = list_resources(gateway, kind)?;
        let wanted = split_resources(kind, entries.get(kind.key))?;
        for (name, value) in &wanted {
            // A resource that the gateway's own file has in the same form is no change. If it differs, the
            // API refuses it and says where to change it.
            if current.iter().any(|item| !item.stored && item.name == *name && item.value == *value) {
                unchanged += 1;
                continue;
            }
            changes.push(json!({ "op": "put", "kind": kind.name, "name": name, "value": value }));
        }
        let removed =
            current.iter().filter(|item| item.stored && !wanted.iter().any(|(name, _)| *name == item.name));
        for item in removed.filter(|_| prune) {
            changes.push(json!({ "op": "delete", "kind": kind.name, "name": item.name }));
        }
    }
    let content = RequestContent { body: Some(json!({ "changes": changes })), ..RequestContent::default() };
    let path = format!("/api/v1/transactions?dry_run={dry_run}");
    Ok((gateway.request(&Method::POST, &path, content)?, unchanged))
}

/// Splits the resources of a kind by name.
fn split_resources(kind: &ResourceKind, value: Option<&Value>) -> Result<Vec<(String, Value)>, String> {
    let is_named =
        |items: &Value| items.as_array().is_some_and(|all| all.iter().all(|it| it["name"].is_string()));
    if kind.name == "listeners" && value.is_some_and(|value| !is_named(value)) {
        return Err(format!(
            "`{}` is for the gateway's own file: what is imported is a list of listeners with a `name`",
            kind.key
        ));
    }
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(entries)) if !kind.is_list() => {
            Ok(entries.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        Some(Value::Array(items)) if kind.is_list() => {
            let named = items.iter().enumerate().map(|(index, item)| {
                let mut value = item.clone();
                let name = value.as_object_mut().and_then(|entries| entries.shift_remove("name"));
                match name {
                    Some(Value::String(name)) => Ok((name, value)),
                    _ => Err(format!(
                        "/{}/{index}: what is imported needs a `name`, by which it can be found again",
                        kind.key
                    )),
                }
            });
            named.collect()
        }
        Some(_) => {
            let form = if kind.is_list() { "a list" } else { "a mapping of names" };
            Err(format!("/{}: this must be {form}", kind.key))
        }
    }
}

/// Shows what a file or a rollback would change. The exit code is 1 if there is a difference, as with `diff`.
pub fn diff(args: &DiffArgs) -> Result<CommandOutput, String> {
    let gateway = AdminApi::new(&args.remote)?;
    let version = args.with.to_str().and_then(|text| text.parse::<u64>().ok());
    let answer = match version {
        Some(version) => {
            let path = format!("/api/v1/rollback/{version}?dry_run=true");
            gateway.request(&Method::POST, &path, RequestContent::default())?
        }
        None => import_file(&gateway, &args.with, args.prune, true)?.0,
    };
    let same = answer["changes"].as_array().is_some_and(Vec::is_empty);
    let text = match args.output {
        OutputFormat::Text => format::changes(&answer["changes"], true),
        output => format::document(&answer, output),
    };
    Ok(CommandOutput { text, code: if same { ExitCode::SUCCESS } else { ExitCode::from(1) } })
}

/// Makes the gateway copy its store.
pub fn backup(args: &BackupArgs) -> Result<CommandOutput, String> {
    let gateway = AdminApi::new(&args.remote)?;
    // Made absolute here: for a gateway on another machine, the output then shows at least which path was
    // used.
    let to = std::path::absolute(&args.to).map_err(|error| error.to_string())?;
    let body = Some(json!({ "to": to.display().to_string() }));
    let answer = gateway.request(
        &Method::POST,
        "/api/v1/store/backup",
        RequestContent { body, ..RequestContent::default() },
    )?;
    Ok(CommandOutput::success(format!(
        "the store is copied to {}, on the gateway's machine\n",
        format::text(&answer["to"])
    )))
}

#[cfg(test)]
mod tests {
    use tollgate_config::kind;

    use super::*;

    #[test]
    fn a_file_is_taken_apart_as_it_is_put_together() {
        let routes = kind("routes").expect("a kind");
        let upstreams = kind("upstreams").expect("a kind");
        let list = json!([{ "name": "a", "match": "/a", "respond": "a" }]);
        let split = split_resources(routes, Some(&list)).expect("good");
        assert_eq!(split, [("a".to_owned(), json!({ "match": "/a", "respond": "a" }))]);
        let items = split.into_iter().map(|(name, value)| ApiResource { name, value, stored: true });
        assert_eq!(join_resources(routes, items), list);
        let named = json!({ "u": ["10.0.0.1:80"] });
        assert_eq!(split_resources(upstreams, Some(&named)).expect("good")[0].0, "u");
        assert!(
            split_resources(routes, Some(&named)).is_err()
                && split_resources(upstreams, Some(&list)).is_err()
        );
        assert!(
            split_resources(routes, Some(&json!([{ "match": "/a" }])))
                .is_err_and(|why| why.contains("/routes/0"))
        );
        assert_eq!(split_resources(routes, None), Ok(Vec::new()));
    }
}

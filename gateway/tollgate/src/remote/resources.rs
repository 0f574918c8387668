//! `tollgate get`, `set` and `delete`: shows and changes single resources.

use hyper::Method;
use hyper::header::{IF_MATCH, IF_NONE_MATCH};
use serde_json::Value;

use super::CommandOutput;
use super::args::{DeleteArgs, GetArgs, OutputFormat, ResourceChangeArgs, SetArgs};
use super::format;
use super::request::{AdminApi, parse_document, percent_encode, read_text, resource_path, split_name};
use crate::admin_client::RequestContent;

/// Shows a summary, a list or a resource.
pub fn get(args: &GetArgs) -> Result<CommandOutput, String> {
    let gateway = AdminApi::new(&args.remote)?;
    let Some(what) = &args.what else {
        let value = gateway.get("/api/v1")?;
        return Ok(CommandOutput::success(format::document(
            &value,
            args.output.unwrap_or(OutputFormat::Yaml),
        )));
    };
    let (kind, name) = split_name(what, args.name.as_deref());
    if let Some(name) = name {
        let value = gateway.get(&format!("/api/v1/{}/{}", percent_encode(kind), percent_encode(name)))?;
        return Ok(CommandOutput::success(format::document(
            &value,
            args.output.unwrap_or(OutputFormat::Yaml),
        )));
    }
    let filters = [("q", &args.search), ("source", &args.source)];
    let filters = filters
        .iter()
        .filter_map(|(key, value)| Some(format!("{key}={}", percent_encode(value.as_deref()?))));
    let filters = filters.collect::<Vec<_>>().join("&");
    let list = gateway.get(&format!("/api/v1/{}?{filters}", percent_encode(kind)))?;
    if let Some(output @ (OutputFormat::Json | OutputFormat::Yaml)) = args.output {
        return Ok(CommandOutput::success(format::document(&list, output)));
    }
    let rows: Vec<_> = list["items"].as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        return Ok(CommandOutput::success(format!("no {kind}\n")));
    }
    Ok(CommandOutput::success(format::table(&["NAME", "VERSION", "SOURCE", "WHAT"], &rows)))
}

fn row(item: &Value) -> Vec<String> {
    let value = &item["value"];
    // Shows the match of a route, the endpoints of an upstream.
    let what = value.get("match").or(value.get("endpoints")).or(value.get("discover")).unwrap_or(value);
    let what = what.as_str().map_or_else(|| what.to_string(), str::to_owned);
    vec![
        format::text(&item["name"]),
        format::text(&item["version"]),
        format::text(&item["source"]),
        format::truncate(&what),
    ]
}

/// Writes a resource.
pub fn set(args: &SetArgs) -> Result<CommandOutput, String> {
    let (name, text) = match (&args.value, &args.file) {
        (Some(text), _) => ("the value".to_owned(), text.clone()),
        (None, Some(file)) => read_text(file)?,
        (None, None) => return Err("there is no value".to_owned()),
    };
    parse_document(&name, &text)?;
    let method = if args.merge { Method::PATCH } else { Method::PUT };
    change_resource(&method, &args.what, Some(text), &args.change)
}

/// Removes a resource.
pub fn delete(args: &DeleteArgs) -> Result<CommandOutput, String> {
    change_resource(&Method::DELETE, &args.what, None, &args.change)
}

fn change_resource(
    method: &Method,
    what: &str,
    yaml: Option<String>,
    change: &ResourceChangeArgs,
) -> Result<CommandOutput, String> {
    let mut headers = Vec::new();
    if let Some(version) = change.if_version {
        headers.push((IF_MATCH, format!("\"{version}\"")));
    }
    if change.if_new {
        headers.push((IF_NONE_MATCH, "*".to_owned()));
    }
    let how = &change.how;
    let path = format!("{}?dry_run={}", resource_path(what)?, how.dry_run);
    let answer =
        AdminApi::new(&how.remote)?.request(method, &path, RequestContent { yaml, headers, body: None })?;
    Ok(CommandOutput::success(match how.output {
        OutputFormat::Text => format::change(&answer, how.dry_run),
        output => format::document(&answer, output),
    }))
}

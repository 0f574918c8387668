//! `tollgate get`, `set` and `delete`: shows and changes single resources.

use hyper::Method;
use hyper::header::{IF_MATCH, IF_NONE_MATCH};
use serde_json::Value;

use super::Said;
use super::args::{Change, Delete, Get, Output, Set};
use super::ask::{Gateway, document, encoded, named, path, read};
use super::show;
use crate::client::Sent;

/// Shows a summary, a list or a resource.
pub fn get(args: &Get) -> Result<Said, String> {
    let gateway = Gateway::new(&args.remote)?;
    let Some(what) = &args.what else {
        let value = gateway.get("/api/v1")?;
        return Ok(Said::good(show::document(&value, args.output.unwrap_or(Output::Yaml))));
    };
    let (kind, name) = named(what, args.name.as_deref());
    if let Some(name) = name {
        let value = gateway.get(&format!("/api/v1/{}/{}", encoded(kind), encoded(name)))?;
        return Ok(Said::good(show::document(&value, args.output.unwrap_or(Output::Yaml))));
    }
    let filters = [("q", &args.search), ("source", &args.source)];
    let filters =
        filters.iter().filter_map(|(key, value)| Some(format!("{key}={}", encoded(value.as_deref()?))));
    let filters = filters.collect::<Vec<_>>().join("&");
    let list = gateway.get(&format!("/api/v1/{}?{filters}", encoded(kind)))?;
    if let Some(output @ (Output::Json | Output::Yaml)) = args.output {
        return Ok(Said::good(show::document(&list, output)));
    }
    let rows: Vec<_> = list["items"].as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        return Ok(Said::good(format!("no {kind}\n")));
    }
    Ok(Said::good(show::table(&["NAME", "VERSION", "SOURCE", "WHAT"], &rows)))
}

fn row(item: &Value) -> Vec<String> {
    let value = &item["value"];
    // Shows the match of a route, the endpoints of an upstream.
    let what = value.get("match").or(value.get("endpoints")).or(value.get("discover")).unwrap_or(value);
    let what = what.as_str().map_or_else(|| what.to_string(), str::to_owned);
    vec![
        show::text(&item["name"]),
        show::text(&item["version"]),
        show::text(&item["source"]),
        show::short(&what),
    ]
}

/// Writes a resource.
pub fn set(args: &Set) -> Result<Said, String> {
    let value = match (&args.value, &args.file) {
        (Some(text), _) => document("the value", text)?,
        (None, Some(file)) => read(file)?,
        (None, None) => return Err("there is no value".to_owned()),
    };
    let method = if args.merge { Method::PATCH } else { Method::PUT };
    changed(&method, &args.what, Some(value), &args.change)
}

/// Removes a resource.
pub fn delete(args: &Delete) -> Result<Said, String> {
    changed(&Method::DELETE, &args.what, None, &args.change)
}

fn changed(method: &Method, what: &str, body: Option<Value>, change: &Change) -> Result<Said, String> {
    let mut headers = Vec::new();
    if let Some(version) = change.if_version {
        headers.push((IF_MATCH, format!("\"{version}\"")));
    }
    if change.if_new {
        headers.push((IF_NONE_MATCH, "*".to_owned()));
    }
    let how = &change.how;
    let path = format!("{}?dry_run={}", path(what)?, how.dry_run);
    let answer = Gateway::new(&how.remote)?.ask(method, &path, Sent { body, headers })?;
    Ok(Said::good(match how.output {
        Output::Text => show::change(&answer, how.dry_run),
        output => show::document(&answer, output),
    }))
}

//! `tollgate cache`: shows and purges the stored responses.

use hyper::Method;
use serde_json::json;

use super::CommandOutput;
use super::args::{CacheCommand, CachePurgeArgs, CacheStatusArgs};
use super::format;
use super::request::AdminApi;
use crate::admin_client::RequestContent;

/// Shows the state of the store, or purges responses.
pub fn cache(command: &CacheCommand) -> Result<CommandOutput, String> {
    match command {
        CacheCommand::Status(args) => status(args),
        CacheCommand::Purge(args) => purge(args),
    }
}

fn status(args: &CacheStatusArgs) -> Result<CommandOutput, String> {
    let state = AdminApi::new(&args.remote)?.get("/api/v1/cache")?;
    Ok(CommandOutput::success(format::document(&state, args.output)))
}

fn purge(args: &CachePurgeArgs) -> Result<CommandOutput, String> {
    let CachePurgeArgs { url, prefix, tag, all, soft, output, remote } = args;
    let what = [("key", url), ("prefix", prefix), ("tag", tag)];
    let named = what.iter().filter_map(|(name, value)| Some(((*name).to_owned(), json!(value.as_ref()?))));
    let mut body: serde_json::Map<_, _> = named.collect();
    if *all {
        body.insert("all".to_owned(), json!(true));
    }
    if *soft {
        body.insert("soft".to_owned(), json!(true));
    }
    let content = RequestContent { body: Some(body.into()), ..RequestContent::default() };
    let result = AdminApi::new(remote)?.request(&Method::POST, "/api/v1/cache/purge", content)?;
    Ok(CommandOutput::success(format::document(&result, *output)))
}

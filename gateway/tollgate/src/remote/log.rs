//! `tollgate log`: shows and changes the levels of the diagnostic log.

use hyper::Method;
use serde_json::{Map, Value, json};

use super::CommandOutput;
use super::args::LogArgs;
use super::format;
use super::request::AdminApi;
use crate::admin_client::RequestContent;

const PATH: &str = "/api/v1/log";

/// Shows the levels, or changes the named ones.
pub fn log(args: &LogArgs) -> Result<CommandOutput, String> {
    let gateway = AdminApi::new(&args.remote)?;
    let mut change = Map::new();
    change.extend(args.level.as_ref().map(|level| ("level".to_owned(), json!(level))));
    if !args.components.is_empty() {
        // The gateway replaces all levels of components, so the others are sent too.
        let mut components = gateway.get(PATH)?["components"].take();
        for argument in &args.components {
            let (name, level) =
                argument.split_once('=').ok_or_else(|| format!("`{argument}` is not `NAME=LEVEL`"))?;
            components[name] = level.into();
        }
        change.insert("components".to_owned(), components);
    }
    let state = match change.is_empty() {
        true => gateway.get(PATH)?,
        false => {
            let body = Some(Value::Object(change));
            gateway.request(&Method::PUT, PATH, RequestContent { body, ..RequestContent::default() })?
        }
    };
    Ok(CommandOutput::success(format::document(&state, args.output)))
}

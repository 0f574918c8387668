//! The demo's configuration. It is an ordinary text, so that users can read it, edit it and use `explain` on
//! it. One route is in the store, as if a client had put it there through the API, so that it can be changed
//! on the dashboard.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::DemoArgs;

/// The file name of the store, next to the configuration.
pub const STORE: &str = "store";
/// The file name of the access log, next to the configuration.
pub const ACCESS_LOG: &str = "access.log";

/// Returns the configuration for two services at these addresses. `access_log` is a file, since lines on the
/// terminal would scroll away the commands to try.
pub fn text(args: &DemoArgs, services: [SocketAddr; 2], access_log: &Path) -> String {
    let DemoArgs { listen, admin } = args;
    let [one, two] = services;
    let access_log = access_log.display();
    // A user who names an address that others can reach wants them to see it.
    let open = if admin.ip().is_loopback() { "off" } else { "on" };
    format!(
        "\
# The configuration of `tollgate demo`. It is deleted when the demo ends.
# The route `api` is not here but in the store: change it on the dashboard.

listen: \"{listen}\"
admin: {{ bind: \"{admin}\", open: {open} }}
store: {STORE}
access_log: \"{access_log}\"
# Every request gets an id, which the services and the log see too.
request_id: on
timeouts: {{ drain: 2s }}

upstreams:
  one: \"{one}\"
  two: \"{two}\"

routes:
  - name: welcome
    match: {{ path: {{ exact: / }} }}
    to: one

  # More conditions win over `api`: with this header, always `two`. The service sees /hello, not /api/hello.
  - name: api-beta
    match: {{ path: /api/*, headers: {{ x-beta: true }} }}
    to: two
    rewrite: {{ prefix: / }}

  - name: echo
    match: /echo/*
    to: [\"{one}\", \"{two}\"]

  - name: moved
    match: /old/*
    redirect: {{ prefix: /echo, status: 301 }}

  - name: status
    match: /status
    # The newline keeps the shell's prompt on a line of its own.
    respond: {{ body: \"{{\\\"status\\\": \\\"ok\\\"}}\\n\", content_type: application/json }}
"
    )
}

/// Returns the name and value of the stored route. By its weights, three of four requests go to `one`.
pub fn stored() -> (&'static str, Value) {
    let to = json!([{ "upstream": "one", "weight": 3 }, { "upstream": "two", "weight": 1 }]);
    ("api", json!({ "match": "/api/*", "to": to, "rewrite": { "prefix": "/" } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_compiles_without_a_warning() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let service = SocketAddr::from(([127, 0, 0, 1], 4711));
        let text = text(
            &DemoArgs { listen: any, admin: any },
            [service, service],
            Path::new("/tmp/demo/access.log"),
        );
        tollgate_policy::register();
        let loaded = tollgate_config::from_text("demo.yaml", &text, &|_| None);
        assert!(loaded.problems.is_empty(), "{}", loaded.problems.render(false));
        let compiled = tollgate_plan::compile(&loaded.config.expect("it is good")).expect("it compiles");
        assert!(compiled.warnings.is_empty(), "{:?}", compiled.warnings);
    }
}

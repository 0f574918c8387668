//! Recognises configuration files of other gateways, so that one message names the program instead of one problem
//! for each line.
//!
//! The loader asks before it reads a file's tree. YAML is recognised by its top-level keys. A text of another
//! format is recognised by its lines, and only if it cannot be a file of Tollgate: if it has a syntax error or is
//! not a mapping.

use crate::parse::ParsedText;
use crate::position::At;
use crate::problem::Problem;
use crate::tree::{MappingEntry, Node, NodeKind};

/// A program that has files of another format.
struct Program {
    /// The file with its article.
    noun: &'static str,
    /// Advice.
    help: &'static str,
}

const NGINX: Program = Program {
    noun: "an nginx configuration",
    help: "`docs/migrate/nginx.md` shows the commonest directives, each with what to write here",
};
const TRAEFIK: Program = Program {
    noun: "a Traefik configuration",
    help: "`docs/migrate/traefik.md` shows the commonest settings, each with what to write here",
};
const KONG: Program = Program {
    noun: "a Kong configuration",
    help: "`docs/migrate/kong.md` shows the commonest settings, each with what to write here",
};
const ENVOY: Program = Program {
    noun: "an Envoy configuration",
    help: "`docs/migrate/envoy.md` shows the commonest settings, each with what to write here",
};
const APISIX: Program = Program {
    noun: "an APISIX configuration",
    help: "`docs/migrate/apisix.md` shows the commonest settings; `/apisix/admin` accepts routes as they are",
};
const SMALLEST: &str = "the smallest file has two keys: `listen: :8080` and \
                        `routes: [{match: /*, to: 127.0.0.1:3000}]`";
const CADDY: Program = Program { noun: "a Caddyfile", help: SMALLEST };
const CADDY_JSON: Program = Program { noun: "a Caddy configuration", help: SMALLEST };
const HAPROXY: Program = Program { noun: "an HAProxy configuration", help: SMALLEST };
const KUBERNETES: Program = Program { noun: "a Kubernetes manifest", help: SMALLEST };

/// Returns an error that names the program whose file this is; `None` if it may be a file of Tollgate.
pub(crate) fn recognize(file: u32, text: &str, parsed: &ParsedText) -> Option<Problem> {
    let (program, at) = match &parsed.root {
        Some(Node { kind: NodeKind::Map(entries), .. }) => of_keys(entries),
        _ => None,
    }
    .or_else(|| {
        let is_mapping = matches!(&parsed.root, Some(Node { kind: NodeKind::Map(_), .. }));
        (!parsed.complete || !is_mapping).then(|| of_lines(file, text)).flatten()
    })?;
    let problem = Problem::error(at, format!("this is {}, and not one of Tollgate", program.noun));
    Some(problem.help(program.help))
}

/// Recognises a YAML or JSON file by its top-level keys.
fn of_keys(entries: &[MappingEntry]) -> Option<(&'static Program, At)> {
    let entry = |name: &str| entries.iter().find(|entry| entry.key == name);
    let any = |names: &[&str]| names.iter().find_map(|name| entry(name)).map(|entry| entry.at);
    // No other program's file has this key with an address; a file with one is one of Tollgate with a mistake.
    if entry("listen").is_some() {
        return None;
    }
    let within = |name: &str, keys: &[&str]| {
        let entry = entry(name)?;
        keys.iter().any(|key| entry.value.entry(key).is_some()).then_some(entry.at)
    };
    let routed = ["routers", "services", "middlewares"];
    if let Some(at) = within("http", &routed)
        .or_else(|| within("tcp", &routed))
        .or_else(|| any(&["entryPoints", "certificatesResolvers"]))
    {
        return Some((&TRAEFIK, at));
    }
    if let Some(at) =
        any(&["_format_version"]).or_else(|| of_items(entry("services")?, &["routes"], &["url", "host"]))
    {
        return Some((&KONG, at));
    }
    if let Some(at) = any(&["static_resources", "dynamic_resources"]) {
        return Some((&ENVOY, at));
    }
    let routes = || of_items(entry("routes")?, &["uri", "uris"], &["nodes", "upstream_id", "service_id"]);
    if let Some(at) = any(&["apisix", "plugin_attr"]).or_else(routes) {
        return Some((&APISIX, at));
    }
    if let (Some(version), Some(_)) = (entry("apiVersion"), entry("kind")) {
        return Some((&KUBERNETES, version.at));
    }
    within("apps", &["http", "tls"]).map(|at| (&CADDY_JSON, at))
}

/// Returns the position of a list that has an item with one key of each group. A key of the second group may also be
/// in the item's `upstream`.
fn of_items(list: &MappingEntry, first: &[&str], second: &[&str]) -> Option<At> {
    let NodeKind::List(items) = &list.value.kind else { return None };
    let has = |item: &Node, keys: &[&str]| keys.iter().any(|key| item.entry(key).is_some());
    let is_foreign = |item: &Node| {
        let nested = item.entry("upstream").is_some_and(|upstream| has(&upstream.value, second));
        has(item, first) && (nested || has(item, second))
    };
    items.iter().any(is_foreign).then_some(list.at)
}

/// The number of lines at the start of a text that are looked at.
const LINES_MAX: usize = 2000;

/// Recognises a text that is not YAML by its lines.
fn of_lines(file: u32, text: &str) -> Option<(&'static Program, At)> {
    let is_own = |line: &str| ["listen:", "routes:", "upstreams:"].iter().any(|key| line.starts_with(key));
    if text.lines().take(LINES_MAX).any(is_own) {
        return None;
    }
    let lines = || {
        let lines = text.lines().take(LINES_MAX).enumerate();
        lines.filter(|(_, line)| !matches!(line.trim_start().chars().next(), None | Some('#')))
    };
    let find = |is: fn(&str) -> bool| {
        let (number, line) = lines().find(|(_, line)| is(line.trim()))?;
        let blanks = line.chars().take_while(|c| c.is_whitespace()).count();
        let word = line.trim().split([' ', '\t', '{', '(', ';']).next().unwrap_or_default();
        let to_u32 = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Some(At {
            file,
            line: to_u32(number + 1),
            column: to_u32(blanks + 1),
            length: to_u32(word.chars().count().max(1)),
        })
    };
    if let (Some(at), Some(_)) = (find(is_nginx_block_or_directive), find(|line| line.contains(';'))) {
        return Some((&NGINX, at));
    }
    if let Some(at) = find(|line| line.starts_with("[http.") || line.starts_with("[entryPoints")) {
        return Some((&TRAEFIK, at));
    }
    if let (Some(at), Some(_)) = (find(is_haproxy_section), find(is_haproxy_line)) {
        return Some((&HAPROXY, at));
    }
    find(is_caddy_directive).map(|at| (&CADDY, at))
}

/// Returns the first word of a line.
fn first_word(line: &str) -> &str {
    line.split([' ', '\t', '{', ';']).next().unwrap_or_default()
}

fn is_nginx_block_or_directive(line: &str) -> bool {
    let blocks = ["http", "server", "events", "stream", "location", "upstream"];
    let directives = ["worker_processes", "server_name", "proxy_pass", "listen", "include"];
    let is_block = line.contains('{') && blocks.contains(&first_word(line));
    is_block || line.ends_with(';') && directives.contains(&first_word(line))
}

fn is_haproxy_section(line: &str) -> bool {
    let named = ["frontend", "backend", "listen"];
    named.contains(&first_word(line)) && line.split_whitespace().count() == 2 || line == "defaults"
}

fn is_haproxy_line(line: &str) -> bool {
    matches!(first_word(line), "bind" | "server" | "default_backend" | "use_backend") || line == "mode http"
}

fn is_caddy_directive(line: &str) -> bool {
    let word = first_word(line);
    let directives = ["reverse_proxy", "php_fastcgi", "file_server", "handle_path", "encode"];
    directives.contains(&word) && !line.contains(':')
        || directives[..2].contains(&word) && line.split_whitespace().count() > 1
        || line.starts_with("respond \"")
}

#[cfg(test)]
mod tests {
    use crate::load::from_text;

    /// Returns the first message, and the number of problems.
    fn message(text: &str) -> (String, usize) {
        let problems = from_text("t", text, &|_| None).problems;
        (problems.iter().next().map(|problem| problem.message.clone()).unwrap_or_default(), problems.len())
    }

    #[test]
    fn files_of_other_gateways_are_named() {
        for (name, text) in [
            ("a Traefik", "http:\n  routers:\n    a: {rule: \"Host(`x`)\", service: s}\n"),
            ("a Traefik", "entryPoints:\n  web: {address: ':80'}\nproviders: {docker: {}}\n"),
            ("a Traefik", "[entryPoints]\n  [entryPoints.web]\n    address = \":80\"\n"),
            (
                "a Kong",
                "_format_version: \"3.0\"\nservices:\n- {name: a, url: 'http://a', routes: [{paths: [/]}]}\n",
            ),
            ("an Envoy", "static_resources:\n  listeners: []\n"),
            ("an APISIX", "routes:\n- uri: /hello\n  upstream: {nodes: {'127.0.0.1:1980': 1}}\n#END\n"),
            (
                "an nginx",
                "worker_processes 1;\nhttp {\n  server {\n    listen 80;\n    location / { proxy_pass http://a; }\n  }\n}\n",
            ),
            ("an nginx", "server {\n    listen 80;\n    server_name a.example;\n}\n"),
            (
                "an HAProxy",
                "global\n    maxconn 100\n\nfrontend web\n    bind :80\n    default_backend app\n",
            ),
            ("a Caddyfile", "example.com {\n    reverse_proxy localhost:3000\n}\n"),
            ("a Caddyfile", ":80 {\n\trespond \"hi\"\n}\n"),
            ("a Caddyfile", "example.com\n\nroot * /srv\nfile_server\n"),
            ("a Caddy ", "{\"apps\": {\"http\": {\"servers\": {}}}}"),
            ("a Kubernetes", "apiVersion: networking.k8s.io/v1\nkind: Ingress\nspec: {}\n"),
        ] {
            let (message, count) = message(text);
            assert!(
                message.starts_with(&format!("this is {name}")) && count == 1,
                "{text}\n{count} {message}"
            );
        }
    }

    #[test]
    fn mistakes_in_a_file_of_tollgate_are_not_taken_for_another_program() {
        for text in [
            "listen: :80\nroutes:\n- match: /*\n  to: a:80\n  respond note: this\n",
            "listen: :80\nhttp: {services: {}}\n",
            "listen: :80\nroutes: [{uri: /a, upstream: b}]\n",
            "respond: hi\n",
            "- listen: 80\n",
            "",
        ] {
            assert!(!message(text).0.starts_with("this is a"), "{text}");
        }
    }
}

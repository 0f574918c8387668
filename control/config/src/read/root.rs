//! Reads the top level of a file.

use super::draft::{Draft, Include};
use super::{policies, route};
use crate::model::At;
use crate::problem::Problem;
use crate::reader::{Reader, misspelt, one_or_many};
use crate::scalar::file_path::file_path;
use crate::section::Value;
use crate::sections::RouteBuffer;
use crate::sections::admin::Admin;
use crate::sections::listen;
use crate::sections::upstream::{self, zone};
use crate::spec::{ROOT, Shape};
use crate::tree::{MappingEntry, Node, NodeKind, Scalar, shown};

/// Keys that an included file may contain.
const INCLUDED: [&str; 3] = ["include", "routes", "upstreams"];

/// Reads a file's tree and returns the patterns of its `include`.
pub(crate) fn root(reader: &mut Reader, node: &Node, main: bool, draft: &mut Draft) -> Vec<Include> {
    let NodeKind::Map(entries) = &node.kind else {
        draft.upstreams_may_be_missing = true;
        if !node.is_invalid() {
            let problem = Problem::error(node.at, format!("the file is {}, not a mapping", node.noun()));
            reader
                .problems
                .push(problem.expected("keys such as `listen:` and `routes:`, each with its value"));
        }
        return Vec::new();
    };
    let Some(fields) = reader.fields(node, &ROOT) else { return Vec::new() };
    if main {
        let config = &mut draft.config;
        match fields.get("listen") {
            Some(field) => config.listen = listen::listeners(reader, field),
            None if entries.iter().all(|entry| entry.key != "listen")
                && !misspelt(entries, &ROOT, "listen") =>
            {
                let at = At { line: 0, ..node.at };
                let shape = &ROOT.keys[0].shape;
                reader.missing(at, "no `listen`: the gateway would accept no connections".to_owned(), shape);
            }
            None => {}
        }
        if let Some(field) = fields.get("workers") {
            config.workers = Value::read(reader, field).unwrap_or_default();
        }
        if let Some(field) = fields.get("admin") {
            // After a problem there is no listener, whose address could be reported as well.
            let none = Admin { listener: None, files: Vec::new() };
            let admin = Admin::read(reader, field).unwrap_or(none);
            config.admin = admin.listener;
            config.document_files = admin.files;
        }
        listen::check_admin_address(reader, &config.listen, config.admin.as_ref());
        if let Some(field) = fields.get("access_log") {
            config.access_log = Value::read(reader, field).unwrap_or_default();
        }
        if let Some(field) = fields.get("log") {
            config.log = Value::read(reader, field).unwrap_or_default();
        }
        if let Some(field) = fields.get("request_id") {
            config.request_id = Value::read(reader, field).unwrap_or_default();
        }
        reader.switch(fields.get("metrics"), &mut config.metrics);
        if let Some(field) = fields.get("forwarded") {
            config.forwarded = reader.section(field).unwrap_or_default();
        }
        if let Some(field) = fields.get("limits") {
            config.limits = reader.section(field).unwrap_or_default();
        }
        if let Some(field) = fields.get("timeouts") {
            config.timeouts = reader.section(field).unwrap_or_default();
        }
        if let Some(field) = fields.get("buffer") {
            config.buffer = RouteBuffer::read(reader, field).unwrap_or_default().over(&config.buffer);
        }
        if let Some(field) = fields.get("paths") {
            let start = reader.problems.len();
            config.paths = reader.section(field).unwrap_or_default();
            draft.paths_unreliable = reader.has_errors_since(start);
        }
        let unread = |entry: &MappingEntry| entry.key == "paths" && entry.value.holds_invalid();
        draft.paths_unreliable |= misspelt(entries, &ROOT, "paths") || entries.iter().any(unread);
        if let Some(field) = fields.get("errors") {
            config.errors = reader.section(field).unwrap_or_default();
        }
        if let Some(field) = fields.get("overload") {
            config.overload = reader.section(field).unwrap_or_default();
        }
        config.consumers = crate::sections::consumers::consumers(reader, fields.get("consumers"));
        config.certificates = crate::sections::certificates::certificates(reader, fields.get("certificates"));
        config.policy_sets = policies::sets(reader, fields.get("policy_sets"));
        config.policies = policies::policies(reader, fields.get("policies"));
        if let Some(field) = fields.get("store") {
            config.store = Value::read(reader, field);
        }
        if let Some(field) = fields.get("etcd") {
            config.etcd = Value::read(reader, field);
            if fields.get("store").is_some() {
                let problem = Problem::error(field.at, "`etcd` and `store` exclude each other");
                let help = "changes made through the admin API are kept in one place: remove one of them";
                reader.problems.push(problem.help(help));
            }
        }
        if let Some(field) = fields.get("zone") {
            config.zone = reader.field(field, zone);
        }
        reader.switch(fields.get("watch"), &mut config.watch);
    } else {
        for entry in entries {
            let known = ROOT.keys.iter().any(|key| key.name == entry.key);
            if known && !INCLUDED.contains(&entry.key.as_str()) {
                let message = format!("{} is allowed only in the main file", shown(&entry.key));
                let expected = "`routes`, `upstreams` or `include` in an included file";
                reader.problems.push(Problem::error(entry.at, message).expected(expected));
            }
        }
    }
    if entries.iter().any(|entry| entry.key == "routes") || misspelt(entries, &ROOT, "routes") {
        draft.routes.get_or_insert(node.at);
    }
    if let Some(field) = fields.get("routes") {
        draft.routes = Some(field.at);
        route::routes(reader, field, draft);
    }
    let given = |name: &str| entries.iter().any(|entry| entry.key == name) || misspelt(entries, &ROOT, name);
    match fields.get("upstreams") {
        Some(field) => upstream::upstreams(reader, field, draft),
        None => draft.upstreams_may_be_missing |= given("upstreams"),
    }
    let Some(field) = fields.get("include") else {
        draft.upstreams_may_be_missing |= given("include");
        return Vec::new();
    };
    let one = if let Shape::OneOrMany(inner) = field.key.shape { inner } else { &field.key.shape };
    let mut patterns = Vec::new();
    for item in one_or_many(field.node) {
        let text = reader.parsed(item, "`include`", one, |text| file_path(text).map(|_| text.to_owned()));
        draft.upstreams_may_be_missing |= text.is_none();
        let shown = item.scalar().map(Scalar::shown).unwrap_or_default();
        patterns.extend(text.map(|pattern| Include { pattern, shown, at: item.at }));
    }
    patterns
}

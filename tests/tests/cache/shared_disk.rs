//! The disk tier of gateways that share purges, with purges that were made while they were stopped.

use std::fs;

use serde_json::{Value, json};
use tollgate_tests::{Etcd, Gateway, Origin, api, eventually};

use super::{answering, digits, get};
use crate::fleet::{Fleet, connection_of};

const DISK: &str = "cache: {memory: 16MiB, disk: {path: $DIR/cache, size: 64MiB}}\n";

/// An origin whose responses have their first path segment as a tag, and the number of the request as the body.
fn origin() -> Origin {
    answering(|number, request| {
        let tag = request.target.split('/').nth(1).unwrap_or_default();
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nCache-Tag: {tag}\r\n");
        format!("{head}Content-Length: {}\r\n\r\n{number}", digits(number))
    })
}

fn route(origin: &Origin) -> Value {
    json!({ "name": "r", "match": "/*", "to": origin.address().to_string(), "policies": { "cache": true } })
}

fn text(gateway: &Gateway, target: &str) -> String {
    get(gateway, target, "").text()
}

fn disk(gateway: &Gateway) -> Value {
    api::json_of(&api::call(gateway, "GET", "/cache", "", ""))["disk"].clone()
}

/// Waits until the tier serves, has this many responses, and has stored the time of a confirmation.
fn await_written(gateway: &Gateway, objects: u64) {
    eventually("the disk tier", || {
        let disk = disk(gateway);
        disk["state"] == json!("ready")
            && disk["objects"] == json!(objects)
            && disk["waiting_bytes"] == json!(0)
            && disk["waiting_purges"] == json!(0)
            && gateway.directory().join("cache/confirmed").exists()
    });
}

fn await_ready(gateway: &Gateway) {
    eventually("the disk tier", || disk(gateway)["state"] == json!("ready"));
}

/// Sets the last confirmation of a stopped gateway's contents to an hour ago.
fn age(gateway: &Gateway) {
    let file = gateway.directory().join("cache/confirmed");
    let known: u64 = fs::read_to_string(&file).expect("noted").trim().parse().expect("a time");
    fs::write(&file, format!("{}\n", known - 3600)).expect("written");
}

fn purge(at: &Gateway, body: &Value) {
    let response = api::call(at, "POST", "/cache/purge", api::JSON, &body.to_string());
    assert_eq!(response.status, 200, "{response:?}");
}

/// Responses that were purged while `gateway` was stopped are not served from its disk, and all others are. If it was
/// stopped for longer than purges are kept, none is.
fn stopped_gateway(gateway: &mut Gateway, purger: &Gateway) {
    assert_eq!([text(gateway, "/a/1"), text(gateway, "/b/1")], ["1", "2"]);
    await_written(gateway, 2);
    gateway.kill();
    purge(purger, &json!({ "tag": "a" }));
    gateway.restart();
    // Before and after the missed purge is carried out.
    assert_ne!(text(gateway, "/a/1"), "1");
    await_ready(gateway);
    assert_ne!(text(gateway, "/a/1"), "1");
    await_written(gateway, 2);
    assert_eq!(disk(gateway)["emptied_at_start"], json!(false));
    gateway.kill();
    gateway.restart();
    await_ready(gateway);
    assert_eq!(text(gateway, "/b/1"), "2", "from disk");
    assert_eq!(disk(gateway)["hits"], json!(1));
    await_written(gateway, disk(gateway)["objects"].as_u64().unwrap_or_default());
    gateway.kill();
    age(gateway);
    gateway.restart();
    await_ready(gateway);
    let emptied = disk(gateway);
    assert_eq!((&emptied["emptied_at_start"], &emptied["objects"]), (&json!(true), &json!(0)), "{emptied}");
    assert_ne!(text(gateway, "/b/1"), "2");
    await_written(gateway, 1);
}

#[test]
fn a_gateway_of_a_controller_serves_nothing_from_disk_that_it_may_have_missed() {
    let (origin, fleet) = (origin(), Fleet::new());
    let routes = Value::from(vec![route(&origin)]);
    let mut controller = Gateway::start(&format!("{}routes: {routes}\n", fleet.section()));
    let mut gateway = Gateway::start(&format!("{}{DISK}", fleet.gateway("g-1")));
    stopped_gateway(&mut gateway, &controller);
    let stored = text(&gateway, "/b/1");
    // Without a controller, missed purges are unknown, so the contents are held.
    eventually("the last valid state", || gateway.directory().join("state.json").exists());
    controller.kill();
    gateway.kill();
    gateway.restart();
    eventually("the state of the tier", || disk(&gateway)["state"] == json!("held"));
    assert_eq!(connection_of(&gateway)["connected"], json!(false));
    let fetched = text(&gateway, "/b/1");
    assert_ne!(fetched, stored, "from the origin");
    controller.restart();
    await_ready(&gateway);
    assert_eq!(text(&gateway, "/b/1"), fetched);
}

#[test]
fn a_gateway_with_etcd_serves_nothing_from_disk_that_it_may_have_missed() {
    let (origin, etcd) = (origin(), Etcd::start(1));
    let routes = Value::from(vec![route(&origin)]);
    let yaml = format!("etcd: {{endpoints: {}}}\nroutes: {routes}\n", etcd.endpoints());
    let other = Gateway::start(&yaml);
    let mut gateway = Gateway::start(&format!("{yaml}{DISK}"));
    stopped_gateway(&mut gateway, &other);
}

#[test]
fn a_gateway_without_shared_purges_starts_warm_however_old_its_disk_is() {
    let origin = origin();
    let routes = Value::from(vec![route(&origin)]);
    let mut gateway = Gateway::start(&format!("routes: {routes}\n{DISK}"));
    assert_eq!(text(&gateway, "/a/1"), "1");
    eventually("the write", || {
        disk(&gateway)["objects"] == json!(1) && disk(&gateway)["waiting_bytes"] == json!(0)
    });
    assert!(!gateway.directory().join("cache/confirmed").exists());
    gateway.kill_and_restart();
    await_ready(&gateway);
    assert_eq!(text(&gateway, "/a/1"), "1");
}

//! One purge at a controller for all of its gateways.

use std::process::Command;

use serde_json::{Value, json};
use tollgate_tests::{Etcd, Gateway, Origin, Signal, api, binary, eventually, tollgate};

use super::{answering, digits, get, numbered};
use crate::fleet::{Fleet, connection_of, fleet_of};

/// The route that the gateways get.
fn route(origin: &Origin) -> Value {
    json!({ "name": "r", "match": "/*", "to": origin.address().to_string(), "policies": { "cache": true } })
}

/// Starts a controller with these further keys of its section and its file.
fn controller(fleet: &Fleet, origin: &Origin, section: &str, file: &str) -> Gateway {
    let routes = Value::from(vec![route(origin)]);
    Gateway::start(&format!("{}routes: {routes}\n{file}\n", fleet.section_with(section)))
}

fn gateways(fleet: &Fleet, controller: &Gateway) -> [Gateway; 3] {
    let gateways = ["g-1", "g-2", "g-3"].map(|name| Gateway::start(&fleet.gateway(name)));
    await_connected(controller, 3);
    gateways
}

/// Waits until this many gateways are connected and have carried out all purges.
fn await_connected(controller: &Gateway, count: usize) {
    eventually("the gateways", || {
        let told = fleet_of(controller);
        let all = told["gateways"].as_array().cloned().unwrap_or_default();
        let current = all.iter().filter(|one| one["connected"] == true && one["purges_behind"] == 0);
        current.count() == count
    });
}

fn purge(controller: &Gateway, body: &Value) -> (u16, Value) {
    let response = api::call(controller, "POST", "/cache/purge", api::JSON, &body.to_string());
    (response.status, api::json_of(&response))
}

fn text(gateway: &Gateway, target: &str) -> String {
    get(gateway, target, "").text()
}

#[test]
fn one_purge_reaches_every_gateway_before_it_is_answered() {
    let origin = answering(|number, request| {
        let tag = if request.target.starts_with("/a") { "letters" } else { "others" };
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nCache-Tag: {tag}\r\nETag: \"x\"\r\n");
        format!("{head}Content-Length: {}\r\n\r\n{number}", digits(number))
    });
    let fleet = Fleet::new();
    let controller = controller(&fleet, &origin, "", "");
    let gateways = gateways(&fleet, &controller);
    let all = |target: &str| gateways.each_ref().map(|gateway| text(gateway, target));
    let (mut a, mut b) = (all("/a"), all("/b"));
    assert_eq!((all("/a"), all("/b")), (a.clone(), b.clone()));
    for (number, (body, changes_a, changes_b)) in [
        (json!({ "key": "http://a.example/a" }), true, false),
        (json!({ "prefix": "http://a.example/b" }), false, true),
        (json!({ "tag": "letters" }), true, false),
        (json!({ "all": true }), true, true),
        (json!({ "key": "http://a.example/none" }), false, false),
    ]
    .into_iter()
    .enumerate()
    {
        let purged = 3 * (usize::from(changes_a) + usize::from(changes_b));
        let expected = json!({
            "purged": purged, "version": number + 1, "gateways": 3, "acknowledged": 3, "durable": false,
        });
        assert_eq!(purge(&controller, &body), (200, expected), "{body}");
        for (target, before, changes) in [("/a", &mut a, changes_a), ("/b", &mut b, changes_b)] {
            let now = all(target);
            assert!(now.iter().zip(&*before).all(|(now, old)| (now != old) == changes), "{body}: {target}");
            *before = now;
        }
    }
    // A soft purge validates: the origin sends another body, so it is replaced.
    let count = origin.count();
    assert_eq!(purge(&controller, &json!({ "tag": "others", "soft": true })).1["purged"], json!(3));
    all("/b");
    assert_eq!(origin.count(), count + 3);
    // The same with the command line.
    let ran = Command::new(binary())
        .args(["cache", "purge", "--all"])
        .env("TOLLGATE_ADMIN", controller.admin_address().to_string())
        .output()
        .expect("tollgate runs");
    let out = String::from_utf8(ran.stdout).expect("text");
    assert!(out.contains("acknowledged: 3\n") && out.contains("purged: 6\n"), "{out}");
    // The controller, the gateways and the metrics agree.
    let told = fleet_of(&controller);
    assert_eq!(told["purges"], json!({ "last": 7, "kept": 7, "acknowledged": 3 }), "{told}");
    assert_eq!(told["gateways"][1]["purge"], json!(7), "{told}");
    assert_eq!(connection_of(&gateways[0])["purge"], json!(7));
    let shown = tollgate(&["controller", "status", "--admin", &controller.admin_address().to_string()]);
    assert!(shown.out.contains("purge 7, carried out by 3 of 3 connected gateways"), "{}", shown.all());
    eventually("the metrics", || {
        controller.metrics().sum("tollgate_fleet_purges_total", "") == Some(7.0)
            && controller.metrics().sum("tollgate_fleet_gateways_behind_purges", "") == Some(0.0)
            && gateways[2].metrics().sum("tollgate_controller_purge", "") == Some(7.0)
    });
    // An invalid purge is refused, and reaches no gateway.
    assert_eq!(purge(&controller, &json!({ "tags": "x" })).0, 400);
    assert_eq!(fleet_of(&controller)["purges"]["last"], json!(7));
}

/// Stops a gateway's process until the controller has dropped its connection.
fn hang(controller: &Gateway, gateway: &Gateway, name: &str) {
    gateway.signal(Signal::STOP);
    eventually("the silence of the gateway", || {
        let told = fleet_of(controller);
        let all = told["gateways"].as_array().cloned().unwrap_or_default();
        all.iter().any(|one| one["name"] == name && one["connected"] == false)
    });
}

#[test]
fn a_gateway_that_was_away_makes_up_for_purges_even_after_a_restart_of_the_controller() {
    let origin = numbered("Cache-Control: max-age=600\r\n");
    let fleet = Fleet::new();
    let mut controller = controller(&fleet, &origin, "purges: purges.json,", "");
    let [near, far, third] = gateways(&fleet, &controller);
    assert_eq!([text(&near, "/"), text(&far, "/"), text(&far, "/kept")], ["1", "2", "3"]);
    hang(&controller, &far, "g-2");
    let (status, result) = purge(&controller, &json!({ "key": "http://a.example/" }));
    let expected = json!({ "purged": 1, "version": 1, "gateways": 2, "acknowledged": 2, "durable": true });
    assert_eq!((status, result), (200, expected));
    assert_eq!(text(&near, "/"), "4");
    drop(third);
    // The purge was answered with success, so a restart does not lose it.
    controller.kill();
    controller.restart();
    far.signal(Signal::CONT);
    eventually("the purge that it missed", || text(&far, "/") != "2");
    assert_eq!(text(&far, "/kept"), "3", "nothing else was missed");
    assert_eq!(text(&near, "/"), "4", "it has carried out the purge before");
    await_connected(&controller, 2);
    assert_eq!(purge(&controller, &json!({ "all": true })).1["version"], json!(2), "the numbers go on");
    assert_eq!(fleet_of(&controller)["purges"]["acknowledged"], json!(2));
}

#[test]
fn a_restart_of_a_controller_without_a_file_empties_no_cache() {
    let origin = numbered("Cache-Control: max-age=600\r\n");
    let fleet = Fleet::new();
    let mut controller = controller(&fleet, &origin, "", "");
    let gateways = gateways(&fleet, &controller);
    assert_eq!(gateways.each_ref().map(|gateway| text(gateway, "/")), ["1", "2", "3"]);
    purge(&controller, &json!({ "tag": "none" }));
    controller.kill();
    controller.restart();
    await_connected(&controller, 3);
    assert_eq!(gateways.each_ref().map(|gateway| text(gateway, "/")), ["1", "2", "3"]);
    let (status, result) = purge(&controller, &json!({ "all": true }));
    assert_eq!(
        (status, &result["acknowledged"], &result["version"]),
        (200, &json!(3), &json!(1)),
        "{result}"
    );
    assert_eq!(text(&gateways[0], "/"), "4");
}

#[test]
fn a_purge_that_cannot_be_kept_is_an_error_and_reaches_connected_gateways() {
    let origin = numbered("Cache-Control: max-age=600\r\n");
    let fleet = Fleet::new();
    let directory = std::env::temp_dir().join(format!("tollgate-purges-{}", fleet.port()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("purges.json");
    let controller = controller(&fleet, &origin, &format!("purges: \"{}\",", file.display()), "");
    let gateway = Gateway::start(&fleet.gateway("g-1"));
    await_connected(&controller, 1);
    assert_eq!(text(&gateway, "/"), "1");
    std::fs::remove_dir_all(&directory).expect("removed");
    let (status, refusal) = purge(&controller, &json!({ "all": true }));
    let message = refusal["message"].as_str().unwrap_or_default();
    assert!(status == 503 && message.contains("connected gateways were purged: 1 of 1"), "{refusal}");
    assert_eq!(text(&gateway, "/"), "2");
}

#[test]
fn controllers_that_share_an_etcd_share_purges() {
    let origin = numbered("Cache-Control: max-age=600\r\n");
    let etcd = Etcd::start(1);
    let (fleet, other) = (Fleet::new(), Fleet::new());
    let file = format!("etcd: {{endpoints: {}}}", etcd.endpoints());
    let controllers = [&fleet, &other].map(|fleet| controller(fleet, &origin, "", &file));
    let gateways = gateways(&fleet, &controllers[0]);
    let far = Gateway::start(&other.gateway("far"));
    await_connected(&controllers[1], 1);
    assert_eq!([text(&gateways[0], "/"), text(&far, "/")], ["1", "2"]);
    let (status, result) = purge(&controllers[0], &json!({ "all": true }));
    assert_eq!(
        (status, &result["acknowledged"], &result["durable"]),
        (200, &json!(3), &json!(true)),
        "{result}"
    );
    assert_eq!(text(&gateways[0], "/"), "3");
    eventually("the purge at the other controller", || text(&far, "/") != "2");
}

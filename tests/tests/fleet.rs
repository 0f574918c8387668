//! A controller and its gateways.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_tests::api::{call, json_of, put};
use tollgate_tests::{Authority, Etcd, Gateway, Issued, Signal, TlsPeer, eventually, free_address, tollgate};

/// The name in the controller's certificate.
const CONTROLLER: &str = "controller.test";

/// The certificates of a fleet.
pub(crate) struct Fleet {
    authority: Authority,
    controller: Issued,
    address: SocketAddr,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let authority = Authority::new();
        let controller = authority.issue(&[CONTROLLER]);
        Self { authority, controller, address: free_address() }
    }

    /// Returns the keys for a side with a certificate. JSON texts are YAML, too.
    fn keys(&self, issued: &Issued) -> String {
        let text = |pem: &str| Value::from(pem);
        format!(
            "ca: {}, certificate: {}, key: {}",
            text(&self.authority.pem()),
            text(&issued.chain),
            text(&issued.key)
        )
    }

    /// Returns the section of the controller.
    pub(crate) fn section(&self) -> String {
        self.section_with("")
    }

    /// Returns the section with further keys, each followed by a comma.
    pub(crate) fn section_with(&self, keys: &str) -> String {
        format!("fleet: {{{keys} listen: \"{}\", {}}}\n", self.address, self.keys(&self.controller))
    }

    /// Returns the port of the controller, which no other test uses.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the config of a gateway.
    pub(crate) fn gateway(&self, name: &str) -> String {
        let keys = self.keys(&self.authority.issue(&[name]));
        format!(
            "controller: {{endpoints: \"https://{}\", server_name: {CONTROLLER}, name: {name}, cache: $DIR/state.json, {keys}}}\n",
            self.address
        )
    }
}

/// Returns the controller's report of its gateways.
pub(crate) fn fleet_of(controller: &Gateway) -> Value {
    json_of(&call(controller, "GET", "/fleet", "", ""))
}

/// Returns a gateway's report of its controller.
pub(crate) fn connection_of(gateway: &Gateway) -> Value {
    json_of(&call(gateway, "GET", "/controller", "", ""))
}

fn serves(gateway: &Gateway, path: &str, text: &str) -> bool {
    let response = gateway.client().get(path);
    response.status == 200 && response.text() == text
}

/// Writes the controller's file with a route for each text, and loads it.
fn write_routes(controller: &Gateway, fleet: &Fleet, routes: &[(&str, &str)]) {
    controller.write_config(&with_routes(fleet, routes));
    controller.signal(Signal::HUP);
}

fn with_routes(fleet: &Fleet, routes: &[(&str, &str)]) -> String {
    let routes: Vec<_> = routes
        .iter()
        .map(|(name, text)| json!({ "name": name, "match": format!("/{name}"), "respond": text }))
        .collect();
    format!("{}routes: {}\n", fleet.section(), Value::from(routes))
}

#[test]
fn a_change_reaches_every_gateway_and_they_outlive_the_controller() {
    let fleet = Fleet::new();
    let mut controller = Gateway::start(&with_routes(&fleet, &[("a", "one")]));
    let mut gateways: Vec<Gateway> =
        ["g-1", "g-2", "g-3"].iter().map(|name| Gateway::start(&fleet.gateway(name))).collect();
    for gateway in &gateways {
        assert!(serves(gateway, "/a", "one"), "from the start");
        let route = call(gateway, "GET", "/routes/a", "", "");
        assert_eq!(route.headers.get("tollgate-source"), Some("controller"), "{route:?}");
    }
    write_routes(&controller, &fleet, &[("a", "two"), ("b", "new")]);
    for gateway in &gateways {
        eventually("the change", || serves(gateway, "/a", "two") && serves(gateway, "/b", "new"));
    }
    // The controller knows what each gateway serves.
    eventually("three current gateways", || {
        let told = fleet_of(&controller);
        let all = told["gateways"].as_array().cloned().unwrap_or_default();
        all.len() == 3 && all.iter().all(|one| one["versions_behind"] == 0 && one["connected"] == true)
    });
    let told = fleet_of(&controller);
    assert_eq!(told["documents"], 2, "{told}");
    assert_eq!(told["gateways"][1]["name"], "g-2", "{told}");
    assert_eq!(told["gateways"][1]["version"], told["position"]["version"], "{told}");
    let admin = controller.admin_address().to_string();
    let shown = tollgate(&["controller", "status", "--admin", &admin]);
    assert!(shown.out.contains("2 documents") && shown.out.contains("g-3   current"), "{}", shown.all());
    eventually("the metrics", || {
        controller.metrics().sum("tollgate_fleet_gateways", "") == Some(3.0)
            && gateways[0].metrics().sum("tollgate_controller_connected", "") == Some(1.0)
    });
    let sent = |told: &Value| told["gateways"][0]["sent_bytes"].as_u64().expect("a number");
    let sent_before = sent(&fleet_of(&controller));

    controller.kill();
    for gateway in &gateways {
        eventually("the loss", || connection_of(gateway)["connected"] == false);
        assert!(serves(gateway, "/b", "new"));
    }
    // A gateway that starts without a controller serves its last good state.
    eventually("the state on the disk", || {
        fs::read_to_string(gateways[2].directory().join("state.json")).is_ok_and(|text| text.contains("new"))
    });
    gateways[2].kill_and_restart();
    assert!(serves(&gateways[2], "/a", "two") && serves(&gateways[2], "/b", "new"));
    assert_eq!(connection_of(&gateways[2])["cached"], true);

    controller.restart();
    for gateway in &gateways {
        eventually("the controller", || connection_of(gateway)["connected"] == true);
        assert!(serves(gateway, "/b", "new"));
    }
    eventually("three gateways again", || {
        let told = fleet_of(&controller);
        let all = told["gateways"].as_array().cloned().unwrap_or_default();
        all.len() == 3 && all.iter().all(|one| one["versions_behind"] == 0)
    });
    // The gateways had these documents, so the new controller sent none of them.
    let resumed = fleet_of(&controller);
    assert!(sent(&resumed) < 400 && sent(&resumed) < sent_before, "{resumed}");
    write_routes(&controller, &fleet, &[("a", "three")]);
    for gateway in &gateways {
        eventually("a change after the restart", || serves(gateway, "/a", "three"));
        eventually("a removal", || gateway.client().get("/b").status == 404);
    }
}

#[test]
fn what_is_not_valid_stays_with_the_controller() {
    let fleet = Fleet::new();
    let controller = Gateway::start(&with_routes(&fleet, &[("a", "one")]));
    let gateways = [Gateway::start(&fleet.gateway("g-1")), Gateway::start(&fleet.gateway("g-2"))];
    controller.write_config(&format!("{}routes: [{{name: a, match: /a, to: nowhere}}]\n", fleet.section()));
    controller.signal(Signal::HUP);
    eventually("the error", || {
        fleet_of(&controller)["problem"].as_str().is_some_and(|why| why.contains("nowhere"))
    });
    let shown = tollgate(&["controller", "status", "--admin", &controller.admin_address().to_string()]);
    assert!(shown.out.contains("the file is not in force"), "{}", shown.all());
    for gateway in &gateways {
        assert!(serves(gateway, "/a", "one"), "the last good plan");
    }
    write_routes(&controller, &fleet, &[("a", "two")]);
    gateways.iter().for_each(|gateway| eventually("the next one", || serves(gateway, "/a", "two")));
    // The gateways may serve the documents before the controller has reported its file as loaded.
    eventually("no problem", || fleet_of(&controller)["problem"].is_null());
}

#[test]
fn a_document_that_one_gateway_refuses_is_reported_with_its_name() {
    let fleet = Fleet::new();
    let controller = Gateway::start(&with_routes(&fleet, &[("a", "one")]));
    let good = Gateway::start(&fleet.gateway("good"));
    // The file of this gateway has a route of its own with that name.
    let own = "routes: [{name: b, match: /own, respond: own}]\n";
    let other = Gateway::start(&format!("{}{own}", fleet.gateway("other")));
    write_routes(&controller, &fleet, &[("a", "two"), ("b", "new")]);
    eventually("the change", || serves(&good, "/b", "new") && serves(&other, "/a", "two"));
    eventually("the refusal", || fleet_of(&controller)["gateways"][1]["refused_count"] == 1);
    let told = fleet_of(&controller);
    assert_eq!(told["gateways"][1]["refused"][0]["resource"], "routes/b", "{told}");
    assert!(serves(&other, "/own", "own") && other.client().get("/b").status == 404);
    let refused = connection_of(&other);
    assert!(refused["refused"][0]["problem"].as_str().is_some_and(|why| why.contains("route")), "{refused}");
    // Once the document is valid, the gateway applies it without another change.
    other.write_config(&fleet.gateway("other"));
    other.signal(Signal::HUP);
    eventually("the document", || serves(&other, "/b", "new"));
    eventually("no refusal", || fleet_of(&controller)["gateways"][1]["refused_count"] == 0);
}

#[test]
fn a_client_without_a_certificate_of_the_fleet_gets_nothing() {
    let fleet = Fleet::new();
    let controller = Gateway::start(&with_routes(&fleet, &[("a", "secret")]));
    let rejected = || fleet_of(&controller)["rejected_connections"].as_u64().expect("a number");
    // Without a certificate, and with one of another authority.
    let before = rejected();
    let stranger = Authority::new();
    let identity = stranger.issue(&["g-1"]);
    for (number, client) in [None, Some(&identity)].into_iter().enumerate() {
        let error = say_hello(&fleet, client).expect_err("nothing is answered").to_string();
        assert!(error.contains("alert"), "{error}");
        eventually("the rejection", || rejected() > before + number as u64);
    }
    // A gateway with such a certificate does not start, and says why.
    let directory = controller.directory().join("wrong");
    fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("tollgate.yaml");
    let keys = format!(
        "ca: {}, certificate: {}, key: {}",
        Value::from(fleet.authority.pem()),
        Value::from(identity.chain.as_str()),
        Value::from(identity.key.as_str())
    );
    let yaml = format!(
        "listen: {}\nadmin: off\ncontroller: {{endpoints: \"https://{}\", server_name: {CONTROLLER}, {keys}}}\n",
        free_address(),
        fleet.address
    );
    fs::write(&file, yaml).expect("written");
    let ran = tollgate(&["run", &file.to_string_lossy()]);
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(ran.err.contains("controller") && ran.err.contains("alert"), "{}", ran.all());
    // A gateway that does not know the controller's authority sends nothing, either.
    let wrong = Fleet { authority: stranger, controller: fleet.controller.clone(), address: fleet.address };
    let yaml = wrong.gateway("g-2").replace("$DIR", &directory.to_string_lossy());
    fs::write(&file, format!("listen: {}\nadmin: off\n{yaml}", free_address())).expect("written");
    let ran = tollgate(&["run", &file.to_string_lossy()]);
    assert!(ran.code == Some(1) && ran.err.contains("invalid peer certificate"), "{}", ran.all());
    assert_eq!(fleet_of(&controller)["gateways"].as_array().map(Vec::len), Some(0));
}

/// Introduces itself as a gateway, and waits for an answer. In TLS 1.3 a client learns only then that its certificate
/// is refused.
fn say_hello(fleet: &Fleet, identity: Option<&Issued>) -> std::io::Result<String> {
    let peer = match identity {
        Some(identity) => TlsPeer::showing(&fleet.authority, identity),
        None => TlsPeer::trusting(&fleet.authority),
    };
    let mut client = peer.offering(&["tollgate-fleet/1"]).connect(fleet.address, CONTROLLER)?;
    let hello = json!({ "hello": { "name": "x", "program": "x", "position": null } });
    let records = client.sealed(format!("{hello}\n").as_bytes());
    client.socket().write_all(&records)?;
    client.answer()
}

#[test]
fn the_controller_takes_its_documents_from_etcd() {
    let fleet = Fleet::new();
    let etcd = Etcd::start(1);
    etcd.put("routes/a", &json!({ "match": "/a", "respond": "one" }).to_string());
    let yaml = format!("{}etcd: {{endpoints: {}}}\n", fleet.section(), etcd.endpoints());
    let controller = Gateway::start(&yaml);
    let gateways = [Gateway::start(&fleet.gateway("g-1")), Gateway::start(&fleet.gateway("g-2"))];
    assert!(gateways.iter().all(|gateway| serves(gateway, "/a", "one")));
    etcd.put("routes/a", &json!({ "match": "/a", "respond": "two" }).to_string());
    etcd.put("routes/bad", &json!({ "match": "/bad", "to": "nowhere" }).to_string());
    gateways.iter().for_each(|gateway| eventually("the change", || serves(gateway, "/a", "two")));
    let refused = || json_of(&call(&controller, "GET", "/etcd", "", ""))["refused"][0]["resource"].clone();
    eventually("the refusal", || refused() == "routes/bad");
    etcd.delete("routes/a");
    gateways
        .iter()
        .for_each(|gateway| eventually("the removal", || gateway.client().get("/a").status == 404));
}

#[test]
fn a_change_over_the_api_of_the_controller_is_in_force_when_it_is_answered() {
    let fleet = Fleet::new();
    let controller = Gateway::start(&format!("{}store: $DIR/store\n", fleet.section()));
    let gateways: Vec<Gateway> =
        ["g-1", "g-2", "g-3"].iter().map(|name| Gateway::start(&fleet.gateway(name))).collect();
    eventually("the gateways", || {
        let told = fleet_of(&controller);
        told["gateways"]
            .as_array()
            .is_some_and(|all| all.iter().filter(|one| one["versions_behind"] == 0).count() == 3)
    });
    for number in 0..20 {
        let answer = put(&controller, "/routes/a", &json!({ "match": "/a", "respond": format!("{number}") }));
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        for gateway in &gateways {
            assert!(serves(gateway, "/a", &number.to_string()), "change {number}");
        }
    }
    // The documents of a controller cannot be changed over a gateway's API.
    assert_eq!(put(&gateways[0], "/routes/a", &json!({ "match": "/a", "respond": "x" })).status, 409);
}

#[test]
fn a_controller_that_hangs_is_left_and_slow_gateways_delay_no_other() {
    let fleet = Fleet::new();
    let controller = Gateway::start(&with_routes(&fleet, &[("a", "one")]));
    let gateway = Gateway::start(&fleet.gateway("g-1"));
    let stopped = Gateway::start(&fleet.gateway("stopped"));
    eventually("both", || fleet_of(&controller)["gateways"].as_array().is_some_and(|all| all.len() == 2));
    // A gateway that does not read delays no other one, and the controller finally drops its connection.
    stopped.signal(Signal::STOP);
    let begun = Instant::now();
    for number in 0..5 {
        let text = number.to_string();
        write_routes(&controller, &fleet, &[("a", &text)]);
        eventually("the change", || serves(&gateway, "/a", &text));
    }
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    eventually("the gateway that is silent", || {
        let told = fleet_of(&controller);
        let problem = &told["gateways"][1]["problem"];
        problem.as_str().is_some_and(|why| why.contains("nothing arrived"))
    });
    stopped.signal(Signal::CONT);
    eventually("the present state", || serves(&stopped, "/a", "4"));
    // A controller that hangs keeps its connections open, but the gateway leaves it.
    controller.signal(Signal::STOP);
    eventually("the loss", || connection_of(&gateway)["connected"] == false);
    assert!(serves(&gateway, "/a", "4"));
    controller.signal(Signal::CONT);
    eventually("the controller", || connection_of(&gateway)["connected"] == true);
}

#[test]
fn a_file_for_one_command_is_refused_by_the_other() {
    let fleet = Fleet::new();
    let directory = std::env::temp_dir().join(format!("tollgate-fleet-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("tollgate.yaml");
    fs::write(&file, with_routes(&fleet, &[("a", "one")])).expect("written");
    let ran = tollgate(&["run", &file.to_string_lossy()]);
    assert!(ran.code == Some(1) && ran.err.contains("`tollgate controller`"), "{}", ran.all());
    fs::write(&file, "routes: [{match: /, respond: x}]\nlisten: 127.0.0.1:0\n").expect("written");
    let ran = tollgate(&["controller", &file.to_string_lossy()]);
    assert!(ran.code == Some(1) && ran.err.contains("`fleet`"), "{}", ran.all());
    fs::remove_dir_all(&directory).expect("removed");
}

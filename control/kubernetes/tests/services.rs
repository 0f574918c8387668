//! The Services of Gateways: their ports in the pod, their addresses, their labels; and Services outside the cluster.

use serde_json::{Value, json};
use tollgate_kubernetes::{
    AddressBlock, AddressPool, Kind, ObjectName, Objects, RawObject, Reference, ServiceKind, ServiceSettings,
    TranslationSettings, Translator,
};

const WORLD: &str = r#"
kind: GatewayClass
metadata: {name: tollgate}
spec: {controllerName: tollgate.dev/gateway}
---
kind: Gateway
metadata: {name: one, namespace: demo, uid: u-1}
spec:
  gatewayClassName: tollgate
  infrastructure: {labels: {team: shop}, annotations: {example.com/lb: internal}}
  listeners:
    - {name: http, port: 80, protocol: HTTP}
    - {name: dns, port: 53, protocol: UDP}
    - {name: odd, port: 99, protocol: ODD}
---
kind: Gateway
metadata: {name: two, namespace: demo, uid: u-2}
spec:
  gatewayClassName: tollgate
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
kind: EndpointSlice
metadata: {name: pods-1, namespace: tollgate, labels: {kubernetes.io/service-name: pods}}
addressType: IPv4
ports: []
endpoints:
  - {addresses: [10.0.0.1], nodeName: node-1, conditions: {ready: true}}
  - {addresses: [10.0.0.2], conditions: {ready: false, serving: true, terminating: true}}
"#;

fn objects(text: &str) -> Objects {
    let mut all = Objects::default();
    add(&mut all, text);
    all
}

fn add(all: &mut Objects, text: &str) {
    let values: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    for value in values {
        let kind = value["kind"].as_str().and_then(Kind::by_name).expect("a kind");
        all.put(kind, serde_json::from_value::<RawObject>(value).expect("an object"));
    }
}

fn translator(kind: Option<ServiceKind>, external_names: bool) -> Translator {
    let block = AddressBlock { first: "192.0.2.7".parse().expect("an address"), prefix: 32 };
    let pods = ObjectName::new("tollgate", "pods");
    Translator::new(TranslationSettings {
        controller: "tollgate.dev/gateway".to_owned(),
        addresses: AddressPool::new(vec![block]),
        services: kind.map(|kind| ServiceSettings { kind, pods }),
        publish_service: None,
        default_certificate: None,
        external_names,
    })
}

fn reference(kind: Kind, name: &str) -> Reference {
    Reference { kind, name: ObjectName::new("demo", name) }
}

/// Takes in what changed, and returns the status of a Gateway.
fn status(translator: &mut Translator, objects: &mut Objects, gateway: &str) -> Value {
    let changes = objects.take_changes();
    let _ = translator.update(objects, &changes);
    translator.translation().statuses[&reference(Kind::Gateway, gateway)].clone()
}

fn programmed(status: &Value) -> (&str, &str) {
    let one = status["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "Programmed");
    let one = one.expect("a condition");
    (one["status"].as_str().unwrap_or_default(), one["reason"].as_str().unwrap_or_default())
}

#[test]
fn gateways_share_an_address_with_ports_of_their_own() {
    let mut objects = objects(WORLD);
    let mut translator = translator(Some(ServiceKind::LoadBalancer), false);
    let before = status(&mut translator, &mut objects, "one");
    assert_eq!(programmed(&before), ("False", "AddressNotAssigned"));
    let service = translator.applied()[&reference(Kind::Service, "one-tollgate")].clone();
    let ports = service["spec"]["ports"].as_array().expect("ports").clone();
    // The listener of an unknown protocol serves nothing.
    let shown: Vec<_> = ports.iter().map(|port| (&port["name"], &port["port"], &port["protocol"])).collect();
    let expected = [("udp-53", 53, "UDP"), ("tcp-80", 80, "TCP")]
        .map(|(name, port, protocol)| (json!(name), json!(port), json!(protocol)));
    assert_eq!(shown, expected.iter().map(|(a, b, c)| (a, b, c)).collect::<Vec<_>>());
    let meta = &service["metadata"];
    assert_eq!(meta["labels"]["team"], "shop");
    assert_eq!(meta["labels"]["gateway.networking.k8s.io/gateway-name"], "one");
    assert_eq!(meta["annotations"]["example.com/lb"], "internal");
    assert_eq!(meta["ownerReferences"][0]["uid"], "u-1");
    let two = &translator.applied()[&reference(Kind::Service, "two-tollgate")];
    let (one_target, two_target) = (&ports[1]["targetPort"], &two["spec"]["ports"][0]["targetPort"]);
    assert_ne!(one_target, two_target);
    // The listener binds the port of the pod.
    let bind = |name: &str| {
        let documents = translator.translation().documents;
        let (_, document) = documents.into_iter().find(|(key, _)| key.name == name).expect("a listener");
        document.content.value()["bind"].clone()
    };
    assert_eq!(bind("demo_one_http"), json!(format!("192.0.2.7:{one_target}")));
    assert_eq!(bind("demo_two_http"), json!(format!("192.0.2.7:{two_target}")));
    let slice = &translator.applied()[&reference(Kind::EndpointSlice, "one-tollgate-ipv4")];
    assert_eq!(slice["endpoints"][0]["nodeName"], "node-1");
    assert_eq!(slice["endpoints"][1]["conditions"]["terminating"], true);
    assert_eq!(slice["ports"][1], json!({"name": "tcp-80", "port": one_target, "protocol": "TCP"}));
}

#[test]
fn ports_and_addresses_come_from_the_service_that_exists() {
    let mut objects = objects(WORLD);
    let mut translator = translator(Some(ServiceKind::LoadBalancer), false);
    let _ = status(&mut translator, &mut objects, "one");
    let service = r#"
kind: Service
metadata: {name: one-tollgate, namespace: demo, labels: {gateway.networking.k8s.io/gateway-name: one}}
spec: {type: LoadBalancer, ports: [{name: tcp-80, port: 80, targetPort: 23456, protocol: TCP}]}
status: {loadBalancer: {ingress: [{ip: 198.51.100.7}, {hostname: lb.example}]}}
"#;
    add(&mut objects, service);
    let one = status(&mut translator, &mut objects, "one");
    assert_eq!(programmed(&one), ("True", "Programmed"));
    assert_eq!(
        one["addresses"],
        json!([{"type": "IPAddress", "value": "198.51.100.7"}, {"type": "Hostname", "value": "lb.example"}])
    );
    let ports = &translator.applied()[&reference(Kind::Service, "one-tollgate")]["spec"]["ports"];
    assert_eq!(ports[1]["targetPort"], 23456);
    // A change of the status alone brings the new address.
    add(&mut objects, &service.replace("198.51.100.7", "198.51.100.8"));
    let one = status(&mut translator, &mut objects, "one");
    assert_eq!(one["addresses"][0]["value"], "198.51.100.8");
}

#[test]
fn a_service_of_another_maker_gives_no_address() {
    let mut objects = objects(WORLD);
    let mut translator = translator(Some(ServiceKind::ClusterIp), false);
    let foreign = "
kind: Service
metadata: {name: one-tollgate, namespace: demo}
spec: {clusterIPs: [10.96.0.9], ports: [{port: 80, targetPort: 80}]}
";
    add(&mut objects, foreign);
    let one = status(&mut translator, &mut objects, "one");
    assert_eq!((programmed(&one).1, &one["addresses"]), ("AddressNotAssigned", &json!([])));
}

#[test]
fn a_headless_service_names_the_address_of_the_gateway() {
    let mut objects = objects(WORLD);
    let mut translator = translator(Some(ServiceKind::Headless), false);
    let one = status(&mut translator, &mut objects, "one");
    assert_eq!(one["addresses"][0]["value"], "192.0.2.7");
    let service = &translator.applied()[&reference(Kind::Service, "one-tollgate")]["spec"];
    assert_eq!((&service["clusterIP"], &service["ports"][1]["targetPort"]), (&json!("None"), &json!(80)));
    let slice = &translator.applied()[&reference(Kind::EndpointSlice, "one-tollgate-ipv4")];
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["192.0.2.7"]));
}

#[test]
fn a_gateway_without_an_address_has_its_service_removed_with_its_listeners() {
    let mut objects = objects(WORLD);
    let mut translator = translator(Some(ServiceKind::ClusterIp), false);
    let _ = status(&mut translator, &mut objects, "one");
    objects.remove(Kind::Gateway, &ObjectName::new("demo", "two"));
    let _ = status(&mut translator, &mut objects, "one");
    assert!(translator.applied().keys().all(|object| object.name.name.starts_with("one-")));
}

#[test]
fn an_external_name_is_a_host_if_it_is_permitted() {
    let outside = "
kind: Service
metadata: {name: outside, namespace: demo}
spec: {type: ExternalName, externalName: api.example.com}
---
kind: HTTPRoute
metadata: {name: r, namespace: demo}
spec: {parentRefs: [{name: one}], rules: [{backendRefs: [{name: outside, port: 8443}]}]}
";
    let key = tollgate_documents::DocumentKey { kind: "upstreams", name: "demo_outside_8443".to_owned() };
    for permitted in [false, true] {
        let mut objects = objects(WORLD);
        add(&mut objects, outside);
        let mut translator = translator(None, permitted);
        let _ = status(&mut translator, &mut objects, "one");
        let route = translator.translation().statuses[&reference(Kind::HttpRoute, "r")].clone();
        let resolved = &route["parents"][0]["conditions"][1];
        assert_eq!(resolved["status"], if permitted { "True" } else { "False" }, "{route}");
        let endpoints = translator.document(&key).map(|document| document.value()["endpoints"].clone());
        assert_eq!(endpoints, permitted.then(|| json!([{"address": "api.example.com:8443"}])));
        // Another host makes the upstream again.
        add(&mut objects, &outside.replace("api.example", "other.example"));
        let _ = status(&mut translator, &mut objects, "one");
        let endpoints = translator.document(&key).map(|document| document.value()["endpoints"].clone());
        assert_eq!(endpoints, permitted.then(|| json!([{"address": "other.example.com:8443"}])));
    }
}

//! Objects of Kubernetes: any JSON texts become documents and conditions. An object that cannot be parsed is reported
//! and hides no other object. An incremental translation equals a complete one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tollgate_kubernetes::{
    AddressBlock, AddressPool, Changes, Compact, Kind, Objects, RawObject, Reference, Translation,
    TranslationSettings, Translator, translate,
};

const CONTROLLER: &str = "tollgate.dev/gateway";

fuzz_target!(|bytes: &[u8]| {
    let settings = TranslationSettings {
        controller: CONTROLLER.to_owned(),
        addresses: AddressPool::new(vec![AddressBlock { first: [192, 0, 2, 0].into(), prefix: 28 }]),
        services: None,
        publish_service: None,
        default_certificate: None,
        external_names: true,
    };
    let mut objects = Objects::default();
    for object in surroundings() {
        put(&mut objects, object);
    }
    let given: Vec<Value> =
        serde_json::Deserializer::from_slice(bytes).into_iter().map_while(Result::ok).take(64).collect();
    let mut translator = Translator::new(settings.clone());
    let _ = translator.start(&objects);
    let _: Changes = objects.take_changes();
    let half = given.len() / 2;
    for (number, object) in given.into_iter().enumerate() {
        put(&mut objects, object);
        if number == half {
            let changes = objects.take_changes();
            let _ = translator.update(&objects, &changes);
            // Until it is written, an address is known to the translator alone.
            write_addresses(&mut objects, &translator.translation());
        }
    }
    let changes = objects.take_changes();
    let _ = translator.update(&objects, &changes);
    write_addresses(&mut objects, &translator.translation());
    let whole = translate(&objects, &settings);
    assert_eq!(translator.translation(), whole);

    for (object, status) in &whole.statuses {
        check_status(object, status);
    }
    for (key, document) in &whole.documents {
        assert!(document.content.value().is_object(), "{key:?}: {}", document.content.text());
        assert!(!document.owners.is_empty(), "no object reports it if {key:?} is refused");
    }
    // Every Gateway of an accepted class has a status, whatever its contents.
    let is_accepted = |class: &str| {
        let of_class = |object: &Reference| object.kind == Kind::GatewayClass && *object.name.name == *class;
        whole.statuses.iter().filter(|(object, _)| of_class(object)).any(|(_, status)| {
            items(status, "conditions").any(|it| it["type"] == "Accepted" && it["status"] == "True")
        })
    };
    for (name, gateway) in &objects.gateways {
        if gateway.spec.as_ref().is_ok_and(|spec| is_accepted(&spec.gateway_class_name)) {
            let reference = Reference { kind: Kind::Gateway, name: name.clone() };
            assert!(whole.statuses.contains_key(&reference), "{reference} has no status");
        }
    }
});

/// The objects that let a single route, or a single Gateway, have an effect.
fn surroundings() -> [Value; 5] {
    let metadata = |name: &str| json!({"name": name, "namespace": "a", "generation": 1});
    let listener = json!({"name": "http", "port": 80, "protocol": "HTTP"});
    let labels = json!({"kubernetes.io/service-name": "s"});
    [
        json!({"kind": "GatewayClass", "metadata": {"name": "own"}, "spec": {"controllerName": CONTROLLER}}),
        json!({"kind": "Namespace", "metadata": {"name": "a"}}),
        json!({"kind": "Gateway", "metadata": metadata("g"),
            "spec": {"gatewayClassName": "own", "listeners": [listener]}}),
        json!({"kind": "Service", "metadata": metadata("s"), "spec": {"ports": [{"port": 80}]}}),
        json!({"kind": "EndpointSlice", "metadata": {"name": "s-1", "namespace": "a", "labels": labels},
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 8080}]}),
    ]
}

fn put(objects: &mut Objects, object: Value) {
    let Some(kind) = object.get("kind").and_then(Value::as_str).and_then(Kind::by_name) else { return };
    if let Ok(object) = serde_json::from_value::<RawObject>(object) {
        objects.put(kind, object);
    }
}

fn write_addresses(objects: &mut Objects, translation: &Translation) {
    for (object, status) in &translation.statuses {
        match object.kind {
            Kind::Gateway => {
                if let Some(gateway) = objects.gateways.get_mut(&object.name) {
                    gateway.status = Compact::from(status);
                }
            }
            Kind::Ingress => {
                if let Some(ingress) = objects.ingresses.get_mut(&object.name) {
                    ingress.status = Compact::from(status);
                }
            }
            _ => {}
        }
    }
}

/// Checks that a status says something at each place where a user looks.
fn check_status(object: &Reference, status: &Value) {
    let places: Vec<&Value> = match object.kind {
        Kind::GatewayClass => vec![status],
        Kind::Gateway | Kind::ListenerSet => {
            vec![status].into_iter().chain(items(status, "listeners")).collect()
        }
        Kind::HttpRoute | Kind::GrpcRoute | Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute => {
            items(status, "parents").collect()
        }
        Kind::BackendTlsPolicy | Kind::TollgatePolicy => items(status, "ancestors").collect(),
        _ => return,
    };
    for place in places {
        let mut conditions = items(place, "conditions").peekable();
        assert!(conditions.peek().is_some(), "{object} has no conditions: {status}");
        for condition in conditions {
            let is_set = |field: &str| condition[field].as_str().is_some_and(|text| !text.is_empty());
            assert!(is_set("type") && is_set("reason"), "{object}: {condition}");
            assert!(
                matches!(condition["status"].as_str(), Some("True" | "False" | "Unknown")),
                "{condition}"
            );
        }
    }
}

fn items<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

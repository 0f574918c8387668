//! A translation that follows changes is the same as a translation of all objects.

mod settings;

use serde_json::{Value, json};
use tollgate_kubernetes::{
    Compact, Kind, ObjectName, Objects, RawObject, Translation, Translator, translate,
};

use settings::settings;

/// A small world in which objects often concern each other. The names are few, so that they meet.
struct World {
    random: fastrand::Rng,
    objects: Objects,
    /// The data of a Secret with a certificate.
    certificate: Value,
}

impl World {
    fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let mut world = Self { random, objects: Objects::default(), certificate: certificate() };
        world.put(Kind::GatewayClass, "", "own", json!({"controllerName": "tollgate.dev/gateway"}));
        for namespace in ["a", "b"] {
            world.put(Kind::Namespace, "", namespace, json!({}));
        }
        world
    }

    fn put(&mut self, kind: Kind, namespace: &str, name: &str, spec: Value) {
        self.put_raw(kind, namespace, name, json!({}), json!({ "spec": spec }));
    }

    fn put_raw(&mut self, kind: Kind, namespace: &str, name: &str, labels: Value, mut object: Value) {
        let created = format!("2026-11-27T00:00:0{}Z", self.random.u8(0..3));
        let annotations = object["annotations"].take();
        let annotations = if annotations.is_null() { json!({}) } else { annotations };
        object["metadata"] = json!({
            "namespace": namespace, "name": name, "generation": self.random.u8(1..4), "labels": labels,
            "annotations": annotations, "creationTimestamp": created,
        });
        let object: RawObject = serde_json::from_value(object).expect("an object");
        self.objects.put(kind, object);
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.random.usize(..of.len())]
    }

    fn listener(&mut self, name: &str) -> Value {
        let hostname = self.one(&["", "*.example.com", "a.example.com"]);
        let from = self.one(&["Same", "All", "Selector"]);
        let selector = json!({"matchLabels": {"team": self.one(&["x", "y"])}});
        let (protocol, port) = match self.random.u8(0..4) {
            0 => ("TCP", 90),
            1 => ("TLS", 443),
            _ => ("HTTP", 80),
        };
        let mut listener = json!({
            "name": name, "port": port, "protocol": protocol,
            "allowedRoutes": {"namespaces": {"from": from, "selector": selector}},
        });
        if protocol == "TLS" {
            listener["tls"] = json!({"mode": "Passthrough"});
        }
        if !hostname.is_empty() && protocol != "TCP" {
            listener["hostname"] = hostname.into();
        }
        listener
    }

    fn route(&mut self) -> Value {
        let host = self.one(&["a.example.com", "*.example.com", "b.example.com"]);
        let mut parents = Vec::new();
        for _ in 0..self.random.usize(1..3) {
            let kind = self.one(&["Gateway", "Gateway", "ListenerSet"]);
            let mut parent =
                json!({"kind": kind, "namespace": self.one(&["a", "b"]), "name": self.one(&["g", "h"])});
            if self.random.bool() {
                parent["sectionName"] = self.one(&["one", "two"]).into();
            }
            parents.push(parent);
        }
        let mut rules = Vec::new();
        for _ in 0..self.random.usize(1..3) {
            let backend = json!({
                "namespace": self.one(&["a", "b"]), "name": self.one(&["s", "t"]), "port": self.one(&["1"]).parse::<u16>().expect("a port"),
            });
            let path = json!({"type": "PathPrefix", "value": self.one(&["/x", "/y"])});
            let name = self.one(&["one", "two"]);
            rules.push(json!({"name": name, "matches": [{"path": path}], "backendRefs": [backend]}));
        }
        let hostnames = if self.random.bool() { json!([host]) } else { json!([]) };
        json!({"parentRefs": parents, "hostnames": hostnames, "rules": rules})
    }

    fn policy(&mut self) -> Value {
        let secret = json!({"secretKeyRef": {"namespace": self.one(&["a", "b"]), "name": "k", "key": "key"}});
        let policies = match self.random.u8(0..5) {
            0 => json!({"basic": {"users": {"u": secret}}}),
            1 => json!({"mirror": [{"to": {"serviceRef": {"name": self.one(&["s", "t"]), "port": 1}}}]}),
            2 => json!({"disabled": ["basic"], "cors": {"origins": ["*"]}}),
            _ => json!({"rate_limit": [{"rate": self.one(&["1/s", "2/s"])}]}),
        };
        let mut target = match self.random.u8(0..4) {
            0 => {
                json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": self.one(&["g", "h"])})
            }
            1 => json!({"group": "", "kind": "Service", "name": self.one(&["s", "t"])}),
            _ => json!({"group": "gateway.networking.k8s.io", "kind": self.one(&["HTTPRoute", "GRPCRoute"]),
                "name": self.one(&["g", "h"])}),
        };
        if self.random.u8(0..3) == 0 {
            target["sectionName"] = self.one(&["one", "two", "p"]).into();
        }
        let mut policy = json!({ "targetRefs": [target], "policies": policies });
        match self.random.u8(0..4) {
            0 => policy["upstream"] = json!({"balance": {"policy": "random"}}),
            1 => policy["route"] = json!({"timeouts": {"total": "1s"}}),
            _ => {}
        }
        policy
    }

    /// An Ingress that concerns others by its hosts, or does not.
    fn ingress(&mut self) -> Value {
        let mut rules = Vec::new();
        for _ in 0..self.random.usize(1..3) {
            let host = self.one(&["i.example", "www.i.example", "j.example", "k.example", ""]);
            let kind = self.one(&["Prefix", "Prefix", "Exact", "ImplementationSpecific"]);
            let path = json!({"path": self.one(&["/x", "/y"]), "pathType": kind,
                "backend": {"service": {"name": self.one(&["s", "t"]), "port": {"number": 1}}}});
            rules.push(json!({"host": host, "http": {"paths": [path]}}));
        }
        let annotations: &[(&str, &str)] = match self.random.u8(0..9) {
            0 => &[("canary", "true"), ("canary-weight", "20")],
            1 => &[("rewrite-target", "/z"), ("use-regex", "true")],
            2 => &[("server-alias", "j.example,l.example")],
            3 => &[("from-to-www-redirect", "true")],
            4 => &[("ssl-passthrough", "true")],
            5 => &[("auth-type", "basic"), ("auth-secret", "k")],
            6 => &[("no-such-annotation", "x")],
            _ => &[],
        };
        let annotations = annotations
            .iter()
            .map(|(name, value)| (format!("nginx.ingress.kubernetes.io/{name}"), Value::from(*value)));
        let annotations: serde_json::Map<_, _> = annotations.collect();
        let mut spec = json!({"ingressClassName": self.one(&["own", "own", "own", "other"]), "rules": rules});
        if self.random.u8(0..4) == 0 {
            let host = self.one(&["i.example", "*.example", "k.example"]);
            let hosts = if self.random.bool() { json!([host]) } else { json!([]) };
            spec["tls"] = json!([{"hosts": hosts, "secretName": self.one(&["k", "k", ""])}]);
        }
        if self.random.u8(0..6) == 0 {
            spec["defaultBackend"] = json!({"service": {"name": "s", "port": {"number": 1}}});
        }
        json!({ "annotations": annotations, "spec": spec })
    }

    /// Changes something at random.
    fn step(&mut self) {
        let namespace = self.one(&["a", "b"]);
        let kinds = [
            Kind::HttpRoute,
            Kind::HttpRoute,
            Kind::HttpRoute,
            Kind::GrpcRoute,
            Kind::TlsRoute,
            Kind::TcpRoute,
            Kind::Gateway,
            Kind::ListenerSet,
            Kind::Service,
            Kind::EndpointSlice,
            Kind::Namespace,
            Kind::ReferenceGrant,
            Kind::BackendTlsPolicy,
            Kind::Ingress,
            Kind::Ingress,
            Kind::Ingress,
            Kind::IngressClass,
            Kind::TollgatePolicy,
            Kind::TollgatePolicy,
            Kind::Secret,
        ];
        let kind = kinds[self.random.usize(..kinds.len())];
        let is_removal = self.random.u8(0..4) == 0 && kind != Kind::Namespace;
        let name = match kind {
            Kind::Namespace => namespace,
            Kind::Service => self.one(&["s", "t"]),
            Kind::IngressClass => "own",
            Kind::Secret => "k",
            Kind::EndpointSlice => self.one(&["s-1", "s-2", "t-1"]),
            _ => self.one(&["g", "h"]),
        };
        let place = if kind.is_cluster_wide() { "" } else { namespace };
        if is_removal {
            self.objects.remove(kind, &ObjectName::new(place, name));
            return;
        }
        let mut labels = json!({});
        let object = match kind {
            Kind::Gateway => {
                let listeners = [self.listener("one"), self.listener("two")];
                let from = self.one(&["Same", "All", "None"]);
                json!({"spec": {"gatewayClassName": self.one(&["own", "own", "other"]), "listeners": listeners,
                    "allowedListeners": {"namespaces": {"from": from}}}})
            }
            Kind::ListenerSet => {
                let parent = json!({"namespace": self.one(&["a", "b"]), "name": self.one(&["g", "h"])});
                json!({"spec": {"parentRef": parent, "listeners": [self.listener("one"), self.listener("three")]}})
            }
            Kind::HttpRoute | Kind::GrpcRoute => {
                let mut spec = self.route();
                if kind == Kind::GrpcRoute {
                    for rule in spec["rules"].as_array_mut().into_iter().flatten() {
                        rule["matches"] = json!([]);
                    }
                }
                json!({ "spec": spec })
            }
            Kind::TlsRoute | Kind::TcpRoute => {
                let mut spec = self.route();
                for rule in spec["rules"].as_array_mut().into_iter().flatten() {
                    rule["matches"].take();
                }
                json!({ "spec": spec })
            }
            Kind::Service => {
                let protocol = self.one(&["", "kubernetes.io/h2c"]);
                json!({"spec": {"ports": [{"name": self.one(&["p", "q"]), "port": 1, "protocol": "TCP", "appProtocol": protocol}]}})
            }
            Kind::EndpointSlice => {
                labels = json!({"kubernetes.io/service-name": self.one(&["s", "t"])});
                let address = self.one(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
                let conditions = json!({"ready": self.random.bool(), "serving": true, "terminating": true});
                json!({"addressType": "IPv4", "endpoints": [{"addresses": [address], "conditions": conditions}],
                    "ports": [{"name": self.one(&["p", "q"]), "port": 8080}]})
            }
            Kind::Namespace => {
                labels = json!({"team": self.one(&["x", "y"])});
                json!({ "spec": {} })
            }
            Kind::ReferenceGrant => {
                let kind = self.one(&["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute"]);
                let from = json!({"group": "gateway.networking.k8s.io", "kind": kind, "namespace": self.one(&["a", "b"])});
                json!({"spec": {"from": [from], "to": [{"group": "", "kind": "Service"}]}})
            }
            Kind::BackendTlsPolicy => {
                let target = json!({"group": "", "kind": "Service", "name": self.one(&["s", "t"])});
                let validation =
                    json!({"hostname": "s.example", "wellKnownCACertificates": self.one(&["System", "No"])});
                json!({"spec": {"targetRefs": [target], "validation": validation}})
            }
            Kind::IngressClass => json!({"spec": {"controller": "tollgate.dev/gateway"}}),
            Kind::TollgatePolicy => json!({ "spec": self.policy() }),
            Kind::Secret => {
                let mut data = json!({"key": self.one(&["MDEyMw==", "NDU2Nw=="])});
                if self.random.bool() {
                    data["tls.crt"] = self.certificate["tls.crt"].clone();
                    data["tls.key"] = self.certificate["tls.key"].clone();
                }
                json!({ "data": data })
            }
            _ => self.ingress(),
        };
        self.put_raw(kind, place, name, labels, object);
    }

    /// Writes the addresses of Gateways and Ingresses into their statuses, as the writer of statuses does.
    fn write_addresses(&mut self, translation: &Translation) {
        for (object, status) in &translation.statuses {
            match object.kind {
                Kind::Gateway => {
                    if let Some(gateway) = self.objects.gateways.get_mut(&object.name) {
                        gateway.status = Compact::from(status);
                    }
                }
                Kind::Ingress => {
                    if let Some(ingress) = self.objects.ingresses.get_mut(&object.name) {
                        ingress.status = Compact::from(status);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns the data of a Secret with a certificate.
fn certificate() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/ingress.yaml");
    let text = std::fs::read_to_string(path).expect("a case");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    let secret = objects.into_iter().find(|object| object["kind"] == "Secret");
    secret.expect("a Secret")["data"].clone()
}

#[test]
fn a_translation_that_follows_changes_equals_a_translation_of_the_whole() {
    let mut documents = 0;
    for seed in 0..24 {
        let mut world = World::new(seed);
        let mut translator = Translator::new(settings());
        let mut known = Translation::default();
        for step in 0..60 {
            for _ in 0..world.random.usize(1..4) {
                world.step();
            }
            let changes = world.objects.take_changes();
            let update = translator.update(&world.objects, &changes);
            let translation = translator.translation();
            // Addresses that no status has yet are remembered by the translator alone.
            world.write_addresses(&translation);
            let whole = translate(&world.objects, &settings());
            assert_eq!(translation, whole, "seed {seed}, step {step}: {:?}", changes.objects);
            // The update names exactly what changed.
            for (key, document) in &whole.documents {
                let is_same = known.documents.get(key).is_some_and(|known| known.content == document.content);
                assert!(is_same || update.documents.contains(key), "seed {seed}, step {step}: {key:?}");
            }
            for key in known.documents.keys().filter(|key| !whole.documents.contains_key(key)) {
                assert!(update.documents.contains(key), "seed {seed}, step {step}: {key:?} is gone");
            }
            for (object, status) in &whole.statuses {
                let is_same = known.statuses.get(object) == Some(status);
                assert_eq!(update.statuses.contains(object), !is_same, "seed {seed}, step {step}: {object}");
            }
            documents += whole.documents.len();
            known = whole;
        }
    }
    assert!(documents > 2_000, "the worlds are too small: {documents} documents");
}

/// A Gateway keeps its address, even if a Gateway that takes precedence is created before its status is written. (Two
/// Gateways once took each other's addresses.)
#[test]
fn an_address_stays_until_the_status_is_written() {
    let mut world = World::new(1);
    let gateway =
        json!({"gatewayClassName": "own", "listeners": [{"name": "l", "port": 80, "protocol": "HTTP"}]});
    let mut translator = Translator::new(settings());
    let address = |translation: &Translation, name: &str| {
        let name = ObjectName::new("a", name);
        let found = translation
            .statuses
            .iter()
            .find(|(object, _)| object.kind == Kind::Gateway && object.name == name);
        found.map(|(_, status)| status["addresses"][0]["value"].clone())
    };
    let mut put = |world: &mut World, name: &str| {
        world.random = fastrand::Rng::with_seed(7);
        world.put(Kind::Gateway, "a", name, gateway.clone());
        let changes = world.objects.take_changes();
        let _ = translator.update(&world.objects, &changes);
        translator.translation()
    };
    let first = put(&mut world, "z");
    assert_eq!(address(&first, "z"), Some("192.0.2.1".into()));
    // It has the same age, and the name comes first.
    let second = put(&mut world, "y");
    assert_eq!(address(&second, "z"), Some("192.0.2.1".into()));
    assert_eq!(address(&second, "y"), Some("192.0.2.2".into()));
}

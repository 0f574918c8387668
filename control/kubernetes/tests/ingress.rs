//! What Ingresses mean for each other and for clients, as ingress-nginx and Kubernetes define it.

mod settings;

use serde_json::{Value, json};
use tollgate_kubernetes::{
    Kind, ObjectName, Objects, RawObject, Reference, Translation, TranslationSettings, Translator, translate,
};

use settings::settings;

/// Objects of a cluster with the Services `web` and `next`, which have an endpoint each, and the certificate `cert`.
struct World(Objects);

impl World {
    fn new() -> Self {
        let mut world = Self(Objects::default());
        world.put(Kind::IngressClass, "", "own", json!({"spec": {"controller": "tollgate.dev/gateway"}}));
        for service in ["web", "next"] {
            let ports = json!({"spec": {"ports": [{"name": "http", "port": 80}]}});
            world.put(Kind::Service, "demo", service, ports);
            world.endpoints(service, &["10.0.0.1"]);
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/ingress.yaml");
        let text = std::fs::read_to_string(path).expect("a case");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        let secret = objects.into_iter().find(|object| object["kind"] == "Secret").expect("a Secret");
        world.put(Kind::Secret, "demo", "cert", json!({"data": secret["data"]}));
        world
    }

    fn put(&mut self, kind: Kind, namespace: &str, name: &str, mut object: Value) {
        object["metadata"]["namespace"] = namespace.into();
        object["metadata"]["name"] = name.into();
        self.0.put(kind, serde_json::from_value::<RawObject>(object).expect("an object"));
    }

    fn endpoints(&mut self, service: &str, addresses: &[&str]) {
        let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
        let slice = json!({
            "metadata": {"labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "http", "port": 8080}],
        });
        self.put(Kind::EndpointSlice, "demo", &format!("{service}-1"), slice);
    }

    /// Puts an Ingress. Later ones are younger if their names follow.
    fn ingress(&mut self, name: &str, annotations: &[(&str, &str)], mut spec: Value) {
        let annotations: serde_json::Map<_, _> = annotations
            .iter()
            .map(|(name, value)| (format!("nginx.ingress.kubernetes.io/{name}"), Value::from(*value)))
            .collect();
        spec["ingressClassName"] = "own".into();
        self.put(
            Kind::Ingress,
            "demo",
            name,
            json!({"metadata": {"annotations": annotations}, "spec": spec}),
        );
    }

    fn translated(&self) -> Translation {
        self.translated_with(&settings())
    }

    /// Translates the whole. A translation that follows each change must be the same.
    fn translated_with(&self, settings: &TranslationSettings) -> Translation {
        translate(&self.0, settings)
    }

    /// Takes in the changes since the last call.
    fn follow(&mut self, translator: &mut Translator, settings: &TranslationSettings) -> Translation {
        let changes = self.0.take_changes();
        let _ = translator.update(&self.0, &changes);
        let translation = translator.translation();
        assert_eq!(translation, self.translated_with(settings));
        translation
    }
}

fn backend(service: &str) -> Value {
    json!({"service": {"name": service, "port": {"number": 80}}})
}

fn rule(host: &str, path: &str, service: &str) -> Value {
    let path = json!({"path": path, "pathType": "Prefix", "backend": backend(service)});
    json!({"host": host, "http": {"paths": [path]}})
}

fn tls(host: &str) -> Value {
    json!([{"hosts": [host], "secretName": "cert"}])
}

/// Returns the route that matches exactly this host and this prefix of paths.
fn route(translation: &Translation, host: &str, prefix: &str) -> Value {
    let mut place = json!({"path": {"prefix": prefix}});
    if !host.is_empty() {
        place["host"] = host.into();
    }
    let routes = translation.documents.iter().filter(|(key, _)| key.kind == "routes");
    let mut values = routes.map(|(_, document)| document.content.value());
    values.find(|route| route["match"].as_array().is_some_and(|all| all.contains(&place))).unwrap_or_default()
}

fn notes(translation: &Translation, ingress: &str) -> String {
    let object = Reference { kind: Kind::Ingress, name: ObjectName::new("demo", ingress) };
    let notes = translation.notes.get(&object).into_iter().flatten().cloned();
    notes.collect::<Vec<_>>().join("\n")
}

const BOTH: [&str; 2] = ["ingress_http", "ingress_https"];

/// Requests that no path of the host takes had been served in plain text only, and without the redirect to `https`.
#[test]
fn the_default_backend_serves_the_hosts_of_its_ingress_by_tls() {
    let mut world = World::new();
    let spec = json!({
        "tls": tls("shop.example"), "defaultBackend": backend("web"), "rules": [rule("shop.example", "/api", "next")],
    });
    world.ingress("a", &[("whitelist-source-range", "10.0.0.0/8")], spec);
    let translation = world.translated();
    let default = route(&translation, "shop.example", "/");
    assert_eq!(default["listeners"], json!(BOTH), "{default}");
    assert_eq!(default["policies"]["intercept"][0]["status"], json!(308));
    assert_eq!(default["policies"]["ip"], json!({"allow": ["10.0.0.0/8"]}));
    assert_eq!(route(&translation, "", "/")["listeners"], json!(BOTH));
    // A path of another Ingress that takes every request comes first, although it is younger.
    world.ingress("b", &[], json!({"rules": [rule("shop.example", "/", "next")]}));
    let translation = world.translated();
    assert_eq!(route(&translation, "shop.example", "/")["to"], json!([{"upstream": "demo_next_80"}]));
    assert_eq!(notes(&translation, "b"), "");
}

#[test]
fn rules_without_a_host_serve_hosts_of_tls() {
    let mut world = World::new();
    world.ingress("a", &[], json!({"tls": tls("shop.example"), "rules": [rule("", "/b", "web")]}));
    assert_eq!(route(&world.translated(), "", "/b")["listeners"], json!(BOTH));
    // Without any certificate there is no listener for them.
    let mut world = World::new();
    world.ingress("a", &[], json!({"rules": [rule("", "/b", "web")]}));
    assert_eq!(route(&world.translated(), "", "/b")["listeners"], json!(["ingress_http"]));
}

/// A client of `http://www.shop.example` had been sent to `https://www.shop.example` first, for which there may be no
/// certificate.
#[test]
fn the_other_name_of_a_host_redirects_at_once() {
    let mut world = World::new();
    let spec = json!({"tls": tls("shop.example"), "rules": [rule("shop.example", "/", "web")]});
    world.ingress("a", &[("from-to-www-redirect", "true")], spec);
    let translation = world.translated();
    let redirect = route(&translation, "www.shop.example", "/");
    assert_eq!(redirect["redirect"], json!({"status": 308, "host": "shop.example"}));
    assert_eq!(redirect.get("policies"), None);
    assert_eq!(route(&translation, "shop.example", "/")["policies"]["intercept"][0]["status"], json!(308));
}

/// Further names of a host are not redirected to `https` if no entry of `tls` has them.
#[test]
fn an_alias_without_a_certificate_stays_plain() {
    let mut world = World::new();
    let tls = json!([{"hosts": ["shop.example", "one.example"], "secretName": "cert"}]);
    let spec = json!({"tls": tls, "rules": [rule("shop.example", "/", "web")]});
    world.ingress("a", &[("server-alias", "one.example, two.example")], spec);
    let translation = world.translated();
    for (host, is_redirected) in [("shop.example", true), ("one.example", true), ("two.example", false)] {
        let route = route(&translation, host, "/");
        assert_eq!(route["to"], json!([{"upstream": "demo_web_80"}]), "{host}");
        assert_eq!(route["policies"]["intercept"].is_array(), is_redirected, "{host}");
    }
}

/// An issuer of certificates asks in plain text and without credentials. cert-manager makes an Ingress for its answer, or
/// adds a path to an Ingress.
#[test]
fn the_answer_to_a_challenge_needs_no_tls_and_no_credentials() {
    let mut world = World::new();
    let path = "/.well-known/acme-challenge/token";
    let solver = rule("shop.example", path, "next");
    let spec = json!({"tls": tls("shop.example"), "rules": [rule("shop.example", "/", "web"), solver]});
    let annotations = [
        ("auth-url", "http://auth.example/"),
        ("force-ssl-redirect", "true"),
        ("whitelist-source-range", "0.0.0.0/0"),
    ];
    world.ingress("a", &annotations, spec);
    let translation = world.translated();
    let challenge = route(&translation, "shop.example", path);
    assert_eq!(challenge["policies"], json!({"ip": {"allow": ["0.0.0.0/0"]}}));
    assert_eq!(challenge["listeners"], json!(BOTH));
    let other = route(&translation, "shop.example", "/");
    assert!(other["policies"]["forward_auth"].is_object() && other["policies"]["intercept"].is_array());
}

/// ingress-nginx verifies clients for a whole host, so a path of another Ingress must not be open.
#[test]
fn client_certificates_concern_all_ingresses_of_the_host() {
    let mut world = World::new();
    world.ingress(
        "a",
        &[],
        json!({"rules": [rule("shop.example", "/open", "web"), rule("other.example", "/", "web")]}),
    );
    world.ingress(
        "b",
        &[("auth-tls-secret", "demo/ca")],
        json!({"rules": [rule("shop.example", "/", "web")]}),
    );
    let translation = world.translated();
    for path in ["/", "/open"] {
        assert_eq!(route(&translation, "shop.example", path)["respond"], json!(503), "{path}");
    }
    assert!(route(&translation, "other.example", "/")["to"].is_array());
    assert!(notes(&translation, "a").contains("the Ingress demo/b verifies client certificates"));
}

/// A canary that is scaled to zero gets nothing. (Its share of the requests had been 503.)
#[test]
fn a_canary_without_endpoints_takes_no_requests() {
    let mut world = World::new();
    world.ingress("a", &[], json!({"rules": [rule("shop.example", "/", "web")]}));
    let canary = [("canary", "true"), ("canary-weight", "50"), ("canary-by-header", "X-Next")];
    world.ingress("b", &canary, json!({"rules": [rule("shop.example", "/", "next")]}));
    let shares = |translation: &Translation| {
        let route = route(translation, "shop.example", "/");
        let rules = route["policies"]["canary"].as_array().map_or(0, Vec::len);
        (route["to"].as_array().map_or(0, Vec::len), rules)
    };
    let mut translator = Translator::new(settings());
    let mut follow = |world: &mut World| shares(&world.follow(&mut translator, &settings()));
    assert_eq!(follow(&mut world), (2, 2));
    world.endpoints("next", &[]);
    assert_eq!(follow(&mut world), (1, 0));
    world.endpoints("next", &["10.0.0.7"]);
    assert_eq!(follow(&mut world), (2, 2));
    // More endpoints change no route.
    world.endpoints("next", &["10.0.0.7", "10.0.0.8"]);
    assert_eq!(follow(&mut world), (2, 2));
}

#[test]
fn a_path_that_an_older_ingress_has_is_reported() {
    let mut world = World::new();
    world.ingress("a", &[], json!({"rules": [rule("shop.example", "/", "web")]}));
    world.ingress(
        "b",
        &[],
        json!({"rules": [rule("shop.example", "/", "next"), rule("shop.example", "/b", "next")]}),
    );
    let translation = world.translated();
    assert_eq!(route(&translation, "shop.example", "/")["to"], json!([{"upstream": "demo_web_80"}]));
    assert_eq!(notes(&translation, "b"), "the older Ingress demo/a has the path shop.example/");
    assert_eq!(notes(&translation, "a"), "");
}

/// Such a path had been left out, so its requests took a path without the policy.
#[test]
fn a_path_that_cannot_be_matched_and_keeps_clients_out_is_refused() {
    let mut world = World::new();
    let guarded = [("use-regex", "true"), ("whitelist-source-range", "10.0.0.0/8")];
    world.ingress("a", &guarded, json!({"rules": [rule("shop.example", "/admin/(?!public).*", "web")]}));
    world.ingress("b", &[], json!({"rules": [rule("shop.example", "/", "web")]}));
    let translation = world.translated();
    let routes = translation.documents.iter().filter(|(key, _)| key.kind == "routes");
    let values: Vec<Value> = routes.map(|(_, document)| document.content.value()).collect();
    let refused = values.iter().find(|route| route["respond"] == json!(503)).expect("a route that refuses");
    assert_eq!(refused["match"][0]["path"], json!({"regex": "(?i)/admin/.*"}));
    assert!(notes(&translation, "a").contains("paths that begin with \"/admin/\" answer 503"));
    // It comes before the shorter path.
    let other = values.iter().find(|route| route["to"].is_array()).expect("the other route");
    assert!(refused["created"].as_str() < other["created"].as_str());
    // A path that keeps no client out is left out.
    world.ingress("a", &[("use-regex", "true")], json!({"rules": [rule("shop.example", "/(?=x)", "web")]}));
    assert!(notes(&world.translated(), "a").ends_with("it is not served"));
}

/// Clients know the address of the load balancer, not that of one pod. Programs that write DNS read it from here.
#[test]
fn statuses_report_the_published_service() {
    let settings =
        TranslationSettings { publish_service: Some(ObjectName::new("tollgate", "tollgate")), ..settings() };
    let mut world = World::new();
    world.ingress("a", &[], json!({"rules": [rule("shop.example", "/", "web")]}));
    world.put(Kind::GatewayClass, "", "own", json!({"spec": {"controllerName": "tollgate.dev/gateway"}}));
    let listener = json!({"name": "http", "port": 80, "protocol": "HTTP"});
    world.put(
        Kind::Gateway,
        "demo",
        "g",
        json!({"spec": {"gatewayClassName": "own", "listeners": [listener]}}),
    );
    let mut translator = Translator::new(settings.clone());
    let mut addresses = |world: &mut World| {
        let statuses = world.follow(&mut translator, &settings).statuses;
        let status = |kind, name| {
            let object = Reference { kind, name: ObjectName::new("demo", name) };
            statuses.get(&object).cloned().unwrap_or_default()
        };
        let gateway = status(Kind::Gateway, "g")["addresses"].clone();
        (status(Kind::Ingress, "a")["loadBalancer"]["ingress"].clone(), gateway)
    };
    // The Ingresses have the first address of the pool.
    let own = json!([{"type": "IPAddress", "value": "192.0.2.2"}]);
    assert_eq!(addresses(&mut world), (json!([]), own.clone()), "the Service is not there yet");
    let spec = json!({"type": "LoadBalancer", "clusterIPs": ["10.96.0.1"], "ports": [{"port": 80}]});
    world.put(Kind::Service, "tollgate", "tollgate", json!({"spec": spec}));
    assert_eq!(addresses(&mut world), (json!([]), own));
    let points = json!([{"ip": "198.51.100.7"}, {"hostname": "lb.example"}]);
    let status = json!({"loadBalancer": {"ingress": points}});
    world.put(Kind::Service, "tollgate", "tollgate", json!({"spec": spec, "status": status}));
    let both =
        json!([{"type": "IPAddress", "value": "198.51.100.7"}, {"type": "Hostname", "value": "lb.example"}]);
    assert_eq!(addresses(&mut world), (points, both));
    let spec = json!({"type": "NodePort", "clusterIPs": ["10.96.0.1"], "ports": [{"port": 80}]});
    world.put(Kind::Service, "tollgate", "tollgate", json!({"spec": spec}));
    assert_eq!(addresses(&mut world).0, json!([{"ip": "10.96.0.1"}]));
}

/// ingress-nginx has `--default-ssl-certificate`; many Ingresses list hosts without a Secret.
#[test]
fn the_default_certificate_is_for_hosts_without_one() {
    let settings =
        TranslationSettings { default_certificate: Some(ObjectName::new("certs", "wildcard")), ..settings() };
    let mut world = World::new();
    world.ingress(
        "a",
        &[],
        json!({"tls": [{"hosts": ["a.example"]}], "rules": [rule("a.example", "/", "web")]}),
    );
    let absent = json!([{"hosts": ["b.example"], "secretName": "absent"}]);
    world.ingress("b", &[], json!({"tls": absent, "rules": [rule("b.example", "/", "web")]}));
    world.ingress("c", &[], json!({"rules": [rule("c.example", "/", "web")]}));
    let mut translator = Translator::new(settings.clone());
    let translation = world.follow(&mut translator, &settings);
    assert_eq!(route(&translation, "a.example", "/")["listeners"], json!(["ingress_http"]));
    assert_eq!(notes(&translation, "a"), "there is no Secret certs/wildcard");
    let secret = Reference { kind: Kind::Secret, name: ObjectName::new("certs", "wildcard") };
    assert!(translation.references.contains(&secret));
    let data = world.0.secrets[&ObjectName::new("demo", "cert")].spec.clone().expect("a Secret").data;
    world.put(Kind::Secret, "certs", "wildcard", json!({"data": data}));
    let translation = world.follow(&mut translator, &settings);
    for host in ["a.example", "b.example"] {
        let route = route(&translation, host, "/");
        assert_eq!(route["listeners"], json!(BOTH), "{host}");
        assert_eq!(route["policies"]["intercept"][0]["status"], json!(308), "{host}");
    }
    assert_eq!(route(&translation, "c.example", "/")["listeners"], json!(["ingress_http"]));
    assert_eq!(notes(&translation, "a"), "");
    assert_eq!(notes(&translation, "b"), "there is no Secret demo/absent");
    world.0.remove(Kind::Secret, &ObjectName::new("certs", "wildcard"));
    let translation = world.follow(&mut translator, &settings);
    assert_eq!(notes(&translation, "a"), "there is no Secret certs/wildcard");
}

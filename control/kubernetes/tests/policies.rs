//! The examples of the pages about policies: each one fits the definition, is in force, and becomes valid documents.

mod settings;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tollgate_kubernetes::{Kind, Objects, RawObject, Translation, translate};

use settings::settings;

/// The objects that the examples refer to.
const WORLD: &str = r#"
kind: GatewayClass
metadata: {name: tollgate}
spec: {controllerName: tollgate.dev/gateway}
---
kind: Gateway
metadata: {name: web, namespace: demo}
spec:
  gatewayClassName: tollgate
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
kind: Service
metadata: {name: echo, namespace: demo}
spec: {ports: [{port: 80}]}
---
kind: Service
metadata: {name: echo-next, namespace: demo}
spec: {ports: [{port: 80}]}
---
kind: HTTPRoute
metadata: {name: echo, namespace: demo}
spec:
  parentRefs: [{name: web}]
  rules: [{name: health, matches: [{path: {value: /health}}], backendRefs: [{name: echo, port: 80}]},
    {backendRefs: [{name: echo, port: 80}]}]
---
kind: HTTPRoute
metadata: {name: uploads, namespace: demo}
spec:
  parentRefs: [{name: web}]
  hostnames: [uploads.example]
  rules: [{backendRefs: [{name: echo, port: 80}]}]
---
kind: Secret
metadata: {name: users, namespace: demo}
data: {alice: JDJiJDA0JFlVREg0TFBoRjVTaVF1RW5lQ2RuOS5sdFR4Z2VKLkE3dGtLeWtndDhrQURUc2VVL0tIM2IuCg==}
---
kind: Secret
metadata: {name: redis, namespace: demo}
data: {password: c2VjcmV0}
"#;

fn values(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn translated(text: &str) -> Translation {
    let mut all = Objects::default();
    // The certificate of the examples.
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/ingress.yaml");
    let case = values(&std::fs::read_to_string(case).expect("a case"));
    let mut secret = case.into_iter().find(|object| object["kind"] == "Secret").expect("a Secret");
    secret["metadata"] = json!({"namespace": "demo", "name": "shop-tls"});
    for value in values(WORLD).into_iter().chain([secret]).chain(values(text)) {
        let kind = value["kind"].as_str().and_then(Kind::by_name).expect("a kind");
        all.put(kind, serde_json::from_value::<RawObject>(value).expect("an object"));
    }
    translate(&all, &settings())
}

/// Pages with examples.
const PAGES: [&str; 3] = ["kubernetes-policies.md", "migrate/contour.md", "migrate/envoy-gateway.md"];

/// Returns the YAML examples of the pages.
fn examples() -> Vec<String> {
    let mut all = Vec::new();
    for page in PAGES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        let text = std::fs::read_to_string(path).expect("the page");
        let parts = text.split("```yaml\n").skip(1);
        all.extend(parts.map(|part| part.split("```").next().unwrap_or_default().to_owned()));
    }
    all
}

fn is_policy(object: &Value) -> bool {
    object["kind"] == "TollgatePolicy"
}

/// Returns what of a value the API server would refuse, without the rules of CEL.
fn refusals(schema: &Value, value: &Value, place: &str, out: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    let mut refuse = |why: &str| out.push(format!("{place}: {why}: {value}"));
    let kind = schema["type"].as_str().unwrap_or("int-or-string");
    let fits = match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => value.is_string() || value.is_i64() || value.is_u64(),
    };
    if !fits {
        return refuse(kind);
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        refuse("none of the words");
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !regex::Regex::new(pattern).expect("a pattern").is_match(text)
    {
        refuse(pattern);
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(name).is_none() {
            refuse(&format!("{name} is missing"));
        }
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let place = format!("{place}.{key}");
        match schema["properties"].get(key).or_else(|| schema.get("additionalProperties")) {
            Some(schema) => refusals(schema, inner, &place, out),
            None => out.push(format!("{place}: an unknown key")),
        }
    }
    for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
        refusals(&schema["items"], inner, &format!("{place}[{index}]"), out);
    }
}

fn spec_schema() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes/tollgatepolicies.yaml");
    let text = std::fs::read_to_string(file).expect("the definition");
    let definition = values(&text).remove(0);
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

#[test]
fn examples_fit_the_definition() {
    let schema = spec_schema();
    let mut found = Vec::new();
    let examples = examples();
    assert!(examples.len() >= 9, "{}", examples.len());
    for value in examples.iter().flat_map(|example| values(example)).filter(is_policy) {
        refusals(&schema, &value["spec"], &value["metadata"]["name"].to_string(), &mut found);
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn examples_are_in_force() {
    tollgate_plan::register_policies();
    let config = tollgate_config::from_text("t", "kubernetes: {addresses: 192.0.2.0/24}", &|_| None).config;
    let config = config.expect("a configuration");
    for example in examples() {
        let translation = translated(&example);
        let policies = translation.statuses.iter().filter(|(object, _)| object.kind == Kind::TollgatePolicy);
        let policies: Vec<_> = policies.collect();
        assert_eq!(
            policies.len(),
            values(&example).iter().filter(|value| is_policy(value)).count(),
            "{example}"
        );
        for (policy, status) in policies {
            let accepted = &status["ancestors"][0]["conditions"][0];
            assert_eq!(accepted["status"], json!("True"), "{policy}: {status}");
        }
        let scope = tollgate_config::file_access::Scope::below(&[]);
        let mut documents = tollgate_config::Documents::new("kubernetes", PathBuf::new(), scope);
        for (key, document) in &translation.documents {
            let kind = tollgate_config::kind(key.kind).expect("a kind of resource");
            if let Err(problems) = documents.put(kind, &key.name, document.content.value()) {
                panic!("{example}: {}/{}: {problems:?}", key.kind, key.name);
            }
        }
        let all = tollgate_config::CombinedResources::of(&config).with(&documents);
        if let Err(problems) = tollgate_plan::compile_parts(&all) {
            panic!("{example}: {problems:?}");
        }
    }
}

/// A policy that is not valid blames the object that is refused, and its own status says so.
#[test]
fn a_refused_document_is_a_condition_of_its_policies() {
    let mut all = Objects::default();
    let policy = "
kind: TollgatePolicy
metadata: {name: odd, namespace: demo, generation: 1}
spec:
  targetRefs: [{group: '', kind: Service, name: echo}]
  upstream: {balance: {policy: hash}}
";
    for value in values(WORLD).into_iter().chain(values(policy)) {
        let kind = value["kind"].as_str().and_then(Kind::by_name).expect("a kind");
        all.put(kind, serde_json::from_value::<RawObject>(value).expect("an object"));
    }
    let mut translator = tollgate_kubernetes::Translator::new(settings());
    let update = translator.start(&all);
    let key = tollgate_documents::DocumentKey { kind: "upstreams", name: "demo_echo_80".to_owned() };
    assert!(translator.document(&key).is_some());
    let refused = std::iter::once((key, "/balance: `hash` needs `by`".to_owned())).collect();
    let statuses = translator.in_force(update, &refused);
    let (_, status) =
        statuses.iter().find(|(object, _)| object.kind == Kind::TollgatePolicy).expect("the policy");
    let status = status.as_ref().expect("a status").value();
    let accepted = &status["ancestors"][0]["conditions"][0];
    assert_eq!((&accepted["status"], &accepted["reason"]), (&json!("False"), &json!("Invalid")), "{status}");
    assert!(accepted["message"].as_str().is_some_and(|text| text.contains("needs `by`")), "{status}");
}

/// An Ingress has no Gateway, so it is the ancestor itself. (Policies of Services that only Ingresses refer to had no status.)
#[test]
fn an_ingress_is_the_ancestor_of_policies_of_its_services() {
    let text = "
kind: IngressClass
metadata: {name: own}
spec: {controller: tollgate.dev/gateway}
---
kind: Service
metadata: {name: shop, namespace: demo}
spec: {ports: [{port: 80}]}
---
kind: Ingress
metadata: {name: shop, namespace: demo}
spec:
  ingressClassName: own
  defaultBackend: {service: {name: shop, port: {number: 80}}}
---
kind: TollgatePolicy
metadata: {name: probes, namespace: demo, generation: 1}
spec:
  targetRefs: [{group: '', kind: Service, name: shop}]
  upstream: {balance: {policy: random}}
---
kind: BackendTLSPolicy
metadata: {name: tls, namespace: demo, generation: 1}
spec:
  targetRefs: [{group: '', kind: Service, name: shop}]
  validation: {hostname: shop.example, wellKnownCACertificates: System}
";
    let translation = translated(text);
    let expected = json!({
        "group": "networking.k8s.io", "kind": "Ingress", "namespace": "demo", "name": "shop",
    });
    for kind in [Kind::TollgatePolicy, Kind::BackendTlsPolicy] {
        let status = translation.statuses.iter().find(|(object, _)| object.kind == kind);
        let (_, status) = status.unwrap_or_else(|| panic!("no status of the {}", kind.name()));
        assert_eq!(status["ancestors"][0]["ancestorRef"], expected, "{status}");
        assert_eq!(status["ancestors"][0]["conditions"][0]["status"], json!("True"), "{status}");
    }
    // A new Ingress changes the status of a policy that was there before.
    let mut all = Objects::default();
    let mut translator = tollgate_kubernetes::Translator::new(settings());
    let (ingresses, others): (Vec<Value>, Vec<Value>) =
        values(text).into_iter().partition(|value| value["kind"] == "Ingress");
    let mut put = |all: &mut Objects, values: Vec<Value>| {
        for value in values {
            let kind = value["kind"].as_str().and_then(Kind::by_name).expect("a kind");
            all.put(kind, serde_json::from_value::<RawObject>(value).expect("an object"));
        }
        let changes = all.take_changes();
        let _ = translator.update(all, &changes);
        let statuses = translator.translation().statuses;
        statuses.into_iter().any(|(object, _)| object.kind == Kind::TollgatePolicy)
    };
    assert!(!put(&mut all, others));
    assert!(put(&mut all, ingresses));
}

/// A refused document of an Ingress is an event of the Ingress, since it has no conditions.
#[test]
fn a_refused_document_of_an_ingress_is_a_note() {
    let translator = {
        let mut all = Objects::default();
        let text = "
kind: IngressClass
metadata: {name: own}
spec: {controller: tollgate.dev/gateway}
---
kind: Ingress
metadata: {name: shop, namespace: demo}
spec:
  ingressClassName: own
  defaultBackend: {service: {name: echo, port: {number: 80}}}
";
        for value in values(WORLD).into_iter().chain(values(text)) {
            let kind = value["kind"].as_str().and_then(Kind::by_name).expect("a kind");
            all.put(kind, serde_json::from_value::<RawObject>(value).expect("an object"));
        }
        let mut translator = tollgate_kubernetes::Translator::new(settings());
        let _ = translator.start(&all);
        translator
    };
    let key = |kind, name: &str| tollgate_documents::DocumentKey { kind, name: name.to_owned() };
    let why = || "it is odd".to_owned();
    let route = key("routes", "ingress/demo/shop/00");
    assert!(translator.document(&route).is_some());
    let refused = [(route, why()), (key("listeners", "ingress_http"), why())].into_iter().collect();
    let notes = translator.refusal_notes(&refused);
    let notes: Vec<String> = notes
        .iter()
        .map(|(object, notes)| format!("{object}: {}", notes.iter().next().expect("a note")))
        .collect();
    assert_eq!(notes, ["Ingress demo/shop: routes/ingress/demo/shop/00 is refused: it is odd"]);
}

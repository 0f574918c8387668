//! The examples of the page about policies: each one fits the definition, is in force, and becomes valid documents.

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
    for value in values(WORLD).into_iter().chain(values(text)) {
        let kind = value["kind"].as_str().and_then(Kind::by_name).expect("a kind");
        all.put(kind, serde_json::from_value::<RawObject>(value).expect("an object"));
    }
    translate(&all, &settings())
}

/// Returns the YAML examples of the page.
fn examples() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubernetes-policies.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let parts = page.split("```yaml\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default().to_owned()).collect()
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
    assert!(examples.len() >= 7, "{}", examples.len());
    for value in examples.iter().flat_map(|example| values(example)) {
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
        assert_eq!(policies.len(), values(&example).len(), "{example}");
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

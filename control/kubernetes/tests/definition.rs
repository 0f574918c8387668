//! The definition of TollgatePolicy, and its copies under `deploy`.

use std::path::Path;

use serde_json::Value;
use tollgate_config::{Substitutes, structural_schema};
use tollgate_kubernetes::{SectionRequest, policy_definition};

/// The copies: in the chart, and next to the manifest.
const COPIES: [&str; 2] = ["helm/tollgate/crds/tollgatepolicies.yaml", "kubernetes/tollgatepolicies.yaml"];

fn definition() -> Value {
    tollgate_plan::register_policies();
    policy_definition(|SectionRequest { section, without, secret, upstream }| {
        structural_schema(section, without, Substitutes { secret, upstream }).expect("the section exists")
    })
}

fn spec() -> Value {
    definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        .clone()
}

#[test]
fn the_manifests_have_the_definition() {
    let definition = tollgate_config::to_yaml(&definition());
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    for copy in COPIES {
        let file = deploy.join(copy);
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            std::fs::write(&file, &definition).expect("written");
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(written == definition, "{} differs: `tollgate crds` prints the definition", file.display());
    }
}

/// A new policy appears in the definition automatically.
#[test]
fn every_policy_of_the_gateway_is_in_the_definition() {
    let spec = spec();
    let has = |part: &str, key: &str| spec[part]["properties"].get(key).is_some();
    let schema = tollgate_config::schema();
    let policies = schema["$defs"]["policies"]["properties"].as_object().expect("policies");
    assert!(policies.len() > 20);
    for name in policies.keys() {
        assert!(has("policies", name), "{name}");
    }
    for key in ["balance", "health", "retry", "breaker", "outlier", "timeouts", "limits", "pool"] {
        assert!(has("upstream", key), "{key}");
    }
    for key in ["timeouts", "limits", "buffer", "retry", "priority"] {
        assert!(has("route", key), "{key}");
    }
    assert!(!has("route", "to") && !has("upstream", "endpoints") && !has("upstream", "tls"));
}

/// A client-side apply keeps the whole object in an annotation, which may have 256 KiB; etcd takes 1.5 MiB.
#[test]
fn the_definition_is_of_a_size_that_the_api_server_takes() {
    let length = definition().to_string().len();
    assert!(length < 1 << 20, "{length} bytes");
}

#[test]
fn secrets_and_upstreams_are_references() {
    let policies = &spec()["policies"]["properties"];
    let is = |value: &Value, key: &str| value["properties"][key]["type"] == "object";
    assert!(is(&policies["jwt"]["properties"]["secret"], "secretKeyRef"));
    assert!(is(&policies["basic"]["properties"]["users"]["additionalProperties"], "secretKeyRef"));
    assert!(is(&policies["mirror"]["items"]["properties"]["to"], "serviceRef"));
    let limit = &policies["rate_limit"]["items"]["properties"]["redis"]["properties"];
    assert!(is(&limit["password"], "secretKeyRef"));
    assert!(limit["url"]["x-kubernetes-validations"][0]["message"].as_str().is_some());
}

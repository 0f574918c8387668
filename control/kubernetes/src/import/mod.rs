//! Imports manifests of ingress-nginx: reads them, says object by object what behaves the same, and makes a
//! configuration file.
//!
//! The manifests become objects, as if an API server had sent them, and [`translate`] makes the documents. So the
//! file is what a gateway in the cluster would serve, with two differences: it names Services by their names in
//! DNS where the manifests have no endpoints, and it has the defaults of ingress-nginx for the whole gateway.
//!
//! | Module | Contents |
//! |---|---|
//! | `manifests` | objects from YAML |
//! | `controller` | the ConfigMap of ingress-nginx: defaults for all Ingresses |
//! | `services` | stand-ins for endpoints that the manifests do not have |
//! | `config` | documents as a configuration file |

mod config;
mod controller;
mod manifests;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::addresses::{AddressBlock, AddressPool};
use crate::object::{Kind, ObjectName, Reference};
use crate::objects::Objects;
use crate::translate::{Behaviour, Finding, TranslationSettings, annotations, translate};
use controller::ControllerConfig;
use manifests::Manifests;
use services::StandIns;

/// The class that imported Ingresses get, and its controller.
const CLASS: &str = "import";
const CONTROLLER: &str = "tollgate.dev/import";
/// The controller of ingress-nginx, and the class that its installation makes.
const THEIR_CONTROLLER: &str = "k8s.io/ingress-nginx";
const THEIR_CLASS: &str = "nginx";

/// Manifests as a configuration.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The remarks about each object.
    pub objects: Vec<ImportedObject>,
    /// The configuration file.
    pub config: Map<String, Value>,
}

/// The remarks about an object.
#[derive(Clone, Debug)]
pub struct ImportedObject {
    /// Its kind and name.
    pub name: String,
    /// How each of its annotations or settings is served.
    pub findings: Vec<Finding>,
    /// Further remarks.
    pub notes: BTreeSet<String>,
}

/// Imports manifests, each with the name of its file. `class` is the class of the Ingresses; `None`: those of
/// ingress-nginx, and those without a class.
///
/// # Errors
/// Returns a message about the first manifest that is not YAML, or says that there is no Ingress.
pub fn import(files: &[(String, String)], class: Option<&str>) -> Result<Imported, String> {
    let mut manifests = Manifests::default();
    for (name, text) in files {
        manifests.read(text).map_err(|why| format!("{name}: {why}"))?;
    }
    let mut reports = Vec::new();
    let controller = ControllerConfig::read(&manifests);
    if let Some(controller) = &controller {
        reports.push(controller.report());
    }
    let mut objects = manifests.objects();
    adopt(&mut manifests, class, &mut reports);
    let stand_ins = StandIns::add(&mut manifests, &mut objects);
    let mut ingresses = BTreeSet::new();
    for (name, mut ingress) in std::mem::take(&mut manifests.ingresses) {
        let defaults = controller.as_ref().map(|controller| &controller.defaults);
        for (annotation, value) in defaults.into_iter().flatten() {
            ingress.metadata.annotations.entry(annotation.clone()).or_insert_with(|| value.clone());
        }
        objects.put(Kind::Ingress, ingress);
        ingresses.insert(name);
    }
    if ingresses.is_empty() {
        return Err(
            "there is no Ingress of ingress-nginx in these files; `--class` names another class".to_owned()
        );
    }
    put_class(&mut objects);
    let settings = TranslationSettings {
        controller: CONTROLLER.to_owned(),
        addresses: AddressPool::new(vec![AddressBlock { first: [0, 0, 0, 0].into(), prefix: 32 }]),
        services: None,
        publish_service: None,
        default_certificate: None,
        external_names: false,
    };
    let mut translation = translate(&objects, &settings);
    let mut found: BTreeMap<ObjectName, Vec<Finding>> = annotations(&objects, &settings)
        .into_iter()
        .map(|report| (report.ingress, report.findings))
        .collect();
    for name in ingresses {
        let reference = Reference { kind: Kind::Ingress, name: name.clone() };
        let findings = found.remove(&name).unwrap_or_default();
        let mut notes = translation.notes.remove(&reference).unwrap_or_default();
        // The findings say the same, one by one.
        notes.retain(|note| !note.starts_with("nginx.ingress.kubernetes.io/"));
        notes.extend(stand_ins.notes(&name));
        reports.push(ImportedObject { name: reference.to_string(), findings, notes });
    }
    let config = config::config(&translation.documents, &stand_ins, controller.as_ref());
    Ok(Imported { objects: reports, config })
}

/// Gives the Ingresses that are imported a class of their own, and drops the others.
fn adopt(manifests: &mut Manifests, class: Option<&str>, reports: &mut Vec<ImportedObject>) {
    let wanted: BTreeSet<String> = match class {
        Some(class) => BTreeSet::from([class.to_owned()]),
        None => {
            let theirs = manifests.ingress_classes.iter();
            let theirs = theirs.filter(|(_, controller)| controller.as_str() == THEIR_CONTROLLER);
            theirs.map(|(name, _)| name.clone()).chain([THEIR_CLASS.to_owned()]).collect()
        }
    };
    manifests.ingresses.retain(|name, ingress| {
        let own = ingress.data.pointer("/spec/ingressClassName").and_then(Value::as_str);
        let own = own
            .or_else(|| ingress.metadata.annotations.get("kubernetes.io/ingress.class").map(String::as_str));
        let is_wanted = own.map_or(class.is_none(), |own| wanted.contains(own));
        if !is_wanted {
            let note = format!("its class is {}; it is left out", own.unwrap_or("not named"));
            let name = Reference { kind: Kind::Ingress, name: name.clone() }.to_string();
            reports.push(ImportedObject { name, findings: Vec::new(), notes: BTreeSet::from([note]) });
            return false;
        }
        if let Some(spec) = ingress.data.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("ingressClassName".to_owned(), CLASS.into());
        }
        true
    });
}

fn put_class(objects: &mut Objects) {
    let class = json!({ "metadata": { "name": CLASS }, "spec": { "controller": CONTROLLER } });
    if let Ok(class) = serde_json::from_value(class) {
        objects.put(Kind::IngressClass, class);
    }
}

impl Imported {
    /// Returns the report as text, without markup.
    #[must_use]
    pub fn report(&self) -> String {
        let mut out = String::new();
        for ImportedObject { name, findings, notes } in &self.objects {
            // A `String` takes every text.
            let _ = writeln!(out, "{name}");
            let same: Vec<&str> = findings
                .iter()
                .filter(|finding| finding.is_same())
                .map(|finding| finding.annotation.as_str())
                .collect();
            if !same.is_empty() {
                let _ = writeln!(out, "  same: {}", same.join(", "));
            }
            for (behaviour, word) in [
                (Behaviour::Differs, "differs"),
                (Behaviour::Unsupported, "NOT SUPPORTED"),
                (Behaviour::Invalid, "NOT VALID"),
            ] {
                for finding in findings.iter().filter(|finding| finding.behaviour == behaviour) {
                    let _ = writeln!(out, "  {word}: {}: {}", finding.annotation, finding.text);
                }
            }
            for note in notes {
                let _ = writeln!(out, "  note: {note}");
            }
            if findings.is_empty() && notes.is_empty() {
                let _ = writeln!(out, "  same");
            }
        }
        out
    }
}

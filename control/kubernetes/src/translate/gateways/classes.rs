//! GatewayClasses: which of them belong to this controller, and their statuses.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Gateways;
use crate::object::Kind;
use crate::objects::Objects;
use crate::translate::conditions::{Condition, SUPPORTED_FEATURES, to_json};
use crate::translate::{TranslationSettings, reference};

impl Gateways {
    /// Adds the statuses of this controller's classes, and returns the names of the accepted ones.
    pub(super) fn classes<'o>(
        &mut self,
        objects: &'o Objects,
        settings: &TranslationSettings,
    ) -> BTreeSet<&'o str> {
        let mut accepted = BTreeSet::new();
        for (name, class) in &objects.gateway_classes {
            let Ok(spec) = &class.spec else { continue };
            if spec.controller_name != settings.controller {
                continue;
            }
            let condition = match &spec.parameters_ref {
                None => {
                    accepted.insert(&*name.name);
                    Condition::yes("Accepted", "Accepted")
                }
                Some(_) => {
                    Condition::no("Accepted", "InvalidParameters", "this controller has no parameters")
                }
            };
            let features: Vec<Value> =
                features(settings).into_iter().map(|name| json!({ "name": name })).collect();
            let status = json!({
                "conditions": to_json(&[condition], class.meta.generation),
                "supportedFeatures": features,
            });
            self.classes.insert(reference(Kind::GatewayClass, name), status);
        }
        accepted
    }
}

/// Returns the features that a class reports.
fn features(settings: &TranslationSettings) -> BTreeSet<&'static str> {
    let mut features: BTreeSet<&str> = SUPPORTED_FEATURES.iter().copied().collect();
    if let Some(services) = &settings.services {
        features.insert("GatewayInfrastructure");
        if services.shares_address() {
            features.remove("GatewayStaticAddresses");
        }
    }
    features
}

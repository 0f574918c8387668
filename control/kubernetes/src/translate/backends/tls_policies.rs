//! BackendTLSPolicies: the TLS settings of a Service's port, and the statuses of the policies.

use serde_json::{Value, json};

use super::{Ancestors, Backends, Referrer};
use crate::object::{Kind, Object, ObjectName};
use crate::resources::{BackendTlsPolicy, ServicePort};
use crate::translate::conditions::{Condition, to_json};
use crate::translate::policies::{ANCESTORS_MAX, ancestor_reference};
use crate::translate::{Statuses, TranslationSettings, reference, secrets};

impl Backends<'_> {
    /// Returns the TLS settings of a Service's port, or why they are not valid; `None`: no policy applies.
    pub(super) fn tls(
        &mut self,
        service: &ObjectName,
        port: &ServicePort,
        referrer: &Referrer<'_>,
    ) -> Option<Result<Value, Condition>> {
        let policies = self.policies.get(service)?.clone();
        for policy in &policies {
            let ancestors = self.found.ancestors.entry(policy.meta.object_name()).or_default();
            ancestors.extend(referrer.gateways.iter().map(|gateway| reference(Kind::Gateway, gateway)));
            // An Ingress has no Gateway.
            ancestors.extend(Some(referrer.route).filter(|route| route.kind == Kind::Ingress).cloned());
        }
        let policy = effective(&policies, service, port)?;
        let spec = policy.spec.as_ref().ok()?;
        Some(self.validation(&policy.meta.namespace, spec))
    }

    /// Returns the TLS settings of a policy.
    fn validation(&mut self, namespace: &str, policy: &BackendTlsPolicy) -> Result<Value, Condition> {
        let validation = &policy.validation;
        let mut tls = json!({ "server_name": validation.hostname });
        let mut names: Vec<&str> = Vec::new();
        for name in &validation.subject_alt_names {
            match name.kind.as_str() {
                "Hostname" => names.push(&name.hostname),
                "URI" => names.push(&name.uri),
                kind => {
                    let message = format!("names of the type {kind} in `subjectAltNames` are not supported");
                    return Err(Condition::no("Accepted", "Invalid", message));
                }
            }
        }
        if !names.is_empty() {
            tls["subject_alt_names"] = json!(names);
        }
        if validation.ca_certificate_refs.is_empty() {
            return match validation.well_known_ca_certificates.as_deref() {
                Some("System") => Ok(tls),
                _ => {
                    let message = "the policy names no CA certificates";
                    Err(Condition::no("Accepted", "NoValidCACertificate", message))
                }
            };
        }
        let (mut authorities, mut refusal) = (String::new(), None);
        for wanted in &validation.ca_certificate_refs {
            let group = wanted.group.as_deref().unwrap_or_default();
            let kind = wanted.kind.as_deref().unwrap_or("ConfigMap");
            if !group.is_empty() || kind != "ConfigMap" {
                let message = format!("{kind} {} is not a ConfigMap", wanted.name);
                refusal = Some(Condition::no("ResolvedRefs", "InvalidKind", message));
                continue;
            }
            let name = ObjectName::new(namespace, &wanted.name);
            self.found.references.insert(reference(Kind::ConfigMap, &name));
            match secrets::authorities(self.objects, &name) {
                Some(text) => {
                    authorities.push_str(text);
                    authorities.push('\n');
                }
                None => {
                    let message = format!("there is no ConfigMap {name} with a certificate in `ca.crt`");
                    refusal = Some(Condition::no("ResolvedRefs", "InvalidCACertificateRef", message));
                }
            }
        }
        match refusal {
            Some(refusal) if authorities.is_empty() => Err(refusal),
            _ => {
                tls["ca"] = authorities.into();
                Ok(tls)
            }
        }
    }

    /// Returns the statuses of the policies that have ancestors.
    pub fn policy_statuses(&mut self, settings: &TranslationSettings, ancestors: &Ancestors) -> Statuses {
        let mut statuses = Statuses::new();
        for (name, ancestors) in ancestors {
            let Some(policy) = self.objects.backend_tls_policies.get(name) else { continue };
            let Ok(spec) = &policy.spec else { continue };
            let (mut accepted, mut resolved) =
                (Condition::yes("Accepted", "Accepted"), Condition::yes("ResolvedRefs", "ResolvedRefs"));
            if self.is_superseded(policy, spec) {
                accepted = Condition::no("Accepted", "Conflicted", "an older policy has the same target");
            }
            match self.validation(&name.namespace, spec) {
                Ok(_) => {}
                Err(condition) if condition.kind == "ResolvedRefs" => {
                    let message = "no CA certificate is valid";
                    accepted = Condition::no("Accepted", "NoValidCACertificate", message);
                    resolved = condition;
                }
                Err(condition) => accepted = condition,
            }
            let generation = policy.meta.generation;
            let ancestors: Vec<Value> = ancestors
                .iter()
                .take(ANCESTORS_MAX)
                .map(|ancestor| {
                    json!({
                        "ancestorRef": ancestor_reference(ancestor),
                        "controllerName": settings.controller,
                        "conditions": to_json(&[accepted.clone(), resolved.clone()], generation),
                    })
                })
                .collect();
            statuses.insert(reference(Kind::BackendTlsPolicy, name), json!({ "ancestors": ancestors }));
        }
        statuses
    }

    /// Returns whether an older policy has each target of a policy.
    fn is_superseded(&self, policy: &Object<BackendTlsPolicy>, spec: &BackendTlsPolicy) -> bool {
        let mut targets = spec.target_refs.iter().filter(|to| to.kind == "Service").peekable();
        targets.peek().is_some()
            && targets.all(|target| {
                let service = ObjectName::new(&policy.meta.namespace, &target.name);
                let others = self.policies.get(&service).into_iter().flatten();
                others.take_while(|other| other.meta != policy.meta).any(|older| {
                    let older =
                        older.spec.as_ref().map(|spec| spec.target_refs.as_slice()).unwrap_or_default();
                    older.iter().any(|to| to.name == target.name && to.section_name == target.section_name)
                })
            })
    }
}

/// Returns the policy that applies to a port: a policy that names the port wins, then the oldest.
fn effective<'a>(
    policies: &[&'a Object<BackendTlsPolicy>],
    service: &ObjectName,
    port: &ServicePort,
) -> Option<&'a Object<BackendTlsPolicy>> {
    let with = |section: Option<&str>| {
        policies.iter().copied().find(|policy| {
            let targets = policy.spec.as_ref().map(|spec| spec.target_refs.as_slice()).unwrap_or_default();
            targets.iter().any(|to| *to.name == *service.name && to.section_name.as_deref() == section)
        })
    };
    with(Some(&port.name)).or_else(|| with(None))
}

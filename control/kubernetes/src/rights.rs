//! Explains why the API server refused a request: a missing right is named with the rule that grants it.

use kube::Error;

use crate::object::Kind;

/// A resource, as rules of RBAC name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    group: String,
    name: String,
}

impl Resource {
    /// Returns the resource of a kind.
    pub fn of(kind: Kind) -> Self {
        let (group, _, _, plural) = kind.names();
        Self { group: group.to_owned(), name: plural.to_owned() }
    }

    /// Returns the status of the objects of a kind, which has rights of its own.
    pub fn status_of(kind: Kind) -> Self {
        let Self { group, name } = Self::of(kind);
        Self { group, name: format!("{name}/status") }
    }

    /// Returns the Leases.
    pub fn leases() -> Self {
        Self { group: "coordination.k8s.io".to_owned(), name: "leases".to_owned() }
    }
}

/// Describes why a request failed. `verbs`: the verbs that the gateway needs on the resource.
pub fn explain(error: &Error, verbs: &str, resource: &Resource) -> String {
    match error {
        Error::Api(status) => explain_status(status.code, &status.message, verbs, resource),
        Error::Service(error) => format!("the API server cannot be reached: {}", with_sources(&**error)),
        other => other.to_string(),
    }
}

/// Returns the texts of an error and of its causes: only the last one says why a connection failed.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Describes the answer of the API server.
pub fn explain_status(code: u16, message: &str, verbs: &str, resource: &Resource) -> String {
    let Resource { group, name } = resource;
    match code {
        401 => format!("the API server does not accept the token or certificate of the gateway: {message}"),
        403 => {
            let group = if group.is_empty() { "\"\"" } else { group };
            format!(
                "the gateway has no right to this: {message}; add this rule to its role: \
                 {{apiGroups: [{group}], resources: [{name}], verbs: [{verbs}]}}"
            )
        }
        429 => format!("the API server has too many requests: {message}"),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_names_the_rule_to_add() {
        let said = "gateways.gateway.networking.k8s.io is forbidden";
        let text = explain_status(403, said, "list, watch", &Resource::of(Kind::Gateway));
        let rule = "{apiGroups: [gateway.networking.k8s.io], resources: [gateways], verbs: [list, watch]}";
        assert!(text.contains(said) && text.ends_with(rule), "{text}");
        let text = explain_status(403, said, "patch", &Resource::status_of(Kind::HttpRoute));
        assert!(text.contains("resources: [httproutes/status], verbs: [patch]"), "{text}");
        let text = explain_status(403, said, "get", &Resource::of(Kind::Secret));
        assert!(text.contains("apiGroups: [\"\"], resources: [secrets]"), "{text}");
        assert_eq!(explain_status(500, "etcd: slow", "get", &Resource::leases()), "etcd: slow");
    }
}

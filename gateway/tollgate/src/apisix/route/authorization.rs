//! Completes the policies of a route that depend on all consumers: tokens, and the rules of `authorize`.

use serde_json::{Map, Value, json};

use super::super::consumer;
use super::super::objects::{ObjectKind, Objects};
use super::super::plugins::TokenSettings;

/// Adds the policies that verify the tokens of all consumers.
///
/// # Errors
/// No consumer has a token.
pub(super) fn accept_tokens(
    objects: &Objects,
    tokens: &TokenSettings,
    policies: &mut Map<String, Value>,
) -> Result<(), String> {
    let (token_policies, owners) = consumer::tokens(objects, tokens);
    for (kind, value) in token_policies {
        if policies.insert(kind, value).is_some() {
            return Err("`plugins/jwt-auth`: no consumer has this plugin, so every request would be refused"
                .to_owned());
        }
    }
    // A client with a token is identified by the token's claim, not by the consumer's name.
    for list in ["allow", "deny"] {
        let rules = policies.get_mut("authorize").and_then(|it| it.get_mut(list));
        match rules {
            None => {}
            Some(Value::Array(rules)) => rules.iter_mut().for_each(|rule| name_tokens(rule, &owners)),
            Some(rule) => name_tokens(rule, &owners),
        }
    }
    Ok(())
}

/// Adds to a rule of `authorize` the claims that identify the tokens of its consumers and groups.
fn name_tokens(rule: &mut Value, keys: &[consumer::TokenOwner]) {
    let known: [fn(&consumer::TokenOwner) -> Option<&String>; 2] =
        [|owner| Some(&owner.consumer), |owner| owner.group.as_ref()];
    for (kind, of) in ["consumers", "groups"].into_iter().zip(known) {
        let Some(Value::Array(named)) = rule.get_mut(kind) else { continue };
        let more: Vec<_> = keys
            .iter()
            .filter(|owner| of(owner).is_some_and(|own| named.contains(&json!(own))))
            .map(|owner| json!(owner.key))
            .collect();
        named.extend(more);
    }
}

/// Adds a rule for the consumers that no other rule of `authorize` names.
pub(super) fn allow_other_consumers(objects: &Objects, policies: &mut Map<String, Value>) {
    let rules = policies.get_mut("authorize").and_then(|authorize| authorize.get_mut("allow"));
    let Some(Value::Array(rules)) = rules else { return };
    let named = |name: &str| {
        rules.iter().any(|rule| rule["consumers"].as_array().is_some_and(|all| all.contains(&json!(name))))
    };
    let others: Vec<_> = objects
        .all(ObjectKind::Consumers)
        .map(|(name, _)| name)
        .filter(|name| !named(name))
        .map(|name| json!(name))
        .collect();
    if !others.is_empty() {
        rules.push(json!({ "consumers": others }));
    }
}

//! The statuses of Gateways and ListenerSets.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{GatewayState, Gateways, ListenerKey, SetState};
use crate::object::{Kind, Meta, ObjectName, Reference};
use crate::translate::conditions::{Condition, to_json};
use crate::translate::listeners::{self, INSECURE, ListenerState};
use crate::translate::{Translation, reference};

impl Gateways {
    /// Writes the statuses. `attached` has the number of routes of each listener that has any.
    pub fn statuses(&self, attached: &BTreeMap<ListenerKey, usize>, out: &mut Translation) {
        out.statuses.extend(self.classes.clone());
        for (name, gateway) in &self.by_name {
            let owner = reference(Kind::Gateway, name);
            let listeners = gateway.listener_statuses(&owner, &gateway.meta, attached);
            let sets = self.sets.iter().filter(|(_, set)| set.gateway == *name);
            let is_attached = |set: &ObjectName, state: &SetState| {
                state.is_allowed && gateway.of_set(Some(set)).any(ListenerState::serves)
            };
            let attached_sets = sets.clone().filter(|(set, state)| is_attached(set, state)).count();
            out.statuses.insert(owner, gateway.status(listeners, attached_sets));
            for (set, state) in sets {
                let owner = reference(Kind::ListenerSet, set);
                let listeners = gateway.listener_statuses(&owner, &state.meta, attached);
                out.statuses.insert(owner, gateway.set_status(set, state, listeners));
            }
        }
    }
}

impl GatewayState {
    /// Returns the statuses of the listeners that the Gateway or a ListenerSet has.
    fn listener_statuses(
        &self,
        owner: &Reference,
        meta: &Meta,
        attached: &BTreeMap<ListenerKey, usize>,
    ) -> Vec<Value> {
        let set = Some(&owner.name).filter(|_| owner.kind == Kind::ListenerSet);
        self.of_set(set)
            .map(|listener| {
                let key = ListenerKey { owner: owner.clone(), listener: listener.spec.name.clone() };
                let count = attached.get(&key).copied().unwrap_or_default();
                listener.status(!self.addresses.is_empty(), count, meta.generation)
            })
            .collect()
    }

    /// Returns the condition `Accepted` of a Gateway or a ListenerSet with these listeners.
    fn accepted<'s>(mut listeners: impl Iterator<Item = &'s ListenerState>, serves: bool) -> Condition {
        match serves {
            false => Condition::no("Accepted", "ListenersNotValid", "no listener is valid"),
            true if listeners.any(|listener| !listener.conditions.is_empty()) => Condition {
                message: "some listeners are not valid".to_owned(),
                ..Condition::yes("Accepted", "ListenersNotValid")
            },
            true => Condition::yes("Accepted", "Accepted"),
        }
    }

    /// Returns the conditions `Accepted` and `Programmed` of the Gateway.
    pub(super) fn conditions(&self) -> [Condition; 2] {
        let refused = |kind: &str| self.refusal.clone().filter(|condition| condition.kind == kind);
        let parameters =
            self.spec.infrastructure.as_ref().is_some_and(|given| given.parameters_ref.is_some());
        let serves = self.listeners.iter().any(ListenerState::serves);
        let accepted = match refused("Accepted") {
            Some(refusal) => refusal,
            None if parameters => {
                Condition::no("Accepted", "InvalidParameters", "this controller has no parameters")
            }
            None => Self::accepted(self.of_set(None), serves),
        };
        let programmed = match refused("Programmed") {
            Some(refusal) => refusal,
            None if !accepted.holds || self.addresses.is_empty() => {
                Condition::no("Programmed", "Invalid", "the Gateway is not accepted")
            }
            None if self.service_addresses.as_ref().is_some_and(Vec::is_empty) => {
                Condition::no("Programmed", "AddressNotAssigned", "its Service has no address yet")
            }
            None => Condition::yes("Programmed", "Programmed"),
        };
        [accepted, programmed]
    }

    fn status(&self, listeners: Vec<Value>, attached_sets: usize) -> Value {
        let generation = self.meta.generation;
        let mut conditions = Vec::from(self.conditions());
        conditions.push(match &self.client_certificate {
            Some(Err(condition)) => condition.clone(),
            _ => Condition::yes("ResolvedRefs", "ResolvedRefs"),
        });
        let is_insecure = |listener: &ListenerState| {
            let validation = listeners::client_validation(&self.spec, &listener.spec);
            validation.is_some_and(|validation| validation.mode.as_deref() == Some(INSECURE))
        };
        if self.listeners.iter().any(is_insecure) {
            conditions.push(Condition {
                message: "clients without a valid certificate are let in".to_owned(),
                ..Condition::yes("InsecureFrontendValidationMode", "ConfigurationChanged")
            });
        }
        let own = self.addresses.iter();
        let own = own.map(|address| json!({ "type": "IPAddress", "value": address.to_string() }));
        let addresses = self.service_addresses.clone().unwrap_or_else(|| own.collect());
        let mut status = json!({
            "addresses": addresses,
            "conditions": to_json(&conditions, generation),
            "listeners": listeners,
        });
        // Definitions from before ListenerSets do not know the field.
        if self.spec.allowed_listeners.is_some() {
            status["attachedListenerSets"] = attached_sets.into();
        }
        status
    }

    fn set_status(&self, name: &ObjectName, set: &SetState, listeners: Vec<Value>) -> Value {
        let [parent_accepted, parent_programmed] = self.conditions();
        let serves = self.of_set(Some(name)).any(ListenerState::serves);
        let accepted = match set.is_allowed {
            false => Condition::no("Accepted", "NotAllowed", "the Gateway does not allow this ListenerSet"),
            true if !parent_accepted.holds && parent_accepted.reason != "ListenersNotValid" => {
                Condition::no("Accepted", "ParentNotAccepted", "the Gateway is not accepted")
            }
            true => Self::accepted(self.of_set(Some(name)), serves),
        };
        let programmed = match (accepted.holds, parent_programmed.holds) {
            (false, _) => Condition { kind: "Programmed", ..accepted.clone() },
            (true, false) => {
                Condition::no("Programmed", "ParentNotProgrammed", "the Gateway is not programmed")
            }
            (true, true) => Condition::yes("Programmed", "Programmed"),
        };
        json!({
            "conditions": to_json(&[accepted, programmed], set.meta.generation),
            "listeners": listeners,
        })
    }
}

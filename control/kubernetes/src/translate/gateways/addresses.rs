//! Assigns addresses to Gateways and to the Ingresses.
//!
//! The order of preference: the addresses that a Gateway asks for, then the address in its status, then the address that it
//! was assigned before, then a free one. So a Gateway keeps its address over restarts of the gateway, and also until
//! its status is written. If Services share the pod's address, every Gateway has that one.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::Gateways;
use crate::addresses::AddressPool;
use crate::object::Object;
use crate::resources::Gateway;
use crate::translate::TranslationSettings;
use crate::translate::conditions::Condition;
use crate::translate::ingress::Ingresses;
use crate::translate::services::ServiceSettings;

/// The addresses of a Gateway, and the reason why it lacks an address that it asks for.
type AssignedAddresses = (Vec<IpAddr>, Option<Condition>);

impl Gateways {
    /// Assigns addresses to these Gateways, in their order, and to the Ingresses.
    pub(super) fn assign_addresses(
        &mut self,
        gateways: &[(&Object<Gateway>, &Gateway)],
        ingresses: &Ingresses<'_>,
        settings: &TranslationSettings,
        before: &Self,
    ) -> Vec<AssignedAddresses> {
        let pool = &settings.addresses;
        if settings.services.as_ref().is_some_and(ServiceSettings::shares_address) {
            return self.share_address(gateways, ingresses, pool);
        }
        let mut used = BTreeSet::new();
        let mut assigned: Vec<Option<AssignedAddresses>> =
            gateways.iter().map(|(_, spec)| requested(spec, pool, &mut used)).collect();
        // A status may lag behind: the address that a new Gateway was given before counts, too.
        let of_before = |gateway: &Object<Gateway>| {
            let known = before.by_name.get(&gateway.meta.object_name());
            known.and_then(|state| state.addresses.first().copied())
        };
        let of_status = |gateway: &Object<Gateway>| status_address(&gateway.status.value());
        for is_written in [true, false] {
            for (index, (gateway, _)) in gateways.iter().enumerate() {
                if assigned[index].is_some() {
                    continue;
                }
                let address = if is_written { of_status(gateway) } else { of_before(gateway) };
                if let Some(address) = address.filter(|address| pool.contains(*address))
                    && used.insert(address)
                {
                    assigned[index] = Some((vec![address], None));
                }
            }
        }
        let former = [ingresses.former_address(), before.ingress_address.filter(|_| !ingresses.is_empty())];
        let mut former = former.into_iter().flatten().filter(|address| pool.contains(*address));
        self.ingress_address = former.find(|address| used.insert(*address));
        self.last_assigned = before.last_assigned;
        let behind = pool.iter().skip_while(|address| Some(*address) != before.last_assigned).skip(1);
        let mut free = behind.chain(pool.iter());
        let mut next = || {
            let address = free.find(|address| used.insert(*address));
            self.last_assigned = address.or(self.last_assigned);
            address
        };
        if self.ingress_address.is_none() && !ingresses.is_empty() {
            self.ingress_address = next();
        }
        assigned
            .into_iter()
            .map(|assigned| {
                assigned.unwrap_or_else(|| match next() {
                    Some(address) => (vec![address], None),
                    None => {
                        let message = "this controller's pool has no free address";
                        (Vec::new(), Some(Condition::no("Programmed", "AddressNotAssigned", message)))
                    }
                })
            })
            .collect()
    }

    /// Gives all Gateways and the Ingresses the first address of the pool. A Gateway cannot ask for another one.
    fn share_address(
        &mut self,
        gateways: &[(&Object<Gateway>, &Gateway)],
        ingresses: &Ingresses<'_>,
        pool: &AddressPool,
    ) -> Vec<AssignedAddresses> {
        let own: Vec<IpAddr> = pool.iter().take(1).collect();
        self.ingress_address = own.first().copied().filter(|_| !ingresses.is_empty());
        let assigned = |(_, spec): &(&Object<Gateway>, &Gateway)| {
            let asks = spec.addresses.iter().any(|address| !address.value.is_empty());
            let why = "the address of a Gateway is its Service's";
            let refusal = asks.then(|| Condition::no("Accepted", "UnsupportedAddress", why));
            (if asks { Vec::new() } else { own.clone() }, refusal)
        };
        gateways.iter().map(assigned).collect()
    }
}

/// Returns the addresses that a Gateway asks for, as far as they are free; `None`: it asks for none.
fn requested(spec: &Gateway, pool: &AddressPool, used: &mut BTreeSet<IpAddr>) -> Option<AssignedAddresses> {
    if spec.addresses.iter().all(|address| address.value.is_empty()) {
        return None;
    }
    let mut addresses = Vec::new();
    let mut refusal = None;
    for asked in &spec.addresses {
        let kind = asked.kind.as_deref().unwrap_or("IPAddress");
        if kind != "IPAddress" {
            let message = format!("addresses of the type {kind} are not supported");
            return Some((Vec::new(), Some(Condition::no("Accepted", "UnsupportedAddress", message))));
        }
        match asked.value.parse::<IpAddr>() {
            _ if asked.value.is_empty() => {}
            Ok(address) if pool.contains(address) && used.insert(address) => addresses.push(address),
            _ => {
                let message = format!("{} is not a free address of this controller's pool", asked.value);
                refusal = Some(Condition::no("Programmed", "AddressNotUsable", message));
            }
        }
    }
    Some((addresses, refusal))
}

/// Returns the address in a status.
fn status_address(status: &Value) -> Option<IpAddr> {
    status.get("addresses")?.get(0)?.get("value")?.as_str()?.parse().ok()
}

//! Addresses of clients that are let in or kept out, and how these lists combine with credentials.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::reader::Reader;
use super::wanted::Wanted;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    // The older name of the list counts only without the newer one.
    let allow = match reader.text("allowlist-source-range") {
        Some(_) => "allowlist-source-range",
        None => "whitelist-source-range",
    };
    for (annotation, key) in [(allow, "allow"), ("denylist-source-range", "deny")] {
        let blocks = reader.list(annotation);
        if blocks.is_empty() {
            continue;
        }
        match blocks.iter().find(|block| !is_block(block)) {
            Some(wrong) => {
                reader.invalid(
                    annotation,
                    format!("{wrong:?} is not a block of addresses; all paths answer 503"),
                );
                wanted.deny(format!("{annotation} is not valid"));
            }
            None => wanted.set_policy("ip", key, blocks),
        }
    }
}

/// Returns whether a text is an address or a block of addresses.
pub fn is_block(text: &str) -> bool {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let longest = if address.is_ipv4() { 32 } else { 128 };
    length.is_none_or(|length| length.parse::<u8>().is_ok_and(|length| length <= longest))
}

/// Reads `satisfy`. With `any`, an address of the list needs no credentials. It is read after all themes whose
/// policies it combines.
pub fn satisfy(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    match reader.text("satisfy") {
        None | Some("all") => return,
        Some("any") => {}
        Some(other) => return reader.invalid("satisfy", format!("{other:?} is neither all nor any")),
    }
    // The cheapest check comes first.
    let alternatives: Vec<Value> = ["ip", "basic", "forward_auth"]
        .into_iter()
        .filter(|policy| wanted.policies.contains_key(*policy))
        .map(|policy| json!({ policy: wanted.policies[policy] }))
        .collect();
    if alternatives.len() > 1 {
        wanted.policies = std::mem::take(&mut wanted.policies)
            .into_iter()
            .filter(|(policy, _)| !["ip", "basic", "forward_auth"].contains(&policy.as_str()))
            .collect::<Map<_, _>>();
        wanted.policies.insert("any_of".to_owned(), alternatives.into());
    }
}

/// Removes the policies that ask for credentials. Lists of addresses stay.
pub fn admit_without_credentials(policies: &mut Map<String, Value>) {
    let alternatives = policies.shift_remove("any_of");
    let mut alternatives = alternatives.as_ref().and_then(Value::as_array).into_iter().flatten();
    if let Some(list) = alternatives.find_map(|one| one.get("ip")) {
        policies.insert("ip".to_owned(), list.clone());
    }
    for policy in ["basic", "forward_auth"] {
        policies.shift_remove(policy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn lists_of_addresses() {
        let reading = read_all(&[
            ("whitelist-source-range", "10.0.0.0/8, 192.0.2.7"),
            ("denylist-source-range", "10.1.0.0/16"),
        ]);
        let expected = json!({"allow": ["10.0.0.0/8", "192.0.2.7"], "deny": ["10.1.0.0/16"]});
        assert_eq!(reading.wanted.policies.get("ip"), Some(&expected));
        let reading =
            read_all(&[("whitelist-source-range", "10.0.0.0/8"), ("allowlist-source-range", "10.2.0.0/16")]);
        assert_eq!(reading.wanted.policies["ip"]["allow"], json!(["10.2.0.0/16"]));
        // An invalid list admits no client.
        for wrong in ["10.0.0.0/33", "10.0.0.256", "example.com", "10.0.0.0/8,x"] {
            let reading = read_all(&[("whitelist-source-range", wrong)]);
            assert!(reading.wanted.denied.is_some() && reading.wanted.policies.is_empty(), "{wrong}");
        }
    }

    #[test]
    fn any_of_the_checks_is_enough() {
        let reading = read_all(&[
            ("whitelist-source-range", "10.0.0.0/8"),
            ("auth-url", "http://auth.example/"),
            ("satisfy", "any"),
        ]);
        let policies = &reading.wanted.policies;
        assert_eq!(policies.keys().collect::<Vec<_>>(), ["any_of"]);
        assert_eq!(policies["any_of"][0], json!({"ip": {"allow": ["10.0.0.0/8"]}}));
        assert!(policies["any_of"][1]["forward_auth"].is_object());
        let mut policies = policies.clone();
        admit_without_credentials(&mut policies);
        assert_eq!(Value::from(policies), json!({"ip": {"allow": ["10.0.0.0/8"]}}));
        let reading = read_all(&[("whitelist-source-range", "10.0.0.0/8"), ("satisfy", "any")]);
        assert!(reading.wanted.policies.contains_key("ip"));
    }
}

//! Limits on requests and connections of each client address, and on the rate of responses.

use serde_json::{Map, Value, json};

use super::super::super::names;
use super::addresses::is_block;
use super::reader::Reader;
use super::wanted::Wanted;

/// How many seconds' requests a client may send at once, unless an annotation says otherwise.
const BURST_MULTIPLIER: u64 = 5;
/// The largest values that the gateway takes. They stand for no limit.
const RATE_MAX: u64 = 1_000_000;
const BURST_MULTIPLIER_MAX: u64 = 1_000;
const CONNECTIONS_MAX: u64 = 1_000_000;
const KIBIBYTES_MAX: u64 = 1 << 30;
/// The status of refused requests.
const STATUS: u16 = 503;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    let burst = reader.number("limit-burst-multiplier").unwrap_or(BURST_MULTIPLIER).min(BURST_MULTIPLIER_MAX);
    let mut exempt = reader.list("limit-allowlist");
    if exempt.is_empty() {
        exempt = reader.list("limit-whitelist");
    }
    if let Some(wrong) = exempt.iter().find(|block| !is_block(block)) {
        reader.invalid(
            "limit-allowlist",
            format!("{wrong:?} is not a block of addresses; all paths answer 503"),
        );
        return wanted.deny("limit-allowlist is not valid");
    }
    // All paths of the Ingress share one counter.
    let scope = |kind: &str| names::join(&["ingress", &reader.meta.namespace, &reader.meta.name, kind]);
    let (second, minute, connections) = (scope("rps"), scope("rpm"), scope("connections"));
    let limit = |scope: String| {
        let mut limit = Map::new();
        limit.insert("by".to_owned(), "address".into());
        limit.insert("scope".to_owned(), scope.into());
        limit.insert("status".to_owned(), STATUS.into());
        if !exempt.is_empty() {
            limit.insert("exempt".to_owned(), json!({ "addresses": exempt }));
        }
        limit
    };
    let mut rates: Vec<Value> = Vec::new();
    for (annotation, unit, scope) in [("limit-rps", "s", second), ("limit-rpm", "m", minute)] {
        let Some(rate) = reader.number(annotation).filter(|rate| *rate > 0) else { continue };
        let rate = rate.min(RATE_MAX);
        let mut limit = limit(scope);
        limit.insert("rate".to_owned(), format!("{rate}/{unit}").into());
        // The request itself comes on top of the burst.
        limit.insert("burst".to_owned(), (rate * burst + 1).into());
        rates.push(limit.into());
    }
    if !rates.is_empty() {
        wanted.policies.insert("rate_limit".to_owned(), rates.into());
    }
    if let Some(count) = reader.number("limit-connections").filter(|count| *count > 0) {
        let mut limit = limit(connections);
        limit.insert("limit".to_owned(), count.min(CONNECTIONS_MAX).into());
        wanted.policies.insert("concurrency".to_owned(), limit.into());
    }
    bandwidth(reader, wanted);
}

/// Reads the rate of responses, in KiB per second, and the KiB before it applies. A rate of 0 is no limit.
fn bandwidth(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    let (rate, after) = (reader.number("limit-rate"), reader.number("limit-rate-after"));
    let Some(rate) = rate.filter(|rate| *rate > 0) else { return };
    let kibibytes = |number: u64| format!("{}KiB", number.min(KIBIBYTES_MAX));
    wanted.set_policy("bandwidth", "rate", kibibytes(rate));
    if let Some(after) = after.filter(|after| *after > 0) {
        wanted.set_policy("bandwidth", "after", kibibytes(after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn rates_with_their_bursts() {
        let policies = |annotations: &[(&str, &str)]| read_all(annotations).wanted.policies;
        let all = policies(&[
            ("limit-rps", "10"),
            ("limit-rpm", "100"),
            ("limit-burst-multiplier", "3"),
            ("limit-connections", "2"),
            ("limit-allowlist", "10.0.0.0/8"),
        ]);
        let exempt = json!({"addresses": ["10.0.0.0/8"]});
        assert_eq!(
            all["rate_limit"],
            json!([
                {"by": "address", "scope": "ingress_demo_shop_rps", "status": 503, "exempt": exempt,
                 "rate": "10/s", "burst": 31},
                {"by": "address", "scope": "ingress_demo_shop_rpm", "status": 503, "exempt": exempt,
                 "rate": "100/m", "burst": 301},
            ])
        );
        assert_eq!(all["concurrency"]["limit"], json!(2));
        assert_eq!(policies(&[("limit-rps", "1")])["rate_limit"][0]["burst"], json!(6));
        assert!(policies(&[("limit-rps", "0"), ("limit-connections", "0")]).is_empty());
        assert!(read_all(&[("limit-rps", "1"), ("limit-allowlist", "x")]).wanted.denied.is_some());
    }

    #[test]
    fn the_rate_of_responses_is_in_kibibytes() {
        let bandwidth =
            |annotations: &[(&str, &str)]| read_all(annotations).wanted.policies.get("bandwidth").cloned();
        let both = [("limit-rate", "100"), ("limit-rate-after", "2048")];
        assert_eq!(bandwidth(&both), Some(json!({"rate": "100KiB", "after": "2048KiB"})));
        assert_eq!(bandwidth(&both[..1]), Some(json!({"rate": "100KiB"})));
        assert_eq!(bandwidth(&[("limit-rate", "0"), both[1]]), None);
        assert_eq!(bandwidth(&both[1..]), None);
        let reading = read_all(&[("limit-rate", "1M")]);
        assert!(reading.wanted.policies.is_empty() && !reading.findings[0].is_same());
        let most = bandwidth(&[("limit-rate", "18446744073709551615")]);
        assert_eq!(most, Some(json!({"rate": "1073741824KiB"})));
    }
}

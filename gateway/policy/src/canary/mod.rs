//! `canary`: selects one of the route's upstreams for a request, regardless of their weights.
//!
//! By consumer, address, header or cookie, the choice is a hash of the value. A client therefore stays on its
//! side on every worker and gateway, and after a restart.

mod config;

use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;

use siphasher::sip::SipHasher13;
use tollgate_config::Percent;

use crate::{Planned, Policy, PolicyStates, Request, Verdict};

pub(crate) use config::CanarySettings;

/// The number of hash buckets. It is far larger than a million, so that one of three million is practically exact.
const BUCKETS: u64 = 1 << 32;

/// Selects the upstream of the first rule that matches a request; without a match, the weights of the route
/// decide.
#[derive(Clone, Debug, Default)]
pub struct CanaryRules {
    /// The rules in evaluation order.
    pub rules: Box<[CanaryRule]>,
}

/// A rule that sends requests to one upstream if all of its conditions hold.
#[derive(Clone, Debug)]
pub struct CanaryRule {
    /// The upstream, by name.
    pub to: Arc<str>,
    /// Headers that a request must have, with their values; `None`: any value.
    pub headers: Box<[CanaryCondition]>,
    /// Cookies that a request must have, with their values; `None`: any value.
    pub cookies: Box<[CanaryCondition]>,
    /// The share of matching requests.
    pub percent: Percent,
    /// The key that decides which requests are in the share.
    pub by: CanaryKey,
}

/// A name, and its value; `None`: any value.
pub type CanaryCondition = (Box<str>, Option<Box<str>>);

/// The key that decides whether a request is in the share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CanaryKey {
    /// A new random draw for each request.
    Random,
    /// The identified consumer; the client's address if there is none.
    Consumer,
    /// The client's address.
    Address,
    /// A header, by its name in lower case; the client's address if it is missing or empty.
    Header(Box<str>),
    /// A cookie; the client's address if it is missing or empty.
    Cookie(Box<str>),
}

impl Planned for CanaryRules {
    fn kind(&self) -> &'static str {
        "canary"
    }

    fn summary(&self) -> String {
        let rules: Vec<_> =
            self.rules.iter().map(|rule| format!("{} % to {}", rule.percent, rule.to)).collect();
        rules.join(", ")
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        self
    }
}

impl Policy for CanaryRules {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        if let Some(rule) = self.rules.iter().find(|rule| rule.matches(request)) {
            request.context.upstream = Some(rule.to.clone());
        }
        Verdict::Continue
    }
}

impl CanaryRule {
    fn matches(&self, request: &Request<'_>) -> bool {
        let fits = |value: Option<&[u8]>, wanted: &Option<Box<str>>| match (value, wanted) {
            (Some(value), Some(wanted)) => value == wanted.as_bytes(),
            (value, None) => value.is_some(),
            (None, Some(_)) => false,
        };
        self.headers.iter().all(|(name, wanted)| fits(request.header(name), wanted))
            && self.cookies.iter().all(|(name, wanted)| fits(request.cookie(name), wanted))
            && self.is_in_share(request)
    }

    /// Whether the request is in the share of the canary. It stays in the share when the share grows.
    fn is_in_share(&self, request: &Request<'_>) -> bool {
        if self.percent >= Percent::ALL {
            return true;
        }
        let text =
            |value: Option<&[u8]>| value.filter(|value| !value.is_empty()).map(|value| self.hash(value));
        let hash = match &self.by {
            CanaryKey::Random => Some(u64::from(fastrand::u32(..))),
            CanaryKey::Consumer => {
                text(request.context.consumer.as_ref().map(|consumer| consumer.name.as_bytes()))
            }
            CanaryKey::Address => None,
            CanaryKey::Header(name) => text(request.header(name)),
            CanaryKey::Cookie(name) => text(request.cookie(name)),
        };
        let hash = hash.unwrap_or_else(|| match request.origin.client {
            IpAddr::V4(address) => self.hash(&address.octets()),
            IpAddr::V6(address) => self.hash(&address.octets()),
        });
        hash % BUCKETS < self.percent.of(BUCKETS)
    }

    /// Returns a hash that is the same on every worker, on every gateway and after a restart. It includes the
    /// upstream's name, so that two canaries do not select the same clients.
    fn hash(&self, value: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new();
        hasher.write(self.to.as_bytes());
        hasher.write_u8(0);
        hasher.write(value);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sent;
    use crate::{Consumer, Context};

    fn rule(percent: u8, by: CanaryKey) -> CanaryRule {
        CanaryRule {
            to: "v2".into(),
            headers: [].into(),
            cookies: [].into(),
            percent: Percent::whole(percent),
            by,
        }
    }

    fn upstream(rules: &[CanaryRule], fields: &str, context: &mut Context) -> Option<String> {
        let rules = CanaryRules { rules: rules.into() };
        let mut sent = Sent::new(fields);
        assert!(matches!(rules.request(&mut sent.request(context)), Verdict::Continue));
        context.upstream.take().map(|name| name.to_string())
    }

    #[test]
    fn headers_and_cookies_choose() {
        let mut by_header = rule(100, CanaryKey::Random);
        by_header.headers = [("x-canary".into(), Some("always".into()))].into();
        let mut by_cookie = rule(100, CanaryKey::Random);
        (by_cookie.to, by_cookie.cookies) = ("v3".into(), [("beta".into(), None)].into());
        let rules = [by_header, by_cookie];
        for (fields, chosen) in [
            ("", None),
            ("X-Canary: always\r\n", Some("v2")),
            ("X-Canary: Always\r\n", None),
            ("X-Canary: always\r\nCookie: beta=1\r\n", Some("v2")),
            ("Cookie: a=1; beta=\r\n", Some("v3")),
            ("Cookie: betas=1\r\n", None),
        ] {
            assert_eq!(upstream(&rules, fields, &mut Context::default()).as_deref(), chosen, "{fields}");
        }
    }

    #[test]
    fn a_growing_percentage_moves_no_client_back() {
        let chosen = |percent| -> Vec<bool> {
            let rules = [rule(percent, CanaryKey::Cookie("id".into()))];
            let one = |n| upstream(&rules, &format!("Cookie: id={n}\r\n"), &mut Context::default()).is_some();
            (0..2_000).map(one).collect()
        };
        let (ten, twenty) = (chosen(10), chosen(20));
        let count = |chosen: &[bool]| chosen.iter().filter(|one| **one).count();
        assert!((140..260).contains(&count(&ten)), "{}", count(&ten));
        assert!((320..480).contains(&count(&twenty)), "{}", count(&twenty));
        assert!(ten.iter().zip(&twenty).all(|(ten, twenty)| !ten | twenty));
        assert_eq!((count(&chosen(0)), count(&chosen(100))), (0, 2_000));
        assert_eq!(ten, chosen(10), "everybody stays where they are");
    }

    #[test]
    fn a_part_of_a_percent_is_kept_and_stays() {
        let chosen = |parts: u64| -> Vec<bool> {
            let percent = Percent::from(parts);
            let rules = [CanaryRule { percent, ..rule(0, CanaryKey::Cookie("id".into())) }];
            let one = |n| upstream(&rules, &format!("Cookie: id={n}\r\n"), &mut Context::default()).is_some();
            (0..40_000).map(one).collect()
        };
        let (half, more) = (chosen(5_000_000_000), chosen(7_500_000_000));
        let count = |chosen: &[bool]| chosen.iter().filter(|one| **one).count();
        assert!((150..250).contains(&count(&half)), "{}", count(&half));
        assert!((240..360).contains(&count(&more)), "{}", count(&more));
        assert!(half.iter().zip(&more).all(|(half, more)| !half | more));
    }

    #[test]
    fn the_consumer_counts_and_else_the_address() {
        let rules = [rule(50, CanaryKey::Consumer)];
        let mut sides = [0; 2];
        for n in 0..200 {
            let consumer = Consumer { name: format!("c{n}"), ..Consumer::default() };
            let mut context = Context::default();
            context.consumer = Some(Arc::new(consumer));
            sides[usize::from(upstream(&rules, "", &mut context).is_some())] += 1;
        }
        assert!(sides[0] > 60 && sides[1] > 60, "{sides:?}");
        let one = upstream(&rules, "", &mut Context::default());
        assert!(
            (0..20).all(|_| upstream(&rules, "", &mut Context::default()) == one),
            "one address, one side"
        );
    }

    #[test]
    fn lots_are_drawn_for_each_request() {
        let rules = [rule(50, CanaryKey::Random)];
        let canary = (0..400).filter(|_| upstream(&rules, "", &mut Context::default()).is_some()).count();
        assert!((120..280).contains(&canary), "{canary}");
    }
}

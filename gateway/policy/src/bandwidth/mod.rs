//! `bandwidth`: limits how fast the bodies of one request move.
//!
//! The policy decides only about the rates, which it registers in the request's [`Context`](crate::Context). The proxy
//! then delays the bodies. Each request has the rates by itself, whatever its connection carries besides, or it has a
//! [`Share`] of the rates of its key.

mod config;
pub(crate) mod limits;
mod shares;

use std::hash::RandomState;
use std::sync::Arc;

use self::limits::{Bandwidth, BodyLimit, TransferRate};
use self::shares::Shares;
use crate::{CountKey, Planned, Policy, PolicyStates, Request, Verdict};

pub(crate) use self::config::BandwidthSettings;
pub use self::shares::Share;

/// The largest rates of bodies. `None`: full speed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BandwidthRules {
    /// The rate of a response's body, as the client receives it.
    pub response: Option<TransferRate>,
    /// The rate of a request's body, as the client sends it.
    pub request: Option<TransferRate>,
    /// The key of the requests that share the rates; `None`: each request has them by itself.
    pub by: Option<CountKey>,
}

impl Planned for BandwidthRules {
    fn kind(&self) -> &'static str {
        "bandwidth"
    }

    fn summary(&self) -> String {
        let response = self.response.map(|TransferRate { bytes_per_second, free_bytes }| match free_bytes {
            0 => format!("a response at {} a second", size(bytes_per_second.get())),
            _ => {
                format!("a response at {} a second after {}", size(bytes_per_second.get()), size(free_bytes))
            }
        });
        let request =
            self.request.map(|rate| format!("a request at {} a second", size(rate.bytes_per_second.get())));
        let by = self.by.as_ref().map(|by| match by {
            CountKey::All => "all requests share the rates".to_owned(),
            by => format!("shared by {by}"),
        });
        response.into_iter().chain(request).chain(by).collect::<Vec<_>>().join(", ")
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let shares = self.by.as_ref().map(|by| {
            // Changed rates keep the count of the requests in progress.
            shared.state(key, |shares: &KeyedShares| shares.by == *by, || KeyedShares::new(by.clone()))
        });
        Arc::new(BandwidthState { rules: self, shares })
    }
}

#[derive(Debug)]
struct BandwidthState {
    rules: Arc<BandwidthRules>,
    shares: Option<Arc<KeyedShares>>,
}

/// The requests in progress by their key.
#[derive(Debug)]
struct KeyedShares {
    by: CountKey,
    hash: RandomState,
    shares: Arc<Shares>,
}

impl KeyedShares {
    fn new(by: CountKey) -> Self {
        Self { by, hash: RandomState::new(), shares: Arc::default() }
    }
}

impl Policy for BandwidthState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let BandwidthRules { response, request: upload, .. } = *self.rules;
        let share = self.shares.as_ref().map(|keyed| keyed.shares.enter(keyed.by.hash(request, &keyed.hash)));
        let limit = |rate: Option<TransferRate>| Some(BodyLimit { rate: rate?, share: share.clone() });
        request.context.limit_bandwidth(Bandwidth { response: limit(response), request: limit(upload) });
        Verdict::Continue
    }
}

/// Returns a size in the largest unit that states it exactly.
fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Sent, planned};
    use crate::{Consumers, Context};

    type Rates = Option<(u64, u64)>;

    fn activate(written: &str, shared: &Arc<PolicyStates>) -> (String, Arc<dyn Policy>) {
        let planned = planned(written, &Arc::new(Consumers::default()));
        (planned.summary(), planned.activate("k", shared))
    }

    fn limits(policy: &Arc<dyn Policy>, fields: &str) -> Bandwidth {
        let (mut sent, mut context) = (Sent::new(fields), Context::default());
        assert!(matches!(policy.request(&mut sent.request(&mut context)), Verdict::Continue));
        assert!(!context.leaves_bodies(), "the exchange would relay the bodies directly");
        context.take_bandwidth()
    }

    /// Returns the rates of the response and of the request, each with its free bytes.
    fn rates(limits: &Bandwidth) -> (Rates, Rates) {
        let rate = |limit: &Option<BodyLimit>| {
            let BodyLimit { rate: TransferRate { bytes_per_second, free_bytes }, .. } = limit.as_ref()?;
            Some((bytes_per_second.get(), *free_bytes))
        };
        (rate(&limits.response), rate(&limits.request))
    }

    #[test]
    fn all_settings_become_limits() {
        for (written, summary, expected) in [
            (
                "bandwidth: {rate: 1MiB, after: 10MiB, upload: 1.5KiB}",
                "a response at 1 MiB a second after 10 MiB, a request at 1536 B a second",
                (Some((1 << 20, 10 << 20)), Some((1536, 0))),
            ),
            ("bandwidth: 500KB", "a response at 500000 B a second", (Some((500_000, 0)), None)),
            (
                "bandwidth: {upload: 64KiB, by: [address, header X-A]}",
                "a request at 64 KiB a second, shared by address and header x-a",
                (None, Some((64 << 10, 0))),
            ),
            (
                "bandwidth: {rate: 1GiB, by: all}",
                "a response at 1 GiB a second, all requests share the rates",
                (Some((1 << 30, 0)), None),
            ),
        ] {
            let (shown, policy) = activate(written, &Arc::default());
            assert_eq!((shown.as_str(), rates(&limits(&policy, ""))), (summary, expected));
        }
    }

    #[test]
    fn of_two_policies_the_lower_rate_applies() {
        let limits = |written| limits(&activate(written, &Arc::default()).1, "");
        let route = || limits("bandwidth: {rate: 2000, after: 5, upload: 3000}");
        let upstream = || limits("bandwidth: {rate: 1500, after: 9}");
        let expected = (Some((1500, 9)), Some((3000, 0)));
        assert_eq!(rates(&route().and(upstream())), expected);
        assert_eq!(rates(&upstream().and(route())), expected);
        assert!(!Bandwidth::default().is_limited());
    }

    #[test]
    fn requests_of_a_key_share_its_rates() {
        let shared = Arc::new(PolicyStates::default());
        let (_, policy) = activate("bandwidth: {rate: 1MiB, upload: 1MiB, by: header X-A}", &shared);
        let requests = |limits: &Bandwidth| {
            let share =
                |limit: &Option<BodyLimit>| limit.as_ref()?.share.as_ref().map(|share| share.requests());
            assert_eq!(share(&limits.response), share(&limits.request));
            share(&limits.response)
        };
        let (one, two, other) =
            (limits(&policy, "X-A: a\r\n"), limits(&policy, "X-A: a\r\n"), limits(&policy, "X-A: b\r\n"));
        assert_eq!([&one, &two, &other].map(requests), [Some(2), Some(2), Some(1)]);
        let (_, changed) = activate("bandwidth: {rate: 2MiB, upload: 1MiB, by: header X-A}", &shared);
        let three = limits(&changed, "X-A: a\r\n");
        assert_eq!(requests(&one), Some(3), "other rates, the same requests");
        drop((one, two));
        assert_eq!([&three, &other].map(requests), [Some(1), Some(1)]);
        let (_, alone) = activate("bandwidth: 1MiB", &shared);
        assert!(limits(&alone, "").response.is_some_and(|limit| limit.share.is_none()));
    }
}

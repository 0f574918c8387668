//! `bandwidth`: limits how fast the bodies of one request move.
//!
//! The policy decides only about the rates, which it registers in the request's [`Context`](crate::Context). The proxy
//! then delays the bodies: it reads from the slower side only as much as may move now, so nothing is buffered. Each
//! response has a rate of its own, whatever its connection carries besides.

mod config;

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::{Planned, Policy, PolicyStates, Request, Verdict};

pub(crate) use config::BandwidthSettings;

/// The largest rate of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRate {
    /// Bytes per second.
    pub bytes_per_second: NonZeroU64,
    /// Bytes that move at full speed before the rate applies.
    pub free_bytes: u64,
}

/// The largest rates of the bodies of one request. `None`: full speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandwidthRules {
    /// The rate of the response's body, as the client receives it.
    pub response: Option<TransferRate>,
    /// The rate of the request's body, as the client sends it.
    pub request: Option<TransferRate>,
}

impl BandwidthRules {
    /// Returns whether a body is limited.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.response.is_some() || self.request.is_some()
    }

    /// Returns the rules that satisfy both these and `other`: for each body, those with the lower rate.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { response: lower(self.response, other.response), request: lower(self.request, other.request) }
    }
}

fn lower(one: Option<TransferRate>, other: Option<TransferRate>) -> Option<TransferRate> {
    one.into_iter().chain(other).min_by_key(|rate| (rate.bytes_per_second, rate.free_bytes))
}

impl Planned for BandwidthRules {
    fn kind(&self) -> &'static str {
        "bandwidth"
    }

    fn summary(&self) -> String {
        let response = self.response.map(|TransferRate { bytes_per_second, free_bytes }| match free_bytes {
            0 => format!("a response at {} a second", size(bytes_per_second.get())),
            _ => format!(
                "a response at {} a second after {}",
                size(bytes_per_second.get()),
                size(free_bytes)
            ),
        });
        let request =
            self.request.map(|rate| format!("a request at {} a second", size(rate.bytes_per_second.get())));
        response.into_iter().chain(request).collect::<Vec<_>>().join(", ")
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        self
    }
}

impl Policy for BandwidthRules {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        request.context.limit_bandwidth(*self);
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

    const fn rate(bytes_per_second: u64, free_bytes: u64) -> Option<TransferRate> {
        match NonZeroU64::new(bytes_per_second) {
            Some(bytes_per_second) => Some(TransferRate { bytes_per_second, free_bytes }),
            None => None,
        }
    }

    /// Returns the summary of settings, and the rules that a request gets.
    fn rules(written: &str) -> (String, BandwidthRules) {
        let planned = planned(written, &Arc::new(Consumers::default()));
        let summary = planned.summary();
        let policy = planned.activate("k", &Arc::new(PolicyStates::default()));
        let (mut sent, mut context) = (Sent::new(""), Context::default());
        assert!(matches!(policy.request(&mut sent.request(&mut context)), Verdict::Continue));
        assert!(!context.leaves_bodies(), "the exchange would relay the bodies directly");
        (summary, context.take_bandwidth())
    }

    #[test]
    fn all_settings_become_rules() {
        let both = BandwidthRules { response: rate(1 << 20, 10 << 20), request: rate(1536, 0) };
        assert_eq!(
            rules("bandwidth: {rate: 1MiB, after: 10MiB, upload: 1.5KiB}"),
            ("a response at 1 MiB a second after 10 MiB, a request at 1536 B a second".to_owned(), both)
        );
        let short = BandwidthRules { response: rate(500_000, 0), request: None };
        assert_eq!(
            rules("bandwidth: 500KB"),
            ("a response at 500000 B a second".to_owned(), short)
        );
        let upload = BandwidthRules { response: None, request: rate(64 << 10, 0) };
        assert_eq!(rules("bandwidth: {upload: 64KiB}"), ("a request at 64 KiB a second".to_owned(), upload));
    }

    #[test]
    fn of_two_policies_the_lower_rate_applies() {
        let route = BandwidthRules { response: rate(2000, 5), request: rate(3000, 0) };
        let upstream = BandwidthRules { response: rate(1000, 9), request: None };
        let expected = BandwidthRules { response: rate(1000, 9), request: rate(3000, 0) };
        assert_eq!((route.and(upstream), upstream.and(route)), (expected, expected));
        assert!(expected.is_limited() && !BandwidthRules::default().is_limited());
    }
}

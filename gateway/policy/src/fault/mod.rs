//! `fault`: fails or delays requests on purpose, to test how clients react. The delay comes before the abort,
//! and each has its own random draw.

mod config;

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::Percent;

use crate::sampling::is_sampled;
use crate::{Planned, Policy, PolicyResponse, PolicyStates, Request, Verdict};

pub(crate) use config::FaultSettings;

/// The faults, and the requests that they affect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultRules {
    /// A status, and the share of requests that receive it.
    pub abort: Option<(u16, Percent)>,
    /// A delay, and the share of requests that are delayed.
    pub delay: Option<(Duration, Percent)>,
    /// A header that a request must have to be affected, with its value if one is given.
    pub header: Option<(String, Option<String>)>,
}

impl Planned for FaultRules {
    fn kind(&self) -> &'static str {
        "fault"
    }

    fn summary(&self) -> String {
        let delay = self.delay.map(|(time, percent)| format!("{percent} % wait {time:?}"));
        let abort = self.abort.map(|(status, percent)| format!("{percent} % get {status}"));
        let header = self.header.as_ref().map(|(name, _)| format!("of those with {name}"));
        [delay, abort, header].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        Arc::new(FaultState(self))
    }
}

#[derive(Debug)]
struct FaultState(Arc<FaultRules>);

impl Policy for FaultState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        if !self.0.affects(request) {
            return Verdict::Continue;
        }
        let Some((time, _)) = self.0.delay.filter(|(_, percent)| is_sampled(*percent)) else {
            return self.0.abort(request);
        };
        request.context.note = Some("delayed on purpose");
        let rules = self.0.clone();
        Verdict::Sleep(time, Box::new(move |request| rules.abort(request)))
    }
}

impl FaultRules {
    fn affects(&self, request: &Request<'_>) -> bool {
        self.header.as_ref().is_none_or(|(name, wanted)| {
            let value = request.header(name);
            wanted.as_ref().map_or(value.is_some(), |wanted| value == Some(wanted.as_bytes()))
        })
    }

    fn abort(&self, request: &mut Request<'_>) -> Verdict {
        match self.abort.filter(|(_, percent)| is_sampled(*percent)) {
            Some((status, _)) => {
                request.context.note = Some("aborted on purpose");
                Verdict::Respond(PolicyResponse { status, lines: Vec::new(), body: Vec::new() })
            }
            None => Verdict::Continue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::testing::Sent;

    fn verdict(rules: &FaultRules, fields: &str) -> Verdict {
        let (mut sent, mut context) = (Sent::new(fields), Context::default());
        FaultState(Arc::new(rules.clone())).request(&mut sent.request(&mut context))
    }

    #[test]
    fn only_requests_with_the_header_are_affected() {
        let header = |value: Option<&str>| Some(("x-fault".to_owned(), value.map(str::to_owned)));
        for (header, fields, aborted) in [
            (None, "", true),
            (header(None), "", false),
            (header(None), "X-Fault:\r\n", true),
            (header(Some("yes")), "X-Fault: yes\r\n", true),
            (header(Some("yes")), "X-Fault: no\r\n", false),
        ] {
            let rules = FaultRules { abort: Some((503, Percent::ALL)), delay: None, header };
            let answered =
                matches!(verdict(&rules, fields), Verdict::Respond(PolicyResponse { status: 503, .. }));
            assert_eq!(answered, aborted, "{fields:?}");
        }
    }

    #[test]
    fn a_percentage_of_requests() {
        for (percent, range) in [(0, 0..=0), (30, 2600..=3400), (100, 10_000..=10_000)] {
            let rules = FaultRules { abort: Some((500, Percent::whole(percent))), ..FaultRules::default() };
            let aborted = (0..10_000).filter(|_| matches!(verdict(&rules, ""), Verdict::Respond(_))).count();
            assert!(range.contains(&aborted), "{aborted} at {percent} %");
        }
    }

    #[test]
    fn a_delayed_request_may_also_be_aborted() {
        let delay = Some((Duration::from_secs(5), Percent::ALL));
        let rules = FaultRules { delay, abort: Some((504, Percent::ALL)), header: None };
        let Verdict::Sleep(time, after) = verdict(&rules, "") else { panic!("it does not wait") };
        assert_eq!(time, Duration::from_secs(5));
        let (mut sent, mut context) = (Sent::new(""), Context::default());
        assert!(matches!(
            after(&mut sent.request(&mut context)),
            Verdict::Respond(PolicyResponse { status: 504, .. })
        ));
    }
}

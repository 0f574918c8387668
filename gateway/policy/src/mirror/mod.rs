//! `mirror`: sends copies of requests to another upstream, without waiting for the responses.
//!
//! The policy registers a [`RequestCopy`] in the context, and the proxy sends it. A mirror upstream that is
//! down or slow must not slow the gateway down, so failures reduce the number of copies. Counters and pauses
//! survive a change of plan.

mod config;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tollgate_config::Percent;
use tollgate_observe::Reason;

use crate::request_copy::{CopyMarks, CopyResult, CopyWatch, RequestCopy};
use crate::sampling::is_sampled;
use crate::{Planned, Policy, PolicyStates, Request, Verdict};

pub(crate) use config::MirrorSettings;

/// The pause after a copy that reached no endpoint. Then a single copy is sent; if it fails too, the pause
/// doubles, up to `PAUSE_MAX`. Refused connections cost more than answered requests: one per request would
/// slow clients down, and with four every 100 ms one request in a hundred was slower.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_millis(1600);
/// The maximum number of concurrent copies after the last finished copy got no response. Each occupies the
/// gateway like a request until it times out, for nothing. A few are still sent, to detect when the upstream
/// answers again.
const IN_FLIGHT_WHILE_FAILING_MAX: usize = 4;

/// Sends copies of requests to another upstream.
#[derive(Clone, Debug)]
pub struct MirrorRules {
    /// The upstream, by name.
    pub to: Arc<str>,
    /// The share of requests that are copied.
    pub percent: Percent,
    /// The maximum size of a body in bytes; a request with a larger body is not copied.
    pub body: usize,
    /// The maximum number of concurrent copies of all workers; further requests are not copied.
    pub in_flight: usize,
    /// The time limit of a copy.
    pub timeout: Duration,
    /// The changes that mark a request as a copy.
    pub marks: Arc<CopyMarks>,
}

/// The mirrors of one place. Each draws for itself which requests it copies.
#[derive(Clone, Debug)]
pub struct MirrorList {
    /// The mirrors, each with another upstream.
    pub mirrors: Box<[Arc<MirrorRules>]>,
}

impl Planned for MirrorList {
    fn kind(&self) -> &'static str {
        "mirror"
    }

    fn summary(&self) -> String {
        let mirrors: Vec<_> =
            self.mirrors.iter().map(|rules| format!("{} % to {}", rules.percent, rules.to)).collect();
        mirrors.join(", ")
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        match &*self.mirrors {
            [only] => Arc::new(only.activate(key, key, shared)),
            several => {
                let one =
                    |rules: &Arc<MirrorRules>| rules.activate(key, &format!("{key}/{}", rules.to), shared);
                Arc::new(Mirrors(several.iter().map(one).collect()))
            }
        }
    }
}

/// Several mirrors.
#[derive(Debug)]
struct Mirrors(Box<[Mirror]>);

impl Policy for Mirrors {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        for mirror in &self.0 {
            let _ = mirror.request(request);
        }
        Verdict::Continue
    }
}

impl MirrorRules {
    /// `key` finds the counters of the policy, which its mirrors share; `state` finds the mirror's own state.
    fn activate(self: &Arc<Self>, key: &str, state: &str, shared: &Arc<PolicyStates>) -> Mirror {
        let place = key.strip_suffix("/mirror").unwrap_or(key);
        let count = |event| shared.events().counter("mirror", place, event);
        let counts = || MirrorState {
            in_flight: AtomicUsize::new(0),
            failing: AtomicBool::new(false),
            began: tollgate_net::now(),
            pause: AtomicU64::new(0),
            paused: AtomicU64::new(0),
            sent: count("sent"),
            dropped: count("dropped"),
            abandoned: count("given_up"),
            failed: count("failed"),
            same: count("same_status"),
            differs: count("other_status"),
        };
        let counts = shared.state(state, |_| true, counts);
        Mirror { rules: self.clone(), counts }
    }
}

#[derive(Debug)]
struct Mirror {
    rules: Arc<MirrorRules>,
    counts: Arc<MirrorState>,
}

/// Counters and state of the copies.
#[derive(Debug)]
struct MirrorState {
    in_flight: AtomicUsize,
    began: Instant,
    /// Whether the last finished copy got no response.
    failing: AtomicBool,
    /// The end of the pause, in milliseconds since `began`.
    pause: AtomicU64,
    /// The length of the last pause in milliseconds; 0 while endpoints are reachable.
    paused: AtomicU64,
    /// Copies that were sent, with any result.
    sent: Arc<AtomicU64>,
    /// Copies that were not made, because of a limit or a pause.
    dropped: Arc<AtomicU64>,
    /// Copies that were abandoned before sending: the body was too long or incomplete.
    abandoned: Arc<AtomicU64>,
    /// Copies that got no response from the upstream.
    failed: Arc<AtomicU64>,
    /// Copies that got the same status as the client.
    same: Arc<AtomicU64>,
    /// Copies that got another status than the client.
    differs: Arc<AtomicU64>,
}

impl Policy for Mirror {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let rules = &self.rules;
        // After a protocol switch, the two connections would diverge.
        if !is_sampled(rules.percent) || request.head.upgrade.is_some() || request.head.extended {
            return Verdict::Continue;
        }
        let Some(place) = CopyPermit::try_acquire(&self.counts, rules.in_flight) else {
            add(&self.counts.dropped);
            return Verdict::Continue;
        };
        let counts = self.counts.clone();
        let watch = CopyWatch::new(move |end, status| counts.record_result(end, status));
        let main = watch.clone();
        request.context.on_end(move |ended| main.main(ended.status));
        request.context.add_copy(RequestCopy {
            upstream: rules.to.clone(),
            marks: rules.marks.clone(),
            body: rules.body,
            timeout: rules.timeout,
            watch,
            place: Box::new(place),
        });
        Verdict::Continue
    }
}

/// A permit for one concurrent copy.
struct CopyPermit(Arc<MirrorState>);

impl CopyPermit {
    fn try_acquire(counts: &Arc<MirrorState>, most: usize) -> Option<Self> {
        if counts.now() < counts.pause.load(Ordering::Relaxed) {
            return None;
        }
        let most = match counts.paused.load(Ordering::Relaxed) {
            0 if counts.failing.load(Ordering::Relaxed) => most.min(IN_FLIGHT_WHILE_FAILING_MAX),
            0 => most,
            _ => 1,
        };
        let more = |now: usize| (now < most).then_some(now + 1);
        let taken = counts.in_flight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Self(counts.clone()))
    }
}

impl MirrorState {
    /// Returns the milliseconds since `began`.
    fn now(&self) -> u64 {
        tollgate_net::now().duration_since(self.began).as_millis() as u64
    }

    /// Starts or extends the pause after a copy reached no endpoint.
    fn pause(&self) {
        let (now, until) = (self.now(), self.pause.load(Ordering::Relaxed));
        // Of several concurrent failures only the first counts.
        if now >= until {
            let [least, most] = [PAUSE_MIN, PAUSE_MAX].map(|time| time.as_millis() as u64);
            let pause = (self.paused.load(Ordering::Relaxed) * 2).clamp(least, most);
            self.paused.store(pause, Ordering::Relaxed);
            self.pause.store(now + pause, Ordering::Relaxed);
        }
    }

    fn record_result(&self, end: CopyResult, status: Option<u16>) {
        let counts = self;
        if end != CopyResult::Abandoned {
            counts.failing.store(matches!(end, CopyResult::Failed(_)), Ordering::Relaxed);
        }
        if matches!(end, CopyResult::Answered(_)) {
            counts.paused.store(0, Ordering::Relaxed);
        }
        match (end, status) {
            (CopyResult::Abandoned, _) => return add(&counts.abandoned),
            (CopyResult::Failed(reason), _) => {
                if matches!(reason, Reason::ConnectionRefused | Reason::ConnectionTimeout | Reason::DnsError)
                {
                    counts.pause();
                } else {
                    counts.paused.store(0, Ordering::Relaxed);
                }
                add(&counts.failed);
            }
            (CopyResult::Answered(shadow), Some(main)) if shadow == main => add(&counts.same),
            (CopyResult::Answered(_), Some(_)) => add(&counts.differs),
            // The client disconnected before it got a status.
            (CopyResult::Answered(_), None) => {}
        }
        add(&counts.sent);
    }
}

impl Drop for CopyPermit {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sent;
    use crate::{Context, ExchangeOutcome};

    fn mirror(percent: u8, in_flight: usize) -> Arc<dyn Policy> {
        let rules = MirrorRules {
            to: "shadow".into(),
            percent: Percent::whole(percent),
            body: 100,
            in_flight,
            timeout: Duration::from_secs(1),
            marks: Arc::new(CopyMarks { header: Some(("X-Shadow".into(), "1".into())), host: None }),
        };
        Arc::new(MirrorList { mirrors: [Arc::new(rules)].into() }).activate("route/r/mirror", &Arc::default())
    }

    #[test]
    fn several_mirrors_copy_and_fail_independently() {
        let mirror = |to: &str, in_flight| {
            let marks = Arc::new(CopyMarks { header: None, host: None });
            let timeout = Duration::from_secs(1);
            Arc::new(MirrorRules {
                to: to.into(),
                percent: Percent::ALL,
                body: 100,
                in_flight,
                timeout,
                marks,
            })
        };
        let list = Arc::new(MirrorList { mirrors: [mirror("a", 1), mirror("b", 2)].into() });
        assert_eq!(list.summary(), "100 % to a, 100 % to b");
        let policy = list.activate("route/r/mirror", &Arc::default());
        let to = |copies: &[RequestCopy]| -> Vec<String> {
            copies.iter().map(|copy| copy.upstream.to_string()).collect()
        };
        let first = shadows(&policy, "");
        assert_eq!(to(&first), ["a", "b"]);
        let second = shadows(&policy, "");
        assert_eq!(to(&second), ["b"], "`a` has as many as it may");
        assert!(shadows(&policy, "").is_empty());
    }

    fn shadows(policy: &Arc<dyn Policy>, fields: &str) -> Vec<RequestCopy> {
        let mut context = Context::default();
        let mut sent = Sent::new(fields);
        assert!(matches!(policy.request(&mut sent.request(&mut context)), Verdict::Continue));
        let shadows = context.take_copies();
        let now = std::time::Instant::now();
        context.end(&ExchangeOutcome {
            status: 200,
            reason: tollgate_observe::Reason::None,
            bytes_out: 0,
            now,
        });
        shadows
    }

    #[test]
    fn a_percentage_of_requests() {
        assert!(shadows(&mirror(0, 10), "").is_empty());
        assert_eq!(shadows(&mirror(100, 10), "").len(), 1);
        let half = mirror(50, 10);
        let count: usize = (0..400).map(|_| shadows(&half, "").len()).sum();
        assert!((120..280).contains(&count), "{count}");
        assert!(shadows(&mirror(100, 10), "Connection: upgrade\r\nUpgrade: websocket\r\n").is_empty());
    }

    #[test]
    fn concurrent_copies_are_limited() {
        let policy = mirror(100, 2);
        let under_way: Vec<_> = (0..5).flat_map(|_| shadows(&policy, "")).collect();
        assert_eq!(under_way.len(), 2);
        drop(under_way);
        assert_eq!(shadows(&policy, "").len(), 1, "their places are free again");
    }

    #[test]
    fn a_shadow_that_cannot_be_reached_is_left_alone_for_a_while() {
        let policy = mirror(100, 10);
        let end = |reason| shadows(&policy, "").remove(0).watch.shadow(CopyResult::Failed(reason));
        let wait = |pauses: u32| std::thread::sleep(PAUSE_MIN * pauses + Duration::from_millis(10));
        let take = || (0..20).flat_map(|_| shadows(&policy, "")).collect::<Vec<_>>();
        end(Reason::HttpResponseTimeout);
        let mut together = take();
        let mut refused = || together.remove(0).watch.shadow(CopyResult::Failed(Reason::ConnectionRefused));
        refused();
        refused();
        drop(together);
        assert!(take().is_empty());
        wait(1);
        let mut one = take();
        assert_eq!(one.len(), 1);
        one.remove(0).watch.shadow(CopyResult::Failed(Reason::ConnectionRefused));
        wait(1);
        assert!(take().is_empty(), "twice as long");
        wait(1);
        let mut one = take();
        assert_eq!(one.len(), 1);
        one.remove(0).watch.shadow(CopyResult::Answered(200));
        assert_eq!(take().len(), 10);
    }

    #[test]
    fn a_shadow_that_does_not_answer_gets_few_until_it_does() {
        let policy = mirror(100, 10);
        let take = || (0..20).flat_map(|_| shadows(&policy, "")).collect::<Vec<_>>();
        let late =
            || shadows(&policy, "").remove(0).watch.shadow(CopyResult::Failed(Reason::HttpResponseTimeout));
        assert_eq!(take().len(), 10);
        late();
        let mut few = take();
        assert_eq!(few.len(), IN_FLIGHT_WHILE_FAILING_MAX);
        few.remove(0).watch.shadow(CopyResult::Answered(200));
        drop(few);
        assert_eq!(take().len(), 10);
    }

    #[test]
    fn a_client_cannot_mark_its_requests_as_copies_twice() {
        let mut sent = Sent::new("x-shadow: me\r\n");
        let marks =
            CopyMarks { header: Some(("X-Shadow".into(), "1".into())), host: Some("b.example".into()) };
        marks.apply(&mut sent.head);
        assert_eq!(sent.head.head.get_by_text(b"host"), Some(&b"b.example"[..]));
        let all: Vec<_> = sent.head.head.get_by_text(b"x-shadow").into_iter().collect();
        assert_eq!(all, [b"1"]);
    }
}

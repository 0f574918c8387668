//! Protects memory and file descriptors: sheds load before they run out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_config::LogLevel;
use tollgate_listen::ConnectionCounts;
use tollgate_net::component;
use tollgate_observe::{Registry, ResourceMonitor, ResourceReading, ResourceUse};
use tollgate_plan::Overload;
use tracing::{info, warn};

/// How often usage is checked. The bound on client connections is exact in between; memory takes longer than
/// this to fill.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How far usage must fall below a threshold before load is admitted again. Without the gap, admission would
/// oscillate.
const HYSTERESIS: f64 = 0.02;
/// The least time between messages, unless the situation gets worse. The metrics record every change.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(10);

/// Sheds load if memory or file descriptors run short.
#[derive(Clone, Debug)]
pub struct OverloadGuard {
    rules: Arc<Mutex<Overload>>,
    loads: Arc<ConnectionCounts>,
    registry: Arc<Registry>,
}

/// The load that is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shed {
    /// Requests below this priority are refused; 0: none.
    requests: u8,
    /// Client connections beyond this number are refused; `None`: none.
    connections: Option<u64>,
}

impl OverloadGuard {
    /// Creates the guard with the rules of the first plan.
    pub fn new(rules: &Overload, loads: &Arc<ConnectionCounts>, registry: &Arc<Registry>) -> Self {
        let rules = Arc::new(Mutex::new(rules.clone()));
        Self { rules, loads: loads.clone(), registry: registry.clone() }
    }

    /// Applies the rules of another plan.
    pub fn change(&self, rules: &Overload) {
        *self.rules() = rules.clone();
    }

    fn rules(&self) -> MutexGuard<'_, Overload> {
        // The lock is held only for whole assignments, so a poisoned value is still valid.
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the checks. They run as long as the current runtime.
    pub fn start(&self) {
        let guard = self.clone();
        tollgate_net::spawn(async move { guard.watch().await });
    }

    async fn watch(self) {
        let mut monitor = ResourceMonitor::new();
        let mut before = Shed::default();
        let mut last_report = LastReport::default();
        let mut tick = tokio::time::interval(CHECK_INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let rules = self.rules().clone();
            // Read before the descriptors: a connection that opens in between counts as something else, which
            // is the safe side.
            let clients = self.loads.total() as u64;
            let now = Instant::now();
            let mut reading = monitor.read(now, rules.memory, rules.files.share());
            let shed = decide(&reading, clients, &rules, before);
            self.loads.pressure.set(shed.requests, shed.connections.unwrap_or(u64::MAX));
            reading.sheds = shed.requests;
            self.registry.update_status(|status| status.resources = reading);
            match last_report.message(now, &reading, shed, clients) {
                Some((LogLevel::Warn, message)) => warn!(target: component::OVERLOAD, "{message}"),
                Some((_, message)) => info!(target: component::OVERLOAD, "{message}"),
                None => {}
            }
            before = shed;
        }
    }
}

/// Decides which load to refuse.
///
/// All work takes memory. Past `shed_from`, low priority is refused; past the middle between there and the
/// bound, normal priority too; at the bound, all new work. Connections take descriptors. Past `shed_from` of
/// them, only low priority is refused, which leaves connections to endpoints to the other requests; connected
/// clients must not suffer from new ones.
fn decide(reading: &ResourceReading, clients: u64, rules: &Overload, before: Shed) -> Shed {
    let from = rules.shed_from.share();
    let memory = reading.memory.map_or(0.0, ResourceUse::ratio);
    let files = reading.files.map_or(0.0, ResourceUse::ratio);
    let past = |ratio: f64, line: f64, level: u8| {
        let slack = if before.requests >= level { HYSTERESIS } else { 0.0 };
        ratio >= line - slack
    };
    let full = past(memory, 1.0, 3);
    let requests = match () {
        () if full => 3,
        () if past(memory, f64::midpoint(from, 1.0), 2) => 2,
        () if past(memory, from, 1) || past(files, from, 1) => 1,
        () => 0,
    };
    let connections = if full {
        Some(0)
    } else {
        // Everything else that is open stays open, and clients get the remainder.
        reading.files.map(|files| files.bound.saturating_sub(files.used.saturating_sub(clients)))
    };
    Shed { requests, connections }
}

/// The state that was last reported on standard error.
#[derive(Debug, Default)]
struct LastReport {
    state: (u8, bool),
    at: Option<Instant>,
}

impl LastReport {
    /// Returns a message if the state has changed, at most once every [`MESSAGE_INTERVAL`] unless it got worse.
    fn message(
        &mut self,
        now: Instant,
        reading: &ResourceReading,
        shed: Shed,
        clients: u64,
    ) -> Option<(LogLevel, String)> {
        let closed = shed.connections.is_some_and(|most| clients >= most);
        let state = (shed.requests, closed);
        let soon = self.at.is_some_and(|at| now.saturating_duration_since(at) < MESSAGE_INTERVAL);
        if state == self.state || (soon && state <= self.state) {
            return None;
        }
        (self.state, self.at) = (state, Some(now));
        let requests = match shed.requests {
            0 => None,
            1 => Some("requests of low priority"),
            2 => Some("requests of low and normal priority"),
            _ => Some("all requests"),
        };
        let connections = closed.then_some("new client connections");
        let turned_away: Vec<_> = requests.into_iter().chain(connections).collect();
        if turned_away.is_empty() {
            let message = "overload is over: nothing is turned away any more";
            return Some((LogLevel::Info, message.to_owned()));
        }
        let used = [("memory", reading.memory, " bytes"), ("file descriptors", reading.files, "")];
        let used = used.into_iter().filter_map(|(state, guarded, unit)| {
            let ResourceUse { used, bound } = guarded?;
            Some(format!("{state}: {used} of {bound}{unit}"))
        });
        let used = used.collect::<Vec<_>>().join("; ");
        let message = format!("overload: {} are turned away ({used})", turned_away.join(" and "));
        Some((LogLevel::Warn, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(memory: u64, files: u64) -> ResourceReading {
        let of = |used| Some(ResourceUse { used, bound: 1000 });
        ResourceReading { memory: of(memory), files: of(files), sheds: 0 }
    }

    fn requests(memory: u64, files: u64, before: u8) -> u8 {
        let before = Shed { requests: before, connections: None };
        decide(&reading(memory, files), 0, &Overload::default(), before).requests
    }

    #[test]
    fn the_lowest_priority_goes_first_and_the_highest_last() {
        assert_eq!(
            [0, 899, 900, 949, 950, 999, 1000, 5000].map(|memory| requests(memory, 0, 0)),
            [0, 0, 1, 1, 2, 2, 3, 3]
        );
    }

    #[test]
    fn descriptors_cost_only_low_priority() {
        assert_eq!([899, 900, 1000, 1053].map(|files| requests(0, files, 0)), [0, 1, 1, 1]);
    }

    #[test]
    fn overload_has_hysteresis() {
        assert_eq!((requests(890, 0, 1), requests(879, 0, 1)), (1, 0));
        assert_eq!((requests(985, 0, 3), requests(979, 0, 3)), (3, 2));
        assert_eq!((requests(0, 881, 1), requests(0, 879, 1)), (1, 0));
        assert_eq!(requests(890, 0, 0), 0);
    }

    #[test]
    fn clients_have_what_is_left_of_the_descriptors() {
        let most = |used, clients, memory| {
            let reading = reading(memory, used);
            decide(&reading, clients, &Overload::default(), Shed::default()).connections
        };
        assert_eq!(most(100, 40, 0), Some(940));
        assert_eq!(most(1000, 900, 0), Some(900));
        assert_eq!(most(1200, 100, 0), Some(0));
        assert_eq!(most(100, 200, 0), Some(1000), "some have just been closed");
        assert_eq!(most(100, 40, 1000), Some(0));
        let none = decide(&ResourceReading::default(), 9, &Overload::default(), Shed::default());
        assert_eq!(none, Shed::default());
    }

    #[test]
    fn overload_is_logged_once_and_escalation_at_once() {
        let (mut last_report, now) = (LastReport::default(), Instant::now());
        let mut say = |seconds, requests, connections, clients| {
            let shed = Shed { requests, connections: Some(connections) };
            last_report.message(now + Duration::from_secs(seconds), &reading(950, 10), shed, clients)
        };
        assert_eq!(say(0, 0, 100, 5), None);
        let first = say(1, 1, 100, 5).expect("a message");
        let text = "overload: requests of low priority are turned away \
             (memory: 950 of 1000 bytes; file descriptors: 10 of 1000)";
        assert_eq!(first, (LogLevel::Warn, text.to_owned()));
        assert_eq!(say(2, 1, 100, 5), None);
        let (_, worse) = say(3, 3, 0, 5).expect("a message");
        assert!(worse.contains("all requests and new client connections are turned away"), "{worse}");
        assert_eq!(say(4, 0, 100, 5), None, "it may come again at once");
        let over = "overload is over: nothing is turned away any more".to_owned();
        assert_eq!(say(14, 0, 100, 5), Some((LogLevel::Info, over)));
    }
}

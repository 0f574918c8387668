//! `maintenance`: during maintenance, refuses all clients except some addresses.
//!
//! ```yaml
//! policies:
//!   plugins:
//!     maintenance:
//!       message: back at six
//!       allow: [10.0.0.0/8]                  # admitted addresses
//!       daily: { from: "02:00", to: "06:00" }  # UTC; without it: all day
//! ```
//!
//! Refused clients get a 503 with `Retry-After`. A field in the responses to admitted clients counts the
//! requests refused so far.

mod settings;
mod window;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate::plugin::serde_json::{Value, json};
use tollgate::plugin::{
    Block, Planned, Plugin, Policy, PolicyResponse, PolicyStates, Reason, Refusal, Request, SettingsProblems,
    Stage, Verdict,
};

use window::Window;

/// The plugin, for [`tollgate::run_with`].
#[derive(Debug)]
pub struct Maintenance;

impl Plugin for Maintenance {
    fn name(&self) -> &'static str {
        "maintenance"
    }

    fn about(&self) -> &'static str {
        "turns everybody away but some addresses (503), all day or at some hours of it"
    }

    /// Runs before the policies that check credentials, so that a refused client is not asked for a password.
    fn stage(&self) -> Stage {
        Stage::Early
    }

    fn plan(&self, settings: &Value) -> Result<Arc<dyn Planned>, SettingsProblems> {
        Ok(Arc::new(settings::rules(settings)?))
    }

    fn schema(&self) -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {
                "message": { "type": "string", "description": "What those are told who are turned away." },
                "allow": { "type": "array", "items": { "type": "string" }, "description": "Who gets through." },
                "daily": { "type": "object", "description": "From when to when, in UTC." },
                "retry_after": { "type": "integer", "description": "Seconds, where no hour says when it is over." },
                "hold": { "type": "integer", "description": "Milliseconds that those wait who are turned away." }
            },
            "additionalProperties": false
        }))
    }
}

/// The checked settings, as they stand in a plan. They hold no state, so that equal settings make equal
/// plans.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    message: Option<String>,
    allow: Vec<Block>,
    window: Window,
    retry_after: u64,
    hold: Duration,
}

impl Planned for Rules {
    fn summary(&self) -> String {
        format!("{}, {} blocks of addresses get through", self.window, self.allow.len())
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let place = key.strip_suffix("/plugins/maintenance").unwrap_or(key);
        // The state is stored under the policy's key, so a reload keeps the previous plan's count.
        let state = || State {
            turned_away: AtomicU64::new(0),
            metric: shared.events().counter("plugins/maintenance", place, "turned_away"),
        };
        Arc::new(Live { state: shared.state(key, |_| true, state), rules: self })
    }
}

/// The state that all workers share, kept from plan to plan.
#[derive(Debug)]
struct State {
    turned_away: AtomicU64,
    metric: Arc<AtomicU64>,
}

/// The policy that evaluates requests. All workers call it, so it must not block.
#[derive(Debug)]
struct Live {
    rules: Arc<Rules>,
    state: Arc<State>,
}

impl Policy for Live {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let Some(left) = self.rules.window.left(now()) else { return Verdict::Continue };
        if self.rules.allow.iter().any(|block| block.contains(request.origin.client)) {
            let state = self.state.clone();
            // The closure runs when the response arrives, and reports the count of that moment.
            request.context.on_head(move |response| {
                let count = state.turned_away.load(Ordering::Relaxed);
                response.set("Maintenance-Turned-Away", count.to_string().as_bytes());
            });
            return Verdict::Continue;
        }
        self.state.turned_away.fetch_add(1, Ordering::Relaxed);
        self.state.metric.fetch_add(1, Ordering::Relaxed);
        let seconds = left.unwrap_or(self.rules.retry_after).to_string();
        if self.rules.hold.is_zero() {
            return self.rules.turn_away(&seconds);
        }
        // The worker serves other requests during the sleep. If the client closes, the sleep ends.
        let rules = self.rules.clone();
        Verdict::Sleep(self.rules.hold, Box::new(move |_| rules.turn_away(&seconds)))
    }
}

impl Rules {
    fn turn_away(&self, seconds: &str) -> Verdict {
        match &self.message {
            // A custom answer.
            Some(message) => {
                let fields = [("Retry-After", seconds), ("Content-Type", "text/plain; charset=utf-8")];
                let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
                Verdict::Respond(PolicyResponse::with_fields(503, fields, message.clone().into_bytes()))
            }
            // The gateway's own error: in the format that the client accepts, with its reason in the log and
            // the metrics.
            None => {
                let refusal = Refusal { detail: Some("maintenance"), ..Reason::PluginUnavailable.into() };
                refusal.with_field("Retry-After", seconds.as_bytes()).into()
            }
        }
    }
}

/// Returns the seconds since midnight, in UTC.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % window::DAY
}

#[cfg(test)]
mod tests {
    use tollgate::plugin::Context;
    use tollgate::plugin::testing::Sent;

    use super::*;

    fn live(settings: &Value, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let planned = Maintenance.plan(settings).unwrap_or_else(|problems| panic!("{problems:?}"));
        planned.activate("gateway/plugins/maintenance", shared)
    }

    /// Returns the verdict on a request from 192.0.2.1.
    fn verdict(policy: &Arc<dyn Policy>) -> Verdict {
        let (mut sent, mut context) = (Sent::new(""), Context::default());
        policy.request(&mut sent.request(&mut context))
    }

    #[test]
    fn those_who_are_allowed_get_through() {
        let shared = Arc::default();
        assert!(matches!(verdict(&live(&json!({"allow": ["192.0.2.0/24"]}), &shared)), Verdict::Continue));
        let other = live(&json!({"allow": ["10.0.0.0/8"], "retry_after": 7}), &shared);
        let Verdict::Refuse(refusal) = verdict(&other) else { panic!("it gets through") };
        assert_eq!(
            (refusal.reason, &refusal.lines[..]),
            (Reason::PluginUnavailable, &b"retry-after: 7\r\n"[..])
        );
    }

    #[test]
    fn a_message_is_an_answer_of_its_own() {
        let policy = live(&json!({"message": "back soon", "hold": 5}), &Arc::default());
        let Verdict::Sleep(hold, after) = verdict(&policy) else { panic!("it does not wait") };
        assert_eq!(hold, Duration::from_millis(5));
        let (mut sent, mut context) = (Sent::new(""), Context::default());
        let Verdict::Respond(answer) = after(&mut sent.request(&mut context)) else { panic!("no answer") };
        assert_eq!((answer.status, &answer.body[..]), (503, &b"back soon"[..]));
    }

    #[test]
    fn the_next_plan_goes_on_with_the_count() {
        let shared = Arc::default();
        let state = |policy: &Arc<dyn Policy>| format!("{policy:?}").contains("turned_away: 2");
        let first = live(&json!({}), &shared);
        verdict(&first);
        verdict(&first);
        assert!(state(&first) && state(&live(&json!({"retry_after": 9}), &shared)));
    }
}

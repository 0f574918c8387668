//! Response fields that report limits to the client: `RateLimit` and `RateLimit-Policy`
//! (draft-ietf-httpapi-ratelimit-headers-10), and `Retry-After` (RFC 9110, 10.2.3).

use std::fmt::Write as _;
use std::time::Duration;

use crate::Response;

pub(crate) const POLICY: &str = "RateLimit-Policy";
pub(crate) const LIMIT: &str = "RateLimit";

/// The items of both fields for any number of limits.
#[derive(Debug, Default)]
pub(crate) struct LimitFields {
    policy: String,
    limit: String,
}

impl LimitFields {
    /// Adds a limit: its item of `RateLimit-Policy`, and its current state.
    pub fn add(&mut self, name: &str, policy: &str, remaining: u64, reset: Duration) {
        for text in [&mut self.policy, &mut self.limit] {
            if !text.is_empty() {
                text.push_str(", ");
            }
        }
        self.policy.push_str(policy);
        let seconds = seconds(reset);
        // Writing to a string cannot fail.
        let _ = write!(self.limit, "\"{name}\";r={remaining};t={seconds}");
    }

    /// Appends both fields to a response unless they are empty. Fields of the endpoint stay: both fields are
    /// lists.
    pub fn respond(&self, response: &mut Response<'_>) {
        if !self.policy.is_empty() {
            response.append(POLICY, self.policy.as_bytes());
            response.append(LIMIT, self.limit.as_bytes());
        }
    }

    /// Returns the header lines of a refusal.
    pub fn refusal(&self, wait: Duration) -> Vec<u8> {
        let Self { policy, limit } = self;
        let seconds = seconds(wait).max(1);
        format!("Retry-After: {seconds}\r\n{POLICY}: {policy}\r\n{LIMIT}: {limit}\r\n").into_bytes()
    }
}

/// Returns whole seconds, rounded up, so that a client that waits this long does not retry too early.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Returns an item of `RateLimit-Policy`: the quota (`q`) and the window (`w`) in whole seconds.
pub(crate) fn policy(name: &str, count: u64, window: Duration) -> String {
    format!("\"{name}\";q={count};w={}", seconds(window).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_limits_are_one_list() {
        let mut fields = LimitFields::default();
        fields.add("a", &policy("a", 10, Duration::from_secs(1)), 3, Duration::from_millis(1200));
        fields.add("b", &policy("b", 100, Duration::from_secs(60)), 0, Duration::from_secs(60));
        assert_eq!(
            String::from_utf8_lossy(&fields.refusal(Duration::from_millis(10))),
            "Retry-After: 1\r\nRateLimit-Policy: \"a\";q=10;w=1, \"b\";q=100;w=60\r\n\
             RateLimit: \"a\";r=3;t=2, \"b\";r=0;t=60\r\n"
        );
    }
}

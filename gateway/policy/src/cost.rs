//! The cost of a request, in units of a limit.
//!
//! `rate_limit`, `quota` and `concurrency` charge it before the request is forwarded. The first two also
//! settle the difference when a response reports its own cost.

use crate::{Request, Response};

/// The cost of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The source of the cost.
    pub by: CostSource,
    /// The cost if the source is missing or not a whole number.
    pub default: u64,
    /// The highest cost that a header can set.
    pub max: u64,
}

/// The source of a request's cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostSource {
    /// No source: every request has the default cost.
    Constant,
    /// The method. A method with cost 0 is not counted.
    Method(Box<[(Box<str>, u64)]>),
    /// A request header, by its name in lower case. Its value counts as at least 1, so that a client cannot
    /// make a request free.
    Header(Box<str>),
    /// A response header, which is removed from the response. The default is charged before the request is
    /// forwarded; the difference is settled when the response arrives.
    Response(Box<str>),
}

impl Default for Cost {
    /// Every request costs 1.
    fn default() -> Self {
        Self { by: CostSource::Constant, default: 1, max: 1 }
    }
}

impl Cost {
    /// Returns the cost that is charged before the request is forwarded; 0: the request is not counted.
    pub(crate) fn charge(&self, request: &Request<'_>) -> u64 {
        match &self.by {
            CostSource::Constant | CostSource::Response(_) => self.default,
            CostSource::Method(methods) => {
                let own = methods.iter().find(|(method, _)| method.as_bytes() == request.method());
                own.map_or(self.default, |(_, cost)| *cost)
            }
            CostSource::Header(name) => {
                let reported = request.header(name).and_then(number);
                reported.unwrap_or(self.default).min(self.max).max(1)
            }
        }
    }

    /// Returns the name of the response header that carries the cost.
    pub(crate) fn field(&self) -> Option<&str> {
        if let CostSource::Response(name) = &self.by { Some(name) } else { None }
    }

    /// Returns how far a response can take a limit below zero.
    pub(crate) fn debt(&self) -> u64 {
        if self.field().is_some() { self.max } else { 0 }
    }

    /// Returns the cost that a response reports, and removes the field.
    pub(crate) fn take_reported(&self, response: &mut Response<'_>) -> Option<u64> {
        let name = self.field()?;
        let reported = response.get(name).and_then(number);
        response.remove(name);
        reported.map(|cost| cost.min(self.max))
    }

    /// Returns the part of a summary about the cost: empty, or `, cost by ...`.
    pub(crate) fn summary(&self) -> String {
        match &self.by {
            CostSource::Constant if self.default == 1 => String::new(),
            CostSource::Constant => format!(", {} each", self.default),
            CostSource::Method(_) => ", cost by method".to_owned(),
            CostSource::Header(name) => format!(", cost by header {name}"),
            CostSource::Response(name) => format!(", cost by response header {name}"),
        }
    }
}

/// Parses a whole number without a sign. It saturates at `u64::MAX`.
fn number(value: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| {
        digit.is_ascii_digit().then(|| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    };
    if value.is_empty() { None } else { value.iter().try_fold(0, add) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sent;
    use crate::{BodyKind, Context};

    fn of(cost: &Cost, line: &str, fields: &str) -> u64 {
        let (mut sent, mut context) = (Sent::with(line, fields), Context::default());
        cost.charge(&sent.request(&mut context))
    }

    #[test]
    fn reported_costs_are_clamped() {
        let cost = Cost { by: CostSource::Header("x-cost".into()), default: 2, max: 10 };
        for (reported, is) in [
            ("X-Cost: 7\r\n", 7),
            ("X-Cost: 0\r\n", 1),
            ("X-Cost: 11\r\n", 10),
            ("X-Cost: 0000000000000000000000000007\r\n", 7),
            ("X-Cost: 18446744073709551615\r\n", 10),
            ("X-Cost: 18446744073709551616\r\n", 10),
            ("X-Cost: 99999999999999999999999999999999999999999\r\n", 10),
            ("X-Cost: +3\r\n", 2),
            ("X-Cost: -3\r\n", 2),
            ("X-Cost: 1.5\r\n", 2),
            ("X-Cost:\r\n", 2),
            ("", 2),
        ] {
            assert_eq!(of(&cost, "GET / HTTP/1.1", reported), is, "{reported:?}");
        }
        let cost = Cost {
            by: CostSource::Method([("GET".into(), 0), ("POST".into(), 5)].into()),
            default: 1,
            max: 5,
        };
        let all = ["GET", "POST", "PUT", "get"].map(|method| of(&cost, &format!("{method} / HTTP/1.1"), ""));
        assert_eq!(all, [0, 5, 1, 1]);
    }

    #[test]
    fn the_cost_field_is_not_forwarded() {
        let cost = Cost { by: CostSource::Response("x-cost".into()), default: 1, max: 100 };
        let reported = |line: &str| {
            let mut head = format!("HTTP/1.1 200 OK\r\n{line}\r\n").into_bytes();
            let reported = cost.take_reported(&mut Response::new(&mut head, BodyKind::Fixed));
            assert_eq!(head, b"HTTP/1.1 200 OK\r\n\r\n");
            reported
        };
        assert_eq!(reported("X-Cost: 40\r\n"), Some(40));
        assert_eq!(reported("X-Cost: 4000\r\n"), Some(100));
        assert_eq!(reported("X-Cost: 99999999999999999999\r\n"), Some(100));
        assert_eq!(reported("X-Cost: 0\r\n"), Some(0));
        assert_eq!(reported("X-Cost: -1\r\n"), None);
        assert_eq!(reported("X-Cost: none\r\n"), None);
        assert_eq!(reported(""), None);
    }
}

//! Prepares the requests before the run: serializes the fixed ones once, and parses the templates of the
//! others. [`mix`] computes the order in which they are sent.

use crate::expect::Measure;
use crate::failure::Failure;
use crate::parts::Parts;
use crate::plan::{Body, Plan};
use crate::template::{Names, Rendering, Taking};

/// A request ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The serialized request for HTTP/1, head and body; empty if it is rendered.
    pub(crate) bytes: Vec<u8>,
    /// The same in parts, for other protocols.
    pub(crate) parts: Parts,
    /// The templates, if values are filled in for each request.
    pub(crate) rendering: Option<Rendering>,
    /// The values that are taken from its responses.
    pub(crate) takings: Vec<Taking>,
    /// Whether it is a `HEAD` request, whose response has no body.
    pub(crate) to_head: bool,
    /// Verifies its responses.
    pub(crate) measure: Measure,
}

impl Prepared {
    /// Returns the length of the serialized request; of a rendered one, before values are filled in.
    pub(crate) fn length(&self) -> usize {
        let body = self.parts.body.as_ref().map_or(0, Vec::len);
        self.bytes.len().max(body + self.parts.path.len())
    }
}

impl Body {
    /// Returns the bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Bytes(length) => vec![b'p'; *length],
            Self::Raw(bytes) => bytes.clone(),
        }
    }
}

/// Prepares the plan's requests, in order.
pub(crate) fn prepare(plan: &Plan) -> Result<Vec<Prepared>, Failure> {
    let names = Names::of(plan)?;
    plan.requests
        .iter()
        .map(|request| {
            let parts = Parts {
                method: request.method.clone(),
                path: request.path.clone(),
                host: request.host.clone().unwrap_or_else(|| plan.target.to_string()),
                headers: request.headers.clone(),
                body: request.body.as_ref().map(Body::bytes),
            };
            let rendering = Rendering::new(request, &names)?;
            let mut bytes = Vec::new();
            if rendering.is_none() {
                parts.write(plan.keep_alive, &mut bytes);
            }
            Ok(Prepared {
                bytes,
                parts,
                rendering,
                takings: Taking::all(request, &names)?,
                to_head: request.method == "HEAD",
                measure: Measure::new(request.expect, plan.verification),
            })
        })
        .collect()
}

/// Returns the order of a mix: each request as often as its weight, spread as evenly as possible. Each turn
/// goes to the request that is furthest behind its share, so any part of the order is close to the weights.
pub(crate) fn mix(plan: &Plan) -> Vec<u32> {
    let weights: Vec<i64> = plan.requests.iter().map(|request| i64::from(request.weight)).collect();
    if weights.iter().all(|weight| *weight == 1) {
        return (0..plan.requests.len() as u32).collect();
    }
    let total: i64 = weights.iter().sum();
    let mut credit = vec![0; weights.len()];
    (0..total)
        .map(|_| {
            let mut best = 0;
            for at in 0..weights.len() {
                credit[at] += weights[at];
                if credit[at] > credit[best] {
                    best = at;
                }
            }
            credit[best] -= total;
            best as u32
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Request;
    use std::net::SocketAddr;

    #[test]
    fn requests_as_they_go_out() {
        let mut plan = Plan::new(SocketAddr::from(([127, 0, 0, 1], 81)));
        plan.requests = vec![
            Request::get("/a?b"),
            Request {
                method: "POST".into(),
                host: Some("one.test".into()),
                headers: vec![("X-A".into(), "1".into())],
                body: Some(Body::Bytes(3)),
                ..Request::get("/p")
            },
        ];
        let text =
            |plan: &Plan, at: usize| String::from_utf8(prepare(plan).unwrap()[at].bytes.clone()).unwrap();
        assert_eq!(text(&plan, 0), "GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:81\r\n\r\n");
        plan.keep_alive = false;
        assert_eq!(
            text(&plan, 1),
            "POST /p HTTP/1.1\r\nHost: one.test\r\nX-A: 1\r\nConnection: close\r\nContent-Length: 3\r\n\r\nppp"
        );
    }

    #[test]
    fn a_mix_is_spread_by_weight() {
        let mut plan = Plan::new(SocketAddr::from(([127, 0, 0, 1], 81)));
        let weighed = |weight| Request { weight, ..Request::get("/") };
        plan.requests = vec![weighed(3), weighed(0), weighed(1)];
        assert_eq!(mix(&plan), [0, 0, 2, 0]);
        plan.requests = vec![weighed(1), weighed(1)];
        assert_eq!(mix(&plan), [0, 1]);
    }
}

//! Serializes the requests once, before the run.

use crate::expect::Measure;
use crate::plan::{Body, Plan};

/// A request ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The serialized request, head and body.
    pub(crate) bytes: Vec<u8>,
    /// Whether it is a `HEAD` request, whose response has no body.
    pub(crate) to_head: bool,
    /// Verifies its responses.
    pub(crate) measure: Measure,
}

/// Serializes the plan's requests, in order.
pub(crate) fn prepare(plan: &Plan) -> Vec<Prepared> {
    plan.requests
        .iter()
        .map(|request| {
            let host = request.host.clone().unwrap_or_else(|| plan.target.to_string());
            let mut bytes =
                format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", request.method, request.path).into_bytes();
            for (name, value) in &request.headers {
                bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
            if !plan.keep_alive {
                bytes.extend_from_slice(b"Connection: close\r\n");
            }
            let body = match &request.body {
                None => None,
                Some(Body::Text(text)) => Some(text.clone().into_bytes()),
                Some(Body::Bytes(length)) => Some(vec![b'p'; *length]),
            };
            if let Some(body) = &body {
                bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
            bytes.extend_from_slice(body.as_deref().unwrap_or_default());
            Prepared {
                bytes,
                to_head: request.method == "HEAD",
                measure: Measure::new(request.expect, plan.verification),
            }
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
        let text = |plan: &Plan, at: usize| String::from_utf8(prepare(plan)[at].bytes.clone()).unwrap();
        assert_eq!(text(&plan, 0), "GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:81\r\n\r\n");
        plan.keep_alive = false;
        assert_eq!(
            text(&plan, 1),
            "POST /p HTTP/1.1\r\nHost: one.test\r\nX-A: 1\r\nConnection: close\r\nContent-Length: 3\r\n\r\nppp"
        );
    }
}

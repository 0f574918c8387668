//! Checks plans before a run, so that the threads need no checks of their own.

use crate::failure::Failure;
use crate::plan::{Https, Length, Plan, Protocol, Replay, Request, Think};
use crate::template::Names;
use crate::token::is_token;
use tollgate_lab_record::LoadModel;

/// The most weights together; the order of a mix is computed before the run.
const MOST_WEIGHT: u64 = 100_000;

/// The most concurrent requests of a connection.
const MOST_STREAMS: u32 = 10_000;

/// The longest span, a day; a longer one is surely a mistake.
const LONGEST: f64 = 86_400.0;

/// The highest rate, far above what the sockets of one machine can do.
const FASTEST: f64 = 1e8;

impl Plan {
    /// Checks the plan.
    ///
    /// # Errors
    /// [`Failure::Plan`] with the field and what it should be.
    pub fn check(&self) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Plan(what));
        if self.threads == 0 || self.connections < self.threads {
            return wrong(format!(
                "{} connections over {} threads: expected at least one thread and a connection for each",
                self.connections, self.threads
            ));
        }
        if self.requests.is_empty() {
            return wrong("`requests` is empty: expected at least one".into());
        }
        for (name, seconds) in [("warm_up", self.warm_up), ("ramp", self.ramp)] {
            if !(0.0..=LONGEST).contains(&seconds) {
                return wrong(format!("`{name}` is {seconds}: expected 0 to {LONGEST} seconds"));
            }
        }
        if !(0.001..=LONGEST).contains(&self.time_limit) {
            return wrong(format!(
                "`time_limit` is {}: expected 0.001 to {LONGEST} seconds",
                self.time_limit
            ));
        }
        match self.length {
            Length::Seconds(seconds) if !(0.001..=LONGEST).contains(&seconds) => {
                return wrong(format!("`length` is {seconds} seconds: expected 0.001 to {LONGEST}"));
            }
            Length::Requests(0) => return wrong("`length` is 0 requests: expected at least 1".into()),
            _ => {}
        }
        if let Some(rate) = self.arrivals().rps()
            && !(0.001..=FASTEST).contains(&rate)
        {
            return wrong(format!("the rate is {rate}: expected 0.001 to {FASTEST} requests a second"));
        }
        self.check_timing()?;
        self.check_mix()?;
        self.check_protocol()?;
        if let Some(source) = self.sources.iter().find(|ip| ip.is_ipv4() != self.target.is_ipv4()) {
            return wrong(format!("source {source} cannot reach {}: another IP version", self.target));
        }
        self.requests.iter().try_for_each(Request::check)?;
        Names::of(self).map(drop)
    }

    /// Checks the fields that say when a request is sent.
    fn check_timing(&self) -> Result<(), Failure> {
        let wrong = |what: &str| Err(Failure::Plan(what.to_owned()));
        if let Some(stage) = self.stages.iter().find(|stage| {
            !(0.001..=LONGEST).contains(&stage.seconds)
                || ![stage.from, stage.to].iter().all(|rate| (0.0..=FASTEST).contains(rate))
        }) {
            return Err(Failure::Plan(format!(
                "the stage from {} to {} over {} s: expected rates of 0 to {FASTEST} and 0.001 to {LONGEST} seconds",
                stage.from, stage.to, stage.seconds
            )));
        }
        let timed = !self.stages.is_empty() || self.replay.is_some();
        if timed && matches!(self.length, Length::Requests(_)) {
            return wrong("`length` counts requests: with `stages` or `replay`, expected seconds");
        }
        if let Some(replay) = &self.replay {
            self.check_replay(replay)?;
        }
        if let Some(Think { least, most }) = self.think {
            if !(0.0..=most).contains(&least) || !(0.0..=LONGEST).contains(&most) {
                return wrong("`think`: expected pauses of 0 seconds or more, the shortest first");
            }
            if self.arrivals() != LoadModel::Closed {
                return wrong(
                    "`think` is for a closed loop: a rate decides by itself when a request is sent",
                );
            }
        }
        Ok(())
    }

    /// Checks the times and the order of a recording.
    fn check_replay(&self, replay: &Replay) -> Result<(), Failure> {
        let wrong = |what: &str| Err(Failure::Plan(what.to_owned()));
        if !self.stages.is_empty() || self.flow {
            return wrong("`replay` has times and an order of its own: expected neither `stages` nor `flow`");
        }
        let known = |at: &u32| (*at as usize) < self.requests.len();
        if replay.times_us.is_empty()
            || replay.times_us.len() != replay.order.len()
            || !replay.times_us.is_sorted()
            || !replay.order.iter().all(known)
            || replay.times_us.last().is_some_and(|last| *last >= replay.period_us)
        {
            return wrong(
                "`replay`: expected ascending times below the period, and for each the index of a request",
            );
        }
        Ok(())
    }

    /// Checks the weights of the requests, and the values that they use.
    fn check_mix(&self) -> Result<(), Failure> {
        let wrong = |what: &str| Err(Failure::Plan(what.to_owned()));
        if !self.requests.iter().any(|request| request.weight > 0) {
            return wrong("every `weight` is 0: expected one above 0");
        }
        if self.requests.iter().map(|request| u64::from(request.weight)).sum::<u64>() > MOST_WEIGHT {
            return Err(Failure::Plan(format!(
                "the weights add up to more than {MOST_WEIGHT}: use smaller ones"
            )));
        }
        if !self.flow && self.requests.iter().any(|request| !request.extract.is_empty()) {
            return wrong("`extract` needs `flow`: only the same user can use the value later");
        }
        match &self.data {
            Some(data) if data.rows.is_empty() => wrong("`data` has no rows: expected at least one"),
            Some(data) if data.rows.iter().any(|row| row.len() != data.columns.len()) => {
                wrong("`data`: expected a value for each column in every row")
            }
            _ => Ok(()),
        }
    }

    /// Checks that the protocol can do what the plan asks.
    fn check_protocol(&self) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Plan(what));
        let name = self.protocol.name();
        if self.tls.is_some() && self.https.is_some() {
            return wrong("both `tls` and `https`: expected at most one".into());
        }
        if let Some(Https { certificate, key, .. }) = &self.https
            && certificate.is_some() != key.is_some()
        {
            return wrong("`https` has only one of `certificate` and `key`: expected both or neither".into());
        }
        if !(1..=MOST_STREAMS).contains(&self.streams) {
            return wrong(format!("`streams` is {}: expected 1 to {MOST_STREAMS}", self.streams));
        }
        if self.streams > 1 && !self.protocol.is_over_http2() {
            return wrong(format!(
                "`streams` is {}, but {name} has one request at a time on a connection: use HTTP/2 or more connections",
                self.streams
            ));
        }
        if self.protocol == Protocol::Http1 {
            return Ok(());
        }
        if !self.keep_alive {
            return wrong(format!("`keep_alive` is false: {name} is supported over kept connections only"));
        }
        if self.protocol == Protocol::Sse && self.arrivals() != LoadModel::Closed {
            return wrong("server-sent events come at the server's rate: expected no rate".into());
        }
        if self.ramp > 0.0 {
            return wrong(format!("`ramp` is supported with HTTP/1.1 only, not with {name}"));
        }
        Ok(())
    }
}

impl Request {
    fn check(&self) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Plan(what));
        if !is_token(self.method.as_bytes()) {
            return wrong(format!("method {:?}: expected a word such as GET", self.method));
        }
        if self.path.is_empty() || !self.path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong(format!(
                "path {:?}: expected visible ASCII without spaces, such as /index",
                self.path
            ));
        }
        let host = self.host.iter().map(|host| ("Host", host.as_str()));
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in headers.clone().chain(host) {
            if !is_token(name.as_bytes()) {
                return wrong(format!("header name {name:?}: expected letters, digits and dashes"));
            }
            if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
                return wrong(format!("value of header {name}: control characters cannot be sent"));
            }
        }
        for (name, _) in headers {
            for (ours, field) in [
                ("Host", "host"),
                ("Connection", "keep_alive"),
                ("Content-Length", "body"),
                ("Transfer-Encoding", "body"),
            ] {
                if name.eq_ignore_ascii_case(ours) {
                    return wrong(format!(
                        "header {name} is written by the generator: set `{field}` instead"
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn plan() -> Plan {
        Plan::new(SocketAddr::from(([127, 0, 0, 1], 80)))
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        let bad = |change: fn(&mut Plan)| {
            let mut plan = plan();
            change(&mut plan);
            plan.check().unwrap_err().to_string()
        };
        assert!(plan().check().is_ok());
        assert!(bad(|plan| plan.threads = 2).contains("1 connections over 2 threads"));
        assert!(bad(|plan| plan.requests.clear()).contains("`requests` is empty"));
        assert!(bad(|plan| plan.warm_up = f64::NAN).contains("`warm_up`"));
        assert!(bad(|plan| plan.time_limit = 0.0).contains("`time_limit`"));
        assert!(bad(|plan| plan.length = Length::Requests(0)).contains("0 requests"));
        assert!(bad(|plan| plan.model = LoadModel::Constant { rps: -1.0 }).contains("rate is -1"));
        assert!(bad(|plan| plan.sources = vec!["::1".parse().unwrap()]).contains("another IP version"));
        assert!(bad(|plan| plan.requests[0].path = "/a b".into()).contains("path \"/a b\""));
        assert!(bad(|plan| plan.requests[0].method = String::new()).contains("method"));
        assert!(bad(|plan| plan.requests[0].host = Some("a\r\nb".into())).contains("value of header Host"));
        assert!(
            bad(|plan| plan.requests[0].headers = vec![("connection".into(), "close".into())])
                .contains("set `keep_alive` instead")
        );
    }
}

//! Verifies responses against expectations that are given or learnt from the first response. Each request of
//! a plan has one `Measure`, which all threads share. `Fault` names the counter that a failed request
//! increments.

use crate::plan::Expect;
use crate::response::Response;
use std::sync::OnceLock;
use tollgate_lab_record::{Failures, Verification};

/// The kind of a failure: the counter in [`Failures`] that it increments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Connect,
    Read,
    Write,
    Timeout,
    Status,
    Length,
    Body,
    Protocol,
}

impl Fault {
    pub(crate) fn count(self, failures: &mut Failures) {
        *match self {
            Self::Connect => &mut failures.connect,
            Self::Read => &mut failures.read,
            Self::Write => &mut failures.write,
            Self::Timeout => &mut failures.timeout,
            Self::Status => &mut failures.status,
            Self::Length => &mut failures.length,
            Self::Body => &mut failures.body,
            Self::Protocol => &mut failures.protocol,
        } += 1;
    }
}

/// The expected response to one request, shared by all threads.
#[derive(Debug)]
pub(crate) struct Measure {
    given: Expect,
    full: bool,
    /// Whether any status of success is right: only the status is verified, and none is given.
    any_success: bool,
    learnt: OnceLock<(u16, u64, u64)>,
}

impl Measure {
    pub(crate) fn new(given: Expect, verification: Verification) -> Self {
        let full = verification == Verification::Full;
        Self { given, full, any_success: !full && given == Expect::default(), learnt: OnceLock::new() }
    }

    /// Verifies a response. The first response with the right status sets what was not given.
    pub(crate) fn judge(&self, response: &Response) -> Result<(), Fault> {
        if self.any_success {
            return if (200..400).contains(&response.status) { Ok(()) } else { Err(Fault::Status) };
        }
        let (status, length, digest) = match self.learnt.get() {
            Some(learnt) => *learnt,
            None if self
                .given
                .status
                .map_or(!(200..300).contains(&response.status), |it| it != response.status) =>
            {
                return Err(Fault::Status);
            }
            None => *self.learnt.get_or_init(|| {
                let length = self.given.length.unwrap_or(response.length);
                (response.status, length, self.given.digest.unwrap_or(response.digest))
            }),
        };
        if response.status != status {
            return Err(Fault::Status);
        }
        match self.full {
            true if response.length != length => Err(Fault::Length),
            true if response.digest != digest => Err(Fault::Body),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::digest;

    fn response(status: u16, body: &[u8]) -> Response {
        Response { status, length: body.len() as u64, digest: digest(body), keep_alive: true }
    }

    #[test]
    fn the_first_good_response_is_the_measure_of_the_others() {
        let measure = Measure::new(Expect::default(), Verification::Full);
        assert_eq!(measure.judge(&response(502, b"no")), Err(Fault::Status));
        assert_eq!(measure.judge(&response(200, b"ok")), Ok(()));
        assert_eq!(measure.judge(&response(200, b"ok")), Ok(()));
        assert_eq!(measure.judge(&response(200, b"ko")), Err(Fault::Body));
        assert_eq!(measure.judge(&response(200, b"okay")), Err(Fault::Length));
        assert_eq!(measure.judge(&response(201, b"ok")), Err(Fault::Status));
    }

    #[test]
    fn what_is_given_is_not_learnt() {
        let measure = Measure::new(Expect::exactly(404, b"gone"), Verification::Full);
        assert_eq!(measure.judge(&response(200, b"gone")), Err(Fault::Status));
        assert_eq!(measure.judge(&response(404, b"here")), Err(Fault::Body));
        assert_eq!(measure.judge(&response(404, b"gone")), Ok(()));
    }

    #[test]
    fn status_alone() {
        let measure = Measure::new(Expect::default(), Verification::Status);
        assert_eq!(measure.judge(&response(200, b"1")), Ok(()));
        assert_eq!(measure.judge(&response(200, b"22")), Ok(()));
        assert_eq!(measure.judge(&response(302, b"")), Ok(()));
        assert_eq!(measure.judge(&response(500, b"1")), Err(Fault::Status));
        let given = Expect { status: Some(404), ..Expect::default() };
        let measure = Measure::new(given, Verification::Status);
        assert_eq!(measure.judge(&response(404, b"1")), Ok(()));
        assert_eq!(measure.judge(&response(200, b"1")), Err(Fault::Status));
    }

    #[test]
    fn every_fault_has_its_own_count() {
        let mut failures = Failures::default();
        for fault in [
            Fault::Connect,
            Fault::Read,
            Fault::Write,
            Fault::Timeout,
            Fault::Status,
            Fault::Length,
            Fault::Body,
            Fault::Protocol,
        ] {
            fault.count(&mut failures);
        }
        assert_eq!(
            failures,
            Failures {
                connect: 1,
                read: 1,
                write: 1,
                timeout: 1,
                status: 1,
                length: 1,
                body: 1,
                protocol: 1
            }
        );
    }
}

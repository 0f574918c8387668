//! `fault`.

use tollgate_config as config;
use tollgate_policy::FaultRules;

pub(super) fn fault(fault: &config::Fault) -> FaultRules {
    FaultRules { abort: fault.abort, delay: fault.delay, header: fault.header.clone() }
}

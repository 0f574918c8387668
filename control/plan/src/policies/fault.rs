//! Compiles `fault`. Percentages become millionths.

use tollgate_config as config;
use tollgate_policy::FaultRules;

pub(super) fn fault(fault: &config::Fault) -> FaultRules {
    FaultRules {
        abort: fault.abort.map(|(status, percent)| (status, percent.millionths())),
        delay: fault.delay.map(|(time, percent)| (time, percent.millionths())),
        header: fault.header.clone(),
    }
}

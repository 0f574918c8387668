//! A gateway with the plugin `maintenance`, in addition to everything that `tollgate` does.

use std::process::ExitCode;

use tollgate_example_plugin::Maintenance;

fn main() -> ExitCode {
    tollgate::run_with(vec![Box::new(Maintenance)])
}

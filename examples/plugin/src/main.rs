//! A gateway that has the plugin `maintenance`: everything that `tollgate` does, and that.

use std::process::ExitCode;

use tollgate_example_plugin::Maintenance;

fn main() -> ExitCode {
    tollgate::run_with(vec![Box::new(Maintenance)])
}

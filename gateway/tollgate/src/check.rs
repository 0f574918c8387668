//! `tollgate check FILE...`: reports every problem of configuration files, and opens no socket.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::compiled;
use crate::plural::counted;
use crate::print::print;

/// Prints every problem of every file. The exit code is 0 if all files are valid.
pub fn check(files: &[PathBuf]) -> ExitCode {
    let mut good_ones = String::new();
    let mut code = ExitCode::SUCCESS;
    for file in files {
        let (good, problems) = compiled::read(file);
        compiled::show(&problems);
        match good {
            Some(good) => {
                let routes = counted(good.plan.routes.len(), "route");
                let upstreams = counted(good.plan.upstreams.len(), "upstream");
                good_ones.push_str(&format!("{} is good: {routes}, {upstreams}\n", compiled::name(file)));
            }
            None => code = ExitCode::FAILURE,
        }
    }
    print(&good_ones, code)
}

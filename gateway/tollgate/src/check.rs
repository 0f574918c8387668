//! `tollgate check FILE`.

use std::path::Path;
use std::process::ExitCode;

use crate::compiled;

/// Says every problem; the exit status says whether the file can be run.
pub fn check(file: &Path) -> ExitCode {
    let (good, problems) = compiled::read(file);
    compiled::show(&problems);
    match good {
        Some(good) => {
            let (routes, upstreams) = (good.plan.routes.len(), good.plan.upstreams.len());
            println!("{} is good: {routes} routes, {upstreams} upstreams", file.display());
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

//! `tollgate check FILE...`: reports every problem of configuration files, and opens no socket.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::load;
use crate::plural::count_noun;
use crate::print::print;

/// Prints every problem of every file. The exit code is 0 if all files are valid.
pub fn check(files: &[PathBuf]) -> ExitCode {
    let mut summaries = String::new();
    let mut code = ExitCode::SUCCESS;
    for file in files {
        let (loaded, problems) = load::load_file(file);
        load::print_problems(&problems);
        match loaded {
            Some(loaded) => {
                let routes = count_noun(loaded.plan.routes.len(), "route");
                let upstreams = count_noun(loaded.plan.upstreams.len(), "upstream");
                summaries.push_str(&format!("{} is good: {routes}, {upstreams}\n", load::display_name(file)));
            }
            None => code = ExitCode::FAILURE,
        }
    }
    print(&summaries, code)
}

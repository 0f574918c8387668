//! `tollgate check FILE...`: reports every problem of configuration files, and opens no socket.

use std::path::PathBuf;
use std::process::ExitCode;

use tollgate_config::exact_path_hints;

use crate::load;
use crate::plural::count_noun;
use crate::print::print;

/// Prints every problem of every file, and hints about good ones. The exit code is 0 if all files are valid.
pub fn check(files: &[PathBuf]) -> ExitCode {
    let mut summaries = String::new();
    let mut code = ExitCode::SUCCESS;
    for file in files {
        let (loaded, mut problems) = load::load_file(file);
        if let Some(loaded) = &loaded {
            problems.extend(exact_path_hints(&loaded.config));
            problems.sort();
        }
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

//! `tollgate check [FILE...]`: reports every problem of configuration files, and opens no socket.

use std::path::PathBuf;
use std::process::ExitCode;

use tollgate_config::{exact_path_hints, open_listener_hints};

use crate::config_path;
use crate::load;
use crate::plural::count_noun;
use crate::print::{print, print_error};

/// Prints every problem of every file, and hints about good ones. The exit code is 0 if all files are valid.
pub fn check(named: &[PathBuf]) -> ExitCode {
    let mut files = named.to_vec();
    if files.is_empty() {
        match config_path::resolve(None) {
            Ok(found) => {
                if let Some(line) = found.announcement() {
                    print_error(format_args!("{line}"));
                }
                files.push(found.file);
            }
            Err(message) => {
                print_error(format_args!("error: {message}"));
                return ExitCode::from(2);
            }
        }
    }
    let mut summaries = String::new();
    let mut code = ExitCode::SUCCESS;
    for file in &files {
        let (loaded, mut problems) = load::load_file(file);
        if let Some(loaded) = &loaded {
            problems.extend(exact_path_hints(&loaded.config));
            problems.extend(open_listener_hints(&loaded.config));
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

//! `tollgate check [FILE...]`: reports every problem of configuration files, and opens no socket.

use std::path::PathBuf;
use std::process::ExitCode;

use tollgate_config::{At, Config, exact_path_hints};

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
            problems.sort();
        }

        load::print_problems(&problems);
        match loaded {
            Some(loaded) => {
                for hint in open_listeners(&loaded.config) {
                    print_error(format_args!("{hint}"));
                }
                let routes = count_noun(loaded.plan.routes.len(), "route");
                let upstreams = count_noun(loaded.plan.upstreams.len(), "upstream");
                summaries.push_str(&format!("{} is good: {routes}, {upstreams}\n", load::display_name(file)));
            }
            None => code = ExitCode::FAILURE,
        }
    }
    print(&summaries, code)
}

/// Returns a hint for each listener that is written as a port alone, since other programs differ in which
/// addresses they mean by it. It is a hint and no warning: most gateways are to accept from everywhere, and a
/// start does not repeat it.
fn open_listeners(config: &Config) -> Vec<String> {
    let hint = |at: At| {
        let file = config.files.get(at.file as usize)?;
        let line = file.text.lines().nth(usize::try_from(at.line).ok()?.checked_sub(1)?)?;
        let port = port_alone(line, usize::try_from(at.column).ok()?.saturating_sub(1))?;
        Some(format!(
            "hint: {}:{}:{}: `{port}` accepts connections on all addresses of this machine; write \
             `127.0.0.1:{port}` for this machine only, or `\"[::]:{port}\"` if that is intended",
            file.name, at.line, at.column
        ))
    };
    config.listen.iter().filter_map(|listener| hint(listener.bind.at)).collect()
}

/// Returns the port that begins at this character of a line, unless an address is written there.
fn port_alone(line: &str, column: usize) -> Option<&str> {
    let start = line.char_indices().nth(column)?.0;
    let text = line[start..].trim_start_matches(['"', '\'']);
    let text = text.strip_prefix(':').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (port, rest) = text.split_at(end);
    (!port.is_empty() && !rest.starts_with(['.', ':'])).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_port_alone_is_one() {
        assert_eq!(port_alone("listen: 8080", 8), Some("8080"));
        assert_eq!(port_alone("listen: :8080 # all", 8), Some("8080"));
        assert_eq!(port_alone("listen: [{bind: \":8443\"}]", 16), Some("8443"));
        for other in ["127.0.0.1:8080", "\"[::]:8080\"", "unix:/run/x", "${PORT}", "2001:db8::1"] {
            assert_eq!(port_alone(&format!("listen: {other}"), 8), None, "{other}");
        }
    }
}

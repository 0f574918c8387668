//! What the binary knows of itself: schema, reference, completions, manual.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::print::print;

/// Prints the JSON Schema.
pub fn schema() -> ExitCode {
    print(&format!("{:#}\n", tollgate_config::schema()), ExitCode::SUCCESS)
}

/// Prints the reference of the configuration's keys.
pub fn reference() -> ExitCode {
    print(&tollgate_config::reference(), ExitCode::SUCCESS)
}

/// Prints a shell's completion script.
pub fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tollgate", &mut script);
    print(&String::from_utf8_lossy(&script), ExitCode::SUCCESS)
}

/// Prints the manual page of the whole, or of one command.
pub fn man(name: Option<&str>) -> ExitCode {
    let mut root = Cli::command();
    root.build();
    let command = match name {
        None => root,
        Some(name) => match root.find_subcommand(name) {
            // The page is called as `git-log` is, and its synopsis says `tollgate explain`.
            Some(found) => found.clone().display_name(format!("tollgate-{name}")),
            None => {
                eprintln!("error: there is no command `{name}`: `tollgate help` lists them");
                return ExitCode::from(2);
            }
        },
    };
    let mut page = Vec::new();
    if let Err(error) = clap_mangen::Man::new(command)
        .source(concat!("tollgate ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
    {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    print(&String::from_utf8_lossy(&page), ExitCode::SUCCESS)
}

//! The help of `tollgate` itself: its commands in groups, and what to type instead of an unknown command.
//!
//! clap lists all commands under one heading. [`command`] replaces that list; the texts of the commands come
//! from their doc comments in [`cli`](crate::cli), as everywhere else.

use std::process::ExitCode;

use clap::builder::Styles;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches};
use tollgate_config::nearest;

use crate::cli::Cli;
use crate::print::print_error;

/// The groups, in the order of the help.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Server", &["run", "controller", "check", "explain", "demo", "hash"]),
    (
        "A running gateway",
        &[
            "status", "reload", "stop", "top", "trace", "cost", "log", "cache", "get", "set", "delete",
            "diff", "history", "rollback", "export", "import", "backup",
        ],
    ),
    ("Laboratory", &["bench"]),
    ("Other", &["schema", "crds", "reference", "completions", "man", "help"]),
];

/// Commands of other programs, and their counterparts here.
const OTHER_WORDS: [(&str, &str); 22] = [
    ("start", "run"),
    ("serve", "run"),
    ("up", "run"),
    ("validate", "check"),
    ("verify", "check"),
    ("lint", "check"),
    ("test", "check"),
    ("apply", "import"),
    ("load", "import"),
    ("dump", "export"),
    ("put", "set"),
    ("add", "set"),
    ("create", "set"),
    ("list", "get"),
    ("ls", "get"),
    ("show", "get"),
    ("describe", "get"),
    ("rm", "delete"),
    ("remove", "delete"),
    ("quit", "stop"),
    ("stats", "top"),
    ("version", "--version"),
];

/// The width of the help, in columns. clap uses the same for the rest of the text.
const WIDTH: usize = 100;
/// The column at which the descriptions begin.
const INDENT: usize = 15;

/// Returns the command line with its commands in groups.
fn command() -> Command {
    let mut command = Cli::command();
    // Adds `help`.
    command.build();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}\n{{options}}{{after-help}}",
        groups(&command),
        heading("Options"),
    );
    Cli::command().help_template(template)
}

/// Parses the command line. Prints help or an error and ends the process if there is nothing to run.
///
/// # Errors
/// The exit code, after the message about an unknown command.
pub fn parse() -> Result<Cli, ExitCode> {
    let matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
            let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
                error.exit()
            };
            print_error(format_args!("{}", unknown_command(word)));
            return Err(ExitCode::from(2));
        }
        Err(error) => error.exit(),
    };
    Ok(Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()))
}

/// Returns the message about an unknown command.
fn unknown_command(word: &str) -> String {
    let names = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
    let other = OTHER_WORDS.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours);
    let hint = match other.or_else(|| nearest(word, names)) {
        Some(near) => format!(": did you mean `tollgate {near}`?"),
        None => String::new(),
    };
    format!("error: there is no command `{word}`{hint}\n\n`tollgate --help` lists the commands.")
}

/// Returns the list of commands.
fn groups(command: &Command) -> String {
    let literal = Styles::styled();
    let literal = literal.get_literal();
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&heading(title));
        text.push('\n');
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = wrap(&about.map(ToString::to_string).unwrap_or_default());
            let blank = " ".repeat(INDENT.saturating_sub(2 + name.len()));
            text.push_str(&format!("  {literal}{name}{literal:#}{blank}{about}\n"));
        }
        text.push('\n');
    }
    text
}

fn heading(title: &str) -> String {
    let styles = Styles::styled();
    let header = styles.get_header();
    format!("{header}{title}:{header:#}")
}

/// Breaks a text into lines that fit next to the names of the commands.
fn wrap(text: &str) -> String {
    let mut out = String::new();
    let mut column = INDENT;
    for word in text.split_whitespace() {
        if column > INDENT && column + 1 + word.len() > WIDTH {
            out.push_str(&format!("\n{}", " ".repeat(INDENT)));
            column = INDENT;
        } else if column > INDENT {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = Cli::command();
        command.build();
        let mut there: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        there.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, there);
        assert!(OTHER_WORDS.iter().all(|(theirs, _)| !there.contains(theirs)));
    }

    /// Longer lines are broken in the middle of a word or of an indented block.
    #[test]
    fn no_line_of_the_help_is_too_long() {
        let mut command = Cli::command();
        command.build();
        let names: Vec<String> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
        let mut texts = vec![super::command().render_long_help().to_string()];
        for name in names {
            let sub = command.find_subcommand(&name).expect("a command");
            texts.extend(sub.get_after_long_help().map(ToString::to_string));
        }
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn unknown_commands_get_a_sensible_hint() {
        assert!(unknown_command("chekc").contains("did you mean `tollgate check`?"));
        assert!(unknown_command("validate").contains("did you mean `tollgate check`?"));
        let none = unknown_command("nosuch");
        assert!(!none.contains("did you mean") && none.contains("tollgate --help"), "{none}");
    }
}

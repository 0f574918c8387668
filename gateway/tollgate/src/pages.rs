//! Commands that print what is built into the binary: schema, definition of resources, reference, completions,
//! manual.

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io, iter};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use serde_json::{Map, Value, json};
use tollgate_config::{Substitutes, structural_schema, to_yaml};
use tollgate_kubernetes::{SectionRequest, policy_definition};
use tollgate_policy::{Installed, Plugins};

use crate::cli::Cli;
use crate::print::{print, print_error};

/// Prints the JSON Schema.
pub fn schema() -> ExitCode {
    let mut schema = tollgate_config::schema();
    let plugins = Plugins::installed().all();
    if !plugins.is_empty() {
        add_plugins(&mut schema, plugins);
    }
    print(&format!("{schema:#}\n"), ExitCode::SUCCESS)
}

/// Replaces "any name" under `plugins` by the plugins of this program.
fn add_plugins(schema: &mut Value, plugins: &[Installed]) {
    let Some(key) = schema.pointer_mut("/$defs/policies/properties/plugins") else { return };
    let one = |installed: &Installed| {
        let plugin = installed.plugin();
        // Allows `on`, `off` and a variable in addition to the plugin's own schema.
        let own = plugin.schema().map_or_else(
            || json!({}),
            |own| json!({ "anyOf": [own, { "enum": ["on", "off", true, false] }, { "$ref": "#/$defs/variable" }] }),
        );
        let mut own = if let Value::Object(own) = own { own } else { Map::new() };
        own.insert("description".to_owned(), plugin.about().into());
        (plugin.name().to_owned(), Value::Object(own))
    };
    let properties: Map<String, Value> = plugins.iter().map(one).collect();
    let forms = key.get_mut("anyOf").and_then(Value::as_array_mut);
    for form in forms.into_iter().flatten().filter(|form| form["type"] == "object") {
        form["properties"] = Value::Object(properties.clone());
        form["additionalProperties"] = false.into();
    }
}

/// Prints the definition of TollgatePolicy.
pub fn crds() -> ExitCode {
    let definition = policy_definition(|SectionRequest { section, without, secret, upstream }| {
        structural_schema(section, without, Substitutes { secret, upstream }).unwrap_or_default()
    });
    print(&to_yaml(&definition), ExitCode::SUCCESS)
}

/// Prints the reference of the configuration's keys.
pub fn reference() -> ExitCode {
    let mut page = tollgate_config::reference();
    let plugins = Plugins::installed().all();
    if !plugins.is_empty() {
        page.push_str("\n## plugins of this program\n\n| Name | What for | Stage |\n|---|---|---|\n");
    }
    for plugin in plugins.iter().map(Installed::plugin) {
        let (name, about, stage) = (plugin.name(), plugin.about(), plugin.stage().as_str());
        page.push_str(&format!("| `{name}` | {about} | {stage} |\n"));
    }
    print(&page, ExitCode::SUCCESS)
}

/// Prints a shell's completion script.
pub fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tollgate", &mut script);
    print(&String::from_utf8_lossy(&script), ExitCode::SUCCESS)
}

/// Prints the manual page of the program or of one command.
pub fn man(name: Option<&str>) -> ExitCode {
    let root = manual();
    let command = match name {
        None => root,
        Some(name) => match root.find_subcommand(name) {
            Some(found) => found.clone(),
            None => {
                print_error(format_args!("error: there is no command `{name}`: `tollgate help` lists them"));
                return ExitCode::from(2);
            }
        },
    };
    match man_page(command) {
        Ok(page) => print(&String::from_utf8_lossy(&page), ExitCode::SUCCESS),
        Err(error) => {
            print_error(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes the manual pages of the program and of all commands into `directory`, for packages.
pub fn all_man_pages(directory: &Path) -> ExitCode {
    let root = manual();
    let commands = root.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    for command in iter::once(root.clone()).chain(commands) {
        let name = command.get_display_name().unwrap_or("tollgate");
        let file = directory.join(format!("{name}.1"));
        if let Err(error) = man_page(command).and_then(|page| fs::write(&file, page)) {
            print_error(format_args!("error: {}: {error}", file.display()));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Returns the command line, with a version that fits into a manual page.
fn manual() -> Command {
    // `help` describes the other commands, and needs no page.
    let mut root =
        Cli::command().version(env!("CARGO_PKG_VERSION")).long_version(None).disable_help_subcommand(true);
    // Gives each command its display name, `tollgate-explain`. Its synopsis still says `tollgate explain`.
    root.build();
    root
}

fn man_page(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .source(concat!("tollgate ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)?;
    Ok(page)
}

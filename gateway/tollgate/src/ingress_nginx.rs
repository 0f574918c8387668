//! `tollgate import ingress-nginx FILES...`: manifests of ingress-nginx as a configuration file, with a report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use tollgate_config::from_text;
use tollgate_kubernetes::import;

use crate::load::{compile_config, display_name, is_standard_input, print_problems};
use crate::print::{print, print_error};

/// The manifests to import.
#[derive(Clone, Debug, Args)]
pub struct IngressNginxArgs {
    /// Files with manifests (YAML or JSON, with any number of documents and lists); `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The class of the Ingresses. Without it: the classes of ingress-nginx, and Ingresses without a class.
    #[arg(long, value_name = "NAME")]
    pub class: Option<String>,
    /// Print the report alone.
    #[arg(long)]
    pub report: bool,
}

/// Prints the report, as comments, and the configuration. Its problems go to standard error.
pub fn ingress_nginx(args: &IngressNginxArgs) -> ExitCode {
    let texts: Result<Vec<_>, String> = args.files.iter().map(|file| read(file)).collect();
    let imported = texts.and_then(|texts| import(&texts, args.class.as_deref()));
    let imported = match imported {
        Ok(imported) => imported,
        Err(message) => {
            print_error(format_args!("error: {message}"));
            return ExitCode::from(2);
        }
    };
    let report = imported.report();
    if args.report {
        return print(&report, ExitCode::SUCCESS);
    }
    let config = tollgate_config::to_yaml(&Value::Object(imported.config));
    let comments: String = report.lines().map(|line| format!("# {line}\n")).collect();
    let text = format!("{comments}\n{config}");
    let mut loaded = from_text("the imported configuration", &text, &|_| None);
    let plan = compile_config(loaded.config.as_ref(), loaded.partial.as_ref(), &mut loaded.problems);
    print_problems(&loaded.problems);
    print(&text, if plan.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads a file. Returns its name and its text.
fn read(file: &Path) -> Result<(String, String), String> {
    let name = display_name(file);
    let text = match is_standard_input(file) {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    match text {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(format!("cannot read {name}: {error}")),
    }
}

//! Renders templates with MiniJinja in strict mode, and defines the variables that templates can use. A
//! template that uses an undefined name is an error. [`unknown`] finds such names before anything is
//! rendered, with a suggestion for each.

use crate::credentials::{CREDENTIALS, Credentials};
use crate::feature::Feature;
use crate::setting::{Address, Partners, Route, Setting, Timeouts, Upstream, VirtualHost};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The variables of templates that are rendered without a run: paths of programs and the version command.
#[derive(Serialize)]
pub(crate) struct Installed<'a> {
    pub home: &'a Path,
    pub system: &'a Path,
    pub programs: &'a BTreeMap<String, PathBuf>,
}

/// The variables of a run.
#[derive(Serialize)]
pub(crate) struct Variables<'a> {
    pub home: &'a Path,
    pub system: &'a Path,
    pub programs: &'a BTreeMap<String, PathBuf>,
    pub folder: &'a Path,
    pub host: &'a str,
    pub port: u16,
    pub admin_port: u16,
    pub workers: u32,
    pub upstreams: &'a [Upstream],
    pub origins: &'a [Address],
    pub routes: &'a [Route],
    pub hosts: &'a [VirtualHost],
    pub features: BTreeMap<&'static str, bool>,
    pub options: &'a BTreeMap<String, String>,
    pub access_log: PathBuf,
    pub tls: Tls,
    pub partners: Partners,
    pub timeouts: Timeouts,
    pub keepalive: u32,
    pub clients: u32,
    pub file_limit: u64,
    pub cores: u32,
    pub quota: f64,
    pub memory_mib: u64,
    pub root: bool,
    pub credentials: Credentials,
}

/// The names of the fields of [`Variables`].
pub(crate) const RUN_VARIABLES: [&str; 26] = [
    "home",
    "system",
    "programs",
    "folder",
    "host",
    "port",
    "admin_port",
    "workers",
    "upstreams",
    "origins",
    "routes",
    "hosts",
    "features",
    "options",
    "access_log",
    "tls",
    "partners",
    "timeouts",
    "keepalive",
    "clients",
    "file_limit",
    "cores",
    "quota",
    "memory_mib",
    "root",
    "credentials",
];

/// The names of the fields of [`Installed`].
pub(crate) const INSTALLED_VARIABLES: [&str; 3] = ["home", "system", "programs"];

/// The name, in a run's folder, of the file with the certificate and its key.
pub(crate) const BOTH: &str = "certificate-and-key.pem";

/// Paths of the TLS files; empty without TLS.
#[derive(Default, Serialize)]
pub(crate) struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub both: PathBuf,
}

impl<'a> Variables<'a> {
    /// Returns the variables of a setting.
    pub fn of(
        setting: &'a Setting,
        options: &'a BTreeMap<String, String>,
        installed: &Installed<'a>,
    ) -> Self {
        let wanted = setting.wanted();
        Self {
            home: installed.home,
            system: installed.system,
            programs: installed.programs,
            folder: &setting.folder,
            host: &setting.listen.host,
            port: setting.listen.port,
            admin_port: setting.admin_port,
            workers: setting.workers,
            upstreams: &setting.upstreams,
            origins: setting.upstreams.first().map_or(&[], |first| &first.origins),
            routes: &setting.routes,
            hosts: &setting.hosts,
            features: Feature::ALL.iter().map(|one| (one.name(), wanted.contains(one))).collect(),
            options,
            access_log: setting.access_log(),
            tls: match &setting.tls {
                Some(files) => Tls {
                    certificate: files.certificate.clone(),
                    key: files.key.clone(),
                    both: setting.folder.join(BOTH),
                },
                None => Tls::default(),
            },
            partners: setting.partners,
            timeouts: setting.timeouts,
            keepalive: setting.keepalive,
            clients: setting.clients,
            file_limit: setting.file_limit,
            cores: setting.cores,
            quota: setting.quota.unwrap_or_else(|| f64::from(setting.cores)),
            memory_mib: setting.memory_mib.unwrap_or(0),
            root: setting.root,
            credentials: CREDENTIALS,
        }
    }
}

/// Returns an environment that loads templates from a system's folder and, as `NAME/file`, from the folders
/// of other systems.
pub(crate) fn environment(folder: &Path) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    if let Ok(syntax) =
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build()
    {
        environment.set_syntax(syntax);
    }
    let own = minijinja::path_loader(folder);
    let others = minijinja::path_loader(folder.parent().unwrap_or(folder));
    environment.set_loader(move |name| match own(name)? {
        Some(text) => Ok(Some(text)),
        None => others(name),
    });
    environment
}

/// Renders a template string of `system.yaml`.
pub(crate) fn short(text: &str, variables: &impl Serialize) -> Result<String, String> {
    environment(Path::new("/nonexistent"))
        .render_str(text, minijinja::Value::from(Serde(variables)))
        .map_err(|error| explain(&error))
}

/// Renders a template file.
pub(crate) fn file(
    environment: &Environment<'_>,
    name: &str,
    variables: &impl Serialize,
) -> Result<String, String> {
    environment
        .get_template(name)
        .and_then(|template| template.render(minijinja::Value::from(Serde(variables))))
        .map_err(|error| explain(&error))
}

/// Returns the names that a template uses but that are not defined, each with a hint. Names like `features.x`
/// include their second part.
pub(crate) fn unknown(used: impl IntoIterator<Item = String>, known: &Known<'_>) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    for name in used.into_iter().collect::<BTreeSet<_>>() {
        let mut parts = name.split('.');
        let (first, second) = (parts.next().unwrap_or_default(), parts.next());
        let below = |names: Vec<&str>| match second {
            Some(second) if !names.contains(&second) => {
                Some(crate::problem::known_names(second, names.iter().copied()))
            }
            _ => None,
        };
        let hint = match first {
            _ if !known.variables.contains(&first) => {
                Some(crate::problem::known_names(first, known.variables.iter().copied()))
            }
            "features" => below(Feature::ALL.map(Feature::name).to_vec()),
            "programs" => below(known.programs.clone()),
            "options" => below(known.options.clone()),
            "tls" => below(vec!["certificate", "key", "both"]),
            "partners" => below(vec!["authorizer", "redis"]),
            "timeouts" => below(vec!["connect", "response", "idle"]),
            _ => None,
        };
        if let Some(hint) = hint {
            wrong.push((name, hint));
        }
    }
    wrong
}

/// The names that a template may use.
pub(crate) struct Known<'a> {
    pub variables: &'a [&'static str],
    pub programs: Vec<&'a str>,
    pub options: Vec<&'a str>,
}

/// Formats an error on one line: template, line, message.
pub(crate) fn explain(error: &minijinja::Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match (error.name().filter(|name| *name != "<string>"), error.line()) {
        (Some(name), Some(line)) => format!("{name}:{line}: {what}"),
        _ => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_list_of_names_is_what_templates_see() {
        let setting = Setting::new(1, 2, 3, PathBuf::from("/run"));
        let programs = BTreeMap::new();
        let options = BTreeMap::new();
        let installed = Installed { home: Path::new("/h"), system: Path::new("/s"), programs: &programs };
        let names = |value: minijinja::Value| {
            value.try_iter().expect("a map").map(|key| key.to_string()).collect::<BTreeSet<_>>()
        };
        let run = names(minijinja::Value::from(Serde(Variables::of(&setting, &options, &installed))));
        assert_eq!(run, RUN_VARIABLES.map(str::to_owned).into());
        let fixed = names(minijinja::Value::from(Serde(&installed)));
        assert_eq!(fixed, INSTALLED_VARIABLES.map(str::to_owned).into());
    }

    #[test]
    fn an_undefined_variable_is_an_error_that_names_the_line() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.j2"), "one\n{{ nothing }}\n").expect("written");
        let error =
            file(&environment(folder.path()), "a.j2", &BTreeMap::<&str, u8>::new()).expect_err("strict");
        assert_eq!(error, "a.j2:2: `nothing` is undefined");
    }

    #[test]
    fn values_are_not_escaped_and_blocks_leave_no_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.html"), "{% if true %}\n{{ x }}\n{% endif %}\n")
            .expect("written");
        let text = file(&environment(folder.path()), "a.html", &BTreeMap::from([("x", "<a & b>")]));
        assert_eq!(text.as_deref(), Ok("<a & b>\n"));
    }

    proptest! {
        #[test]
        fn any_text_renders_or_is_refused(text in "(\\{\\{|\\}\\}|\\{%|%\\}|for|in|[a-z .|(\\[\\])0-9]){0,20}") {
            let _either = short(&text, &BTreeMap::<&str, u8>::new());
        }
    }
}

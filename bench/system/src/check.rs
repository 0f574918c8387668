//! Reads one `system.yaml` and reports every problem in it before any system is started. It also parses the
//! template files and the strings that are templates, and checks that they use known variables only.

use crate::description::{Description, Text};
use crate::feature::Feature;
use crate::problem::{Problem, known_names};
use crate::template::{self, INSTALLED_VARIABLES, Known, RUN_VARIABLES};
use minijinja::Environment;
use regex::Regex;
use serde_saphyr::{Error, Location};
use std::path::{Component, Path, PathBuf};

/// Reads and checks the description in a folder. Returns every problem found.
pub(crate) fn read(folder: &Path) -> Result<Description, Vec<Problem>> {
    let path = folder.join("system.yaml");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| vec![Problem::in_file(&path, format!("cannot be read: {error}"))])?;
    let description: Description =
        serde_saphyr::from_str(&text).map_err(|error| vec![of_yaml(&path, &error)])?;
    let mut check =
        Check { path: &path, folder, environment: template::environment(folder), problems: Vec::new() };
    check.all(&description);
    if check.problems.is_empty() { Ok(description) } else { Err(check.problems) }
}

/// Translates an error of the YAML reader; for an unknown key or value, adds the nearest known one.
fn of_yaml(path: &Path, error: &Error) -> Problem {
    let message = match error.without_snippet() {
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown key `{field}`: {}", known_names(field, expected.iter().copied()))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("unknown value `{variant}`: {}", known_names(variant, expected.iter().copied()))
        }
        Error::SerdeMissingField { field, .. } => format!("the key `{field}` must be there"),
        other => {
            // Cut off the position that the reader appends: `Problem` prints it in front.
            let text = other.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.rsplit_once(" at line ").map_or(line, |(what, _)| what).to_owned()
        }
    };
    match error.location() {
        Some(at) => Problem::at(path, at.line(), at.column(), message),
        None => Problem::in_file(path, message),
    }
}

struct Check<'a> {
    path: &'a Path,
    folder: &'a Path,
    environment: Environment<'static>,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn all(&mut self, description: &Description) {
        let known = |variables| Known {
            variables,
            programs: description.programs.keys().map(String::as_str).collect(),
            options: description.options.keys().map(String::as_str).collect(),
        };
        let (installed, run) = (known(&INSTALLED_VARIABLES), known(&RUN_VARIABLES));
        for path in description.programs.values().flat_map(|rule| &rule.paths) {
            self.text(path, &installed);
        }
        for (key, rule) in &description.programs {
            if rule.names.is_empty() && rule.paths.is_empty() {
                self.whole(format!("programs.{key}: give `names` or `paths` to look for"));
            }
        }
        self.version(description, &installed);
        for rule in &description.files {
            self.text(&rule.to, &run);
            self.template(&rule.template.value, rule.template.referenced, &run);
        }
        if let Some(start) = &description.start {
            for text in start.command.iter().chain(start.env.values()).chain(&start.directory) {
                self.text(text, &run);
            }
            if start.command.is_empty() {
                self.whole("start.command is empty: its first entry is the program");
            }
            if description.programs.is_empty() {
                self.whole("`programs` is empty, so nobody can tell whether it is installed");
            }
            if description.install.is_none() && description.missing.is_none() {
                self.whole("give `install`, or `missing` with the reason and the way to get it");
            }
        }
        if let Some(add_route) = &description.add_route {
            self.text(&add_route.body, &run);
        }
        if description.workers.is_some() && !description.features.contains(&Feature::Statistics) {
            self.whole("`workers` needs the feature `statistics`, which opens the admin listener");
        }
        self.options(description);
        if let Some(install) = &description.install {
            let script = self.folder.join(&install.script.value);
            if !script.is_file() {
                let message = format!("the script {} is not there", script.display());
                self.at(install.script.referenced, message);
            }
        }
        for (name, choice) in &description.options {
            if choice.values.is_empty() {
                self.whole(format!("options.{name}: give `values`, the default first"));
            }
        }
        for feature in description.features.iter().filter(|one| description.always.contains(one)) {
            self.whole(format!("`{feature}` is under `features` and under `always`: it is one of them"));
        }
    }

    /// Checks the options that a part refers to: each must be declared and have the given value among its
    /// values.
    fn options(&mut self, description: &Description) {
        let known = &description.options;
        let parts = description.files.iter().map(|rule| ("files", &rule.options));
        let parts = parts
            .chain(description.reload.iter().map(|reload| ("reload", &reload.options)))
            .chain(description.add_route.iter().map(|request| ("add_route", &request.options)));
        for (part, options) in parts {
            for (name, value) in options {
                match known.get(name) {
                    None => {
                        let hint = known_names(name, known.keys().map(String::as_str));
                        self.whole(format!("{part}.options: unknown option `{name}`: {hint}"));
                    }
                    Some(choice) if !choice.values.contains(value) => {
                        let hint = known_names(value, choice.values.iter().map(String::as_str));
                        self.whole(format!("{part}.options: `{name}` cannot be `{value}`: {hint}"));
                    }
                    Some(_) => {}
                }
            }
        }
    }

    fn version(&mut self, description: &Description, known: &Known<'_>) {
        let Some(version) = &description.version else { return };
        for text in version.command.iter().chain(&version.file) {
            self.text(text, known);
        }
        if version.command.is_empty() == version.file.is_none() {
            self.at(version.pattern.referenced, "version: give one of `command` and `file`");
        }
        match Regex::new(&version.pattern.value) {
            Ok(pattern) if pattern.captures_len() < 2 => {
                self.at(
                    version.pattern.referenced,
                    "the pattern needs a group: what it captures is the version",
                );
            }
            Ok(_) => {}
            Err(error) => {
                let message = format!("not a regular expression: {}", last_line(&error.to_string()));
                self.at(version.pattern.referenced, message);
            }
        }
    }

    /// Checks a template within the YAML: it must parse and use known names only.
    fn text(&mut self, text: &Text, known: &Known<'_>) {
        let outcome = self
            .environment
            .template_from_str(&text.value)
            .map(|template| template.undeclared_variables(true))
            .map_err(|error| template::explain(&error));
        match outcome {
            Ok(used) => {
                for (name, hint) in template::unknown(used, known) {
                    self.at(text.referenced, format!("unknown variable `{name}`: {hint}"));
                }
            }
            Err(message) => self.at(text.referenced, message),
        }
    }

    /// Checks a template file: it must exist, parse and use known names only.
    fn template(&mut self, name: &str, at: Location, known: &Known<'_>) {
        let file = self.folder.join(name);
        if !inside(Path::new(name)) || !(file.is_file() || self.sibling(name).is_file()) {
            self.at(at, format!("the template {} is not there", file.display()));
            return;
        }
        let outcome = self
            .environment
            .get_template(name)
            .map(|template| (template.undeclared_variables(true), template.source().to_owned()));
        match outcome {
            Ok((used, source)) => {
                for (name, hint) in template::unknown(used, known) {
                    let line =
                        source.lines().position(|line| line.contains(&name)).map_or(1, |index| index + 1);
                    let message = format!("unknown variable `{name}`: {hint}");
                    self.problems.push(Problem::at(&file, line as u64, 0, message));
                }
            }
            Err(error) => {
                let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
                self.problems.push(Problem::at(&file, error.line().unwrap_or(1) as u64, 0, what));
            }
        }
    }

    fn sibling(&self, name: &str) -> PathBuf {
        self.folder.parent().unwrap_or(self.folder).join(name)
    }

    fn at(&mut self, at: Location, message: impl Into<String>) {
        self.problems.push(Problem::at(self.path, at.line(), at.column(), message));
    }

    fn whole(&mut self, message: impl Into<String>) {
        self.problems.push(Problem::in_file(self.path, message));
    }
}

fn inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn problems(yaml: &str, files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("system.yaml"), yaml).expect("written");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        let prefix = format!("{}/", folder.path().display());
        read(folder.path())
            .err()
            .unwrap_or_default()
            .iter()
            .map(|problem| problem.to_string().replace(&prefix, ""))
            .collect()
    }

    const HEAD: &str = "title: T\nabout: A\nhomepage: https://example.com/\n";

    #[test]
    fn an_unknown_key_is_named_with_its_place_and_the_nearest() {
        let found = problems(&format!("{HEAD}fiels: []\n"), &[]);
        assert_eq!(found, ["system.yaml:4:1: unknown key `fiels`: did you mean `files`?"]);
        let found = problems(&format!("{HEAD}features: [acces_log]\n"), &[]);
        assert_eq!(found, ["system.yaml:4:12: unknown value `acces_log`: did you mean `access_log`?"]);
        let found = problems("title: T\n", &[]);
        assert!(found[0].ends_with("the key `about` must be there"), "{found:?}");
    }

    #[test]
    fn a_file_that_is_not_yaml_is_reported_with_one_position() {
        let found = problems(&format!("{HEAD}limits: [a, b{{c}}]\n"), &[]);
        assert_eq!(found, ["system.yaml:4:14: while parsing a flow sequence, expected ',' or ']'"]);
    }

    #[test]
    fn everything_wrong_is_found_at_once() {
        let yaml = format!(
            "{HEAD}programs:\n  gate: {{names: [gate]}}\nversion:\n  command: [\"{{{{ programs.gat }}}}\"]\n  \
             pattern: 'v[0-9'\nfiles:\n  - {{template: none.j2, to: a}}\n  - {{template: bad.j2, to: b}}\n\
             start:\n  command: [\"{{{{ wrokers }}}}\"]\ninstall: {{with: apt, script: no.sh, takes: 1 s}}\n"
        );
        let found = problems(&yaml, &[("bad.j2", "ok\n{% if %}\n")]);
        let text = found.join("\n");
        for part in [
            "system.yaml:7:13: unknown variable `programs.gat`: did you mean `gate`?",
            "system.yaml:8:12: not a regular expression: error: unclosed character class",
            "none.j2 is not there",
            "bad.j2:2: ",
            "unknown variable `wrokers`: did you mean `workers`?",
            "no.sh is not there",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(found.len(), 6, "{text}");
    }

    #[test]
    fn a_template_that_uses_an_unknown_feature_is_refused() {
        let yaml = format!("{HEAD}files:\n  - {{template: a.j2, to: a}}\n");
        let found = problems(&yaml, &[("a.j2", "x\n{% if features.acess_log %}{% endif %}\n")]);
        assert_eq!(found, ["a.j2:2: unknown variable `features.acess_log`: did you mean `access_log`?"]);
    }

    #[test]
    fn what_cannot_be_installed_must_say_why() {
        let found =
            problems(&format!("{HEAD}programs: {{a: {{names: [a]}}}}\nstart: {{command: [a]}}\n"), &[]);
        assert_eq!(
            found,
            ["system.yaml: give `install`, or `missing` with the reason and the way to get it"]
        );
    }

    #[test]
    fn options_that_a_part_asks_for_must_be_there() {
        let yaml = format!(
            "{HEAD}options:\n  mode: {{values: [alone, master], about: a}}\nreload: {{signal: HUP, options: {{mode: \
             mastr}}}}\nadd_route: {{method: PUT, path: /r, body: '{{{{ (rotes|last).prefix }}}}', options: {{mod: \
             alone}}}}\n"
        );
        let found = problems(&yaml, &[]);
        assert_eq!(
            found,
            [
                "system.yaml:7:42: unknown variable `rotes`: did you mean `routes`?",
                "system.yaml: reload.options: `mode` cannot be `mastr`: did you mean `master`?",
                "system.yaml: add_route.options: unknown option `mod`: did you mean `mode`?",
            ]
        );
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused(text in "(title|files|start|: |\\n|  |- |\\[|\\]|\\{|\\}|'|\"|[a-z0-9]){0,40}") {
            let _either = problems(&text, &[]);
        }
    }
}

//! Reads a list of endpoints from a file of its own, as in `discover: {file: PATH}`.

use std::fmt::Write as _;

use crate::file_access::{self, NamedFile, ReadError};
use crate::load;
use crate::model::Endpoint;
use crate::parse::parse;
use crate::position::{At, SourceFile};
use crate::problem::{Problem, Severity};
use crate::problems::Problems;
use crate::reader::Reader;
use crate::sections::endpoints;

/// The reason why a list of endpoints is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointListError {
    /// Whether the file does not exist.
    pub is_missing: bool,
    /// The reason, on one line, without text from the file.
    pub reason: String,
    /// All problems, for people. It quotes the file only if the operator named it.
    pub text: String,
}

/// Reads a file with any value that `endpoints` accepts: YAML or JSON, one endpoint or a list, each an
/// address or a mapping. Variables are not expanded, because programs write such files. Blocks on the file
/// system: call it through [`file_access::start`] or [`file_access::run_with_timeout`].
///
/// # Errors
/// Returns all problems of the file. If a document names the file, the error contains positions and no text
/// from it: a token that may write documents need not be allowed to read files.
pub fn load_endpoints(file: &NamedFile) -> Result<Vec<Endpoint>, EndpointListError> {
    let name = file.path.display().to_string();
    let unread = |is_missing: bool, reason: &dyn std::fmt::Display| {
        let mut problems = Problems::new(vec![SourceFile { name: name.clone(), text: String::new() }]);
        problems.push(Problem::error(At::default(), format!("cannot read the file: {reason}")));
        EndpointListError {
            is_missing,
            reason: format!("cannot read the file: {reason}"),
            text: problems.render(false),
        }
    };
    let bytes = file_access::read_blocking(file, load::FILE_MAX_BYTES)
        .map_err(|why| unread(why == ReadError::Missing, &why))?;
    let text = load::decode_text(bytes).map_err(|reason| unread(false, &reason))?;
    endpoints_from_text(&name, &text).map_err(|problems| {
        let text = if file.scope.is_confined() { positions(&problems) } else { problems.render(false) };
        EndpointListError { is_missing: false, reason: reason(&problems), text }
    })
}

/// Returns a short reason with the position of the first error.
fn reason(problems: &Problems) -> String {
    let first = problems.iter().find(|problem| problem.severity == Severity::Error && problem.at.line > 0);
    match first {
        Some(first) => {
            format!("the file is no list of endpoints: line {}, column {}", first.at.line, first.at.column)
        }
        None => "the file is not a list of endpoints".to_owned(),
    }
}

/// Lists the positions of the errors without any text from the file.
fn positions(problems: &Problems) -> String {
    /// Maximum number of positions listed.
    const SHOWN_MAX: usize = 10;
    let name = problems.files().first().map_or("", |file| &file.name);
    let errors = || problems.iter().filter(|problem| problem.severity == Severity::Error);
    let mut text = String::from("the file is no list of endpoints\n");
    for problem in errors().take(SHOWN_MAX) {
        let _ = match problem.at.line {
            0 => writeln!(text, " --> {name}"),
            line => writeln!(text, " --> {name}:{line}:{}", problem.at.column),
        };
    }
    let more = errors().count().saturating_sub(SHOWN_MAX);
    if more > 0 {
        let _ = writeln!(text, " and {more} more places");
    }
    text.push_str(" = expected: addresses such as `10.0.0.1:8080`, or mappings with `address`\n");
    text
}

/// Works like [`load_endpoints`], from a text. `name` is used as the file name.
///
/// # Errors
/// Returns all problems of the text.
pub fn endpoints_from_text(name: &str, text: &str) -> Result<Vec<Endpoint>, Problems> {
    let parsed = parse(0, text);
    let mut reader = Reader::new(parsed.complete);
    reader.problems = parsed.problems;
    let endpoints = match &parsed.root {
        Some(root) => endpoints(&mut reader, root, true),
        None => {
            if reader.complete {
                let problem = Problem::error(At::default(), "the file is empty");
                reader.problems.push(problem.expected("a list of endpoints such as `[10.0.0.1:8080]`"));
            }
            Vec::new()
        }
    };
    let mut problems = Problems::new(vec![SourceFile { name: name.to_owned(), text: text.to_owned() }]);
    problems.extend(reader.problems);
    problems.sort();
    if problems.has_errors() { Err(problems) } else { Ok(endpoints) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Vec<(String, u32)> {
        let endpoints = endpoints_from_text("list", text).expect("a list");
        let shown = |endpoint: &Endpoint| (format!("{:?}", endpoint.address.value.address), endpoint.weight);
        endpoints.iter().map(shown).collect()
    }

    #[test]
    fn yaml_and_json_say_the_same() {
        let yaml = "- 10.0.0.1:80\n- {address: 10.0.0.2:80, weight: 3}\n";
        let json = r#"["10.0.0.1:80", {"address": "10.0.0.2:80", "weight": 3}]"#;
        assert_eq!(addresses(yaml), addresses(json));
        assert_eq!(addresses(yaml)[1].1, 3);
        assert_eq!(addresses("10.0.0.1:80").len(), 1, "one needs no list");
    }

    #[test]
    fn mistakes_have_a_place() {
        for (text, part) in [
            ("", "the file is empty"),
            ("[]", "without endpoints"),
            ("- 10.0.0.1\n", "has no port"),
            ("- 10.0.0.1:80\n- {address: 10.0.0.2:80, wait: 3}\n", "weight"),
            ("- 10.0.0.1:80\n- {address: 10.0", "list"),
        ] {
            let problems = endpoints_from_text("list", text).expect_err(text);
            let shown = problems.render(false);
            assert!(shown.contains(part), "{text:?}: {shown}");
        }
    }
}

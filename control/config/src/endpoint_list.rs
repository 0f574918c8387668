//! A list of endpoints in a file of its own: what `discover: {file: PATH}` names.

use std::path::Path;

use crate::load;
use crate::model::{At, Endpoint, SourceFile};
use crate::parse::parse;
use crate::problem::{Problem, Problems};
use crate::read;
use crate::reader::Reader;

/// Reads a file that holds what `endpoints` may hold: YAML or JSON, one endpoint or a list, each an address or a mapping.
/// Variables are not expanded: such a file is written by a program.
///
/// # Errors
/// Everything that is wrong with it, as for a configuration.
pub fn load_endpoints(path: &Path) -> Result<Vec<Endpoint>, Problems> {
    let name = path.display().to_string();
    let text = load::read(path).map_err(|reason| {
        let mut problems = Problems::new(vec![SourceFile { name: name.clone(), text: String::new() }]);
        problems.push(Problem::error(At::default(), format!("cannot read the file: {reason}")));
        problems
    })?;
    endpoints_from_text(&name, &text)
}

/// As [`load_endpoints`], from a text. `name` stands in for the file's.
///
/// # Errors
/// As there.
pub fn endpoints_from_text(name: &str, text: &str) -> Result<Vec<Endpoint>, Problems> {
    let parsed = parse(0, text);
    let mut reader = Reader { problems: parsed.problems, complete: parsed.complete };
    let endpoints = match &parsed.root {
        Some(root) => read::endpoints(&mut reader, root, true),
        None => {
            if reader.complete {
                let problem = Problem::error(At::default(), "the file holds nothing");
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
            ("", "holds nothing"),
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

//! Checks the references to upstreams, after all files have been read.

use std::collections::HashMap;

use crate::model::At;
use crate::problem::Problem;
use crate::reader::UpstreamReference;
use crate::suggest;
use crate::tree::shown;

/// How many unknown names get a suggestion; each is compared with every known name.
const SUGGESTIONS: usize = 20;

/// Returns a problem for each reference to an unknown upstream.
pub(crate) fn unknown(references: &[UpstreamReference], names: &HashMap<String, At>) -> Vec<Problem> {
    let missing = references.iter().filter(|reference| !names.contains_key(&reference.name));
    missing.enumerate().map(|(number, reference)| one(reference, names, number < SUGGESTIONS)).collect()
}

fn one(reference: &UpstreamReference, names: &HashMap<String, At>, suggest: bool) -> Problem {
    let UpstreamReference { name, written, at, may_be_endpoint } = reference;
    let message = format!("there is no upstream {}", shown(written.as_ref().unwrap_or(name)));
    let expected = match may_be_endpoint {
        true => "a name under `upstreams`, or an endpoint such as `10.0.0.1:8080`",
        false => "a name under `upstreams`",
    };
    let problem = Problem::error(*at, message).expected(expected);
    // A suggestion derived from the name would reveal the variable's value.
    if written.is_some() {
        return problem;
    }
    let mut sorted: Vec<&str> = if suggest { names.keys().map(String::as_str).collect() } else { Vec::new() };
    sorted.sort_unstable();
    match suggest::nearest(name, sorted.into_iter()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None if *may_be_endpoint && name.contains('.') => {
            problem.help(format!("an endpoint needs a port: `{name}:80`"))
        }
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(name: &str, written: Option<&str>) -> Vec<String> {
        let names = ["users", "orders.v1"].map(|name| (name.to_owned(), At::default()));
        let reference = UpstreamReference {
            name: name.to_owned(),
            written: written.map(str::to_owned),
            at: At::default(),
            may_be_endpoint: true,
        };
        let problems = unknown(&[reference], &HashMap::from(names));
        problems.into_iter().flat_map(|problem| [vec![problem.message], problem.help].concat()).collect()
    }

    #[test]
    fn a_name_that_is_there_is_no_problem() {
        assert!(help("users", None).is_empty());
    }

    #[test]
    fn the_nearest_name_or_the_missing_port_is_suggested() {
        assert_eq!(help("user", None), ["there is no upstream `user`", "did you mean `users`?"]);
        assert_eq!(
            help("api.internal", None),
            ["there is no upstream `api.internal`", "an endpoint needs a port: `api.internal:80`"]
        );
        assert_eq!(help("nowhere", None), ["there is no upstream `nowhere`"]);
    }

    #[test]
    fn values_of_variables_are_not_shown() {
        assert_eq!(help("user", Some("${BACKEND}")), ["there is no upstream `${BACKEND}`"]);
        assert_eq!(help("secret.internal", Some("${BACKEND}")), ["there is no upstream `${BACKEND}`"]);
    }
}

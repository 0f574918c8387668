//! The settings of `query`.

use std::sync::Arc;

use tollgate_config::section::{Fields, KeySpec, Problem, Reader, ScalarError, Section};

use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::{Planned, Template};

/// Changes the query parameters of requests on their way upstream, in this order: `remove`, `set`, `add`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "query_policy", noun = "`query`", check = check)]
pub(crate) struct QueryRules {
    /// Parameters to remove; `utm_*` is every parameter whose name begins with `utm_`.
    #[key(
        expected = "the name of a parameter", pattern = ".", loose,
        each = removal_pattern, what = "a parameter", bounded, also = ["delete"],
    )]
    pub remove: Vec<String>,
    /// Parameters that replace existing parameters of the same name.
    #[key(expected = "a value", loose, pairs = (name, Template::parse), also = ["replace"])]
    pub set: Vec<(String, Template)>,
    /// Parameters that are added to existing parameters of the same name.
    #[key(expected = "a value", loose, pairs = (name, Template::parse), also = ["append"])]
    pub add: Vec<(String, Template)>,
}

impl PolicyConfig for QueryRules {
    const KEY: KeySpec =
        policy_key::<Self>("query", "Adds, replaces and removes query parameters of requests.").aliases(&[
            "args",
            "parameters",
            "query_parameters",
        ]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        Arc::new(self.clone())
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, _: &mut QueryRules) {
    if ["remove", "set", "add"].iter().all(|name| fields.get(name).is_none()) {
        let message = "`query` has none of `remove`, `set` and `add`";
        reader.problems.push(Problem::error(fields.at, message).help("write `query: {remove: debug}`"));
    }
}

/// Parses a parameter to remove, or `PREFIX*` for every parameter whose name starts with the prefix.
fn removal_pattern(text: &str) -> Result<String, ScalarError> {
    match text.strip_suffix('*') {
        Some("") => {
            Err(ScalarError::new("{} would match every parameter")
                .help("write a prefix of the names: `utm_*`"))
        }
        Some(begin) => name(begin).map(|begin| format!("{begin}*")),
        None => name(text),
    }
}

fn name(text: &str) -> Result<String, ScalarError> {
    if let Some(star) = text.chars().position(|c| c == '*') {
        let fault =
            ScalarError::new("{} has a `*`, but this key takes the name of one parameter").part(star, 1);
        return Err(fault.help("`remove` takes a beginning of names: `utm_*`"));
    }
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(ScalarError::new("{} is not the name of a parameter"));
    }
    Ok(text.to_owned())
}

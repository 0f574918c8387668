//! The settings of `any_of`.

use std::sync::{Arc, LazyLock};

use tollgate_config::section::{
    Choice, Field, KeySpec, Node, NodeKind, Problem, Reader, SectionSpec, Shape, Value, names,
};
use tollgate_config::{Attached, PemFile, files_in};
use tollgate_route::PathRules;

use super::AnyOfRules;
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::registry::{REGISTRY, built_in};

/// Maximum number of alternatives. A request may be checked against all of them.
const ALTERNATIVES_MAX: usize = 256;
const NAME: &str = "any_of";

/// The alternatives, in the order tried. The policies of each are in the order in which they act on a request. None
/// of them is `off`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AnyOfSettings(Vec<Vec<Attached>>);

/// Returns the section of an alternative: the kinds that decide whether a client is admitted.
fn alternative_section() -> &'static SectionSpec {
    static SECTION: LazyLock<SectionSpec> = LazyLock::new(|| {
        let guards = REGISTRY.iter().filter_map(|entry| entry.kind()).filter(|kind| kind.is_guard());
        let keys: Vec<KeySpec> = guards.map(|kind| kind.key()).filter(|key| key.name != NAME).collect();
        SectionSpec {
            name: "any_of_alternative",
            noun: "an alternative of `any_of`",
            doc: "Policies of one alternative. A request must pass all of them.",
            choice: Choice::Free,
            keys: keys.leak(),
        }
    });
    &SECTION
}

impl Value for AnyOfSettings {
    const SHAPE: Shape = {
        const ALTERNATIVE: &Shape = &Shape::Registered(alternative_section);
        Shape::ListOf(ALTERNATIVE)
    };

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        let NodeKind::List(items) = &field.node.kind else {
            reader.mismatch(field.node, "`any_of`", field.key.shape.expected());
            return None;
        };
        if items.is_empty() {
            let problem = Problem::error(field.at, "`any_of` has no alternative: it rejects every request");
            reader.problems.push(problem.help("write `any_of: [{api_key: on}, {jwt: ...}]`"));
        }
        if let Some(extra) = items.get(ALTERNATIVES_MAX) {
            let message = format!("`any_of` has more than {ALTERNATIVES_MAX} alternatives");
            reader.problems.push(Problem::error(extra.at, message));
        }
        let items = items.iter().take(ALTERNATIVES_MAX);
        Some(Self(items.filter_map(|item| alternative(reader, item)).collect()))
    }
}

fn alternative(reader: &mut Reader, node: &Node) -> Option<Vec<Attached>> {
    let before = reader.problems.len();
    let fields = reader.fields(node, alternative_section())?;
    let mut list = Vec::new();
    for key in alternative_section().keys {
        let (Some(field), Some(kind)) = (fields.get(key.name), built_in(key.name)) else { continue };
        if field.is_off() {
            let problem = Problem::error(field.at, format!("`{}: off` in an alternative", key.name));
            reader.problems.push(problem.help("an alternative inherits no policies: remove the key"));
            continue;
        }
        let spec = kind.read(reader, field);
        list.extend(spec.map(|spec| Attached { kind: key.name, at: field.at, spec: Some(spec) }));
    }
    if list.is_empty() && reader.complete && !reader.has_errors_since(before) {
        let problem = Problem::error(node.at, "this alternative has no policy: it admits every request");
        reader.problems.push(problem.expected(names(alternative_section())));
    }
    Some(list)
}

impl PolicyConfig for AnyOfSettings {
    const KEY: KeySpec = policy_key::<Self>(
        NAME,
        "Alternatives, each with policies. A request must pass all policies of one alternative. The first alternative that admits the request identifies the client.",
    )
    .aliases(&["multi_auth", "multi-auth", "satisfy", "requires_any", "one_of", "any"]);
    const IS_GUARD: bool = true;

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let Compilation { consumers, problems, .. } = compilation;
        let mut compilation = Compilation { consumers, paths: &PathRules::default(), problems };
        let mut policy = |attached: &Attached| {
            let settings = attached.spec.as_deref()?;
            Some(built_in(attached.kind)?.compile(settings, &mut compilation))
        };
        let mut alternative = |written: &Vec<Attached>| written.iter().filter_map(&mut policy).collect();
        Arc::new(AnyOfRules { alternatives: self.0.iter().map(&mut alternative).collect() })
    }

    fn names_files(&self) -> bool {
        let names = |one: &Attached| one.spec.as_ref().is_some_and(|spec| spec.names_files());
        self.0.iter().flatten().any(names)
    }

    fn files(&mut self) -> Vec<&mut PemFile> {
        files_in(self.0.iter_mut().flatten())
    }
}

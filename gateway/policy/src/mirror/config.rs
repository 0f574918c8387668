//! The settings of `mirror`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::section::{
    Field, HEADER_NAME, KeySpec, Problem, Reader, Section, Shape, UPSTREAM_NAME, Value, from_one_key, header,
    shown, upstream_name,
};
use tollgate_config::{Percent, Spanned};

use super::{MirrorList, MirrorRules};
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::request_copy::CopyMarks;
use crate::texts::own_header;

/// One mirror or several, each with another upstream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MirrorSettings(Vec<OneMirror>);

/// Sends copies of requests to another upstream and ignores the responses.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(name = "mirror_policy", noun = "`mirror`", own_forms)]
struct OneMirror {
    /// Name of the upstream that receives the copies.
    #[key(
        text = UPSTREAM_NAME, parse = upstream_name, required,
        also = ["upstream", "cluster", "backend", "service"],
    )]
    to: Spanned<String>,
    /// Percentage of requests that are copied.
    #[key(percent = 0..=100, default = "100%", also = ["percentage", "runtime_fraction", "sample"])]
    percent: Percent,
    /// Maximum bytes of a body; a request with a larger one is not copied.
    #[key(size = 0..="16MiB", default = "64KiB", also = ["max_body", "maxBodySize", "limit"])]
    body: usize,
    /// Maximum number of concurrent copies; a request beyond it is not copied.
    #[key(count = 1..=100_000, default = 100, also = ["max_in_flight", "concurrency", "limit_in_flight"])]
    in_flight: usize,
    /// Maximum duration of a copy's exchange.
    #[key(time = "1ms"..="10m", default = "5s")]
    timeout: Duration,
    /// The field that marks a copy, with the value `1`.
    #[key(text = HEADER_NAME, off, parse = own_header, default = "Tollgate-Shadow")]
    header: Option<String>,
    /// The `Host` of copies. Default: the host of the original request.
    #[key(expected = "a host such as `shadow.internal`", pattern = r"^\S+$", parse = header::value)]
    host: Option<String>,
}

const ONE: Shape = <OneMirror as Value>::SHAPE;

/// A mirror, or a list of mirrors.
impl Value for MirrorSettings {
    const SHAPE: Shape = Shape::OneOrMany(&ONE);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        let mut mirrors: Vec<OneMirror> = Vec::new();
        let items = reader.list_items(field, true, true);
        for node in items {
            let Some(mirror) = OneMirror::read(reader, Field { node, at: node.at, ..field }) else {
                continue;
            };
            if let Some(twin) = mirrors.iter().find(|twin| twin.to.value == mirror.to.value) {
                let message = format!("two mirrors go to {}", shown(&mirror.to.value));
                let problem = Problem::error(mirror.to.at, message);
                reader.problems.push(problem.related(twin.to.at, "the other"));
                continue;
            }
            mirrors.push(mirror);
        }
        (!mirrors.is_empty()).then_some(Self(mirrors))
    }
}

/// The name of the upstream, or a mapping.
impl Value for OneMirror {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&UPSTREAM_NAME), Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        match field.is_mapping() {
            true => reader.section(field),
            false => from_one_key(reader, "to", field.node),
        }
    }
}

impl PolicyConfig for MirrorSettings {
    const KEY: KeySpec =
        policy_key::<Self>("mirror", "Sends copies of requests to other upstreams: one, or a list.")
            .aliases(&["shadow", "mirroring", "request_mirror_policies", "tee"]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let rules = |mirror: &OneMirror| {
            let header = mirror.header.clone().map(|name| (name, "1".to_owned()));
            Arc::new(MirrorRules {
                to: mirror.to.value.as_str().into(),
                percent: mirror.percent,
                body: mirror.body,
                in_flight: mirror.in_flight,
                timeout: mirror.timeout,
                marks: Arc::new(CopyMarks { header, host: mirror.host.clone() }),
            })
        };
        Arc::new(MirrorList { mirrors: self.0.iter().map(rules).collect() })
    }

    fn upstreams(&self) -> Vec<&Spanned<String>> {
        self.0.iter().map(|mirror| &mirror.to).collect()
    }
}

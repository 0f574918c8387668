//! Compiles `aggregate`, and checks that the paths of its parts are in normal form.

use tollgate_config as config;
use tollgate_config::{AggregatePiece, Problem, ValuePiece};
use tollgate_policy::{AggregatePart, AggregateRules, Requirement, ShapePiece};
use tollgate_route::{Normalised, PathRules, normalise};

use super::template::template;

pub(super) fn aggregate(
    spec: &config::Aggregate,
    rules: &PathRules,
    problems: &mut Vec<Problem>,
) -> AggregateRules {
    let part = |part: &config::AggregatePart| {
        problems.extend(abnormal(part, rules));
        let config::AggregatePart { name, to, path, query, host, timeout, limit, fallback } = part;
        AggregatePart {
            name: name.clone(),
            to: to.value.as_str().into(),
            path: template(&path.value),
            query: template(query),
            host: host.as_deref().map(Into::into),
            timeout: *timeout,
            most: *limit,
            need: fallback
                .as_deref()
                .map_or(Requirement::Required, |json| Requirement::Optional(json.into())),
        }
    };
    let piece = |piece: &AggregatePiece| match piece {
        AggregatePiece::Text(text) => ShapePiece::Text(text.as_str().into()),
        AggregatePiece::Part(number) => ShapePiece::Part(*number),
        AggregatePiece::Failed => ShapePiece::Failed,
    };
    AggregateRules {
        parts: spec.parts.iter().map(part).collect(),
        shape: spec.shape.iter().map(piece).collect(),
        total: spec.limit,
    }
}

/// Reports a path that is not in its normal form: no request could ask for it.
fn abnormal(part: &config::AggregatePart, rules: &PathRules) -> Option<Problem> {
    let pieces = config::value_template(&part.path.value).ok()?;
    let filled: String = pieces
        .into_iter()
        .enumerate()
        .map(|(at, piece)| match piece {
            ValuePiece::Text(text) => text,
            ValuePiece::Field("path") if at == 0 => "/x".to_owned(),
            _ => "x".to_owned(),
        })
        .collect();
    let mut normal = Vec::new();
    match normalise(filled.as_bytes(), rules, &mut normal) {
        Ok(Normalised::Unchanged) => None,
        _ => {
            let problem = Problem::error(part.path.at, "this path is not in its normal form");
            Some(problem.help("write it without dot segments, empty segments and needless `%XX`"))
        }
    }
}

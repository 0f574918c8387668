//! The report as JSON.

use serde_json::{Map, Value, json};
use tollgate_plan::Priority;
use tollgate_proxy::DryRunPolicy;

use super::report::{EndpointShare, Forward, Report, RouteAction, RouteSource};

/// Returns the report as one JSON document. All keys are always present; inapplicable ones are `null`.
pub fn json(report: &Report) -> Value {
    let (mut forward, mut redirect, mut respond) = (Value::Null, Value::Null, Value::Null);
    let mut files = Value::Null;
    match &report.action {
        None => {}
        Some(RouteAction::Forward(forwarded)) => forward = self::forward(forwarded),
        Some(RouteAction::Redirect { status, location }) => {
            redirect = json!({ "status": status, "location": location });
        }
        Some(RouteAction::Files { path, is_list }) => files = json!({ "path": path, "list": is_list }),
        Some(RouteAction::Respond(fixed)) => {
            let lines = String::from_utf8_lossy(&fixed.headers).into_owned();
            let headers: Vec<&str> = lines.lines().collect();
            let body = String::from_utf8_lossy(&fixed.body);
            respond = json!({ "status": fixed.status, "headers": headers, "body": body });
        }
    }
    let others = report.others.iter().map(|(place, why)| {
        let mut entry = self::locate(place);
        entry.insert("why".to_owned(), why.to_string().into());
        Value::from(entry)
    });
    let policies = report.policies.iter().map(|DryRunPolicy { kind, place, set, summary, verdict }| {
        json!({ "kind": kind, "place": place, "set": set.as_deref(), "summary": summary, "verdict": verdict.as_str() })
    });
    json!({
        "request": { "method": report.method, "host": report.host, "target": report.target },
        "listener": report.listener.as_ref().map(|(name, bind)| json!({ "name": name, "bind": bind })),
        "path": report.path.as_ref().map(|(sent, normal)| json!({ "sent": sent, "normal": normal })),
        "refused": report.refused.as_ref().map(|refused| {
            json!({ "status": refused.status, "reason": refused.reason, "detail": refused.detail })
        }),
        "preflight": report.preflight,
        "route": report.route.as_ref().map(locate),
        "policies": policies.collect::<Vec<_>>(),
        "stores": report.stores.as_ref().map(|store| json!({
            "memory": store.memory,
            "disk": store.disk.as_ref().map(|disk| json!({ "path": disk.path.value, "size": disk.size })),
        })),
        "others": others.collect::<Vec<_>>(),
        "others_left_out": report.left_out,
        "forward": forward,
        "redirect": redirect,
        "respond": respond,
        "files": files,
    })
}

fn locate(place: &RouteSource) -> Map<String, Value> {
    let RouteSource { name, file, line } = place;
    Map::from_iter([
        ("name".to_owned(), name.as_str().into()),
        // At line 0, the position is unknown.
        ("file".to_owned(), (*line > 0).then_some(file.as_str()).into()),
        ("line".to_owned(), (*line > 0).then_some(*line).into()),
    ])
}

fn forward(forward: &Forward) -> Value {
    let changes = forward.changes.iter();
    let changes =
        changes.map(|change| json!({ "name": change.name, "before": change.before, "after": change.after }));
    let upstreams = forward.upstreams.iter().map(|upstream| {
        let endpoints = upstream.endpoints.iter();
        let endpoints = endpoints.map(|EndpointShare { address, weight, priority, zone, share }| {
            json!({ "address": address, "weight": weight, "priority": priority, "zone": zone, "share": share })
        });
        let endpoints: Vec<Value> = endpoints.collect();
        let rules = upstream.rules.iter().map(|(key, text)| ((*key).to_owned(), text.as_str().into()));
        let rules: Map<String, Value> = rules.collect();
        json!({ "name": upstream.name, "weight": upstream.weight, "endpoints": endpoints, "rules": rules })
    });
    let timeouts = forward.timeouts.iter();
    let timeouts =
        timeouts.map(|(key, wait)| (format!("{key}_ms"), wait.map(|wait| wait.as_millis() as u64).into()));
    let answers = forward.answers.iter();
    let answers =
        answers.map(|(status, weight, share)| json!({ "status": status, "weight": weight, "share": share }));
    json!({
        "target": forward.target,
        "headers": changes.collect::<Vec<_>>(),
        "upgrade": forward.upgrade,
        "upstreams": upstreams.collect::<Vec<_>>(),
        "answers": answers.collect::<Vec<_>>(),
        "timeouts": timeouts.collect::<Map<_, _>>(),
        "body_limit": forward.body_limit,
        "priority": match forward.priority {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        },
        "fallback": forward.fallbacks.iter().map(|(on, instead)| json!({ "on": on, "instead": instead })).collect::<Vec<_>>(),
        "buffer": { "request": forward.buffers_request, "response": forward.buffers_response },
    })
}

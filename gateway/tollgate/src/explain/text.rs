//! The report as text.

use std::fmt::Write as _;
use std::time::Duration;

use tollgate_http::reason_phrase;
use tollgate_plan::{Priority, Respond};
use tollgate_proxy::DryRunPolicy;

use super::field_changes::FieldChange;
use super::report::{Destination, EndpointShare, Forward, Report, RouteAction, RouteSource};

/// Width of the first column, in characters.
const LABEL: usize = 10;
/// How many characters of a fixed body are shown.
const EXCERPT: usize = 60;

/// Returns the report as text.
pub fn text(report: &Report) -> String {
    let mut page = ExplainText::default();
    let host = report.host.as_deref().unwrap_or("(no host)");
    page.line("request", format_args!("{} {}, host {host}", report.method, report.target));
    if let Some((Some(name), bind)) = &report.listener {
        page.line("listener", format_args!("{name} ({bind})"));
    }
    match &report.path {
        Some((sent, normal)) if sent == normal => {
            page.line("path", format_args!("{normal} (in normal form)"));
        }
        Some((sent, normal)) => {
            page.line("path", format_args!("{sent} -> {normal} (its normal form is matched)"));
        }
        None => {}
    }
    if let Some(refused) = &report.refused {
        page.line(
            "refused",
            format_args!("{} {}, reason `{}`", refused.status, reason_phrase(refused.status), refused.reason),
        );
        if let Some(detail) = refused.detail {
            page.line("", format_args!("{detail}"));
        }
    }
    if let Some(method) = &report.preflight {
        page.line("preflight", format_args!("it takes the route that {method} would take"));
    }
    match &report.route {
        Some(place) => page.line("route", format_args!("{}", shown(place))),
        None if report.path.is_some() => page.line("route", format_args!("none")),
        None => {}
    }
    let mut label = "policies";
    for DryRunPolicy { kind, place, set, summary, verdict } in &report.policies {
        let verdict = verdict.as_str();
        let from = set.as_ref().map(|set| format!(" by the set {set}")).unwrap_or_default();
        page.line(std::mem::take(&mut label), format_args!("{kind} of {place}{from} ({summary}): {verdict}"));
    }
    if let Some(store) = &report.stores {
        let on_disk = store.disk.as_ref().map_or_else(String::new, |disk| {
            format!("; on disk in {}, at most {}", disk.path.value.display(), size(disk.size))
        });
        page.line("stores", format_args!("in memory, at most {}{on_disk}", size(store.memory)));
    }
    match &report.action {
        None => {}
        Some(RouteAction::Forward(forward)) => page.forward(report, forward),
        Some(RouteAction::Redirect { status, location }) => {
            page.line("answer", format_args!("{status} {}", reason_phrase(*status)));
            page.line("", format_args!("Location: {location}"));
        }
        Some(RouteAction::Respond(respond)) => page.respond(respond),
        Some(RouteAction::Files { path, is_list: false }) => page.line("serves", format_args!("{path}")),
        Some(RouteAction::Files { path, is_list: true }) => {
            page.line("serves", format_args!("the list of {path}"));
        }
    }
    page.others(report);
    page.out
}

/// Formats bytes in the largest unit that has a whole number of them.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.into_iter().find(|(shift, _)| bytes.is_multiple_of(1 << shift));
    whole.map_or_else(|| format!("{bytes} bytes"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

#[derive(Default)]
struct ExplainText {
    out: String,
}

impl ExplainText {
    /// Writes one line. With an empty label it continues the previous entry.
    fn line(&mut self, label: &str, text: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.out, "{label:LABEL$}{text}");
    }

    fn forward(&mut self, report: &Report, forward: &Forward) {
        let mut label = "changes";
        let mut next = || std::mem::take(&mut label);
        if forward.target != report.target {
            self.line(next(), format_args!("{} -> {}", report.target, forward.target));
        }
        for change in &forward.changes {
            let FieldChange { name, before, after } = change;
            let (before, after) = (before.join(", "), after.join(", "));
            match (before.as_str(), after.as_str()) {
                ("", after) => self.line(next(), format_args!("+ {name}: {after}")),
                (before, "") => self.line(next(), format_args!("- {name}: {before}")),
                (before, after) => self.line(next(), format_args!("~ {name}: {before} -> {after}")),
            }
        }
        if !next().is_empty() {
            self.line("changes", format_args!("nothing"));
        }
        let mut label = "to";
        let shared = shared(&forward.upstreams);
        for destination in &forward.upstreams {
            self.destination(
                std::mem::take(&mut label),
                destination,
                forward.upstreams.len() + forward.answers.len() > 1,
                shared.is_none(),
            );
        }
        for (status, weight, share) in &forward.answers {
            let percent = share * 100.0;
            let label = std::mem::take(&mut label);
            self.line(
                label,
                format_args!("answer {status}, weight {weight}: {percent:.0} % of the requests"),
            );
        }
        for (key, text) in shared.into_iter().flatten() {
            self.line(key, format_args!("{text}"));
        }
        let waits = forward.timeouts.iter().map(|(key, wait)| format!("{key} {}", duration(*wait)));
        self.line("timeouts", format_args!("{}", waits.collect::<Vec<_>>().join(", ")));
        if let Some(limit) = forward.body_limit {
            self.line("body", format_args!("at most {limit} bytes"));
        }
        for (on, what) in [(forward.buffers_request, "request"), (forward.buffers_response, "response")] {
            if on {
                self.line("buffer", format_args!("the {what}'s body is buffered before it is passed on"));
            }
        }
        let mut label = "fallback";
        for (on, what) in &forward.fallbacks {
            self.line(std::mem::take(&mut label), format_args!("on {on}: {what}"));
        }
        match forward.priority {
            Priority::Low => self.line("priority", format_args!("low: shed first under overload")),
            Priority::Normal => {}
            Priority::High => self.line("priority", format_args!("high: shed last under overload")),
        }
        if forward.upgrade {
            self.line("upgrade", format_args!("allowed, if the endpoint agrees"));
        }
    }

    /// Writes an upstream. `own` includes its rules; they are written once elsewhere if all upstreams share
    /// them.
    fn destination(&mut self, label: &str, destination: &Destination, several: bool, own: bool) {
        let Destination { name, weight, endpoints, rules } = destination;
        match several {
            true => self.line(label, format_args!("upstream {name}, weight {weight}")),
            false => self.line(label, format_args!("upstream {name}")),
        }
        for endpoint in endpoints {
            self.line("", format_args!("  {}", reachable(endpoint)));
        }
        for (key, text) in rules.iter().filter(|_| own) {
            self.line("", format_args!("  {key}: {text}"));
        }
    }

    fn respond(&mut self, respond: &Respond) {
        self.line("answer", format_args!("{} {}", respond.status, reason_phrase(respond.status)));
        for line in String::from_utf8_lossy(&respond.headers).lines() {
            self.line("", format_args!("{line}"));
        }
        if !respond.body.is_empty() {
            let body = String::from_utf8_lossy(&respond.body);
            let excerpt: String = body.trim_end().chars().take(EXCERPT).collect();
            self.line("", format_args!("{} bytes: {}", respond.body.len(), excerpt.escape_debug()));
        }
    }

    fn others(&mut self, report: &Report) {
        let mut label = if report.route.is_some() { "not" } else { "because" };
        for (place, why) in &report.others {
            self.line(std::mem::take(&mut label), format_args!("{}: {why}", shown(place)));
        }
        if report.left_out > 0 {
            let more = report.left_out;
            self.line(label, format_args!("and {more} more, further from it (`--all` shows them)"));
        }
    }
}

/// Returns the rules of all upstreams, if they are the same.
fn shared(upstreams: &[Destination]) -> Option<&[(&'static str, String)]> {
    let (first, rest) = upstreams.split_first()?;
    rest.iter().all(|other| other.rules == first.rules).then_some(&first.rules)
}

fn reachable(endpoint: &EndpointShare) -> String {
    let mut out = format!("{}, weight {}", endpoint.address, endpoint.weight);
    if endpoint.priority > 0 {
        out.push_str(&format!(", priority {}", endpoint.priority));
    }
    if let Some(zone) = &endpoint.zone {
        out.push_str(&format!(", zone {zone}"));
    }
    if let Some(share) = endpoint.share {
        out.push_str(&format!(": {} of the requests", percent(share)));
    }
    out
}

fn shown(place: &RouteSource) -> String {
    let RouteSource { name, file, line } = place;
    format!("{name} ({file}:{line})")
}

/// Formats a time as it would be written in the file.
fn duration(wait: Option<Duration>) -> String {
    match wait {
        None => "off".to_owned(),
        Some(wait) if wait.subsec_millis() == 0 => format!("{}s", wait.as_secs()),
        Some(wait) => format!("{}ms", wait.as_millis()),
    }
}

fn percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(1.0 / 3.0), "33.3 %");
        assert_eq!(duration(Some(Duration::from_millis(1500))), "1500ms");
        assert_eq!(duration(Some(Duration::from_secs(60))), "60s");
        assert_eq!(duration(None), "off");
    }
}

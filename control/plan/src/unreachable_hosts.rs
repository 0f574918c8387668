//! Finds routes whose host no listener brings to them: another listener of the address has the host, or a stream passes
//! the connections for it through. [`compile`](crate::compile) warns about them.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_config::{self as config, ListenerProtocol, Problem};

use crate::PlannedListener;
use crate::listener_index::ListenerIndex;
use crate::stream_table::Stream;

/// What keeps the requests for a host from the routes of a listener.
enum Obstacle<'a> {
    /// Another listener of the address has the host.
    Listener(&'a PlannedListener),
    /// No listener of the address has the host.
    NoListener,
    /// A stream takes the connections whose clients ask for this server name.
    Stream(&'a Stream),
}

/// Returns a warning for each route with a host whose requests reach it at none of its listeners.
pub(crate) fn warnings(
    parts: &config::CombinedResources<'_>,
    listeners: &[Arc<PlannedListener>],
    index: &ListenerIndex,
) -> Vec<Problem> {
    // Almost all configurations end here.
    let is_narrow = |listener: &Arc<PlannedListener>| {
        listener.protocol == ListenerProtocol::Http && (listener.by_host || listener.streams.is_some())
    };
    if !listeners.iter().any(is_narrow) {
        return Vec::new();
    }
    let http = (0..).zip(listeners).filter(|(_, listener)| listener.protocol == ListenerProtocol::Http);
    let mut named: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, listener) in http.clone() {
        if let Some(name) = &listener.name {
            named.entry(name.as_str()).or_default().push(number);
        }
    }
    let all: Vec<usize> = http.map(|(number, _)| number).collect();
    let mut problems: Vec<Problem> = Vec::new();
    for route in parts.routes.iter().filter(|route| route.enabled) {
        let Some(host) = &route.matches.host else { continue };
        let own: Vec<usize>;
        let numbers = match route.listeners.as_slice() {
            [] => &all,
            names => {
                let numbers = names.iter().filter_map(|name| named.get(name.value.as_str())).flatten();
                own = numbers.copied().collect();
                &own
            }
        };
        let mut first = None;
        let is_reached =
            numbers.iter().any(|&number| match obstacle(listeners, index, number, &host.value) {
                None => true,
                Some(obstacle) => {
                    first.get_or_insert(obstacle);
                    false
                }
            });
        // A route with several matches of one host is several routes.
        let is_new = problems.last().is_none_or(|last| last.at != host.at);
        if let Some(first) = first.filter(|_| !is_reached && is_new) {
            problems.push(warning(host, &first));
        }
    }
    problems
}

/// Returns what keeps requests for `host` from the routes of this listener; `None`: nothing, or not for all requests.
fn obstacle<'a>(
    listeners: &'a [Arc<PlannedListener>],
    index: &ListenerIndex,
    number: usize,
    host: &str,
) -> Option<Obstacle<'a>> {
    let listener = &listeners[number];
    let lower = host.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    if let Some(base) = name.strip_prefix("*.") {
        let is_met = |own: &String| match own.strip_prefix("*.") {
            Some(own) => is_below(own, base) || is_below(base, own) || own == base,
            None => is_below(own, base),
        };
        let is_apart = listener.by_host && !listener.hosts.is_empty() && !listener.hosts.iter().any(is_met);
        return is_apart.then_some(Obstacle::NoListener);
    }
    if listener.by_host {
        match index.for_host(&listener.bind, name.as_bytes()) {
            Some(chosen) if chosen == number => {}
            Some(chosen) => return Some(Obstacle::Listener(&listeners[chosen])),
            None => return Some(Obstacle::NoListener),
        }
    }
    let stream = listener.streams.as_ref().and_then(|table| table.named(name.as_bytes()))?;
    Some(Obstacle::Stream(stream))
}

/// Returns whether a name is below another one.
fn is_below(name: &str, base: &str) -> bool {
    name.strip_suffix(base).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

fn warning(host: &config::Spanned<String>, obstacle: &Obstacle<'_>) -> Problem {
    let name = &host.value;
    match obstacle {
        Obstacle::Listener(other) => {
            let message =
                format!("no request for `{name}` reaches this route: another listener has this host");
            Problem::warning(host.at, message).related(other.at, "the listener that has it")
        }
        Obstacle::NoListener => {
            let message =
                format!("no request for `{name}` reaches this route: its listeners have other hosts");
            Problem::warning(host.at, message).help("add the host to `hosts` of a listener")
        }
        Obstacle::Stream(stream) => {
            let message = format!(
                "clients that ask for `{name}` by TLS reach a stream: this route takes only requests of connections \
                 without that server name"
            );
            Problem::warning(host.at, message).related(stream.at, "the stream that takes them")
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::compile;

    fn warnings(text: &str) -> Vec<(u32, String)> {
        tollgate_policy::register();
        let loaded = tollgate_config::from_text("t", text, &|_| None);
        let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
        let compiled = compile(&config).unwrap_or_else(|problems| panic!("{problems:?}"));
        compiled.warnings.into_iter().map(|it| (it.at.line, it.message)).collect()
    }

    #[test]
    fn a_host_of_another_listener_is_reported_at_the_route() {
        let text = |route: &str| {
            format!(
                "listen:\n- {{bind: \":1\", name: shop, hosts: shop.example}}\n\
                 - {{bind: \":1\", name: rest, hosts: \"*.example\"}}\nroutes:\n- {{{route}, respond: 204}}\n"
            )
        };
        let none = Vec::<(u32, String)>::new();
        let other = "no request for `shop.example` reaches this route: another listener has this host";
        assert_eq!(warnings(&text("listeners: rest, match: shop.example")), [(5, other.to_owned())]);
        assert_eq!(warnings(&text("listeners: [rest, shop], match: shop.example")), none);
        assert_eq!(warnings(&text("match: shop.example")), none);
        assert_eq!(warnings(&text("listeners: rest, match: \"a.example\"")), none);
        assert_eq!(warnings(&text("listeners: rest, match: \"*.b.example\"")), none);
        assert_eq!(warnings(&text("listeners: rest, match: \"*.example\"")), none);
        let nowhere = |host: &str| {
            format!("no request for `{host}` reaches this route: its listeners have other hosts")
        };
        assert_eq!(warnings(&text("match: a.test")), [(5, nowhere("a.test"))]);
        assert_eq!(warnings(&text("match: \"*.test\"")), [(5, nowhere("*.test"))]);
        assert_eq!(warnings(&text("match: a.test, enabled: off")), none);
    }

    #[test]
    fn a_listener_without_hosts_takes_the_others() {
        let text = "listen:\n- {bind: \":1\", name: shop, hosts: shop.example}\n- {bind: \":1\", name: rest}\n\
                    routes: [{listeners: rest, match: a.test, respond: 204}]\n";
        assert_eq!(warnings(text), []);
    }
}

//! Listeners that share an address. Their hosts tell their requests apart; what holds for a whole connection, or for its
//! handshake, must be the same at all of them.

use std::collections::HashMap;

use crate::position::At;
use crate::section::{Problem, shown};
use crate::sections::ListenTls;
use crate::sections::listen::Listener;

/// A setting that must be the same at all listeners of an address, and how to compare it.
type SharedSetting = (&'static str, fn(&Listener, &Listener) -> bool);

/// The settings that apply to a connection before its first request names the host.
const SETTINGS: [SharedSetting; 6] = [
    ("`protocol`", |one, other| one.protocol == other.protocol),
    ("the file settings of `bind`", |one, other| one.bind.value == other.bind.value),
    ("`proxy_protocol`", |one, other| one.proxy_protocol == other.proxy_protocol),
    ("`timeouts`", |one, other| one.timeouts == other.timeouts),
    ("`http2`", |one, other| one.http2 == other.http2),
    ("`half_close`", |one, other| one.half_close == other.half_close),
];

/// Returns the errors of listeners that share an address.
pub(super) fn problems(sharing: &[&Listener]) -> Vec<Problem> {
    let Some((first, others)) = sharing.split_first() else { return Vec::new() };
    if sharing.iter().all(|listener| listener.hosts.is_empty()) {
        // A free port may be written several times: it is another one each time.
        if first.bind.value.ip().is_some_and(|address| address.port() == 0) {
            return Vec::new();
        }
        return others.iter().map(|other| twice(first.bind.at, other.bind.at)).collect();
    }
    let mut problems = same_hosts(sharing);
    for other in others {
        problems.extend(difference(first, other));
    }
    problems
}

fn twice(first: At, second: At) -> Problem {
    let problem = Problem::error(second, "this address has two listeners");
    problem
        .help("several listeners share an address if their `hosts` differ")
        .related(first, "first written here")
}

/// Returns an error for each host that two listeners have, and for a second listener without hosts.
fn same_hosts(sharing: &[&Listener]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut hosts: HashMap<&str, At> = HashMap::new();
    let mut everywhere: Option<At> = None;
    for listener in sharing {
        if listener.hosts.is_empty() {
            match everywhere {
                Some(first) => problems.push(twice(first, listener.bind.at)),
                None => everywhere = Some(listener.bind.at),
            }
        }
        for host in &listener.hosts {
            match hosts.get(host.value.as_str()) {
                Some(first) => {
                    let message =
                        format!("two listeners of this address have the host {}", shown(&host.value));
                    problems.push(Problem::error(host.at, message).related(*first, "first written here"));
                }
                None => drop(hosts.insert(&host.value, host.at)),
            }
        }
    }
    problems
}

/// Returns an error if two listeners cannot share an address.
fn difference(first: &Listener, other: &Listener) -> Option<Problem> {
    let what = match (&first.tls, &other.tls) {
        (Some(_), None) | (None, Some(_)) => {
            let problem = Problem::error(
                other.bind.at,
                "a listener with `tls` and one without cannot share an address",
            );
            let problem = problem.help("a connection begins with TLS or without it, before it names a host");
            return Some(problem.related(first.bind.at, "the other"));
        }
        (Some(one), Some(two)) if !same_handshake(one, two) => {
            "`min_version` and `client_certificates` of `tls`"
        }
        _ => SETTINGS.iter().find(|(_, same)| !same(first, other)).map(|(what, _)| *what)?,
    };
    let message = format!("listeners that share an address need the same {what}");
    Some(Problem::error(other.bind.at, message).related(first.bind.at, "the other"))
}

/// Returns whether two listeners have the same handshake, apart from the certificates.
fn same_handshake(one: &ListenTls, other: &ListenTls) -> bool {
    let authorities =
        |tls: &ListenTls| tls.client.clone().map(|client| (client.ca.bytes, client.ca.path, client.mode));
    one.min_version == other.min_version && authorities(one) == authorities(other)
}

//! Finds listeners that exclude each other. The reader compares the listeners of the file. If documents add listeners,
//! the plan's compiler compares all of them.

mod shared;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};

use super::listen::Listener;
use crate::section::{Problem, shown};
use crate::sections::AdminSettings;

/// Returns an error for each listener whose name another one has, whose address another one or the admin listener covers, or
/// that cannot share its address with the others there.
#[must_use]
pub fn listener_conflicts(listeners: &[&Listener], admin: Option<&AdminSettings>) -> Vec<Problem> {
    let mut problems = same_names(listeners);
    let mut addresses: HashMap<String, Vec<&Listener>> = HashMap::new();
    // A port of TCP and the same one of UDP are two.
    let mut ports: HashMap<(bool, u16), Vec<(SocketAddr, &Listener)>> = HashMap::new();
    for &listener in listeners {
        let sharing = addresses.entry(listener.bind.value.to_string()).or_default();
        if let (true, Some(address)) = (sharing.is_empty(), listener.bind.value.ip()) {
            let is_udp = listener.bind.value.tcp().is_none();
            let others = ports.entry((is_udp, address.port())).or_default();
            problems.extend(overlap_with(address, listener, others));
            others.push((address, listener));
        }
        sharing.push(listener);
    }
    let mut shared: Vec<Vec<&Listener>> =
        addresses.into_values().filter(|sharing| sharing.len() > 1).collect();
    shared.sort_by_key(|sharing| {
        let at = sharing[0].bind.at;
        (at.file, at.line, at.column)
    });
    problems.extend(shared.iter().flat_map(|sharing| shared::problems(sharing)));
    problems.extend(admin.and_then(|admin| admin_address(listeners, admin)));
    problems
}

/// Returns an error for each listener whose name another one has.
fn same_names(listeners: &[&Listener]) -> Vec<Problem> {
    let mut names = HashMap::new();
    let mut problems = Vec::new();
    for name in listeners.iter().filter_map(|listener| listener.name.as_ref()) {
        match names.entry(name.value.as_str()) {
            Entry::Occupied(first) => {
                let message = format!("two listeners are named {}", shown(&name.value));
                problems.push(Problem::error(name.at, message).related(*first.get(), "first written here"));
            }
            Entry::Vacant(place) => drop(place.insert(name.at)),
        }
    }
    problems
}

/// Returns an error if one of the addresses covers the other.
fn overlap_with(
    address: SocketAddr,
    listener: &Listener,
    others: &[(SocketAddr, &Listener)],
) -> Option<Problem> {
    let (_, other) = others.iter().find(|(other, _)| overlap(*other, address))?;
    let problem = Problem::error(listener.bind.at, "this address and another of `listen` overlap");
    Some(
        problem
            .help("the system cannot open both at once: remove the one that the other covers")
            .related(other.bind.at, "the other"),
    )
}

/// Returns whether a connection could match both: the same port, and the same address or an unspecified one.
/// Port 0 means a free port, a different one each time.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let covers = |a: IpAddr, b: IpAddr| match a {
        IpAddr::V4(a) => a.is_unspecified() && b.is_ipv4(),
        // `[::]` accepts IPv4 too.
        IpAddr::V6(a) => a.is_unspecified(),
    };
    let (one, other) = (a.ip(), b.ip());
    a.port() == b.port() && a.port() != 0 && (one == other || covers(one, other) || covers(other, one))
}

/// Reports a listener that shares the admin listener's address. With `SO_REUSEPORT` both could bind it, and
/// the kernel would distribute connections at random.
fn admin_address(listeners: &[&Listener], admin: &AdminSettings) -> Option<Problem> {
    let admin = &admin.bind;
    let Some(address) = admin.value.tcp() else {
        let twin = listeners.iter().find(|listener| listener.bind.value.is_same_address(&admin.value))?;
        let problem = Problem::error(twin.bind.at, "the admin listener also uses this socket");
        return Some(problem.related(admin.at, "`admin` is here"));
    };
    let is_there = |listener: &&&Listener| listener.bind.value.tcp().is_some_and(|own| overlap(own, address));
    let twin = listeners.iter().find(is_there)?;
    let problem = Problem::error(twin.bind.at, "the admin listener also uses this address");
    Some(if admin.at.line > 0 {
        problem.related(admin.at, "`admin` is here")
    } else {
        problem.help("`admin` is 127.0.0.1:9911 unless it is given: give it another address, or `off`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_when_one_covers_the_other() {
        let overlap = |a: &str, b: &str| {
            let (a, b) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(overlap(a, b), overlap(b, a), "{a} {b}");
            overlap(a, b)
        };
        for (a, b) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("[::]:80", "0.0.0.0:80"),
        ] {
            assert!(overlap(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("[::]:80", "[::]:81"),
            ("[::]:0", "[::]:0"),
            ("0.0.0.0:80", "[::1]:80"),
            ("127.0.0.1:80", "127.0.0.2:80"),
        ] {
            assert!(!overlap(a, b), "{a} {b}");
        }
    }
}

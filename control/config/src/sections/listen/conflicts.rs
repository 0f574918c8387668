//! Finds listeners that exclude each other. The reader compares those of the file; the plan's compiler compares all of
//! them, if documents add some.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::Listener;
use crate::section::{Problem, shown};
use crate::sections::{AdminSettings, ListenAddress};

/// Returns an error for each listener whose name or address another one has, or whose address another one or the admin
/// listener covers.
#[must_use]
pub fn conflicts(listeners: &[&Listener], admin: Option<&AdminSettings>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut names: HashMap<&str, &Listener> = HashMap::new();
    let mut sockets: HashMap<&std::path::Path, &Listener> = HashMap::new();
    let mut ports: HashMap<u16, Vec<(SocketAddr, &Listener)>> = HashMap::new();
    for &listener in listeners {
        if let Some(name) = &listener.name {
            match names.get(name.value.as_str()).and_then(|first| first.name.as_ref()) {
                Some(first) => {
                    let message = format!("two listeners are named {}", shown(&name.value));
                    problems.push(Problem::error(name.at, message).related(first.at, "first written here"));
                }
                None => drop(names.insert(&name.value, listener)),
            }
        }
        let twin = match &listener.bind.value {
            ListenAddress::Unix(socket) => match sockets.get(socket.path.as_path()) {
                Some(twin) => Some(*twin),
                None => sockets.insert(&socket.path, listener),
            },
            // A free port, a different one each time.
            ListenAddress::Tcp(address) if address.port() == 0 => None,
            ListenAddress::Tcp(address) => {
                let others = ports.entry(address.port()).or_default();
                let twin = others.iter().find(|(other, _)| other == address).map(|(_, twin)| *twin);
                if twin.is_none() {
                    problems.extend(overlap_with(*address, listener, others));
                    others.push((*address, listener));
                }
                twin
            }
        };
        if let Some(twin) = twin {
            let problem = Problem::error(listener.bind.at, "this address has two listeners");
            problems.push(problem.related(twin.bind.at, "first written here"));
        }
    }
    problems.extend(admin.and_then(|admin| admin_address(listeners, admin)));
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

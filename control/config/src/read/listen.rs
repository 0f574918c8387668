//! Reads `listen`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::{admin, policies};
use crate::model::{
    Config, Http2, ListenAddress, ListenTls, Listener, ListenerTimeouts, Policies, RedirectToHttps, Spanned,
};
use crate::problem::Problem;
use crate::reader::{Field, Reader, Setting};
use crate::sections::blocks;
use crate::spec::{LISTENER, REDIRECT_TO_HTTPS, Shape};
use crate::tree::{Node, NodeKind};

/// Mode of the sockets that clients connect to. Clients often run as other users, as with a web server's, so
/// every user may connect, as to a TCP port.
const SOCKET_MODE: u32 = 0o666;

pub(super) fn listeners(reader: &mut Reader, field: Field<'_>) -> Vec<Listener> {
    let mut listeners: Vec<Listener> = Vec::new();
    let items = reader.bounded_items(field.node, "`listen`");
    if items.is_empty() {
        reader.missing(field.node.at, "`listen` is an empty list".to_owned(), &field.key.shape);
    }
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    for item in items {
        let Some(listener) = listener(reader, item, one) else { continue };
        let bind = &listener.bind;
        let is_fixed = bind.value.tcp().is_none_or(|address| address.port() != 0);
        let same = |other: &&Listener| other.bind.value.is_same_address(&bind.value) && is_fixed;
        let twin = listeners.iter().find(same);
        if let Some(twin) = twin {
            let problem = Problem::error(bind.at, "this address has two listeners");
            reader.problems.push(problem.related(twin.bind.at, "first written here"));
            continue;
        }
        if let Some(other) = listeners.iter().find(|other| are_one(&other.bind.value, &bind.value)) {
            let problem = Problem::error(bind.at, "this address and another of `listen` overlap");
            reader.problems.push(
                problem
                    .help("the system cannot open both at once: remove the one that the other covers")
                    .related(other.bind.at, "the other"),
            );
        }
        listeners.push(listener);
    }
    listeners
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

fn are_one(a: &ListenAddress, b: &ListenAddress) -> bool {
    a.tcp().zip(b.tcp()).is_some_and(|(a, b)| overlap(a, b))
}

fn listener(reader: &mut Reader, node: &Node, shape: &Shape) -> Option<Listener> {
    let all = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    if matches!(node.kind, NodeKind::Map(_)) {
        let fields = reader.fields(node, &LISTENER)?;
        let tls: Option<ListenTls> = fields.get("tls").and_then(|field| reader.section(field));
        let http2 = match reader.word(fields.get("http2")) {
            Some("off") => Http2::Off,
            Some("only") => Http2::Only,
            _ => Http2::On,
        };
        let proxy_protocol = fields.get("proxy_protocol");
        let proxy_protocol = proxy_protocol.map(|field| blocks(reader, field, "a proxy"));
        let redirect = fields.get("redirect_to_https");
        let redirect_to_https = redirect.and_then(|field| redirect_to_https(reader, field));
        if let (Some(field), Some(_), Some(_)) = (redirect, redirect_to_https, &tls) {
            let message = "`redirect_to_https` conflicts with `tls`: requests here already use `https`";
            reader
                .problems
                .push(Problem::error(field.at, message).help("write it at the plain-text listener"));
        }
        let mut half_close = false;
        reader.switch(fields.get("half_close"), &mut half_close);
        let timeouts = fields.get("timeouts").and_then(|field| reader.section::<ListenerTimeouts>(field));
        let timeouts = timeouts.unwrap_or_default();
        let policies = policies::policies(reader, fields.get("policies"));
        let mut bind = reader.spanned(fields.get("bind")?, |text| admin::listen_address(text, all))?;
        if let ListenAddress::Unix(socket) = &mut bind.value {
            socket.mode = SOCKET_MODE;
        }
        admin::socket(reader, &fields, &mut bind.value, true);
        let proxy_protocol = proxy_protocol.unwrap_or_default();
        return Some(Listener {
            bind,
            tls,
            http2,
            redirect_to_https,
            half_close,
            proxy_protocol,
            timeouts,
            policies,
        });
    }
    let mut value = reader.parsed(node, "`listen`", shape, |text| admin::listen_address(text, all))?;
    if let ListenAddress::Unix(socket) = &mut value {
        socket.mode = SOCKET_MODE;
    }
    let bind = Spanned { value, at: node.at };
    Some(Listener {
        bind,
        tls: None,
        http2: Http2::On,
        redirect_to_https: None,
        half_close: false,
        proxy_protocol: Vec::new(),
        timeouts: ListenerTimeouts::default(),
        policies: Policies::default(),
    })
}

fn redirect_to_https(reader: &mut Reader, field: Field<'_>) -> Option<RedirectToHttps> {
    let setting = reader.setting(field, &REDIRECT_TO_HTTPS)?;
    let mut out = RedirectToHttps::default();
    if let Setting::Fields(fields) = &setting {
        reader.number_into(fields.get("status"), &mut out.status);
        reader.number_into(fields.get("port"), &mut out.port);
        if let Some(status) = fields.get("status").filter(|_| !matches!(out.status, 301 | 302 | 307 | 308)) {
            let problem = Problem::error(status.node.at, format!("{} is not a redirect", out.status));
            reader.problems.push(problem.expected("301, 302, 307 or 308"));
        }
    }
    setting.on().then_some(out)
}

/// Reports a listener that shares the admin listener's address. With `SO_REUSEPORT` both could bind it, and
/// the kernel would distribute connections at random.
pub(super) fn check_admin_address(reader: &mut Reader, config: &Config) {
    let Some(admin) = config.admin.as_ref().map(|admin| &admin.bind) else { return };
    let Some(address) = admin.value.tcp() else {
        let is_there = |listener: &&Listener| listener.bind.value.is_same_address(&admin.value);
        if let Some(twin) = config.listen.iter().find(is_there) {
            let problem = Problem::error(twin.bind.at, "the admin listener also uses this socket");
            reader.problems.push(problem.related(admin.at, "`admin` is here"));
        }
        return;
    };
    let is_there = |listener: &&Listener| are_one(&listener.bind.value, &address.into());
    let Some(twin) = config.listen.iter().find(is_there) else { return };
    let message = "the admin listener also uses this address";
    let problem = Problem::error(twin.bind.at, message);
    reader.problems.push(if admin.at.line > 0 {
        problem.related(admin.at, "`admin` is here")
    } else {
        problem.help("`admin` is 127.0.0.1:9901 unless it is given: give it another address, or `off`")
    });
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

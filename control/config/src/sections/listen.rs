//! `listen`: the addresses that clients connect to.

use std::net::{IpAddr, Ipv6Addr};

use crate::model::{Cidr, Policies, Spanned};
use crate::scalar::host::{self, HostPattern};
use crate::scalar::name::listener_name;
use crate::section::{
    Field, Fields, Node, Problem, Reader, ScalarError, Section, Shape, Text, Value, Word, from_one_key,
};

use super::listen_address::{
    ListenAddress, MODE, OWNER, Owner, listen_address, mode, owner, report_no_socket,
};
use super::stream::{self, ListenerProtocol, Stream};
use super::texts::{ADDRESS, LISTENER_NAME};
use super::{ListenTls, ListenerTimeouts, blocks};

static LISTENER_HOST: Text = Text {
    expected: "a host such as `shop.example.com` or `*.example.com`",
    pattern: Some(r"^(\*\.)?[A-Za-z0-9.-]+$"),
    loose: false,
};
const BIND: Shape = Shape::AnyOf(&[Shape::Text(&ADDRESS), Shape::Port]);

/// One listening address.
#[derive(Clone, Debug, Section)]
#[section(noun = "a listener", own_forms, check = check)]
pub struct Listener {
    /// The address.
    #[key(shape = BIND, parse = bind, required, also = ["address", "listen", "port"])]
    pub bind: Spanned<ListenAddress>,
    /// The name by which routes refer to the listener.
    #[key(text = LISTENER_NAME, parse = listener_name, also = ["id", "label"])]
    pub name: Option<Spanned<String>>,
    /// The hosts that the listener serves, exact or `*.` and a name. Several listeners may share an address if
    /// their hosts differ; one of them may have none, and serves the others. The server name of a TLS connection
    /// (SNI) and the host of a request choose the most specific listener. A listener with `hosts` needs a `name`.
    #[key(
        text = LISTENER_HOST, each = listener_host, what = "a host", nonempty,
        also = ["host", "hostname", "hostnames", "server_name", "server_names", "domains", "vhost"]
    )]
    pub hosts: Vec<Spanned<String>>,
    /// The protocol that clients speak: `http`, for which `routes` apply, or `tcp` or `udp`, for which `streams` apply.
    #[key(default = http, also = ["type", "proto", "transport"])]
    pub protocol: ListenerProtocol,
    /// Relays everything that arrives to endpoints or upstreams, chosen by weight: a stream without an entry under
    /// `streams`. Needs `protocol: tcp` or `udp`.
    #[key(
        shape = stream::TARGETS, read = stream::of_listener,
        also = ["proxy_pass", "upstream", "backend", "target", "forward", "default_backend"]
    )]
    pub to: Option<Stream>,
    /// The mode of the socket file, if `bind` is a Unix socket.
    #[key(text = MODE, parse = mode, default = 666, also = ["permissions", "socket_mode"])]
    mode: Option<u32>,
    /// The owner of the socket file, as names or numbers. Default: the user and group of the process.
    #[key(text = OWNER, parse = owner, also = ["user", "group", "socket_owner"])]
    owner: Option<Owner>,
    /// Policies that apply to requests. The innermost policy of each kind applies; `off` disables an
    /// inherited one.
    pub policies: Policies,
    /// TLS, with its certificates.
    #[key(also = ["ssl", "https", "certificate", "certificates"])]
    pub tls: Option<ListenTls>,
    /// Whether clients may use HTTP/2: `on` in addition to HTTP/1, `only` instead of it.
    #[key(default = on, also = ["h2", "h2c", "protocols"])]
    pub http2: Http2,
    /// Whether every request is redirected to `https` with the same host and path.
    #[key(
        default = off,
        also = ["https_redirect", "force_https", "redirect", "ssl_redirect", "redirect_https"]
    )]
    pub redirect_to_https: Option<RedirectToHttps>,
    /// Whether an HTTP/1 client that closes its half of the connection (FIN, or TLS's close_notify) still
    /// gets its responses. `off`: the gateway treats the close as an abort and cancels the request.
    #[key(
        default = off,
        also = ["enable_half_close", "allow_half_close", "ignore_client_abort", "proxy_ignore_client_abort"]
    )]
    pub half_close: bool,
    /// Overrides of the gateway's timeouts.
    #[key(also = ["timeout", "idle_timeout", "max_connection_age"])]
    pub timeouts: ListenerTimeouts,
    /// Peers whose connections start with a PROXY protocol header (version 1 or 2), before TLS.
    #[key(
        expected = "the sender of the header: an address or a block of addresses such as `10.0.0.0/8`",
        pattern = r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$", list, read = proxies, default = "[]",
        also = ["accept_proxy", "accept-proxy", "proxyProtocol", "proxy"]
    )]
    pub proxy_protocol: Vec<Cidr>,
    /// Whether the address is written as a port alone, so that the listener accepts on all addresses.
    #[key(skip)]
    pub is_port_alone: bool,
}

/// Whether clients may use HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Word)]
pub enum Http2 {
    /// HTTP/1 and HTTP/2.
    #[default]
    On,
    /// HTTP/1 only.
    Off,
    /// HTTP/2 only.
    Only,
}

/// How plain-text requests are redirected to `https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(switch, check = check_status)]
pub struct RedirectToHttps {
    /// 301, 302, 307 or 308; the last two keep the method.
    #[key(count = 301..=308, default = 308, also = ["code"])]
    pub status: u16,
    /// The port of `https`.
    #[key(count = 1..=65535, default = 443)]
    pub port: u16,
}

fn check_status(reader: &mut Reader, fields: &Fields<'_>, redirect: &mut RedirectToHttps) {
    let odd = !matches!(redirect.status, 301 | 302 | 307 | 308);
    if let Some(status) = fields.get("status").filter(|_| odd) {
        let problem = Problem::error(status.node.at, format!("{} is not a redirect", redirect.status));
        reader.problems.push(problem.expected("301, 302, 307 or 308"));
    }
}

impl Value for Listener {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&ADDRESS), Shape::Port, Shape::Section(Listener::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return Self::read_section(reader, field.node);
        }
        reader.parsed(field.node, "`listen`", field.key.shape.one(), bind)?;
        from_one_key(reader, "bind", field.node)
    }
}

fn bind(text: &str) -> Result<ListenAddress, ScalarError> {
    listen_address(text, IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}

/// Parses a host of a listener, exact or `*.` and a name.
fn listener_host(text: &str) -> Result<String, ScalarError> {
    match host::pattern(text)? {
        HostPattern::Name(name) => Ok(name),
        HostPattern::Any => Err(ScalarError::new("{} is every host")
            .help("leave `hosts` out: the listener then serves every host")),
    }
}

fn proxies(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Cidr>> {
    Some(blocks(reader, field, "a proxy"))
}

fn check(reader: &mut Reader, fields: &Fields<'_>, listener: &mut Listener) {
    check_socket(reader, fields, listener);
    check_protocol(reader, fields, listener);
}

/// Reports keys that the protocol of the listener does not have, and gives the address of UDP its kind.
fn check_protocol(reader: &mut Reader, fields: &Fields<'_>, listener: &mut Listener) {
    let protocol = listener.protocol;
    let unused: &[&str] = match protocol {
        ListenerProtocol::Http => &["to"],
        ListenerProtocol::Tcp => &["policies", "http2", "redirect_to_https", "half_close", "timeouts"],
        ListenerProtocol::Udp => &[
            "policies",
            "http2",
            "redirect_to_https",
            "half_close",
            "timeouts",
            "tls",
            "proxy_protocol",
            "hosts",
        ],
    };
    for field in unused.iter().filter_map(|name| fields.get(name)) {
        let message = format!("`{}` does not apply to `protocol: {}`", field.key.name, protocol.as_str());
        let problem = Problem::error(field.at, message);
        reader.problems.push(match (field.key.name, protocol) {
            ("to", _) => problem.help("write `protocol: tcp` or `udp`, or use `routes`"),
            ("timeouts", _) => problem.help("a stream has its own `timeouts`, under `streams`"),
            ("proxy_protocol", _) => problem.help("remove it: it precedes connections"),
            ("tls", _) => problem.help("remove it: datagrams are relayed as they are"),
            ("hosts", _) => problem.help("remove it: datagrams have no host"),
            _ => problem.help("remove it: it concerns HTTP"),
        });
    }
    if let (ListenerProtocol::Udp, ListenAddress::Tcp(address)) = (protocol, &listener.bind.value) {
        listener.bind.value = ListenAddress::Udp(*address);
    } else if protocol == ListenerProtocol::Udp {
        let problem = Problem::error(listener.bind.at, "`protocol: udp` needs an IP address and a port");
        reader.problems.push(problem.help("a Unix socket takes connections, not datagrams"));
    }
    if let (ListenerProtocol::Tcp, Some(field), None) = (protocol, fields.get("hosts"), &listener.tls) {
        let problem = Problem::error(field.at, "`hosts` of a `tcp` listener need `tls`");
        reader
            .problems
            .push(problem.help("streams choose by their `server_names`, without decrypting anything"));
    }
    let hsts = listener.tls.as_ref().and_then(|tls| tls.strict_transport_security);
    if protocol == ListenerProtocol::Tcp && hsts.is_some() {
        let at = fields.get("tls").map_or(fields.at, |field| field.at);
        let problem = Problem::error(at, "`strict_transport_security` does not apply to `protocol: tcp`");
        reader.problems.push(problem.help("remove it: it concerns HTTP"));
    }
}

/// Gives a socket file its mode and owner, and reports settings that conflict.
///
/// The default mode lets every user connect, as to a TCP port: clients often run as other users, as with a web
/// server's.
fn check_socket(reader: &mut Reader, fields: &Fields<'_>, listener: &mut Listener) {
    let scalar = fields.get("bind").and_then(|field| field.node.scalar());
    listener.is_port_alone = scalar.is_some_and(|scalar| {
        let port = scalar.text.strip_prefix(':').unwrap_or(&scalar.text);
        // A variable may have an address elsewhere.
        scalar.written.is_none() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if let (Some(field), None) = (fields.get("hosts"), &listener.name) {
        let problem = Problem::error(field.at, "a listener with `hosts` needs a `name`");
        reader.problems.push(problem.help("the name tells the listeners of one address apart: `name: shop`"));
    }
    let (mode, owner) = (listener.mode.take(), listener.owner.take());
    match &mut listener.bind.value {
        ListenAddress::Unix(socket) => {
            socket.mode = mode.unwrap_or(socket.mode);
            socket.owner = owner;
        }
        ListenAddress::Tcp(_) | ListenAddress::Udp(_) => report_no_socket(reader, fields),
    }
    if let (Some(field), Some(_), Some(_)) =
        (fields.get("redirect_to_https"), listener.redirect_to_https, &listener.tls)
    {
        let message = "`redirect_to_https` conflicts with `tls`: requests here already use `https`";
        let problem = Problem::error(field.at, message);
        reader.problems.push(problem.help("write it at the plain-text listener"));
    }
}

/// Reads the document of a listener, which contains its name.
pub(crate) fn listener_document(reader: &mut Reader, node: &Node) -> Option<Listener> {
    let listener = Listener::read_section(reader, node)?;
    if listener.bind.value.ip().is_some_and(|address| address.port() == 0) {
        let problem = Problem::error(listener.bind.at, "a listener of a document needs a port of its own");
        reader
            .problems
            .push(problem.help("port 0 is a free port, another one in each gateway: write a number"));
    }
    Some(listener)
}

/// Reads the listeners.
pub(crate) fn listeners(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Listener>> {
    let mut listeners: Vec<Listener> = Vec::new();
    let items = reader.bounded_items(field.node, "`listen`");
    if items.is_empty() {
        reader.missing(field.node.at, "`listen` is an empty list".to_owned(), &field.key.shape);
    }
    for item in items {
        listeners.extend(Listener::read(reader, Field { node: item, at: item.at, ..field }));
    }
    Some(listeners)
}

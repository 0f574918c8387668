//! `discover`: sources of endpoints that the gateway looks up repeatedly.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::file_access::NamedFile;
use crate::scalar::file_path::file_path;
use crate::scalar::{host, quantity};
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Shape, Text, Value};

use super::above;

/// The short form.
static SHORT: Text = Text {
    expected: "`dns://NAME:PORT`, `srv://NAME` or `file:PATH`",
    pattern: Some(r"^(dns://|srv://|file:)\S+$"),
    loose: false,
};
const NAME: &str = r"^[A-Za-z0-9_.-]+$";

/// Sources of endpoints (`discover`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discover {
    /// The addresses of a DNS name (`{dns: NAME, port: N}`, or `dns://NAME:PORT`).
    Dns {
        /// The name.
        name: String,
        /// Port of every endpoint.
        port: u16,
        /// Bounds and name servers of the look-ups.
        rules: DnsRules,
    },
    /// SRV records (`{srv: NAME}`, or `srv://NAME`), which give ports, weights and priorities.
    Srv {
        /// The name, such as `_http._tcp.orders.internal`.
        name: String,
        /// Bounds and name servers of the look-ups.
        rules: DnsRules,
    },
    /// A YAML or JSON list of endpoints, as under `endpoints`, reread when it changes (`{file: PATH}`). The
    /// path is relative to the configuration file.
    File(NamedFile),
}

/// Source of endpoints in addition to the configured ones.
#[derive(Clone, Debug, Section)]
#[section(
    name = "discover", exactly_one = ["dns", "srv", "file"], makes = Discover, by = discover, own_forms
)]
struct DiscoverKeys {
    /// A name whose addresses are endpoints, with `port`.
    #[key(expected = "a name such as `orders.internal`", pattern = NAME, parse = plain_name, also = ["name", "host", "hostname", "address"])]
    dns: Option<String>,
    /// With `dns`: the port of every endpoint.
    #[key(count = 1..=65_535)]
    port: Option<u16>,
    /// A name whose SRV records are endpoints: they give ports, weights and priorities.
    #[key(expected = "a name such as `_http._tcp.orders.internal`", pattern = NAME, parse = name, also = ["service", "dns_srv"])]
    srv: Option<String>,
    /// A YAML or JSON list of endpoints, as under `endpoints`, reread when it changes. Relative to the file
    /// that names it.
    #[key(expected = "the path of a file such as `endpoints.yaml`", pattern = ".", parse = file_path, also = ["path", "eds"])]
    file: Option<PathBuf>,
    /// Bounds and name servers of the look-ups.
    #[key(flatten)]
    rules: DnsRules,
}

impl Value for Discover {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&SHORT), Shape::Section(Discover::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        match field.is_mapping() {
            true => reader.section(field),
            false => reader.field(field, short),
        }
    }
}

fn discover(reader: &mut Reader, fields: &Fields<'_>, keys: DiscoverKeys) -> Option<Discover> {
    let DiscoverKeys { dns, port, srv, file, rules } = keys;
    if fields.get("file").is_some() {
        stray(reader, fields, &["port", "min_ttl", "max_ttl", "servers"], "a file");
        return Some(Discover::File(NamedFile::from(&*file?)));
    }
    if fields.get("srv").is_some() {
        stray(reader, fields, &["port"], "SRV records");
        return Some(Discover::Srv { name: srv?, rules });
    }
    let field = fields.get("dns")?;
    if fields.get("port").is_none() && reader.complete {
        let problem = Problem::error(field.at, "`dns` needs `port`: addresses have none");
        reader.problems.push(problem.expected("a whole number from 1 to 65535"));
    }
    Some(Discover::Dns { name: dns?, port: port.unwrap_or_default(), rules })
}

/// Reports keys that do not apply to the chosen method of discovery.
fn stray(reader: &mut Reader, fields: &Fields<'_>, names: &[&str], way: &str) {
    for field in names.iter().filter_map(|name| fields.get(name)) {
        let problem = Problem::error(field.at, format!("`{}` does not apply to {way}", field.key.name));
        reader.problems.push(problem.help("remove it"));
    }
}

/// Bounds and name servers of DNS look-ups.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(check = check_ttls)]
pub struct DnsRules {
    /// Lower bound of a record's time to live.
    #[key(time = "100ms"..="1d", default = "1s", also = ["refresh", "interval", "dns_refresh_rate"])]
    pub min_ttl: Duration,
    /// Upper bound of a record's time to live.
    #[key(time = "100ms"..="7d", default = "60s", also = ["ttl", "valid", "max_refresh"])]
    pub max_ttl: Duration,
    /// Name servers to ask. Default: the servers of `/etc/resolv.conf`.
    #[key(
        expected = "the address of a name server such as `10.0.0.2` or `10.0.0.2:53`",
        pattern = r"^[0-9A-Fa-f:.\[\]]+$", list, read = servers,
        also = ["server", "resolvers", "resolver", "nameservers", "nameserver"]
    )]
    pub servers: Vec<SocketAddr>,
}

fn check_ttls(reader: &mut Reader, fields: &Fields<'_>, rules: &mut DnsRules) {
    if rules.min_ttl > rules.max_ttl {
        above(reader, fields, "min_ttl", "max_ttl");
    }
}

fn servers(reader: &mut Reader, field: Field<'_>) -> Option<Vec<SocketAddr>> {
    let items = reader.list_items(field, true, false);
    if items.is_empty() {
        reader.missing(field.node.at, "`servers` is an empty list".to_owned(), field.key.shape.one());
    }
    Some(reader.each(items, field, "a name server", server))
}

fn short(text: &str) -> Result<Discover, ScalarError> {
    if let Some(rest) = text.strip_prefix("dns://") {
        let Some((name, port)) = rest.rsplit_once(':') else {
            let fault = ScalarError::new("{} has no port");
            return Err(fault.suggest(format!("write `dns://{}:80`", rest.trim_end_matches('/'))));
        };
        let at = text.chars().count() - port.chars().count();
        let port =
            quantity::count(port, 1, 65_535).ok().and_then(|port| u16::try_from(port).ok()).ok_or_else(
                || ScalarError::new("{} has no port from 1 to 65535").part(at, port.chars().count()),
            )?;
        let name = self::name(name).map_err(|fault| fault.shifted("dns://".len()))?;
        return Ok(Discover::Dns { name, port, rules: DnsRules::default() });
    }
    if let Some(rest) = text.strip_prefix("srv://") {
        let name = self::name(rest).map_err(|fault| fault.shifted("srv://".len()))?;
        return Ok(Discover::Srv { name, rules: DnsRules::default() });
    }
    if let Some(path) = text.strip_prefix("file:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        let path = file_path(path).map_err(|fault| fault.shifted(text.len() - path.len()))?;
        return Ok(Discover::File(NamedFile::from(&*path)));
    }
    let fault = ScalarError::new("{} is not a source of endpoints");
    if let Some((scheme, _)) = text.split_once("://") {
        return Err(ScalarError::new("{} has an unknown scheme").part(0, scheme.chars().count()));
    }
    Err(if text.starts_with('_') {
        fault.suggest(format!("write `srv://{text}`"))
    } else if text.contains(['/']) || text.ends_with(".yaml") || text.ends_with(".json") {
        fault.suggest(format!("write `file:{text}`"))
    } else if text.contains(':') {
        fault.suggest(format!("write `dns://{text}`"))
    } else {
        fault
    })
}

/// Checks a name to look up. Underscores are accepted, because names of SRV records contain them (RFC 2782).
fn name(text: &str) -> Result<String, ScalarError> {
    if text.parse::<IpAddr>().is_ok() {
        return Err(ScalarError::new("{} is an address: there is nothing to look up")
            .help("write it under `endpoints`"));
    }
    host::endpoint(text)
}

/// Works like [`name`], for a name whose port is a key of its own.
fn plain_name(text: &str) -> Result<String, ScalarError> {
    match text.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.contains(':') => {
            let length = port.chars().count() + 1;
            let fault = ScalarError::new("{} has a port").part(name.chars().count(), length);
            Err(fault.suggest(format!("write `dns: {name}` and `port: {port}`")))
        }
        _ => name(text),
    }
}

/// Parses an IP address with an optional port.
fn server(text: &str) -> Result<SocketAddr, ScalarError> {
    // RFC 1035, section 4.2.
    const DNS: u16 = 53;
    let bare = text.strip_prefix('[').and_then(|inside| inside.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, DNS));
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Ok(address),
        _ => Err(ScalarError::new("{} is not the address of a name server")
            .help("write an IP address: a name could not be resolved without a name server")),
    }
}

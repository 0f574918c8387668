//! Reads `discover`.

use std::net::{IpAddr, SocketAddr};

use crate::file_access::NamedFile;
use crate::model::{Discover, DnsRules, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::file_path::file_path;
use crate::scalar::{ScalarError, host, quantity};
use crate::sections::above;
use crate::spec::{DISCOVER, Shape};
use crate::tree::NodeKind;

pub(super) fn discover(reader: &mut Reader, field: Field<'_>) -> Option<Spanned<Discover>> {
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        return reader.spanned(field, short);
    }
    let fields = reader.fields(field.node, &DISCOVER)?;
    let rules = rules(reader, &fields);
    let value = if let Some(field) = fields.get("file") {
        stray(reader, &fields, &["port", "min_ttl", "max_ttl", "servers"], "a file");
        Discover::File(NamedFile::from(&*reader.field(field, file_path)?))
    } else if let Some(field) = fields.get("srv") {
        stray(reader, &fields, &["port"], "SRV records");
        Discover::Srv { name: reader.field(field, name)?, rules }
    } else {
        let dns = fields.get("dns")?;
        let name = reader.field(dns, plain_name);
        if fields.get("port").is_none() && reader.complete {
            let problem = Problem::error(dns.at, "`dns` needs `port`: addresses have none");
            reader.problems.push(problem.expected("a whole number from 1 to 65535"));
        }
        let mut port = 0;
        reader.number_into(fields.get("port"), &mut port);
        Discover::Dns { name: name?, port, rules }
    };
    Some(Spanned { value, at: field.node.at })
}

/// Reports keys that do not apply to the chosen method of discovery.
fn stray(reader: &mut Reader, fields: &Fields<'_>, names: &[&str], way: &str) {
    for field in names.iter().filter_map(|name| fields.get(name)) {
        let problem = Problem::error(field.at, format!("`{}` does not apply to {way}", field.key.name));
        reader.problems.push(problem.help("remove it"));
    }
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
        let fault = ScalarError::new("{} has an unknown scheme").part(0, scheme.chars().count());
        return Err(match scheme {
            "consul" | "etcd" | "k8s" | "kubernetes" | "nacos" | "eureka" => {
                fault.help("only `dns://`, `srv://` and `file:` are supported")
            }
            _ => fault.help("the schemes are `dns://`, `srv://` and `file:`"),
        });
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

fn rules(reader: &mut Reader, fields: &Fields<'_>) -> DnsRules {
    let mut out = DnsRules::default();
    reader.time_into(fields.get("min_ttl"), &mut out.min_ttl);
    reader.time_into(fields.get("max_ttl"), &mut out.max_ttl);
    if out.min_ttl > out.max_ttl {
        above(reader, fields, "min_ttl", "max_ttl");
    }
    if let Some(field) = fields.get("servers") {
        let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
        let items = reader.bounded_items(field.node, "`servers`");
        if items.is_empty() {
            reader.missing(field.node.at, "`servers` is an empty list".to_owned(), one);
        }
        out.servers =
            items.iter().filter_map(|item| reader.parsed(item, "a name server", one, server)).collect();
    }
    out
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

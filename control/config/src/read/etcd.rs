//! Reads `etcd`.

use super::tls;
use crate::model::{Address, EndpointAddress, EtcdSettings, Scheme, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::file_path::file_path;
use crate::scalar::{ScalarError, address};
use crate::spec::{ETCD, ETCD_ENDPOINT_SHAPE};
use crate::tree::{Node, NodeKind};

/// Reads addresses and credentials of etcd.
pub(super) fn etcd(reader: &mut Reader, field: Field<'_>) -> Option<EtcdSettings> {
    let mut out = EtcdSettings {
        endpoints: Vec::new(),
        prefix: "/tollgate".to_owned(),
        cache: None,
        name: None,
        user: None,
        tls: None,
    };
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        out.endpoints = endpoints(reader, field.node);
        return (!out.endpoints.is_empty()).then_some(out);
    }
    let fields = reader.fields(field.node, &ETCD)?;
    if let Some(field) = fields.get("endpoints") {
        out.endpoints = endpoints(reader, field.node);
    }
    if let Some(prefix) = fields.get("prefix").and_then(|field| reader.field(field, prefix)) {
        out.prefix = prefix;
    }
    out.cache = fields.get("cache").and_then(|field| reader.field(field, file_path));
    out.name = fields.get("name").and_then(|field| {
        reader.field(field, |text| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
            let good = (1..=200).contains(&text.len()) && text.bytes().all(fits);
            if good { Ok(text.to_owned()) } else { Err(ScalarError::new("{} is not a valid name")) }
        })
    });
    let user = fields.get("user").and_then(|field| {
        reader.field(field, |text| match text {
            "" => Err(ScalarError::new("{} is not a user name")),
            text => Ok(text.to_owned()),
        })
    });
    // No message repeats the password, even if the file contains it in plain text.
    let password = fields.get("password").and_then(|field| {
        reader.field(field, |text| match text.len() {
            0 => Err(ScalarError::new("the password is empty")),
            1..=1024 => Ok(text.to_owned()),
            _ => Err(ScalarError::new("this password is too long")),
        })
    });
    match (fields.get("user"), fields.get("password")) {
        (Some(alone), None) => {
            reader.problems.push(Problem::error(alone.at, "`user` needs `password`"));
        }
        (None, Some(alone)) => {
            reader.problems.push(Problem::error(alone.at, "`password` needs `user`"));
        }
        _ => out.user = user.zip(password.map(Into::into)),
    }
    if let Some(field) = fields.get("tls") {
        out.tls = tls::upstream(reader, field);
        let secure = |endpoint: &Spanned<EndpointAddress>| endpoint.value.scheme == Scheme::Https;
        if !out.endpoints.is_empty() && !out.endpoints.iter().any(secure) {
            let problem =
                Problem::error(field.at, "`tls` has no effect: no member is written with `https://`");
            reader.problems.push(problem);
        }
    }
    (!out.endpoints.is_empty()).then_some(out)
}

fn endpoints(reader: &mut Reader, node: &Node) -> Vec<Spanned<EndpointAddress>> {
    let items = one_or_many(node);
    if items.is_empty() {
        reader.missing(node.at, "the list of members is empty".to_owned(), &ETCD_ENDPOINT_SHAPE);
    }
    let read = |node: &Node| {
        let value = reader.parsed(node, "a member of etcd", &ETCD_ENDPOINT_SHAPE, |text| {
            let endpoint = address::endpoint(text)?;
            match (&endpoint.address, endpoint.scheme) {
                (Address::Unix(_), _) => Err(ScalarError::new("{} is not a TCP address")),
                (_, Scheme::H2c) => Err(ScalarError::new("{} must start with `http://` or `https://`")),
                _ => Ok(endpoint),
            }
        })?;
        Some(Spanned { value, at: node.at })
    };
    items.iter().filter_map(read).collect()
}

fn prefix(text: &str) -> Result<String, ScalarError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/_.-".contains(&byte);
    match text {
        text if text.len() > 200 || !text.bytes().all(fits) => {
            Err(ScalarError::new("{} is not a valid prefix"))
        }
        text if text.is_empty() || text.ends_with('/') || text.contains("//") => {
            Err(ScalarError::new("{} has an empty part"))
        }
        text => Ok(text.to_owned()),
    }
}

//! Reads `redis` of policies that count for several gateways.

use std::time::Duration;

use crate::model::{At, OnFailure, Redis, RedisAddress, RedisSentinel, Secret};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader, one_or_many};
use crate::scalar::{ScalarError, quantity};
use crate::spec::{REDIS, REDIS_SENTINEL, Shape};

const SCHEMES: [&str; 7] =
    ["redis://", "rediss://", "valkey://", "valkeys://", "unix://", "redis+unix://", "valkey+unix://"];

/// Reads `redis` of a policy.
pub(super) fn redis(reader: &mut Reader, fields: &Fields<'_>) -> Option<Redis> {
    let fields = reader.fields(fields.get("redis")?.node, &REDIS)?;
    let mut timeout = Duration::from_millis(50);
    reader.time_into(fields.get("timeout"), &mut timeout);
    let on_failure = match reader.word(fields.get("on_failure")) {
        Some("open") => OnFailure::Open,
        Some("closed") => OnFailure::Closed,
        _ => OnFailure::Local,
    };
    let prefix = fields.get("prefix").and_then(|field| {
        reader.field(field, |text| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.{}".contains(&byte);
            let good = (1..=128).contains(&text.len()) && text.bytes().all(fits);
            if good { Ok(text.to_owned()) } else { Err(ScalarError::new("{} is not a valid prefix")) }
        })
    });
    let password = password(reader, &fields);
    let (place, at) = place(reader, &fields)?;
    let prefix = prefix.unwrap_or_else(|| "tollgate".to_owned());
    Some(Redis { place, at, password, timeout, on_failure, prefix })
}

/// Reads the address, and returns it with its source position.
fn place(reader: &mut Reader, fields: &Fields<'_>) -> Option<(RedisAddress, At)> {
    let user = fields.get("user").and_then(|field| reader.field(field, graphic));
    let (mut tls, mut database) = (false, 0);
    reader.switch(fields.get("tls"), &mut tls);
    reader.number_into(fields.get("database"), &mut database);
    let mut only = |keys: &[&str], with: &str| {
        for field in keys.iter().filter_map(|key| fields.get(key)) {
            let message = format!("`{}` conflicts with `{with}`", field.key.name);
            let problem = Problem::error(field.at, message);
            reader.problems.push(if with == "url" { problem.help("it is part of the URL") } else { problem });
        }
    };
    if let Some(field) = fields.get("sentinel") {
        let place = sentinel(reader, field, user, database, tls)?;
        return Some((RedisAddress::Sentinel(place), field.node.at));
    }
    if let Some(field) = fields.get("cluster") {
        only(&["database"], "cluster");
        let nodes = nodes(reader, field);
        return Some((RedisAddress::Cluster { nodes, user, tls }, field.node.at));
    }
    only(&["user", "database", "tls"], "url");
    // The URL may contain a password, so no message repeats it.
    let field = fields.get("url")?;
    let url = reader.field(field, |text| {
        let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
        match rest {
            Some(rest) if !rest.is_empty() && !text.contains(char::is_whitespace) => Ok(text.to_owned()),
            Some(_) => Err(ScalarError::new("this is not a Redis URL")),
            None => {
                Err(ScalarError::new("this URL does not begin with `redis://`, `rediss://` or `unix://`"))
            }
        }
    })?;
    Some((RedisAddress::Url(url.into()), field.node.at))
}

fn sentinel(
    reader: &mut Reader,
    field: Field<'_>,
    user: Option<String>,
    database: u16,
    tls: bool,
) -> Option<RedisSentinel> {
    let fields = reader.fields(field.node, &REDIS_SENTINEL)?;
    let mut sentinel_tls = false;
    reader.switch(fields.get("tls"), &mut sentinel_tls);
    let sentinel_user = fields.get("user").and_then(|field| reader.field(field, graphic));
    let sentinel_password = password(reader, &fields);
    let addresses = fields.get("addresses").map(|field| nodes(reader, field));
    let master = fields.get("master").and_then(|field| reader.field(field, graphic));
    Some(RedisSentinel {
        master: master?,
        addresses: addresses?,
        sentinel_user,
        sentinel_password,
        sentinel_tls,
        user,
        database,
        tls,
    })
}

fn password(reader: &mut Reader, fields: &Fields<'_>) -> Option<Secret> {
    // No message repeats the password, even if the file contains it in plain text.
    reader.field(fields.get("password")?, |text| match text.len() {
        0 => Err(ScalarError::new("the password is empty")),
        1..=1024 => Ok(text.to_owned().into()),
        _ => Err(ScalarError::new("this password is too long")),
    })
}

fn graphic(text: &str) -> Result<String, ScalarError> {
    match !text.is_empty() && text.len() <= 256 && text.chars().all(|c| !c.is_whitespace() && !c.is_control())
    {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} is not a valid name")),
    }
}

/// Reads a list of hosts with ports.
fn nodes(reader: &mut Reader, field: Field<'_>) -> Vec<(String, u16)> {
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let what = format!("an entry of `{}`", field.key.name);
    let items = reader.bounded_items(field.node, &format!("`{}`", field.key.name)).iter();
    let out = items.filter_map(|item| reader.parsed(item, &what, one, node)).collect();
    if one_or_many(field.node).is_empty() {
        reader.missing(field.at, format!("`{}` is an empty list", field.key.name), one);
    }
    out
}

fn node(text: &str) -> Result<(String, u16), ScalarError> {
    if let Some((_, rest)) = text.split_once("://") {
        let (rest, fault) = (rest.trim_end_matches('/'), ScalarError::new("a URL is not allowed here"));
        // The text may contain a password.
        let fault = if rest.contains('@') { fault } else { fault.suggest(format!("write `{rest}`")) };
        return Err(fault.help("`user`, `password` and `tls` are keys of their own"));
    }
    let Some((host, port)) = text.rsplit_once(':') else { return Err(ScalarError::new("{} has no port")) };
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let odd = |c: char| c.is_whitespace() || c.is_control() || "/@[]".contains(c);
    if inside.is_empty() || inside.chars().any(odd) || host.contains(':') && inside.len() == host.len() {
        return Err(ScalarError::new("{} does not begin with a host"));
    }
    let port = quantity::count(port, 1, 65_535)?;
    Ok((inside.to_owned(), u16::try_from(port).unwrap_or(u16::MAX)))
}

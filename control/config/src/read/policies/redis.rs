//! `redis` of policies that count for several gateways.

use std::time::Duration;

use crate::model::{OnFailure, Redis};
use crate::reader::{Fields, Reader};
use crate::scalar::Fault;
use crate::spec::REDIS;

const SCHEMES: [&str; 7] =
    ["redis://", "rediss://", "valkey://", "valkeys://", "unix://", "redis+unix://", "valkey+unix://"];

/// `redis` of a policy.
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
            if good { Ok(text.to_owned()) } else { Err(Fault::new("{} is not such a text")) }
        })
    });
    let password = fields.get("password").and_then(|field| {
        // No message repeats it, not even where it stands in the file.
        reader.field(field, |text| match text.len() {
            0 => Err(Fault::new("the password is empty")),
            1..=1024 => Ok(text.to_owned().into()),
            _ => Err(Fault::new("this password is too long")),
        })
    });
    // It may have a password in it: no message repeats it either.
    let field = fields.get("url")?;
    let url = reader.field(field, |text| {
        let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
        match rest {
            Some(rest) if !rest.is_empty() && !text.contains(char::is_whitespace) => Ok(text.to_owned()),
            Some(_) => Err(Fault::new("this is no URL of a Redis")),
            None => Err(Fault::new("this URL does not begin with `redis://`, `rediss://` or `unix://`")),
        }
    })?;
    let prefix = prefix.unwrap_or_else(|| "tollgate".to_owned());
    Some(Redis { url: url.into(), at: field.node.at, password, timeout, on_failure, prefix })
}

//! `etcd`: shares resources between several gateways.

use std::path::PathBuf;

use crate::model::Secret;
use crate::position::Spanned;
use crate::scalar::address::{self, Address, EndpointAddress, Scheme};
use crate::scalar::file_path::file_path;
use crate::scalar::gateway_name::gateway_name;
use crate::section::{
    Field, Fields, Problem, Reader, ScalarError, Section, Shape, Text, Value, from_one_key,
};

use super::tls::UpstreamTls;

static ENDPOINT: Text = Text {
    expected: "an address such as `10.0.0.1:2379` or `https://etcd.internal:2379`",
    pattern: Some(r"^(https?://)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$"),
    loose: false,
};
static ENDPOINT_SHAPE: Shape = Shape::Text(&ENDPOINT);

/// The etcd that shares resources between several gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdSettings {
    /// The cluster's members; at least one, over TCP.
    pub endpoints: Vec<Spanned<EndpointAddress>>,
    /// Prefix of its keys, without a trailing slash. Default `/tollgate`.
    pub prefix: String,
    /// The file that keeps the last valid state, so that the gateway starts without etcd. Default none.
    pub cache: Option<PathBuf>,
    /// Name of this gateway in etcd. Default the host name and the process id.
    pub name: Option<String>,
    /// User name and password.
    pub user: Option<(String, Secret)>,
    /// TLS settings for members written with `https://`.
    pub tls: Option<UpstreamTls>,
}

/// The etcd that shares resources between several gateways.
#[derive(Clone, Debug, Section)]
#[section(name = "etcd", makes = EtcdSettings, by = etcd, own_forms)]
struct EtcdKeys {
    /// Addresses of its members.
    #[key(
        text = ENDPOINT, list, read = endpoints_of, required,
        also = ["endpoint", "host", "hosts", "members", "address", "url", "urls"]
    )]
    endpoints: Option<Vec<Spanned<EndpointAddress>>>,
    /// Prefix of its keys.
    #[key(
        expected = "a text such as `/tollgate`, of letters, digits, `/`, `-`, `_` and `.`",
        pattern = r"^/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$", parse = prefix, default = "/tollgate",
        also = ["root", "namespace", "path"]
    )]
    prefix: String,
    /// A file that keeps the last valid state, so that the gateway starts without etcd. Relative to the main
    /// file.
    #[key(
        expected = "the path of a file such as `/var/lib/tollgate/etcd.json`", pattern = ".", parse = file_path,
        also = ["last_good", "backup", "file", "state"]
    )]
    cache: Option<PathBuf>,
    /// Name of this gateway in etcd. Default: the host name and the process id.
    #[key(
        expected = "a name such as `gateway-1`", pattern = r"^[A-Za-z0-9_.:-]+$", loose, parse = gateway_name,
        also = ["id", "node", "instance"]
    )]
    name: Option<String>,
    /// User name, if etcd requires one.
    #[key(expected = "the name of a user of etcd", pattern = ".", loose, parse = user, also = ["username"])]
    user: Option<String>,
    /// The user's password.
    #[key(expected = "a password, best as `${VARIABLE}`", loose, parse = password, secret, also = ["secret"])]
    password: Option<Secret>,
    /// TLS settings for members written with `https://`.
    tls: Option<UpstreamTls>,
}

impl Value for EtcdSettings {
    const SHAPE: Shape = Shape::AnyOf(&[
        Shape::Section(EtcdSettings::SPEC),
        Shape::Text(&ENDPOINT),
        Shape::ListOf(&ENDPOINT_SHAPE),
    ]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        match field.is_mapping() {
            true => reader.section(field),
            false => from_one_key(reader, "endpoints", field.node),
        }
    }
}

fn etcd(reader: &mut Reader, fields: &Fields<'_>, keys: EtcdKeys) -> Option<EtcdSettings> {
    let EtcdKeys { endpoints, prefix, cache, name, user, password, tls } = keys;
    let endpoints = endpoints.unwrap_or_default();
    match (fields.get("user"), fields.get("password")) {
        (Some(alone), None) => {
            reader.problems.push(Problem::error(alone.at, "`user` needs `password`"));
        }
        (None, Some(alone)) => {
            reader.problems.push(Problem::error(alone.at, "`password` needs `user`"));
        }
        _ => {}
    }
    let secure = |endpoint: &Spanned<EndpointAddress>| endpoint.value.scheme == Scheme::Https;
    if let Some(field) = fields.get("tls").filter(|_| !endpoints.is_empty() && !endpoints.iter().any(secure))
    {
        let message = "`tls` has no effect: no member is written with `https://`";
        reader.problems.push(Problem::error(field.at, message));
    }
    let user = user.zip(password);
    (!endpoints.is_empty()).then_some(EtcdSettings { endpoints, prefix, cache, name, user, tls })
}

fn endpoints_of(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Spanned<EndpointAddress>>> {
    Some(reader.parsed_list(field.node, ("members", "a member of etcd"), &ENDPOINT_SHAPE, endpoint))
}

fn user(text: &str) -> Result<String, ScalarError> {
    match text {
        "" => Err(ScalarError::new("{} is not a user name")),
        text => Ok(text.to_owned()),
    }
}

/// Checks a password. No message repeats it, even if the file contains it in plain text.
fn password(text: &str) -> Result<Secret, ScalarError> {
    match text.len() {
        0 => Err(ScalarError::new("the password is empty")),
        1..=1024 => Ok(text.to_owned().into()),
        _ => Err(ScalarError::new("this password is too long")),
    }
}

fn endpoint(text: &str) -> Result<EndpointAddress, ScalarError> {
    let endpoint = address::endpoint(text)?;
    match (&endpoint.address, endpoint.scheme) {
        (Address::Unix(_), _) => Err(ScalarError::new("{} is not a TCP address")),
        (_, Scheme::H2c) => Err(ScalarError::new("{} must start with `http://` or `https://`")),
        _ => Ok(endpoint),
    }
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

//! `fleet` and `controller`: the two ends of the stream by which a controller hands resources to its gateways.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use crate::position::Spanned;
use crate::scalar::address::{self, Address, EndpointAddress, Scheme};
use crate::scalar::file_path::file_path;
use crate::scalar::gateway_name::gateway_name;
use crate::scalar::host;
use crate::section::{Field, Fields, Node, Reader, ScalarError, Section, Shape, Text, one_or_many};

use super::tls::{Certificate, PemFile};

/// The port of controllers whose address has none.
const CONTROLLER_PORT: u16 = 9920;

static LISTEN: Text = Text {
    expected: "an IP address and a port such as `10.0.0.5:9920`, or a port",
    pattern: Some(r"^(.*:)?[0-9]{1,5}$"),
    loose: false,
};
const LISTEN_SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&LISTEN), Shape::Port]);
static ENDPOINT: Text = Text {
    expected: "an address such as `https://controller.internal:9920`",
    pattern: Some(r"^https://([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$"),
    loose: false,
};
static ENDPOINT_SHAPE: Shape = Shape::Text(&ENDPOINT);
static SERVER_NAME: Text = Text {
    expected: "a host name such as `controller.internal`, or an IP address",
    pattern: Some(r"^[A-Za-z0-9_.:-]+$"),
    loose: false,
};

/// The fleet of gateways that this controller serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSettings {
    /// The address for gateways.
    pub listen: SocketAddr,
    /// The controller's certificate.
    pub certificate: Certificate,
    /// The CA certificates, one of which must have signed the gateways' certificates.
    pub ca: PemFile,
    /// The file that keeps the purges of the last hour. Default none: a restart forgets them.
    pub purges: Option<PathBuf>,
}

/// The controller that a gateway takes its resources from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// The controllers; at least one, over TCP and TLS.
    pub endpoints: Vec<Spanned<EndpointAddress>>,
    /// The CA certificates, one of which must have signed the controllers' certificates.
    pub ca: PemFile,
    /// The gateway's certificate.
    pub certificate: Certificate,
    /// The name that the controllers' certificates must contain. Default: the host of each endpoint.
    pub server_name: Option<String>,
    /// The file that keeps the last valid state, so that the gateway starts without a controller. Default none.
    pub cache: Option<PathBuf>,
    /// Name of this gateway at the controller. Default the host name and the process id.
    pub name: Option<String>,
    /// The address of listeners of the controller's documents. Default: as the documents say.
    pub bind: Option<IpAddr>,
}

/// Hands the resources of this file and its source to gateways. The file then belongs to `tollgate controller`, which
/// serves no requests itself.
#[derive(Clone, Debug, Section)]
#[section(name = "fleet", makes = FleetSettings, by = fleet)]
struct FleetKeys {
    /// The address for gateways. A port without an address means all addresses of the machine.
    #[key(shape = LISTEN_SHAPE, parse = listen, required, also = ["bind", "address", "port"])]
    listen: Option<SocketAddr>,
    /// A PEM file or PEM text: the controller's certificate, followed by the certificates between it and a root.
    #[key(required, also = ["cert", "chain", "crt"])]
    certificate: PemFile,
    /// A PEM file or PEM text with the certificate's private key. Default: the value of `certificate`.
    #[key(also = ["private_key"])]
    key: Option<PemFile>,
    /// A PEM file or PEM text of CA certificates, one of which must have signed a gateway's certificate. A client
    /// without such a certificate is rejected.
    #[key(required, also = ["cas", "ca_file", "client_ca", "clients"])]
    ca: PemFile,
    /// A file that keeps the purges of the last hour, so that a restart of the controller loses none. Relative to the main
    /// file. Not with `etcd`, which keeps them.
    #[key(
        expected = "the path of a file such as `/var/lib/tollgate/purges.json`", pattern = ".", parse = file_path,
        also = ["purge", "purge_file", "purge_log", "state"]
    )]
    purges: Option<PathBuf>,
}

fn fleet(_: &mut Reader, _: &Fields<'_>, keys: FleetKeys) -> Option<FleetSettings> {
    let FleetKeys { listen, certificate: chain, key, ca, purges } = keys;
    let certificate = Certificate { key: key.unwrap_or_else(|| chain.clone()), chain };
    Some(FleetSettings { listen: listen?, certificate, ca, purges })
}

/// The controller that this gateway takes its resources from.
#[derive(Clone, Debug, Section)]
#[section(name = "controller", makes = ControllerSettings, by = controller)]
struct ControllerKeys {
    /// Addresses of controllers. Port 9920, if none is written.
    #[key(
        text = ENDPOINT, list, read = endpoints_of, required,
        also = ["endpoint", "host", "hosts", "url", "urls"]
    )]
    endpoints: Option<Vec<Spanned<EndpointAddress>>>,
    /// A PEM file or PEM text of CA certificates, one of which must have signed the controller's certificate.
    #[key(required, also = ["cas", "ca_file", "trust"])]
    ca: PemFile,
    /// A PEM file or PEM text: the gateway's certificate, followed by the certificates between it and a root.
    #[key(required, also = ["cert", "chain", "crt"])]
    certificate: PemFile,
    /// A PEM file or PEM text with the certificate's private key. Default: the value of `certificate`.
    #[key(also = ["private_key"])]
    key: Option<PemFile>,
    /// The name that the controller's certificate must contain. Default: the host of the endpoint.
    #[key(text = SERVER_NAME, parse = host::endpoint, also = ["serverName", "sni"])]
    server_name: Option<String>,
    /// A file that keeps the last valid state, so that the gateway starts without a controller. Relative to the main
    /// file.
    #[key(
        expected = "the path of a file such as `/var/lib/tollgate/controller.json`", pattern = ".", parse = file_path,
        also = ["last_good", "backup", "file", "state"]
    )]
    cache: Option<PathBuf>,
    /// Name of this gateway at the controller. Default: the host name and the process id.
    #[key(
        expected = "a name such as `gateway-1`", pattern = r"^[A-Za-z0-9_.:-]+$", loose, parse = gateway_name,
        also = ["id", "node", "instance"]
    )]
    name: Option<String>,
    /// The address on which listeners of the controller's documents listen, in place of the addresses that are written
    /// there: that of this machine or pod. Their ports stay. Default: as the documents say.
    #[key(
        expected = "an IP address such as `10.0.0.7`, or `0.0.0.0`", pattern = r"^[0-9A-Fa-f:.]+$", parse = bind,
        also = ["address", "listen", "pod_ip"]
    )]
    bind: Option<IpAddr>,
}

fn controller(_: &mut Reader, _: &Fields<'_>, keys: ControllerKeys) -> Option<ControllerSettings> {
    let ControllerKeys { endpoints, ca, certificate: chain, key, server_name, cache, name, bind } = keys;
    let endpoints = endpoints.filter(|endpoints| !endpoints.is_empty())?;
    let certificate = Certificate { key: key.unwrap_or_else(|| chain.clone()), chain };
    Some(ControllerSettings { endpoints, ca, certificate, server_name, cache, name, bind })
}

impl ControllerSettings {
    /// Returns the host and the port of each controller.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, u16)> {
        self.endpoints.iter().filter_map(|endpoint| match &endpoint.value.address {
            Address::Tcp { host, port } => Some((host.as_str(), *port)),
            Address::Unix(_) => None,
        })
    }
}

fn endpoints_of(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Spanned<EndpointAddress>>> {
    let items = one_or_many(field.node);
    if items.is_empty() {
        reader.missing(field.node.at, "the list of controllers is empty".to_owned(), &ENDPOINT_SHAPE);
    }
    let read = |node: &Node| {
        let value = reader.parsed(node, "a controller", &ENDPOINT_SHAPE, endpoint)?;
        Some(Spanned { value, at: node.at })
    };
    Some(items.iter().filter_map(read).collect())
}

fn endpoint(text: &str) -> Result<EndpointAddress, ScalarError> {
    let Some(rest) = text.strip_prefix("https://") else {
        return Err(ScalarError::new("{} must start with `https://`")
            .help("secrets travel to gateways over TLS only, and both sides show a certificate"));
    };
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    let endpoint = match has_port {
        true => address::endpoint(text)?,
        false => address::endpoint(&format!("{text}:{CONTROLLER_PORT}"))?,
    };
    match (&endpoint.address, endpoint.scheme) {
        (Address::Tcp { .. }, Scheme::Https) => Ok(endpoint),
        _ => Err(ScalarError::new("{} is not the address of a controller")),
    }
}

fn listen(text: &str) -> Result<SocketAddr, ScalarError> {
    address::bind(text, IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}

fn bind(text: &str) -> Result<IpAddr, ScalarError> {
    text.parse().map_err(|_| ScalarError::new("{} is not an IP address"))
}

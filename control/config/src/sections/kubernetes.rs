//! `kubernetes`: takes routes, listeners and certificates from objects of a Kubernetes cluster.

use std::path::PathBuf;
use std::time::Duration;

use crate::scalar::cidr::Cidr;
use crate::scalar::file_path::file_path;
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Text, Word};

use super::blocks;

/// The form of a namespace and a name.
const NAMESPACED_NAME: &str = r"^[a-z0-9-]+/[a-z0-9]([a-z0-9.-]*[a-z0-9])?$";

static NAMESPACE: Text = Text {
    expected: "the name of a namespace such as `shop`",
    pattern: Some(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"),
    loose: false,
};

/// The Kubernetes cluster whose Gateways, routes and Services this gateway serves.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "kubernetes")]
pub struct KubernetesSettings {
    /// Name of this controller, which a GatewayClass refers to.
    #[key(
        expected = "a domain and a path such as `example.com/gateway`", pattern = r"^[a-z0-9.-]+/[A-Za-z0-9/._~-]+$",
        parse = controller, default = "tollgate.dev/gateway", also = ["controller_name", "controllerName", "class"]
    )]
    pub controller: String,
    /// How the API server is found: a file as `kubectl` reads it, or the service account of the gateway's own
    /// pod. Relative to the main file.
    #[key(
        expected = "`in-cluster`, or the path of a file such as `/etc/tollgate/kubeconfig`", pattern = ".",
        parse = kubeconfig, default = "in-cluster", also = ["kube_config", "config", "endpoint", "access"]
    )]
    pub kubeconfig: Kubeconfig,
    /// The namespaces whose objects count. Default: all.
    #[key(text = NAMESPACE, each = namespace, what = "a namespace", also = ["namespace", "watch_namespaces"])]
    pub namespaces: Vec<String>,
    /// Addresses of this machine for Gateways: each Gateway gets one, and listens there on its own ports.
    #[key(
        expected = "an address or a block of addresses such as `10.1.0.0/24`",
        pattern = r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$", list, read = addresses, required,
        also = ["address", "pool", "ips", "address_pool"]
    )]
    pub addresses: Vec<Cidr>,
    /// The Service that each Gateway gets. Then the addresses of a Gateway are those of its Service, and Gateways share
    /// the first of `addresses`, where each of their ports has a port of its own.
    #[key(also = ["service", "infrastructure", "gateway_services"])]
    pub services: Option<GatewayServices>,
    /// The Service by which clients reach this gateway, by its namespace and name. The statuses of Ingresses, and of Gateways
    /// without a Service of their own, report its addresses in place of those in `addresses`.
    #[key(
        expected = "a namespace and a name such as `tollgate/tollgate`", pattern = NAMESPACED_NAME,
        parse = namespaced, also = ["published_service", "publishService", "ingress_service"]
    )]
    pub publish_service: Option<NamespacedName>,
    /// The Secret with the certificate of Ingresses that list hosts under `tls` without a Secret, or with one that has no
    /// certificate, by its namespace and name.
    #[key(
        expected = "a namespace and a name such as `tollgate/wildcard`", pattern = NAMESPACED_NAME,
        parse = namespaced, also = ["default_ssl_certificate", "defaultCertificate"]
    )]
    pub default_certificate: Option<NamespacedName>,
    /// Whether a backend may be a Service of the type `ExternalName`. A user who may write Services then decides which hosts
    /// the gateway connects to, also hosts that only the gateway can reach.
    #[key(default = off, also = ["external_name", "externalName", "allow_external_name_services"])]
    pub external_names: bool,
    /// Whether this gateway may write the statuses of objects. Of several gateways with one controller name, a
    /// Lease elects the one that does.
    #[key(default = on, also = ["status", "write_status", "leader"])]
    pub statuses: bool,
    /// The Lease of that election: its name, or its namespace and name. Default: the controller's name with `-`
    /// for `/`, in the gateway's own namespace.
    #[key(
        expected = "a name, or a namespace and a name such as `tollgate/leader`",
        pattern = r"^([a-z0-9-]+/)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", parse = lease,
        also = ["leader_election", "election", "lock"]
    )]
    pub lease: Option<LeaseName>,
    /// How long after its last renewal another gateway takes the Lease. Its holder renews it twice in this time, by one
    /// request to the API server.
    #[key(
        time = "1s"..="1m", default = "1.5s",
        also = ["lease_seconds", "lease_time", "leaseDuration", "leaseDurationSeconds", "lease_ttl"]
    )]
    pub lease_duration: Duration,
}

/// The Service that each Gateway gets.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(noun = "`services`", check = check_services)]
pub struct GatewayServices {
    /// Their type. `headless`: the Service only names the address that the Gateway has of its own.
    #[key(name = "type", default = load_balancer, also = ["kind"])]
    pub kind: ServiceType,
    /// The Service whose endpoints are the gateway's pods, by its namespace and name. Required unless the type is
    /// `headless`.
    #[key(
        expected = "a namespace and a name such as `tollgate/tollgate`", pattern = NAMESPACED_NAME,
        parse = namespaced, also = ["selector", "endpoints"]
    )]
    pub pods: Option<NamespacedName>,
}

/// The type of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
pub enum ServiceType {
    /// An address from a load balancer.
    LoadBalancer,
    /// A port of each node.
    NodePort,
    /// An address in the cluster.
    ClusterIp,
    /// No address of its own.
    Headless,
}

/// The name of an object with its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacedName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

fn namespaced(text: &str) -> Result<NamespacedName, ScalarError> {
    let Some((space, name)) = text.split_once('/') else {
        return Err(ScalarError::new("{} has no namespace").help("write `tollgate/tollgate`"));
    };
    // Secrets may have dots in their names, unlike Services.
    let is_name = name.len() <= 253 && name.split('.').all(|label| namespace(label).is_ok());
    match is_name {
        true => Ok(NamespacedName { namespace: namespace(space)?, name: name.to_owned() }),
        false => Err(ScalarError::new("{} is not a namespace and a name")),
    }
}

fn check_services(reader: &mut Reader, fields: &Fields<'_>, services: &mut GatewayServices) {
    if services.kind != ServiceType::Headless && fields.get("pods").is_none() {
        let problem = Problem::error(fields.at, "`services` does not name the Service of the gateway's pods");
        reader.problems.push(problem.help("write `pods: tollgate/tollgate`: its namespace and its name"));
    }
}

/// How the API server is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kubeconfig {
    /// By the service account of the gateway's own pod.
    InCluster,
    /// By a file as `kubectl` reads it.
    File(PathBuf),
}

/// The name of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace; `None`: the gateway's own.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

fn lease(text: &str) -> Result<LeaseName, ScalarError> {
    let (space, name) = match text.split_once('/') {
        Some((space, name)) => (Some(namespace(space)?), name),
        None => (None, text),
    };
    // RFC 1123, section 2.1: labels with dots between them.
    let is_label = |label: &str| namespace(label).is_ok();
    if name.len() <= 253 && name.split('.').all(is_label) {
        Ok(LeaseName { namespace: space, name: name.to_owned() })
    } else {
        Err(ScalarError::new("{} is not the name of a Lease"))
    }
}

fn addresses(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Cidr>> {
    Some(blocks(reader, field, "an address"))
}

fn kubeconfig(text: &str) -> Result<Kubeconfig, ScalarError> {
    match text {
        "in-cluster" => Ok(Kubeconfig::InCluster),
        text => file_path(text).map(Kubeconfig::File),
    }
}

fn namespace(text: &str) -> Result<String, ScalarError> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    // RFC 1123, section 2.1.
    let good = (1..=63).contains(&text.len()) && text.bytes().all(fits);
    if good && !text.starts_with('-') && !text.ends_with('-') {
        Ok(text.to_owned())
    } else {
        Err(ScalarError::new("{} is not the name of a namespace"))
    }
}

fn controller(text: &str) -> Result<String, ScalarError> {
    let domain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-');
    let path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '~' | '-');
    match text.split_once('/') {
        Some((start, rest))
            if !start.is_empty()
                && start.chars().all(domain)
                && !rest.is_empty()
                && rest.chars().all(path) =>
        {
            Ok(text.to_owned())
        }
        _ => Err(ScalarError::new("{} is not the name of a controller")
            .help("a GatewayClass names its controller by a domain and a path: `example.com/gateway`")),
    }
}

//! The client of the API server.

use std::path::PathBuf;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::{Api, Client, Config};
use serde_json::Value;

use crate::object::{Kind, Meta, RawObject};

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The annotations that are kept begin with one of these.
const ANNOTATIONS: [&str; 4] = [
    "ingressclass.kubernetes.io/",
    "kubernetes.io/ingress.",
    "nginx.ingress.kubernetes.io/",
    "tollgate.dev/",
];

/// How the API server is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterAccess {
    /// By the service account of the pod that the gateway runs in.
    InCluster,
    /// By a file as `kubectl` reads it.
    Kubeconfig(PathBuf),
}

/// Makes a client. Connections are opened when they are needed.
///
/// # Errors
/// Returns a message if the access is not configured.
pub async fn connect(access: &ClusterAccess) -> Result<Client, String> {
    // The client takes the process's provider. The gateway uses this provider everywhere. If another part of the
    // process has installed it already, the call has no effect.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut config = match access {
        ClusterAccess::InCluster => Config::incluster()
            .map_err(|error| format!("this process has no service account of a cluster: {error}"))?,
        ClusterAccess::Kubeconfig(file) => {
            let cannot =
                |error: kube::config::KubeconfigError| format!("cannot use {}: {error}", file.display());
            let kubeconfig = Kubeconfig::read_from(file).map_err(cannot)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(cannot)?
        }
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config).map_err(|error| error.to_string())
}

/// Returns the resource of a kind.
fn resource(kind: Kind) -> ApiResource {
    let (group, version, name, plural) = kind.names();
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: name.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Returns the objects of a kind, in one namespace or in all.
pub fn api(client: &Client, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace.filter(|_| !kind.is_cluster_wide()) {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource(kind)),
        None => Api::all_with(client.clone(), &resource(kind)),
    }
}

/// Reduces an object to what is read of it.
pub fn reduce(object: DynamicObject) -> RawObject {
    let DynamicObject { metadata, data, .. } = object;
    let created = metadata.creation_timestamp.map(|time| time.0.to_string());
    RawObject {
        metadata: Meta {
            namespace: metadata.namespace.unwrap_or_default().into(),
            name: metadata.name.unwrap_or_default().into(),
            uid: metadata.uid.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            creation_timestamp: created.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata
                .annotations
                .into_iter()
                .flatten()
                .filter(|(key, _)| ANNOTATIONS.iter().any(|start| key.starts_with(start)))
                .collect(),
        },
        data,
    }
}

/// Returns the present time in RFC 3339 with whole seconds, as statuses have it.
pub fn now() -> String {
    let now = k8s_openapi::jiff::Timestamp::now();
    k8s_openapi::jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Returns the body of a server-side apply of a status.
pub fn status_body(kind: Kind, meta: &Meta, status: Value, versioned: bool) -> Value {
    let resource = resource(kind);
    let mut metadata = serde_json::json!({ "name": &*meta.name });
    if !meta.namespace.is_empty() {
        metadata["namespace"] = (&*meta.namespace).into();
    }
    if versioned {
        metadata["resourceVersion"] = meta.resource_version.as_str().into();
    }
    serde_json::json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "status": status,
    })
}

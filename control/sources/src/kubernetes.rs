//! Kubernetes as a source: the watch of a cluster, and its first objects. [`Sources::apply_documents`] puts the documents
//! in force that are made from the objects.

use std::time::Duration;

use tokio::sync::mpsc;
use tollgate_config::{
    CombinedResources, GatewayServices, Kubeconfig, KubernetesSettings, NamespacedName, Problem, ServiceType,
};
use tollgate_documents::{DocumentChanges, SourceEvent};
use tollgate_kubernetes::{
    AddressBlock, AddressPool, ClusterAccess, KubernetesThread, LeaseSettings, ObjectName, ServiceKind,
    ServiceSettings, TranslationSettings,
};

use crate::document_source::{AppliedDocuments, DocumentSource, SourceThread};
use crate::sources::Sources;

/// How long a start waits for the first listing.
const FIRST_LISTING_TIMEOUT: Duration = Duration::from_secs(15);

impl Sources {
    /// Starts to watch the cluster, waits for its objects, and compiles them together with the file, which must
    /// be read before. Returns the result, the first changes, which the caller answers when they are in force,
    /// and the receiver of further events.
    ///
    /// # Errors
    /// Returns a message if the API server does not answer.
    pub fn join_cluster<T>(
        &mut self,
        from: &KubernetesSettings,
        mut compile: impl FnMut(&CombinedResources<'_>) -> Result<T, Vec<Problem>>,
    ) -> Result<(AppliedDocuments<T>, DocumentChanges, mpsc::Receiver<SourceEvent>), String> {
        let (thread, mut events) =
            KubernetesThread::start(settings(from)).map_err(|error| format!("kubernetes: {error}"))?;
        self.source = Some(DocumentSource::new(SourceThread::Kubernetes { _thread: thread }));
        self.view.update(|state| state.has_cluster = true);
        match wait_for_listing(&mut events) {
            Ok(mut first) => {
                let changes = std::mem::take(&mut first.changes);
                let applied = self.apply_documents(changes, &mut compile);
                self.publish_documents(&applied);
                Ok((applied, first, events))
            }
            Err(why) => {
                self.source = None;
                Err(format!("kubernetes: {why}"))
            }
        }
    }
}

/// Waits for the first translation.
fn wait_for_listing(events: &mut mpsc::Receiver<SourceEvent>) -> Result<DocumentChanges, String> {
    let end = std::time::Instant::now() + FIRST_LISTING_TIMEOUT;
    let mut why = format!("the API server has not sent all objects within {FIRST_LISTING_TIMEOUT:?}");
    // Polling costs nothing noticeable at a start.
    while std::time::Instant::now() < end {
        match events.try_recv() {
            Ok(SourceEvent::Documents(first)) => return Ok(first),
            Ok(SourceEvent::Connected(Err(reason))) => why = reason,
            Ok(SourceEvent::Connected(Ok(()))) => {}
            Err(mpsc::error::TryRecvError::Empty) => std::thread::sleep(Duration::from_millis(2)),
            Err(mpsc::error::TryRecvError::Disconnected) => break,
        }
    }
    Err(why)
}

/// Returns the settings of the client.
fn settings(from: &KubernetesSettings) -> tollgate_kubernetes::KubernetesSettings {
    let blocks =
        from.addresses.iter().map(|block| AddressBlock { first: block.address, prefix: block.prefix });
    tollgate_kubernetes::KubernetesSettings {
        access: match &from.kubeconfig {
            Kubeconfig::InCluster => ClusterAccess::InCluster,
            Kubeconfig::File(file) => ClusterAccess::Kubeconfig(file.clone()),
        },
        namespaces: from.namespaces.clone(),
        lease: from.statuses.then(|| lease(from)),
        translation: TranslationSettings {
            controller: from.controller.clone(),
            addresses: AddressPool::new(blocks.collect()),
            services: from.services.as_ref().map(services),
            publish_service: from.publish_service.as_ref().map(object_name),
            default_certificate: from.default_certificate.as_ref().map(object_name),
            external_names: from.external_names,
        },
    }
}

/// Returns the settings of the Services of Gateways.
fn services(from: &GatewayServices) -> ServiceSettings {
    ServiceSettings {
        kind: match from.kind {
            ServiceType::LoadBalancer => ServiceKind::LoadBalancer,
            ServiceType::NodePort => ServiceKind::NodePort,
            ServiceType::ClusterIp => ServiceKind::ClusterIp,
            ServiceType::Headless => ServiceKind::Headless,
        },
        pods: from.pods.as_ref().map(object_name).unwrap_or_default(),
    }
}

fn object_name(name: &NamespacedName) -> ObjectName {
    ObjectName::new(&name.namespace, &name.name)
}

/// Returns the Lease of the gateways with this controller name.
fn lease(from: &KubernetesSettings) -> LeaseSettings {
    let (namespace, name) = match &from.lease {
        Some(lease) => (lease.namespace.clone(), lease.name.clone()),
        None => (None, from.controller.to_ascii_lowercase().replace(['/', '_', '~'], "-")),
    };
    // A pod's host name is its own name.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let holder = format!("{}_{:08x}", host.trim(), fastrand::u32(..));
    LeaseSettings { namespace, name, holder, duration: from.lease_duration }
}

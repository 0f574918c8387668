//! The files of certificates and keys that a configuration names.

use crate::model::Config;
use crate::read::policies::files;
use crate::sections::tls::{Certificate, ListenTls, PemFile};

/// Returns every file of certificates or keys that a configuration names.
pub(crate) fn pem_files(config: &mut Config) -> impl Iterator<Item = &mut PemFile> {
    let mut out = files(&mut config.policies);
    out.extend(config.access_log.iter_mut().filter_map(|log| log.otlp.as_mut()?.export.ca.as_mut()));
    for listener in &mut config.listen {
        out.extend(files(&mut listener.policies));
        out.extend(listener.tls.as_mut().into_iter().flat_map(of_listener));
    }
    out.extend(config.certificates.iter_mut().flat_map(|named| both(&mut named.certificate)));
    out.extend(config.admin.iter_mut().filter_map(|admin| admin.tls.as_mut()).flat_map(of_listener));
    let sets = config.policy_sets.iter_mut();
    out.extend(sets.flat_map(|set| files(&mut set.policies)));
    for route in &mut config.routes {
        out.extend(files(&mut route.policies));
        let logs = route.access_log.iter_mut().flatten();
        out.extend(logs.filter_map(|log| log.otlp.as_mut()?.export.ca.as_mut()));
    }
    for upstream in &mut config.upstreams {
        out.extend(files(&mut upstream.policies));
        let Some(tls) = &mut upstream.tls else { continue };
        out.extend(tls.ca.iter_mut().chain(tls.certificate.iter_mut().flat_map(both)));
    }
    if let Some(tls) = config.etcd.as_mut().and_then(|etcd| etcd.tls.as_mut()) {
        out.extend(tls.ca.iter_mut().chain(tls.certificate.iter_mut().flat_map(both)));
    }
    if let Some(controller) = &mut config.controller {
        out.push(&mut controller.ca);
        out.extend(both(&mut controller.certificate));
    }
    if let Some(fleet) = &mut config.fleet {
        out.push(&mut fleet.ca);
        out.extend(both(&mut fleet.certificate));
    }
    out.into_iter()
}

fn of_listener(tls: &mut ListenTls) -> impl Iterator<Item = &mut PemFile> {
    let authorities = tls.client.as_mut().map(|client| &mut client.ca);
    tls.certificates.iter_mut().flat_map(both).chain(authorities)
}

fn both(certificate: &mut Certificate) -> [&mut PemFile; 2] {
    [&mut certificate.chain, &mut certificate.key]
}

//! The setting from which the catalogue renders a system's configuration, derived from the settings of a cell.

use std::collections::BTreeSet;

use tollgate_lab_meter::ports::free_ports;
use tollgate_lab_study::Settings;
use tollgate_lab_system::{Address, Feature, Setting, Upstream, VirtualHost};

use crate::arm::Arm;
use crate::environment::Environment;
use crate::failure::Failure;

/// Returns the setting of one copy of a system. `front`: it is the first copy of a chain, to which clients connect.
pub(super) fn setting(
    environment: &Environment,
    arm: &Arm,
    settings: &Settings,
    origins: &[Address],
    clients: u32,
    front: bool,
) -> Result<Setting, Failure> {
    let ports = free_ports(2)?;
    let folder = environment.folder(&arm.name)?;
    let mut setting = Setting::new(ports[0], ports[1], origins[0].port, folder);
    setting.workers = settings.workers();
    setting.upstreams = vec![Upstream { name: "origin".into(), origins: origins.to_vec() }];
    setting.features = features(settings.features())?;
    if settings.http() == 2 {
        setting.features.insert(Feature::Http2);
    }
    if settings.grpc() {
        setting.features.insert(Feature::Http2Origin);
    }
    if !front {
        // The copies of a chain speak plain HTTP/1 to each other.
        setting.features.remove(&Feature::Tls);
        setting.features.remove(&Feature::Http2);
    }
    if setting.features.contains(&Feature::Tls) {
        setting.tls = Some(environment.certificate()?);
    }
    setting.options = arm.options.clone();
    setting.clients = clients;
    setting.keepalive = settings.origin_kept.unwrap_or_else(|| clients.max(64));
    setting.cores = settings.target_cores();
    setting.quota = settings.quota;
    setting.memory_mib = settings.memory_mib;
    setting.file_limit = environment.facts.file_limit;
    for host in settings.hosts.iter().flatten() {
        setting.hosts.push(VirtualHost { host: host.clone(), routes: Vec::new() });
    }
    if settings.routes() > 1 {
        setting = setting.with_routes(settings.routes());
    }
    Ok(setting)
}

fn features(names: &[String]) -> Result<BTreeSet<Feature>, Failure> {
    names
        .iter()
        .map(|name| {
            Feature::ALL.into_iter().find(|feature| feature.name() == name).ok_or_else(|| {
                let known: Vec<&str> = Feature::ALL.iter().map(|feature| feature.name()).collect();
                Failure(format!("no feature is called `{name}`; known: {}", known.join(", ")))
            })
        })
        .collect()
}

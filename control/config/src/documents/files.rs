//! Restricts the files and sockets that documents name. Users of the API write documents, and they need not
//! be allowed to read files of this machine. So each path must lie in a directory that the operator
//! configures.

use std::path::{Path, PathBuf};

use crate::file_access::{OutsideScope, Scope, run_with_timeout};
use crate::model::{
    Action, Address, Config, Discover, ListenAddress, LogTarget, Syslog, SyslogTransport, TargetKind,
};
use crate::pem_files::pem_files;
use crate::position::At;
use crate::problem::Problem;

/// Makes the paths of a document relative to `folder` and bounds them by `scope`.
///
/// Returns whether the document names any path, and a problem for each path outside the scope.
pub(super) fn restrict_files(config: &mut Config, folder: &Path, scope: &Scope) -> (bool, Vec<Problem>) {
    let mut named: Vec<(At, PathBuf)> = Vec::new();
    for pem in pem_files(config) {
        pem.scope = scope.clone();
        if let Some(path) = &mut pem.path {
            *path = folder.join(&*path);
            named.push((pem.at, path.clone()));
        }
    }
    for discover in config.upstreams.iter_mut().filter_map(|upstream| upstream.discover.as_mut()) {
        if let Discover::File(file) = &mut discover.value {
            file.path = folder.join(&file.path);
            file.scope = scope.clone();
            named.push((discover.at, file.path.clone()));
        }
    }
    for route in &mut config.routes {
        if let Action::Files(site) = &mut route.action {
            site.root.value = folder.join(&site.root.value);
            named.push((site.root.at, site.root.value.clone()));
        }
    }
    named.extend(sockets(config));
    if named.is_empty() {
        return (false, Vec::new());
    }
    let scope = scope.clone();
    let checked = run_with_timeout(move || {
        let outside = |(at, path): (At, PathBuf)| scope.resolve(&path).err().map(|outside| (at, outside));
        named.into_iter().filter_map(outside).collect::<Vec<_>>()
    });
    let mut problems: Vec<Problem> = match checked {
        Ok(outside) => outside.into_iter().map(|(at, outside)| outside_scope_problem(at, outside)).collect(),
        Err(stalled) => vec![Problem::error(At::default(), stalled.to_string())],
    };
    // A path may be named twice, and one position may name both a certificate and its key.
    problems.dedup();
    (true, problems)
}

fn outside_scope_problem(at: At, outside: OutsideScope) -> Problem {
    Problem::error(at, format!("this file is not allowed here: {}", outside.message())).help(
        "the operator names directories in the configuration file: `admin: {files: /etc/tollgate/files}`",
    )
}

/// Returns the Unix sockets that a document names.
fn sockets(config: &Config) -> Vec<(At, PathBuf)> {
    let mut out = Vec::new();
    for endpoint in config.upstreams.iter().flat_map(|upstream| &upstream.endpoints) {
        if let Address::Unix(path) = &endpoint.address.value.address {
            out.push((endpoint.address.at, path.clone()));
        }
    }
    for listener in &config.listen {
        if let ListenAddress::Unix(socket) = &listener.bind.value {
            out.push((listener.bind.at, socket.path.clone()));
        }
    }
    for route in &config.routes {
        for log in route.access_log.iter().flatten() {
            if let LogTarget::Syslog(Syslog { transport: SyslogTransport::Unix(path), .. }) = &log.to {
                out.push((route.at, path.clone()));
            }
        }
        let targets = match &route.action {
            Action::Forward(targets) => targets.as_slice(),
            _ => &[],
        };
        for target in targets.iter().chain(route.fallback.iter().filter_map(|it| it.instead.target())) {
            if let TargetKind::Endpoint(endpoint) = &target.to
                && let Address::Unix(path) = &endpoint.address
            {
                out.push((target.at, path.clone()));
            }
        }
    }
    for target in config.streams.iter().flat_map(|stream| stream.to.iter().flatten()) {
        if let TargetKind::Endpoint(endpoint) = &target.to
            && let Address::Unix(path) = &endpoint.address
        {
            out.push((target.at, path.clone()));
        }
    }
    let routes = config.routes.iter().map(|route| &route.policies);
    let upstreams = config.upstreams.iter().map(|upstream| &upstream.policies);
    let sets = config.policy_sets.iter().map(|set| &set.policies);
    let listeners = config.listen.iter().map(|listener| &listener.policies);
    let all = routes.chain(upstreams).chain(sets).chain(listeners).flat_map(|policies| &policies.list);
    for spec in all.filter_map(|attached| attached.spec.as_deref()) {
        out.extend(spec.sockets());
    }
    out
}

//! `compile(Config) -> Plan`: what can be wrong only in combination is found here.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{At, Config, Parts, Problem, TargetKind};
use tollgate_http::HeadLimits;
use tollgate_net::{Address, ProxyVersion};
use tollgate_route::PathRules;

use crate::matches::{Matches, matches, path_rules};
use crate::memo::Memo;
use crate::policies::{Policing, log_collector};
use crate::tls::{self, Clients};
use crate::{
    Action, Endpoint, EndpointHttp2, PathRewrite, Plan, Pool, Redirect, Respond, Rewrite, Route, Rules,
    Settings, Upstream, UpstreamShare,
};

/// A plan, and what is doubtful about it.
#[derive(Debug)]
pub struct Compiled {
    /// The plan.
    pub plan: Plan,
    /// Warnings.
    pub warnings: Vec<Problem>,
}

/// Compiles a config by itself. Pure: the same config gives the same plan, and nothing outside is looked at: what only a store
/// can have is a warning, so that this is to look at, and not to be put in force where there is a store.
///
/// # Errors
/// Every problem at once, warnings among them.
pub fn compile(config: &Config) -> Result<Compiled, Vec<Problem>> {
    compile_parts(&Parts { unseen: config.store.is_some(), ..Parts::of(config) })
}

/// As [`compile`], of a config that comes from several sources.
///
/// # Errors
/// Every problem at once, warnings among them.
pub fn compile_parts(parts: &Parts<'_>) -> Result<Compiled, Vec<Problem>> {
    compile_again(parts, &mut Memo::default())
}

/// As [`compile_parts`], with what is known from the last time: routes that are the same are not compiled again.
///
/// # Errors
/// Every problem at once, warnings among them.
pub fn compile_again(parts: &Parts<'_>, memo: &mut Memo) -> Result<Compiled, Vec<Problem>> {
    let config = parts.config;
    let rules = path_rules(&config.paths);
    let Matches { router, prefixes, problems, mut warnings } = matches(&parts.routes, &rules, memo);
    let mut compiler = Compiler {
        config,
        written: &parts.upstreams,
        problems,
        upstreams: Vec::new(),
        names: HashMap::new(),
        in_place: HashMap::new(),
        clients: Clients::default(),
    };
    compiler.named_upstreams();
    let mut policing = Policing::new(parts, memo);
    let routes = parts.routes.iter().copied().zip(prefixes);
    let routes = routes
        .map(|(route, prefix)| {
            let before = compiler.problems.len();
            let known = memo.get(route.identity).and_then(|known| known.route.as_ref());
            let mut planned = compiler.route(route, prefix, known);
            let policies = policing.route(parts, route, &planned);
            if planned.policies != policies {
                Arc::make_mut(&mut planned).policies = policies;
            }
            // What is wrong with it is to be told the next time too.
            if compiler.problems.len() == before {
                memo.became(route.identity, &planned);
            }
            planned
        })
        .collect();
    let Compiler { mut problems, upstreams, .. } = compiler;
    problems.extend(policing.problems());
    warnings.extend(policing.warnings());
    log_collector(config, &mut problems);
    let (policies, chains, upstream_chains) = policing.finish(upstreams.len());
    let listeners = tls::listeners(parts, memo, &mut problems);
    tls::etcd(config, &mut problems);
    let admin = tls::admin(config, &mut problems);
    if router.is_some() && problems.is_empty() {
        memo.keep();
    }
    match router {
        Some(router) if problems.is_empty() => Ok(Compiled {
            plan: Plan {
                settings: settings(config, rules),
                router,
                routes,
                upstreams,
                listeners,
                admin,
                policies,
                chains,
                upstream_chains,
            },
            warnings,
        }),
        _ => {
            problems.extend(warnings);
            Err(problems)
        }
    }
}

fn settings(config: &Config, paths: PathRules) -> Settings {
    let limits = config.limits.clone();
    Settings {
        head_limits: HeadLimits {
            line: limits.request_line,
            head: limits.headers,
            fields: limits.header_count,
        },
        limits,
        timeouts: config.timeouts.clone(),
        client_certificate: config.forwarded.client_certificate.as_slice().into(),
        forwarded: config.forwarded.clone(),
        request_id: config.request_id.clone(),
        paths,
        errors: config.errors.clone(),
        zone: config.zone.clone(),
        overload: config.overload.clone(),
    }
}

struct Compiler<'a> {
    config: &'a Config,
    /// The upstreams of all sources.
    written: &'a [&'a config::Upstream],
    problems: Vec<Problem>,
    upstreams: Vec<Arc<Upstream>>,
    /// Where an upstream of a name is: its index here, and among those that are written if it is one.
    names: HashMap<String, (usize, Option<usize>)>,
    /// Where an upstream of endpoints written in place is: its name, which is all of them as text, costs more to make than
    /// all else of a route, and mostly many routes have the same ones.
    in_place: HashMap<Vec<(&'a config::EndpointAddress, u32)>, usize>,
    clients: Clients,
}

impl<'a> Compiler<'a> {
    fn named_upstreams(&mut self) {
        for (index, upstream) in self.written.iter().enumerate() {
            let endpoints = upstream.endpoints.iter().map(endpoint).collect();
            let name = upstream.name.value.clone();
            let schemes = upstream
                .endpoints
                .iter()
                .map(|endpoint| (endpoint.address.value.scheme, endpoint.address.at));
            // With `tls` and nothing but endpoints that are looked up, that is what says it.
            let said = upstream.tls.as_ref().filter(|_| upstream.endpoints.is_empty());
            let scheme = self.scheme(schemes);
            let http2 = upstream.is_http2();
            let tls = match scheme.or(said.map(|tls| (config::Scheme::Https, tls.at))) {
                Some((config::Scheme::Https, at)) => {
                    let tls = self.clients.get(upstream.tls.as_ref(), http2, at, &mut self.problems);
                    tls.map(|tls| tls.named(upstream.discover.as_ref().map(|discover| &discover.value)))
                }
                _ => None,
            };
            self.names.insert(name.clone(), (self.upstreams.len(), Some(index)));
            self.upstreams.push(Arc::new(Upstream {
                name,
                endpoints,
                discover: upstream.discover.as_ref().map(|discover| discover.value.clone()),
                zone: self.config.zone.clone(),
                pool: pool(upstream),
                tls,
                http2: http2.then(|| self.http2()),
                proxy_protocol: upstream.proxy_protocol.map(proxy_version),
                rules: upstream.rules.clone(),
            }));
        }
    }

    /// `prefix` is the length of the prefix that the route matches, if it matches one; `known` what became of it in the plan
    /// before, which stands if all that it is made of besides is the same.
    fn route(
        &mut self,
        route: &'a config::Route,
        prefix: Option<usize>,
        known: Option<&Arc<Route>>,
    ) -> Arc<Route> {
        let (forward, upstream) = match &route.action {
            config::Action::Forward(targets) => {
                let (shares, upstream) = self.forward(targets);
                (Some(shares), upstream)
            }
            config::Action::Redirect(_) | config::Action::Respond(_) => (None, None),
        };
        let timeouts =
            timeouts(&self.config.timeouts, upstream.map(|index| &self.written[index].timeouts), route);
        let body_limit = route.body_limit.or(self.config.limits.body);
        if let Some(known) = known
            && known.timeouts == timeouts
            && known.body_limit == body_limit
            && known.shares() == forward.as_deref()
        {
            return known.clone();
        }
        let action = match (&route.action, forward) {
            (config::Action::Redirect(redirect), _) => Action::Redirect(self.redirect(redirect, prefix)),
            (config::Action::Respond(respond), _) => Action::Respond(fixed(respond)),
            (config::Action::Forward(_), shares) => Action::Forward(shares.unwrap_or_default()),
        };
        let path = route.rewrite.path.as_ref();
        let rewrite = Rewrite {
            path: path.and_then(|path| self.path_rewrite(path, prefix)),
            host: route.rewrite.host.clone(),
        };
        Arc::new(Route {
            name: route.display_name(),
            action,
            rewrite,
            timeouts,
            body_limit,
            buffer: route.buffer.clone(),
            upgrade: route.upgrade.clone(),
            retry: route.retry.clone(),
            priority: route.priority,
            grpc_web: route.grpc_web,
            policies: None,
        })
    }

    /// Endpoints written in place make one upstream together; each named upstream has a share of its own. Says too
    /// which upstream of the config is the only one, if so: its timeouts count.
    fn forward(&mut self, targets: &'a [config::Target]) -> (Vec<UpstreamShare>, Option<usize>) {
        let mut shares: Vec<UpstreamShare> = Vec::new();
        let mut own = Vec::new();
        let mut named = Vec::new();
        for target in targets {
            match &target.to {
                TargetKind::Endpoint(endpoint) => own.push((endpoint, target.weight)),
                TargetKind::Upstream(name) => match self.names.get(name) {
                    Some((upstream, index)) => {
                        shares.push(UpstreamShare { upstream: *upstream, weight: target.weight });
                        named.extend(*index);
                    }
                    // A reader tells it with help; a config from elsewhere can still have it.
                    None => {
                        let message = format!("there is no upstream `{name}`");
                        self.problems.push(Problem::error(target.at, message));
                    }
                },
            }
        }
        if !own.is_empty() {
            let weight = own.iter().map(|(_, weight)| *weight).fold(0, u32::saturating_add);
            let before = self.problems.len();
            let upstream = self.in_place.get(&own).copied().unwrap_or_else(|| self.written_in_place(targets));
            // What is wrong is told of each route.
            if self.problems.len() == before {
                self.in_place.insert(own, upstream);
            }
            shares.push(UpstreamShare { upstream, weight });
        }
        let only = (shares.len() == 1).then(|| named.first().copied()).flatten();
        (shares, only)
    }

    /// HTTP/2 to endpoints, as far as it is the gateway's.
    fn http2(&self) -> EndpointHttp2 {
        let limits = &self.config.limits;
        // HTTP/2 counts 32 bytes for each field (RFC 9113, 6.5.2), and pseudo-fields too. What is between this limit and the
        // configured one is told apart from what breaks the protocol.
        let list = limits.headers.saturating_add(limits.header_count.saturating_mul(32)).saturating_add(1024);
        EndpointHttp2 { header_list: u32::try_from(list).unwrap_or(u32::MAX) }
    }

    /// The upstream of the endpoints among the targets: the same ones in two routes are one upstream, with one pool.
    fn written_in_place(&mut self, targets: &[config::Target]) -> usize {
        let mut endpoints = Vec::new();
        let mut texts = Vec::new();
        let own = targets.iter().filter_map(|target| match &target.to {
            TargetKind::Endpoint(endpoint) => Some((endpoint, target)),
            TargetKind::Upstream(_) => None,
        });
        let scheme = self.scheme(own.clone().map(|(endpoint, target)| (endpoint.scheme, target.at)));
        for (endpoint, target) in own {
            let address = address(endpoint);
            let scheme = match endpoint.scheme {
                config::Scheme::Http => "",
                config::Scheme::Https => "https://",
                config::Scheme::H2c => "h2c://",
            };
            texts.push(match target.weight {
                1 => format!("{scheme}{address}"),
                weight => format!("{scheme}{address}*{weight}"),
            });
            endpoints.push(Endpoint { address, weight: target.weight, priority: 0, zone: None });
        }
        let name = texts.join(",");
        if let Some((upstream, _)) = self.names.get(&name) {
            return *upstream;
        }
        let tls = match scheme {
            Some((config::Scheme::Https, at)) => self.clients.get(None, false, at, &mut self.problems),
            _ => None,
        };
        let prior = matches!(scheme, Some((config::Scheme::H2c, _)));
        self.names.insert(name.clone(), (self.upstreams.len(), None));
        self.upstreams.push(Arc::new(Upstream {
            name,
            endpoints,
            discover: None,
            zone: None,
            pool: Pool::default(),
            tls,
            http2: prior.then(|| self.http2()),
            proxy_protocol: None,
            rules: Rules::default(),
        }));
        self.upstreams.len() - 1
    }

    /// What all endpoints of an upstream speak, and where the first one is written. One pool, one balance and one retry
    /// are over all of them, so that they must not differ.
    fn scheme(
        &mut self,
        mut schemes: impl Iterator<Item = (config::Scheme, At)>,
    ) -> Option<(config::Scheme, At)> {
        let first = schemes.next()?;
        if let Some((_, at)) = schemes.find(|(scheme, _)| *scheme != first.0) {
            let problem = Problem::error(at, "this endpoint speaks another protocol than the first one");
            let problem = problem.help("the endpoints of an upstream speak one: make two upstreams of them");
            self.problems.push(problem.see(first.1, "the first one"));
        }
        Some(first)
    }

    fn path_rewrite(
        &mut self,
        rewrite: &config::Spanned<config::PathRewrite>,
        prefix: Option<usize>,
    ) -> Option<PathRewrite> {
        let problem = match (&rewrite.value, prefix) {
            (config::PathRewrite::Full(path), _) => return Some(PathRewrite::Full(path.clone())),
            (config::PathRewrite::Prefix(with), Some(matched)) => {
                return Some(PathRewrite::Prefix { matched, with: with.trim_end_matches('/').to_owned() });
            }
            (config::PathRewrite::Prefix(_), None) => "this route matches no prefix to replace".to_owned(),
            (config::PathRewrite::Regex { pattern, replace }, _) => match regex::bytes::Regex::new(pattern) {
                Ok(pattern) => return Some(PathRewrite::Regex { pattern, replace: replace.clone() }),
                // The lines before the last repeat the pattern.
                Err(error) => {
                    let error = error.to_string();
                    let reason = error.lines().last().unwrap_or_default();
                    format!("the pattern does not compile: {}", reason.trim_start_matches("error: "))
                }
            },
        };
        self.problems.push(Problem::error(rewrite.at, problem));
        None
    }

    fn redirect(&mut self, redirect: &config::Redirect, prefix: Option<usize>) -> Redirect {
        let path = redirect.path.as_ref();
        Redirect {
            status: redirect.status,
            to: redirect.to.clone(),
            scheme: redirect.scheme.clone(),
            host: redirect.host.clone(),
            port: redirect.port,
            path: path.and_then(|path| self.path_rewrite(path, prefix)),
        }
    }
}

/// An endpoint as the plan has it.
pub(crate) fn endpoint(endpoint: &config::Endpoint) -> Endpoint {
    Endpoint {
        address: address(&endpoint.address.value),
        weight: endpoint.share(),
        priority: endpoint.priority,
        zone: endpoint.zone.clone(),
    }
}

/// The connections of an upstream. Those that name a client are not kept: each is for one request.
fn pool(upstream: &config::Upstream) -> Pool {
    let pool = upstream.pool.clone();
    match upstream.proxy_protocol {
        None => pool,
        Some(_) => Pool { max_idle: 0, warm: 0, ..pool },
    }
}

fn proxy_version(version: config::ProxyProtocol) -> ProxyVersion {
    match version {
        config::ProxyProtocol::V1 => ProxyVersion::V1,
        config::ProxyProtocol::V2 => ProxyVersion::V2,
    }
}

fn address(endpoint: &config::EndpointAddress) -> Address {
    match &endpoint.address {
        config::Address::Tcp { host, port } => Address::tcp(host, *port),
        config::Address::Unix(path) => Address::Unix(path.clone()),
    }
}

/// The gateway's timeouts, as the upstream and then the route change them.
fn timeouts(
    gateway: &config::Timeouts,
    upstream: Option<&config::RouteTimeouts>,
    route: &config::Route,
) -> config::Timeouts {
    let mut all = gateway.clone();
    for change in upstream.into_iter().chain([&route.timeouts]) {
        let config::RouteTimeouts { connect, response_header, response_body, total } = change;
        all.connect = connect.unwrap_or(all.connect);
        all.response_header = response_header.unwrap_or(all.response_header);
        all.response_body = response_body.unwrap_or(all.response_body);
        all.total = total.unwrap_or(all.total);
    }
    all
}

fn fixed(respond: &config::Respond) -> Respond {
    let mut headers = Vec::new();
    for (name, value) in &respond.headers {
        for part in [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            headers.extend_from_slice(part);
        }
    }
    let typed = respond.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !typed && !respond.body.is_empty() {
        headers.extend_from_slice(b"Content-Type: text/plain; charset=utf-8\r\n");
    }
    Respond { status: respond.status, headers, body: respond.body.clone() }
}

#[cfg(test)]
mod tests;

//! `compile(Config) -> Plan`. Finds the mistakes that show only when parts of a configuration are combined.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{At, CombinedResources, Config, Http2, Problem, ReplacementPiece, TargetKind};
use tollgate_files::{CacheRule, Coding, Site, SiteSettings, TryPath};
use tollgate_http::{HeadLimits, Name};
use tollgate_net::{Address, ProxyVersion};
use tollgate_route::{Normalised, PathError, PathPattern, PathRules, normalise_rewritten};

use crate::compile_cache::CompileCache;
use crate::inline_names;
use crate::listeners;
use crate::logs;
use crate::matches::{Matches, matches, path_rules};
use crate::policies::PolicyCompiler;
use crate::streams::{self, StreamTargets};
use crate::tls::{self, Clients};
use crate::{
    Action, AnswerShare, Endpoint, EndpointHttp2, Fallback, FallbackAction, Files, GatewaySettings,
    ListenerIndex, Location, LocationGroups, PathRewrite, Plan, Pool, QueryRewrite, Rates, Redirect,
    Replacement, Respond, Rewrite, Route, Rules, Targets, Upstream, UpstreamShare,
};
use crate::{self_loops, semicolon_bypass, unkeyed};

/// A plan and its warnings.
#[derive(Debug)]
pub struct Compiled {
    /// The plan to roll out.
    pub plan: Plan,
    /// Doubtful but valid settings.
    pub warnings: Vec<Problem>,
}

/// Compiles a config from one file. Pure: the same config gives the same plan, and nothing outside the config
/// is read. Whatever only a store could define gives a warning. The result is therefore good for `check`, but
/// not for serving a config that has a store.
///
/// # Errors
/// All errors and warnings.
pub fn compile(config: &Config) -> Result<Compiled, Vec<Problem>> {
    compile_parts(&CombinedResources {
        store_not_read: config.store.is_some(),
        ..CombinedResources::of(config)
    })
}

/// Compiles a config whose parts come from several sources; otherwise like [`compile`].
///
/// # Errors
/// All errors and warnings.
pub fn compile_parts(parts: &CombinedResources<'_>) -> Result<Compiled, Vec<Problem>> {
    compile_with_cache(parts, &mut CompileCache::default())
}

/// Compiles like [`compile_parts`], but takes unchanged routes from the last compilation instead of compiling
/// them again.
///
/// # Errors
/// All errors and warnings.
pub fn compile_with_cache(
    parts: &CombinedResources<'_>,
    cache: &mut CompileCache,
) -> Result<Compiled, Vec<Problem>> {
    let config = parts.config;
    let rules = path_rules(&config.paths);
    let Matches { routers, numbers, prefixes, mut problems, mut warnings } =
        matches(&parts.routes, &rules, cache);
    problems.extend(listeners::problems(parts));
    let mut compiler = Compiler {
        config,
        written: &parts.upstreams,
        problems,
        upstreams: Vec::new(),
        names: HashMap::new(),
        inline_upstreams: HashMap::new(),
        clients: Clients::default(),
        of_streams: streams::upstreams(parts),
        rules,
    };
    compiler.named_upstreams();
    let mut policy_compiler = PolicyCompiler::new(parts, cache);
    let routes = parts.routes.iter().copied().zip(prefixes);
    let routes = routes
        .map(|(route, prefix)| {
            let before = compiler.problems.len();
            let known = cache.get(route.identity).and_then(|known| known.route.as_ref());
            let mut planned = compiler.route(route, prefix, known);
            let policies = policy_compiler.route(parts, route, &planned);
            if planned.policies != policies {
                Arc::make_mut(&mut planned).policies = policies;
            }
            // Do not remember a faulty route: its error must be reported again the next time.
            if compiler.problems.len() == before {
                cache.store_route(route.identity, &planned);
            }
            planned
        })
        .collect::<Vec<Arc<Route>>>();
    let streams: Vec<_> = streams::written(parts)
        .into_iter()
        .map(|written| {
            let (Targets { shares, .. }, only) =
                compiler.forward(written.stream.to.as_deref().unwrap_or_default());
            (written, StreamTargets { shares, only })
        })
        .collect();
    if let Some(routers) = &routers {
        let guards = |number: usize| {
            routes[number].policies.as_ref().map(|chains| policy_compiler.guards(chains)).unwrap_or_default()
        };
        warnings.extend(semicolon_bypass::warnings(&parts.routes, routers, &rules, guards));
    }
    warnings.extend(unkeyed::warnings(parts, &policy_compiler, &routes));
    warnings.extend(self_loops::warnings(parts));
    warnings.extend(tls::unused_certificates(parts));
    let Compiler { mut problems, mut upstreams, .. } = compiler;
    inline_names::shorten(upstreams.get_mut(parts.upstreams.len()..).unwrap_or_default());

    problems.extend(policy_compiler.problems());
    warnings.extend(policy_compiler.warnings());
    problems.extend(ineffective_keep_entries(config));
    let logs = logs::all(parts, &mut problems);
    let (policies, chains, upstream_chains) = policy_compiler.finish(upstreams.len());
    let tables = streams::tables(parts, &streams, &upstreams, &mut problems, &mut warnings);
    let listeners = tls::listeners(parts, &numbers, &tables, cache, &mut problems);
    let listener_index = ListenerIndex::new(listeners.iter().map(|listener| listener.indexed()));
    tls::etcd(config, &mut problems);
    let admin = tls::admin(config, &mut problems);
    if routers.is_some() && problems.is_empty() {
        cache.commit();
    }
    match routers {
        Some(routers) if problems.is_empty() => Ok(Compiled {
            plan: Plan {
                settings: settings(config, rules),
                routers,
                routes,
                upstreams,
                listeners,
                listener_index,
                admin,
                policies,
                chains,
                upstream_chains,
                logs,
            },
            warnings,
        }),
        _ => {
            problems.extend(warnings);
            Err(problems)
        }
    }
}

/// Reports entries of `forwarded.keep` that have no effect.
fn ineffective_keep_entries(config: &Config) -> impl Iterator<Item = Problem> {
    config.forwarded.keep.iter().filter_map(|kept| {
        let name = &kept.value;
        match Name::of(name.as_bytes()) {
            Name::XForwardedOther | Name::ProxyClaim | Name::XForwardedPort | Name::XRealIp => None,
            Name::XForwardedFor | Name::XForwardedProto | Name::XForwardedHost | Name::Forwarded => Some(
                Problem::error(
                    kept.at,
                    format!("`{name}` describes the client, and only the gateway sets it"),
                )
                .help(
                    "`trusted_proxies` lists the peers whose values are accepted; `x_forwarded: off` leaves \
                         the field as it came",
                ),
            ),
            _ => Some(
                Problem::error(kept.at, format!("`{name}` is none of the fields that are removed"))
                    .help("`docs/forwarded.md` lists them; all others are passed on anyway"),
            ),
        }
    })
}

fn settings(config: &Config, paths: PathRules) -> GatewaySettings {
    let limits = config.limits.clone();
    GatewaySettings {
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
        cache: config.cache.clone(),
    }
}

struct Compiler<'a> {
    config: &'a Config,
    /// The named upstreams of all sources.
    written: &'a [&'a config::Upstream],
    problems: Vec<Problem>,
    upstreams: Vec<Arc<Upstream>>,
    /// Finds an upstream by name: its index in `upstreams`, and its index in `written` if it is a named one.
    names: HashMap<String, (usize, Option<usize>)>,
    /// Finds an upstream of endpoints written in place. Its name, the text of all its endpoints, costs more
    /// to make than the rest of a route, and usually many routes have the same endpoints.
    inline_upstreams: HashMap<Vec<(&'a config::EndpointAddress, u32)>, usize>,
    clients: Clients,
    /// The named upstreams that streams use.
    of_streams: HashSet<&'a str>,
    rules: PathRules,
}

/// The path condition of a route.
struct Paths<'a> {
    matched: Option<&'a config::PathMatch>,
    /// The length of the prefix, if the route matches one.
    prefix: Option<usize>,
}

impl Paths<'_> {
    /// Returns the pattern whose groups a rewrite or redirect may name.
    fn pattern(&self) -> Result<PathPattern, String> {
        match self.matched {
            Some(config::PathMatch::Regex(pattern)) => PathPattern::new(pattern),
            _ => Err("this route matches no pattern with capture groups".to_owned()),
        }
    }
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
            // If all endpoints are discovered, the presence of `tls` decides.
            let said = upstream.tls.as_ref().filter(|_| upstream.endpoints.is_empty());
            let scheme = self.scheme(schemes);
            let http2 = upstream.is_http2();
            let offer = match http2 {
                true => Http2::Only,
                false => Http2::Off,
            };
            let offer = (http2 || !self.of_streams.contains(name.as_str())).then_some(offer);
            let tls = match scheme.or(said.map(|tls| (config::Scheme::Https, tls.at))) {
                Some((config::Scheme::Https, at)) => {
                    let tls = self.clients.get(upstream.tls.as_ref(), offer, at, &mut self.problems);
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

    /// Compiles a route. `prefix` is the length of the prefix that the route matches, if it matches one.
    /// `known` is the route in the plan before; it is returned if everything else that it depends on is
    /// unchanged.
    fn route(
        &mut self,
        route: &'a config::Route,
        prefix: Option<usize>,
        known: Option<&Arc<Route>>,
    ) -> Arc<Route> {
        let (forward, upstream) = match &route.action {
            config::Action::Forward(targets) => {
                let (targets, upstream) = self.forward(targets);
                (Some(targets), upstream)
            }
            config::Action::Redirect(_) | config::Action::Respond(_) | config::Action::Files(_) => {
                (None, None)
            }
        };
        let paths = Paths { matched: route.matches.path.as_ref().map(|path| &path.value), prefix };
        let timeouts =
            timeouts(&self.config.timeouts, upstream.map(|index| &self.written[index].timeouts), route);
        let body_limit = route.body_limit.or(self.config.limits.body);
        let buffer = route.buffer.over(&self.config.buffer);
        let rates = rates(&self.config.limits, route.rates);
        let fallback = self.fallback(&route.fallback);
        if let Some(known) = known
            && known.timeouts == timeouts
            && known.body_limit == body_limit
            && known.rates == rates
            && known.buffer == buffer
            && known.shares() == forward.as_ref().map(|targets| targets.shares.as_slice())
            && known.fallback == fallback
        {
            return known.clone();
        }
        let action = match (&route.action, forward) {
            (config::Action::Redirect(redirect), _) => Action::Redirect(self.redirect(redirect, &paths)),
            (config::Action::Respond(respond), _) => Action::Respond(fixed(respond)),
            (config::Action::Files(files), _) => {
                Action::Files(Files { site: Arc::new(site(files)), matched: prefix.unwrap_or(0) })
            }
            (config::Action::Forward(_), targets) => Action::Forward(targets.unwrap_or_default()),
        };
        let path = route.rewrite.path.as_ref();
        let path = path.and_then(|path| self.path_rewrite(path, &paths));
        let rewrite =
            Rewrite { path: self.query_rewrite(route, path, &paths), host: route.rewrite.host.clone() };
        Arc::new(Route {
            name: route.display_name(),
            action,
            rewrite,
            timeouts,
            body_limit,
            rates,
            buffer,
            upgrade: route.upgrade.clone(),
            retry: route.retry.clone(),
            priority: route.priority,
            grpc_web: route.grpc_web,
            policies: None,
            logs: logs::of_route(route),
            fallback,
            stay: (route.stay != config::RouteStay::default()).then(|| Arc::new(route.stay)),
        })
    }

    fn fallback(&mut self, fallbacks: &'a [config::Fallback]) -> Option<Arc<[Fallback]>> {
        if fallbacks.is_empty() {
            return None;
        }
        let fallbacks = fallbacks.iter().filter_map(|fallback| {
            let action = match &fallback.instead {
                config::Replacement::Request(to) => FallbackAction::Request(self.fallback_target(to)?),
                config::Replacement::Page { to, path, status } => FallbackAction::Page {
                    upstream: self.fallback_target(to)?,
                    path: self.page_path(path, fallback.at)?,
                    status: *status,
                },
                config::Replacement::Respond { respond, status } => {
                    FallbackAction::Respond { respond: fixed(respond), status: *status }
                }
            };
            Some(Fallback { on: fallback.on.clone(), action })
        });
        Some(fallbacks.collect())
    }

    /// Returns the upstream of a fallback. A request that falls back has already passed the policies of its
    /// route and of its first upstream, and passes no others. An upstream with policies of its own is
    /// therefore refused: the fallback would circumvent them.
    fn fallback_target(&mut self, target: &'a config::Target) -> Option<usize> {
        let (Targets { shares, .. }, named) = self.forward(std::slice::from_ref(target));
        if let Some(upstream) = named.map(|index| self.written[index])
            && !upstream.policies.is_empty()
        {
            let message = format!("the policies of upstream `{}` would not be met", upstream.name.value);
            let problem = Problem::error(target.at, message);
            self.problems.push(
                problem
                    .help("a fallback meets the policies of its route: attach them there, or name another upstream")
                    .related(upstream.name.at, "this upstream has policies of its own"),
            );
        }
        shares.first().map(|share| share.upstream)
    }

    /// Checks the path of a page, and returns it. No byte of it may be ambiguous.
    fn page_path(&mut self, text: &str, at: At) -> Option<String> {
        let path = text.split('?').next().unwrap_or_default().replace("{status}", "503");
        if let Err(error) = normalise_rewritten(path.as_bytes(), &self.rules, &mut Vec::new()) {
            self.problems.push(Problem { at, ..no_path(error) });
            return None;
        }
        Some(text.to_owned())
    }

    /// Returns the shares of a route's targets. All endpoints written in place form one upstream; each named
    /// upstream has a share of its own. If a named upstream is the only one, its index in `written` is
    /// returned too, since its timeouts apply.
    fn forward(&mut self, targets: &'a [config::Target]) -> (Targets, Option<usize>) {
        let mut shares: Vec<UpstreamShare> = Vec::new();
        let mut answers = Vec::new();
        let mut own = Vec::new();
        let mut named = Vec::new();
        for target in targets {
            match &target.to {
                TargetKind::Endpoint(endpoint) => own.push((endpoint, target.weight)),
                TargetKind::Respond(respond) => {
                    answers.push(AnswerShare { respond: fixed(respond), weight: target.weight });
                }
                TargetKind::Upstream(name) => match self.names.get(name) {
                    Some((upstream, index)) => {
                        shares.push(UpstreamShare { upstream: *upstream, weight: target.weight });
                        named.extend(*index);
                    }
                    // The reader reports this with help; a config from another source can still have it.
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
            let upstream =
                self.inline_upstreams.get(&own).copied().unwrap_or_else(|| self.inline_upstream(targets));
            // If there was an error, every route reports it.
            if self.problems.len() == before {
                self.inline_upstreams.insert(own, upstream);
            }
            shares.push(UpstreamShare { upstream, weight });
        }
        let only = (shares.len() == 1).then(|| named.first().copied()).flatten();
        (Targets { shares, answers }, only)
    }

    /// Returns the settings of HTTP/2 to endpoints, which follow from the gateway's limits.
    fn http2(&self) -> EndpointHttp2 {
        let limits = &self.config.limits;
        // HTTP/2 counts 32 bytes for each field (RFC 9113, 6.5.2), pseudo-fields included. A head between the
        // configured limit and this one gets an error of its own, distinct from a protocol error.
        let list = limits.headers.saturating_add(limits.header_count.saturating_mul(32)).saturating_add(1024);
        EndpointHttp2 { header_list: u32::try_from(list).unwrap_or(u32::MAX) }
    }

    /// Returns the upstream made of the endpoints among the targets. Routes with the same endpoints share one
    /// upstream and its pool.
    fn inline_upstream(&mut self, targets: &[config::Target]) -> usize {
        let mut endpoints = Vec::new();
        let mut texts = Vec::new();
        let own = targets.iter().filter_map(|target| match &target.to {
            TargetKind::Endpoint(endpoint) => Some((endpoint, target)),
            TargetKind::Upstream(_) | TargetKind::Respond(_) => None,
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
            Some((config::Scheme::Https, at)) => {
                self.clients.get(None, Some(Http2::Off), at, &mut self.problems)
            }
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

    /// Returns the protocol of an upstream's endpoints, and where the first one is written. They must not
    /// differ: pool, balancing and retries span all endpoints.
    fn scheme(
        &mut self,
        mut schemes: impl Iterator<Item = (config::Scheme, At)>,
    ) -> Option<(config::Scheme, At)> {
        let first = schemes.next()?;
        if let Some((_, at)) = schemes.find(|(scheme, _)| *scheme != first.0) {
            let problem = Problem::error(at, "this endpoint speaks another protocol than the first one");
            let problem = problem.help("the endpoints of an upstream speak one: make two upstreams of them");
            self.problems.push(problem.related(first.1, "the first one"));
        }
        Some(first)
    }

    fn path_rewrite(
        &mut self,
        rewrite: &config::Spanned<config::PathRewrite>,
        paths: &Paths<'_>,
    ) -> Option<PathRewrite> {
        let made = match (&rewrite.value, paths.prefix) {
            (config::PathRewrite::Full(path), _) => self.literal(path).map(PathRewrite::Full),
            (config::PathRewrite::Groups(text), _) => self.groups(text, paths),
            (config::PathRewrite::Prefix(with), Some(matched)) => self
                .literal(with)
                .map(|with| PathRewrite::Prefix { matched, with: with.trim_end_matches('/').to_owned() }),
            (config::PathRewrite::Prefix(_), None) => {
                Err(Problem::error(At::default(), "this route matches no prefix to replace"))
            }
            (config::PathRewrite::Regex { pattern, replace }, _) => self.regex(pattern, replace),
        };
        made.map_err(|problem| self.problems.push(Problem { at: rewrite.at, ..problem })).ok()
    }

    /// Adds the query parameters that a route sets to the change of its path.
    fn query_rewrite(
        &mut self,
        route: &config::Route,
        path: Option<PathRewrite>,
        paths: &Paths<'_>,
    ) -> Option<PathRewrite> {
        let parameters = &route.rewrite.query;
        if parameters.is_empty() {
            return path;
        }
        // Without a pattern, each group is reported as missing.
        match QueryRewrite::new(path, paths.pattern().ok(), parameters) {
            Ok(rewrite) => Some(PathRewrite::Query(Box::new(rewrite))),
            Err(name) => {
                self.problems.push(Problem { at: route.at, ..no_group(name) });
                None
            }
        }
    }

    /// Returns a path from the configuration in normal form.
    fn literal(&self, path: &str) -> Result<String, Problem> {
        let mut normal = Vec::new();
        match normalise_rewritten(path.as_bytes(), &self.rules, &mut normal) {
            Ok(Normalised::Unchanged) => Ok(path.to_owned()),
            Ok(Normalised::Changed) => Ok(String::from_utf8_lossy(&normal).into_owned()),
            Err(error) => Err(no_path(error)),
        }
    }

    fn groups(&self, text: &str, paths: &Paths<'_>) -> Result<PathRewrite, Problem> {
        let pattern = paths.pattern().map_err(problem)?;
        let pieces = config::path_replacement(text).map_err(problem)?;
        let to = Replacement::new(pieces, |name| pattern.group(name)).map_err(no_group)?;
        to.check(&self.rules).map_err(no_path)?;
        Ok(PathRewrite::Groups { pattern, to, rules: self.rules })
    }

    fn regex(&self, pattern: &str, replace: &str) -> Result<PathRewrite, Problem> {
        let pattern = regex::bytes::Regex::new(pattern).map_err(|error| {
            // The last line has the reason; the lines before it repeat the pattern.
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default();
            problem(format!("the pattern does not compile: {}", reason.trim_start_matches("error: ")))
        })?;
        let number = |name: &str| match name.parse() {
            Ok(number) => (number < pattern.captures_len()).then_some(number),
            Err(_) => pattern.capture_names().position(|group| group == Some(name)),
        };
        let pieces = config::path_replacement(replace).map_err(problem)?;
        let replace = Replacement::new(pieces, number).map_err(no_group)?;
        replace.check(&self.rules).map_err(no_path)?;
        Ok(PathRewrite::Regex { pattern, replace, rules: self.rules })
    }

    fn redirect(&mut self, redirect: &config::Redirect, paths: &Paths<'_>) -> Redirect {
        let path = redirect.path.as_ref();
        let to = redirect.to.as_ref().and_then(|to| {
            let made = self.location(&to.value, paths);
            made.map_err(|problem| self.problems.push(Problem { at: to.at, ..problem })).ok()
        });
        Redirect {
            status: redirect.status,
            to,
            scheme: redirect.scheme.clone(),
            host: redirect.host.clone(),
            port: redirect.port,
            path: path.and_then(|path| self.path_rewrite(path, paths)),
        }
    }

    /// Compiles a whole `Location`. A path without groups is checked leniently, since it may belong to
    /// another server.
    fn location(&self, text: &str, paths: &Paths<'_>) -> Result<Location, Problem> {
        let split = config::location_replacement(text).map_err(problem)?;
        let has_group = |pieces: &[ReplacementPiece]| {
            pieces.iter().any(|piece| matches!(piece, ReplacementPiece::Group(_)))
        };
        if has_group(&split.path) || has_group(&split.tail) {
            let groups = LocationGroups::new(split, paths.pattern().map_err(problem)?, self.rules);
            let groups = groups.map_err(no_group)?;
            groups.check().map_err(no_path)?;
            return Ok(Location::Groups(Box::new(groups)));
        }
        let text = |pieces: Vec<ReplacementPiece>| -> String {
            let text = |piece| match piece {
                ReplacementPiece::Text(text) => text,
                ReplacementPiece::Group(_) => String::new(),
            };
            pieces.into_iter().map(text).collect()
        };
        let (path, tail) = (text(split.path), text(split.tail));
        if !path.is_empty() {
            let _ = normalise_rewritten(path.as_bytes(), &PathRules::LENIENT, &mut Vec::new())
                .map_err(no_path)?;
        }
        Ok(Location::Fixed(format!("{}{path}{tail}", split.origin)))
    }
}

fn problem(message: String) -> Problem {
    Problem::error(At::default(), message)
}

fn no_path(error: PathError) -> Problem {
    problem(format!("this makes a path that is refused: {error}"))
        .help("`docs/paths.md` has the rule of each byte")
}

fn no_group(name: String) -> Problem {
    problem(format!("the pattern has no group `{name}`"))
}

/// Converts an endpoint to the form that the plan has.
pub(crate) fn endpoint(endpoint: &config::Endpoint) -> Endpoint {
    Endpoint {
        address: address(&endpoint.address.value),
        weight: endpoint.share(),
        priority: endpoint.priority,
        zone: endpoint.zone.clone(),
    }
}

/// Returns the pool settings of an upstream. A connection whose PROXY protocol header names a client serves
/// one request and is not kept.
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

/// Returns the gateway's timeouts with the changes of the upstream, then of the route.
fn timeouts(
    gateway: &config::Timeouts,
    upstream: Option<&config::RouteTimeouts>,
    route: &config::Route,
) -> config::Timeouts {
    let mut all = gateway.clone();
    for change in upstream.into_iter().chain([&route.timeouts]) {
        let config::RouteTimeouts { connect, response_header, response_body, total, upgraded } = change;
        all.connect = connect.unwrap_or(all.connect);
        all.response_header = response_header.unwrap_or(all.response_header);
        all.response_body = response_body.unwrap_or(all.response_body);
        all.total = total.unwrap_or(all.total);
        all.upgraded = upgraded.unwrap_or(all.upgraded);
    }
    all
}

/// Returns the gateway's least rates with the changes of the route.
fn rates(gateway: &config::Limits, route: config::RouteRates) -> Rates {
    let gateway = Rates::of(gateway);
    Rates {
        body: route.body.unwrap_or(gateway.body),
        response: route.response.unwrap_or(gateway.response),
        grace: gateway.grace,
    }
}

fn site(files: &config::Files) -> Site {
    let candidate = |config::Candidate { before, after }: &config::Candidate| TryPath {
        before: before.clone(),
        after: after.clone(),
    };
    let rule =
        |(pattern, value): &(String, String)| CacheRule { pattern: pattern.clone(), value: value.clone() };
    Site::new(SiteSettings {
        root: files.root.value.clone(),
        index: files.index.clone(),
        candidates: files.candidates.iter().map(candidate).collect(),
        browse: files.browse,
        cache_control: files.cache_control.0.iter().map(rule).collect(),
        precompressed: files.precompressed.iter().filter_map(|suffix| Coding::of_suffix(suffix)).collect(),
    })
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

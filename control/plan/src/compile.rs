//! `compile(Config) -> Plan`. Finds the mistakes that show only when parts of a configuration are combined.
//!
//! `check`, the start and each reload call one of the three public functions. They compile in this order: the router
//! (`matches`), named [`upstreams`], routes with their [`rewrites`] and policies, streams, listeners. Errors
//! accumulate to the end, so that the user sees all of them at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{At, CombinedResources, Config, Problem};
use tollgate_files::{CacheRule, Site, SiteSettings, TryPath, coding_of_suffix};
use tollgate_http::{HeadLimits, Name};
use tollgate_route::{PathRules, normalise_rewritten};

use crate::compile::rewrites::{PathCondition, refused_path};
use crate::compile::upstreams::CompiledTargets;
use crate::compile_cache::{CompileCache, Surroundings};
use crate::inline_names;
use crate::listeners;
use crate::logs;
use crate::matches::{Matches, matches, path_rules};
use crate::policies::PolicyCompiler;
use crate::streams::{self, StreamTargets};
use crate::tls::{self, Clients};
use crate::{
    Action, Fallback, FallbackAction, Files, GatewaySettings, ListenerIndex, Plan, Rates, Respond, Rewrite,
    Route, Upstream,
};
use crate::{self_loops, semicolon_bypass, unkeyed, unreachable_hosts};

mod rewrites;
pub(crate) mod upstreams;

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
    let Matches { routers, numbers, prefixes, special, mut problems, mut warnings } =
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
    let mut policy_compiler = PolicyCompiler::new(parts, &special, cache);
    let surroundings = surroundings(parts, &policy_compiler);
    let is_same = cache.has_same_surroundings(&surroundings);
    let routes = compiler.routes(parts, prefixes, &mut policy_compiler, (&mut *cache, is_same));
    let streams: Vec<_> = streams::written(parts)
        .into_iter()
        .map(|written| {
            let CompiledTargets { targets, closing, only_named } =
                compiler.forward(written.stream.to.as_deref().unwrap_or_default());
            (written, StreamTargets { shares: targets.shares, closing, only_named })
        })
        .collect();
    if let Some(routers) = routers.as_ref().filter(|_| policy_compiler.has_guards()) {
        let guards = |number: usize| {
            routes[number].policies.as_ref().map(|chains| policy_compiler.guards(chains)).unwrap_or_default()
        };
        warnings.extend(semicolon_bypass::warnings(&parts.routes, routers, &rules, guards));
    }
    if policy_compiler.has_caches() {
        warnings.extend(unkeyed::warnings(parts, &policy_compiler, &routes));
    }
    warnings.extend(self_loops::warnings(parts, &special));
    warnings.extend(tls::unused_certificates(parts));
    let Compiler { mut problems, mut upstreams, .. } = compiler;
    inline_names::shorten(upstreams.get_mut(parts.upstreams.len()..).unwrap_or_default());

    problems.extend(policy_compiler.problems());
    warnings.extend(policy_compiler.warnings());
    problems.extend(ineffective_keep_entries(config));
    let logs = logs::all(parts, &special, &mut problems);
    let (policies, chains, upstream_chains) = policy_compiler.finish(upstreams.len());
    let tables = streams::tables(parts, &streams, &upstreams, &mut problems, &mut warnings);
    let listeners = listeners::compile(parts, &numbers, &tables, cache, &mut problems);
    let listener_index = ListenerIndex::new(listeners.iter().map(|listener| listener.indexed()));
    warnings.extend(unreachable_hosts::warnings(parts, &listeners, &listener_index));
    tls::etcd(config, &mut problems);
    let admin = tls::admin(config, &mut problems);
    if routers.is_some() && problems.is_empty() {
        cache.commit(surroundings);
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

/// Returns what plain routes depend on besides themselves.
fn surroundings(parts: &CombinedResources<'_>, policies: &PolicyCompiler) -> Surroundings {
    let config = parts.config;
    let upstream = |(index, upstream): (usize, &&config::Upstream)| {
        (upstream.name.value.clone(), upstream.timeouts.clone(), policies.upstream(index))
    };
    Surroundings {
        timeouts: config.timeouts.clone(),
        body: config.limits.body,
        rates: Rates::of(&config.limits),
        buffer: config.buffer.clone(),
        upstreams: parts.upstreams.iter().enumerate().map(upstream).collect(),
        chains: policies.default_chains().clone(),
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
        shares_purges: config.etcd.is_some() || config.controller.is_some(),
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

impl<'a> Compiler<'a> {
    /// Compiles all routes. `prefixes` has the length of the prefix that each of them matches. With `is_same`, plain routes
    /// have the same surroundings as in the plan before.
    fn routes(
        &mut self,
        parts: &CombinedResources<'a>,
        prefixes: Vec<Option<usize>>,
        policy_compiler: &mut PolicyCompiler,
        (cache, is_same): (&mut CompileCache, bool),
    ) -> Vec<Arc<Route>> {
        let routes = parts.routes.iter().copied().zip(prefixes);
        let compile = |(route, prefix): (&'a config::Route, Option<usize>)| {
            let before = self.problems.len();
            let known = cache.get(route.identity);
            if let Some(known) = known.filter(|known| is_same && known.is_plain)
                && let Some(route) = &known.route
            {
                return route.clone();
            }
            let known = known.and_then(|known| known.route.as_ref());
            let mut planned = self.route(route, prefix, known);
            let policies = policy_compiler.route(parts, route, &planned);
            if planned.policies != policies {
                Arc::make_mut(&mut planned).policies = policies;
            }
            // Do not remember a faulty route: its error must be reported again the next time.
            if self.problems.len() == before && known.is_none_or(|known| !Arc::ptr_eq(known, &planned)) {
                cache.store_route(route.identity, &planned);
            }
            planned
        };
        routes.map(compile).collect()
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
                let CompiledTargets { targets, only_named, .. } = self.forward(targets);
                (Some(targets), only_named)
            }
            config::Action::Redirect(_) | config::Action::Respond(_) | config::Action::Files(_) => {
                (None, None)
            }
        };
        let condition =
            PathCondition { matched: route.matches.path.as_ref().map(|path| &path.value), prefix };
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
            (config::Action::Redirect(redirect), _) => Action::Redirect(self.redirect(redirect, &condition)),
            (config::Action::Respond(respond), _) => Action::Respond(fixed_response(respond)),
            (config::Action::Files(files), _) => {
                Action::Files(Files { site: Arc::new(site(files)), matched: prefix.unwrap_or(0) })
            }
            (config::Action::Forward(_), targets) => Action::Forward(targets.unwrap_or_default()),
        };
        let path = route.rewrite.path.as_ref();
        let path = path.and_then(|path| self.path_rewrite(path, &condition));
        let rewrite =
            Rewrite { path: self.query_rewrite(route, path, &condition), host: route.rewrite.host.clone() };
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
                    FallbackAction::Respond { respond: fixed_response(respond), status: *status }
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
        let CompiledTargets { targets, only_named, .. } = self.forward(std::slice::from_ref(target));
        if let Some(upstream) = only_named.map(|index| self.written[index])
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
        targets.shares.first().map(|share| share.upstream)
    }

    /// Checks the path of a page, and returns it. No byte of it may be ambiguous.
    fn page_path(&mut self, text: &str, at: At) -> Option<String> {
        let path = text.split('?').next().unwrap_or_default().replace("{status}", "503");
        if let Err(error) = normalise_rewritten(path.as_bytes(), &self.rules, &mut Vec::new()) {
            self.problems.push(Problem { at, ..refused_path(error) });
            return None;
        }
        Some(text.to_owned())
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
        let config::RouteTimeouts { connect, send, response_header, response_body, total, upgraded } = change;
        all.connect = connect.unwrap_or(all.connect);
        all.send = send.unwrap_or(all.send);
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
        precompressed: files.precompressed.iter().filter_map(|suffix| coding_of_suffix(suffix)).collect(),
    })
}

fn fixed_response(respond: &config::Respond) -> Respond {
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

//! `compile(Config) -> Plan`: what can be wrong only in combination is found here.

use std::collections::HashMap;

use tollgate_config as config;
use tollgate_config::{At, Config, Problem, TargetKind};
use tollgate_http::HeadLimits;
use tollgate_net::Address;
use tollgate_route::{
    EncodedSlash, FieldSpec, Normalised, PathRules, PathSpec, RouteSpec, Router, ValueSpec, normalise,
};

use crate::{
    Action, Endpoint, PathRewrite, Plan, Pool, Redirect, Respond, Rewrite, Route, Settings, Upstream,
    UpstreamShare,
};

/// A plan, and what is doubtful about it.
#[derive(Debug)]
pub struct Compiled {
    /// The plan.
    pub plan: Plan,
    /// Warnings.
    pub warnings: Vec<Problem>,
}

/// Compiles a config. Pure: the same config gives the same plan, and nothing outside is looked at.
///
/// # Errors
/// Every problem at once.
pub fn compile(config: &Config) -> Result<Compiled, Vec<Problem>> {
    let mut compiler =
        Compiler { config, problems: Vec::new(), upstreams: Vec::new(), names: HashMap::new() };
    compiler.named_upstreams();
    let rules = path_rules(&config.paths);
    let routes: Vec<Route> = config.routes.iter().map(|route| compiler.route(route)).collect();
    let specs = config.routes.iter().map(|route| compiler.spec(route, &rules)).collect();
    let mut warnings = Vec::new();
    let router = match Router::build(specs) {
        Ok((router, ties)) => {
            warnings.extend(ties.iter().map(|tie| compiler.tie(tie)));
            Some(router)
        }
        Err(errors) => {
            let errors: Vec<Problem> = errors.iter().map(|error| compiler.router_error(error)).collect();
            compiler.problems.extend(errors);
            None
        }
    };
    let Compiler { problems, upstreams, .. } = compiler;
    match router {
        Some(router) if problems.is_empty() => Ok(Compiled {
            plan: Plan { settings: settings(config, rules), router, routes, upstreams },
            warnings,
        }),
        _ => Err(problems),
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
        forwarded: config.forwarded.clone(),
        request_id: config.request_id.clone(),
        paths,
        errors: config.errors.clone(),
    }
}

fn path_rules(paths: &config::Paths) -> PathRules {
    let encoded_slash = match paths.encoded_slash {
        config::EncodedSlash::Reject => EncodedSlash::Reject,
        config::EncodedSlash::Keep => EncodedSlash::Keep,
    };
    PathRules { merge_slashes: paths.merge_slashes, encoded_slash }
}

struct Compiler<'a> {
    config: &'a Config,
    problems: Vec<Problem>,
    upstreams: Vec<Upstream>,
    /// Where an upstream of a name is: its index here, and in the config if it stands there.
    names: HashMap<String, (usize, Option<usize>)>,
}

impl Compiler<'_> {
    fn named_upstreams(&mut self) {
        for (index, upstream) in self.config.upstreams.iter().enumerate() {
            let endpoints = upstream.endpoints.iter().filter_map(|endpoint| {
                let address = self.address(&endpoint.address.value, endpoint.address.at)?;
                Some(Endpoint { address, weight: endpoint.weight })
            });
            let endpoints = endpoints.collect();
            let name = upstream.name.value.clone();
            self.names.insert(name.clone(), (self.upstreams.len(), Some(index)));
            self.upstreams.push(Upstream { name, endpoints, pool: upstream.pool.clone() });
        }
    }

    fn address(&mut self, endpoint: &config::EndpointAddress, at: At) -> Option<Address> {
        let protocol = match endpoint.scheme {
            config::Scheme::Http => {
                return Some(match &endpoint.address {
                    config::Address::Tcp { host, port } => Address::tcp(host, *port),
                    config::Address::Unix(path) => Address::Unix(path.clone()),
                });
            }
            config::Scheme::Https => "TLS to an endpoint (`https://`)",
            config::Scheme::H2c => "HTTP/2 to an endpoint (`h2c://`)",
        };
        let problem = Problem::error(at, format!("{protocol} is not built yet"));
        self.problems.push(problem.expected("`host:port`, `http://host:port` or `unix:/path`"));
        None
    }

    fn route(&mut self, route: &config::Route) -> Route {
        let (action, upstream) = match &route.action {
            config::Action::Forward(targets) => self.forward(targets),
            config::Action::Redirect(redirect) => (Action::Redirect(self.redirect(route, redirect)), None),
            config::Action::Respond(respond) => (Action::Respond(fixed(respond)), None),
        };
        let path = route.rewrite.path.as_ref();
        let rewrite = Rewrite {
            path: path.and_then(|path| self.path_rewrite(route, &path.value, path.at)),
            host: route.rewrite.host.clone(),
        };
        Route {
            name: name_of(route),
            action,
            rewrite,
            timeouts: timeouts(
                &self.config.timeouts,
                upstream.map(|index| &self.config.upstreams[index].timeouts),
                route,
            ),
            body_limit: route.body_limit.or(self.config.limits.body),
            buffer: route.buffer.clone(),
            upgrade: route.upgrade.clone(),
        }
    }

    /// Endpoints written in place make one upstream together; each named upstream has a share of its own. Says too
    /// which upstream of the config is the only one, if so: its timeouts count.
    fn forward(&mut self, targets: &[config::Target]) -> (Action, Option<usize>) {
        let mut shares: Vec<UpstreamShare> = Vec::new();
        let mut own = Vec::new();
        let mut texts = Vec::new();
        let mut named = Vec::new();
        for target in targets {
            match &target.to {
                TargetKind::Endpoint(endpoint) => {
                    if let Some(address) = self.address(endpoint, target.at) {
                        texts.push(match target.weight {
                            1 => address.to_string(),
                            weight => format!("{address}*{weight}"),
                        });
                        own.push(Endpoint { address, weight: target.weight });
                    }
                }
                TargetKind::Upstream(name) => match self.names.get(name) {
                    Some((upstream, index)) => {
                        shares.push(UpstreamShare { upstream: *upstream, weight: target.weight });
                        named.extend(*index);
                    }
                    None => {
                        let problem = self.unknown_upstream(name, target.at);
                        self.problems.push(problem);
                    }
                },
            }
        }
        if !own.is_empty() {
            let name = texts.join(",");
            let weight = own.iter().map(|endpoint| endpoint.weight).fold(0, u32::saturating_add);
            // The same endpoints in two routes are one upstream, with one pool.
            let upstream = match self.names.get(&name) {
                Some((upstream, _)) => *upstream,
                None => {
                    self.names.insert(name.clone(), (self.upstreams.len(), None));
                    self.upstreams.push(Upstream { name, endpoints: own, pool: Pool::default() });
                    self.upstreams.len() - 1
                }
            };
            shares.push(UpstreamShare { upstream, weight });
        }
        let only = (shares.len() == 1).then(|| named.first().copied()).flatten();
        (Action::Forward(shares), only)
    }

    fn unknown_upstream(&self, name: &str, at: At) -> Problem {
        let problem = Problem::error(at, format!("there is no upstream `{name}`"))
            .expected("a name under `upstreams`, or `host:port`");
        let near = self.config.upstreams.iter().map(|upstream| upstream.name.value.as_str());
        let near = near.map(|other| (strsim::damerau_levenshtein(name, other), other)).min();
        match near {
            Some((distance, other)) if distance <= name.len().div_ceil(3) => {
                problem.help(format!("did you mean `{other}`?"))
            }
            _ => problem,
        }
    }

    fn path_rewrite(
        &mut self,
        route: &config::Route,
        rewrite: &config::PathRewrite,
        at: At,
    ) -> Option<PathRewrite> {
        let matched = route.matches.path.as_ref().map(|path| &path.value);
        match (rewrite, matched) {
            (config::PathRewrite::Full(path), _) => Some(PathRewrite::Full(path.clone())),
            (config::PathRewrite::Prefix(with), matched) => {
                let matched = match matched {
                    Some(config::PathMatch::Prefix(prefix)) => prefix.len(),
                    None => 0,
                    Some(_) => {
                        self.problems.push(
                            Problem::error(at, "a prefix can be replaced only where the route matches one")
                                .help("end the route's path in `/*`, or rewrite the whole `path`"),
                        );
                        return None;
                    }
                };
                Some(PathRewrite::Prefix { matched, with: with.trim_end_matches('/').to_owned() })
            }
            (config::PathRewrite::Regex { pattern, replace }, _) => match regex::bytes::Regex::new(pattern) {
                Ok(pattern) => Some(PathRewrite::Regex { pattern, replace: replace.clone() }),
                Err(error) => {
                    self.problems.push(Problem::error(at, format!("the pattern does not compile: {error}")));
                    None
                }
            },
        }
    }

    fn redirect(&mut self, route: &config::Route, redirect: &config::Redirect) -> Redirect {
        let path = redirect.path.as_ref();
        Redirect {
            status: redirect.status,
            to: redirect.to.clone(),
            scheme: redirect.scheme.clone(),
            host: redirect.host.clone(),
            port: redirect.port,
            path: path.and_then(|path| self.path_rewrite(route, &path.value, path.at)),
        }
    }

    fn spec(&mut self, route: &config::Route, rules: &PathRules) -> RouteSpec {
        let matches = &route.matches;
        let mut normal = |path: &str, at: At| {
            let mut out = Vec::new();
            // The empty prefix is the root's.
            if path.is_empty() {
                return String::new();
            }
            match normalise(path.as_bytes(), rules, &mut out) {
                Ok(Normalised::Unchanged) => path.to_owned(),
                Ok(Normalised::Changed) => String::from_utf8_lossy(&out).into_owned(),
                Err(error) => {
                    let problem =
                        Problem::error(at, format!("no request can have this path: {}", error.as_str()));
                    self.problems.push(problem.help("`docs/paths.md` has the rule of each byte"));
                    path.to_owned()
                }
            }
        };
        RouteSpec {
            host: matches.host.as_ref().map(|host| host.value.clone()),
            path: match matches.path.as_ref().map(|path| (&path.value, path.at)) {
                None => PathSpec::Any,
                Some((config::PathMatch::Exact(path), at)) => PathSpec::Exact(normal(path, at)),
                Some((config::PathMatch::Prefix(path), at)) => PathSpec::Prefix(normal(path, at)),
                Some((config::PathMatch::Regex(pattern), _)) => PathSpec::Regex(pattern.clone()),
            },
            methods: matches.methods.clone(),
            headers: matches.headers.iter().map(field_spec).collect(),
            query: matches.query.iter().map(field_spec).collect(),
        }
    }

    fn tie(&self, tie: &tollgate_route::Tie) -> Problem {
        let at = |route: u32| self.config.routes[route as usize].matches.at;
        let message = "this route and an earlier one are equally specific, and a request can match both";
        Problem::warning(at(tie.second), message).see(at(tie.first), "the earlier one wins where both match")
    }

    fn router_error(&self, error: &tollgate_route::BuildError) -> Problem {
        let at = |route: u32| self.config.routes[route as usize].matches.at;
        match error {
            tollgate_route::BuildError::Identical { first, second } => {
                Problem::error(at(*second), "this match is identical to an earlier one: it could never win")
                    .see(at(*first), "the earlier one")
            }
            other => Problem::error(at(other.route()), other.to_string()),
        }
    }
}

/// A route without a name is called by its match.
fn name_of(route: &config::Route) -> String {
    if let Some(name) = &route.name {
        return name.value.clone();
    }
    let host = route.matches.host.as_ref().map_or("", |host| host.value.as_str());
    let path = match route.matches.path.as_ref().map(|path| &path.value) {
        None => "/*".to_owned(),
        Some(config::PathMatch::Exact(path)) => path.clone(),
        Some(config::PathMatch::Prefix(path)) => format!("{path}/*"),
        Some(config::PathMatch::Regex(pattern)) => format!("~{pattern}"),
    };
    let methods = route.matches.methods.join(",");
    let space = if methods.is_empty() { "" } else { " " };
    format!("{methods}{space}{host}{path}")
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

fn field_spec(field: &config::FieldMatch) -> FieldSpec {
    let value = match &field.value {
        config::ValueMatch::Present => ValueSpec::Present,
        config::ValueMatch::Absent => ValueSpec::Absent,
        config::ValueMatch::Exact(text) => ValueSpec::Exact(text.clone()),
        config::ValueMatch::Regex(pattern) => ValueSpec::Regex(pattern.clone()),
    };
    FieldSpec { name: field.name.clone(), value }
}

fn fixed(respond: &config::Respond) -> Respond {
    let mut headers = Vec::new();
    for (name, value) in &respond.headers {
        headers.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    let typed = respond.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !typed && !respond.body.is_empty() {
        headers.extend_from_slice(b"Content-Type: text/plain; charset=utf-8\r\n");
    }
    Respond { status: respond.status, headers, body: respond.body.clone() }
}

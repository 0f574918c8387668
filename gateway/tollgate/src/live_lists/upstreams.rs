//! The list of upstreams: `GET /api/v1/live/upstreams`.
//!
//! A row is an upstream with its state, its counts and a part of its endpoints.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_config::kind;
use tollgate_observe::live::{Figures, UpstreamLimitsLive, UpstreamLive, UpstreamState, endpoint_states};
use tollgate_plan::Plan;

use super::page::{Direction, Page, answer, directed, paged};
use crate::admin_context::AdminContext;

/// Endpoints of an upstream unless the client sets `endpoints`.
const ENDPOINTS_DEFAULT: usize = 20;

/// Bound of the endpoints of an upstream.
const ENDPOINTS_MAX: usize = 1_000;

/// The query parameters of the list of upstreams.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamQuery {
    /// Only upstreams whose name, or the address of an endpoint, contains this text, in any case.
    q: Option<String>,
    state: Option<UpstreamFilter>,
    #[serde(default)]
    sort: UpstreamSort,
    order: Option<Direction>,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
    /// The most endpoints of each upstream.
    endpoints: Option<usize>,
}

/// The selected state of upstreams.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum UpstreamFilter {
    /// `unavailable` or `degraded`.
    Unhealthy,
    Unavailable,
    Degraded,
    Unknown,
    Available,
}

/// The order of upstreams.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum UpstreamSort {
    #[default]
    Name,
    /// The worst first, if ascending.
    State,
    Rate,
    Errors,
    P50,
    P99,
    Requests,
    Connections,
    Waiting,
}

/// `GET /api/v1/live/upstreams`.
pub async fn upstreams(
    State(context): State<AdminContext>,
    Query(query): Query<UpstreamQuery>,
    headers: HeaderMap,
) -> Response {
    answer(&headers, move || upstream_page(&context, &query)).await
}

/// Returns the limits of each upstream of a plan, by name.
pub fn upstream_limits(plan: &Plan) -> HashMap<String, UpstreamLimitsLive> {
    let limits = plan.upstreams.iter().map(|upstream| {
        let caps = &upstream.rules.caps;
        let limits = UpstreamLimitsLive {
            connections: caps.connections,
            endpoint_connections: caps.endpoint_connections,
            requests: caps.requests,
        };
        (upstream.name.to_string(), limits)
    });
    limits.collect()
}

fn upstream_page(context: &AdminContext, query: &UpstreamQuery) -> Page {
    let Figures { time, window, upstreams, .. } = context.admin.registry.figures();
    let rate =
        upstreams.iter().filter_map(|upstream| Some(upstream.recent?.rate)).fold(0.0, |sum, rate| sum + rate);
    let listed = kind("upstreams").map(|kind| context.view.list(kind)).unwrap_or_default();
    let named: HashSet<&str> = listed.iter().map(|item| item.name()).collect();
    let counted: HashSet<String> = upstreams.iter().map(|upstream| upstream.name.clone()).collect();
    // An upstream that no route uses has no state yet.
    let unused = listed.iter().filter(|item| !counted.contains(item.name()));
    let unused = unused.map(|item| UpstreamLive { name: item.name().to_owned(), ..UpstreamLive::default() });
    let mut rows: Vec<(UpstreamState, UpstreamLive)> = upstreams
        .into_iter()
        .map(|upstream| (upstream.state(), upstream))
        .chain(unused.map(|upstream| (UpstreamState::Unknown, upstream)))
        .collect();
    let total = rows.len();
    let wanted = query.q.as_deref().unwrap_or_default().trim().to_lowercase();
    rows.retain(|(state, upstream)| {
        query.state.is_none_or(|filter| is_in(*state, filter))
            && (wanted.is_empty()
                || upstream.name.to_lowercase().contains(&wanted)
                || upstream.endpoints.iter().any(|it| it.address.to_lowercase().contains(&wanted)))
    });
    let ascending = matches!(query.sort, UpstreamSort::Name | UpstreamSort::State);
    let order = query.order.unwrap_or(if ascending { Direction::Asc } else { Direction::Desc });
    rows.sort_by(|(state, one), (other_state, other)| {
        let least_first = match query.sort {
            UpstreamSort::State => state.cmp(other_state),
            sort => compare(one, other, sort),
        };
        directed(least_first, order).then_with(|| one.name.cmp(&other.name))
    });
    let found = rows.len();
    let limits = upstream_limits(&context.plan.borrow());
    let endpoints_max = query.endpoints.unwrap_or(ENDPOINTS_DEFAULT).min(ENDPOINTS_MAX);
    let items = paged(rows, query.offset, query.limit);
    let items = items.map(|(state, upstream)| {
        let configured = named.contains(upstream.name.as_str());
        upstream_row(state, upstream, configured, &limits, endpoints_max)
    });
    let items = items.collect();
    Page { time, window, total, found, offset: query.offset, rate, items }
}

fn is_in(state: UpstreamState, filter: UpstreamFilter) -> bool {
    match filter {
        UpstreamFilter::Unhealthy => state <= UpstreamState::Degraded,
        UpstreamFilter::Unavailable => state == UpstreamState::Unavailable,
        UpstreamFilter::Degraded => state == UpstreamState::Degraded,
        UpstreamFilter::Unknown => state == UpstreamState::Unknown,
        UpstreamFilter::Available => state == UpstreamState::Available,
    }
}

fn compare(one: &UpstreamLive, other: &UpstreamLive, sort: UpstreamSort) -> Ordering {
    let recent = |of: &UpstreamLive| of.recent.unwrap_or_default();
    let sum = |of: &UpstreamLive| of.endpoints.iter().map(|endpoint| endpoint.requests).sum::<u64>();
    let time = |of: &UpstreamLive, slow: bool| {
        let recent = recent(of);
        if slow { recent.p99 } else { recent.p50 }.unwrap_or_default()
    };
    match sort {
        UpstreamSort::Name | UpstreamSort::State => one.name.cmp(&other.name),
        UpstreamSort::Rate => {
            recent(one).rate.total_cmp(&recent(other).rate).then_with(|| sum(one).cmp(&sum(other)))
        }
        UpstreamSort::Errors => recent(one).errors.total_cmp(&recent(other).errors),
        UpstreamSort::P50 => time(one, false).total_cmp(&time(other, false)),
        UpstreamSort::P99 => time(one, true).total_cmp(&time(other, true)),
        UpstreamSort::Requests => sum(one).cmp(&sum(other)),
        UpstreamSort::Connections => (one.active + one.idle).cmp(&(other.active + other.idle)),
        UpstreamSort::Waiting => one.waiting.cmp(&other.waiting),
    }
}

fn upstream_row(
    state: UpstreamState,
    mut upstream: UpstreamLive,
    configured: bool,
    limits: &HashMap<String, UpstreamLimitsLive>,
    endpoints_max: usize,
) -> Value {
    if let Some(limits) = limits.get(upstream.name.as_str()) {
        upstream.limits = limits.clone();
    }
    let states = json!(endpoint_states(&upstream));
    let requests: u64 = upstream.endpoints.iter().map(|endpoint| endpoint.requests).sum();
    if upstream.endpoints.len() > endpoints_max {
        // The ones that need attention stay.
        upstream.endpoints.sort_by_key(|endpoint| match endpoint.state.as_str() {
            "unhealthy" => 0,
            "ejected" => 1,
            _ => 2,
        });
        upstream.endpoints_left_out += upstream.endpoints.len() - endpoints_max;
        upstream.endpoints.truncate(endpoints_max);
    }
    let mut row = json!(upstream);
    row["state"] = state.as_str().into();
    row["states"] = states;
    row["configured"] = configured.into();
    row["requests"] = requests.into();
    row
}

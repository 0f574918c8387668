//! Reads `proxy_protocol` of an upstream.

use crate::model::{ProxyProtocol, Scheme, Upstream};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};

/// Reads the version, and reports settings that conflict with it: a connection then identifies one client and
/// carries a single request.
pub(super) fn proxy_protocol(
    reader: &mut Reader,
    field: Field<'_>,
    fields: &Fields<'_>,
    upstream: &Upstream,
) -> Option<ProxyProtocol> {
    let version = match reader.word(Some(field))? {
        "v1" => ProxyProtocol::V1,
        "v2" => ProxyProtocol::V2,
        _ => return None,
    };
    let prior = upstream.endpoints.iter().find(|endpoint| endpoint.address.value.scheme == Scheme::H2c);
    let http2 = upstream.http2.as_ref().filter(|http2| http2.value).map(|http2| http2.at);
    if let Some(at) = http2.or(prior.map(|endpoint| endpoint.address.at)) {
        let problem = Problem::error(field.at, "`proxy_protocol` conflicts with HTTP/2 endpoints");
        let problem = problem.help(
            "an HTTP/2 connection carries requests of many clients, but the header names one: use \
            `X-Forwarded-For`",
        );
        reader.problems.push(problem.related(at, "HTTP/2 is set here"));
    }
    if let Some(pool) = fields.get("pool") {
        match pool.node.entry("warm").filter(|_| upstream.pool.warm > 0) {
            Some(warm) => {
                let problem = Problem::error(warm.at, "`warm` conflicts with `proxy_protocol`");
                let problem = problem.help("the header names a client, and a warm connection has none");
                reader.problems.push(problem.related(field.at, "`proxy_protocol` is here"));
            }
            None => {
                let problem = Problem::warning(pool.at, "`pool` has no effect with `proxy_protocol`");
                let problem =
                    problem.help("a connection with the header carries one request and is then closed");
                reader.problems.push(problem.related(field.at, "`proxy_protocol` is here"));
            }
        }
    }
    Some(version)
}

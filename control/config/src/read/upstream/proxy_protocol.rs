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
        let problem =
            Problem::error(field.at, "`proxy_protocol` does not go with endpoints that speak HTTP/2");
        let problem = problem.help(
            "a connection in HTTP/2 carries the requests of many clients, and a header names one: they are told of each \
             client by `X-Forwarded-For`",
        );
        reader.problems.push(problem.see(at, "they speak HTTP/2"));
    }
    if let Some(pool) = fields.get("pool") {
        match pool.node.entry("warm").filter(|_| upstream.pool.warm > 0) {
            Some(warm) => {
                let problem = Problem::error(warm.at, "`warm` does not go with `proxy_protocol`");
                let problem = problem.help("before there is a client no header can name it");
                reader.problems.push(problem.see(field.at, "connections begin with a header"));
            }
            None => {
                let problem = Problem::warning(pool.at, "`pool` does nothing with `proxy_protocol`");
                let problem =
                    problem.help("a connection that names a client carries one request and is closed");
                reader.problems.push(problem.see(field.at, "connections begin with a header"));
            }
        }
    }
    Some(version)
}

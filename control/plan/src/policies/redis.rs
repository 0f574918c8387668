//! Compiles `redis`, for policies that count across several gateways.

use tollgate_config as config;
use tollgate_config::Problem;
use tollgate_policy::{OnFailure, RedisRule, RedisServers};

pub(super) fn redis(redis: &config::Redis, problems: &mut Vec<Problem>) -> RedisRule {
    let secret = |secret: &Option<config::Secret>| secret.as_ref().map(|secret| secret.reveal().to_owned());
    let place = match &redis.place {
        config::RedisAddress::Url(url) => {
            if let Err(why) = RedisRule::check(url.reveal()) {
                let expected = "a URL such as `redis://user:password@host:6379/0`: a port up to 65535, a number as the database";
                problems.push(Problem::error(redis.at, why).expected(expected));
            }
            RedisServers::One { url: url.reveal().to_owned() }
        }
        config::RedisAddress::Sentinel(place) => RedisServers::Sentinel {
            master: place.master.clone(),
            sentinels: place.addresses.clone(),
            login: (place.sentinel_user.clone(), secret(&place.sentinel_password)),
            sentinel_tls: place.sentinel_tls,
            user: place.user.clone(),
            database: place.database,
            tls: place.tls,
        },
        config::RedisAddress::Cluster { nodes, user, tls } => {
            RedisServers::Cluster { nodes: nodes.clone(), user: user.clone(), tls: *tls }
        }
    };
    RedisRule {
        servers: place,
        password: secret(&redis.password),
        timeout: redis.timeout,
        on_failure: match redis.on_failure {
            config::OnFailure::Local => OnFailure::Local,
            config::OnFailure::Open => OnFailure::Open,
            config::OnFailure::Closed => OnFailure::Closed,
        },
        prefix: redis.prefix.clone(),
    }
}

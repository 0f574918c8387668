//! `redis` of policies that count for several gateways.

use tollgate_config as config;
use tollgate_policy::{OnFailure, RedisRule};

pub(super) fn redis(redis: &config::Redis) -> RedisRule {
    RedisRule {
        url: redis.url.reveal().to_owned(),
        password: redis.password.as_ref().map(|password| password.reveal().to_owned()),
        timeout: redis.timeout,
        on_failure: match redis.on_failure {
            config::OnFailure::Local => OnFailure::Local,
            config::OnFailure::Open => OnFailure::Open,
            config::OnFailure::Closed => OnFailure::Closed,
        },
        prefix: redis.prefix.clone(),
    }
}

//! `redis` of policies that count for several gateways.

use tollgate_config as config;
use tollgate_config::Problem;
use tollgate_policy::{OnFailure, RedisRule};

pub(super) fn redis(redis: &config::Redis, problems: &mut Vec<Problem>) -> RedisRule {
    if let Err(why) = RedisRule::check(redis.url.reveal()) {
        let expected =
            "a URL such as `redis://user:password@host:6379/0`: a port up to 65535, a number as the database";
        problems.push(Problem::error(redis.at, why).expected(expected));
    }
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

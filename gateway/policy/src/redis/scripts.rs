//! The questions to Redis. Each is one script, which Redis runs atomically and by its own clock. Each script
//! has one key, so a single node of a cluster can run it.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

/// Takes from a rate. `KEYS[1]` is the time at which the bucket is full, in microseconds since a fixed time;
/// the offset keeps fractions of a microsecond precise in Lua's numbers. The arguments are the interval, the
/// tolerance, the wanted and the least amount, and the ceiling. Returns the granted amount, and the
/// microseconds until the bucket is full. Reported costs may take the bucket beyond the tolerance; [`ADJUST`]
/// bounds that.
static RATE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local time = redis.call('TIME')
local now = (time[1] - 1700000000) * 1000000 + time[2]
local interval, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local stored = tonumber(redis.call('GET', KEYS[1]) or '0')
-- Further ahead than it can be filled it is where the clock was set back. That is written too, or it would never empty.
local full = math.min(math.max(stored, now), now + tonumber(ARGV[5]))
local room = math.floor((tolerance - (full - now)) / interval + 0.000001)
local got = math.max(0, math.min(room, tonumber(ARGV[3])))
if got < tonumber(ARGV[4]) then got = 0 end
if got > 0 or stored > full then
    full = full + got * interval
    redis.call('SET', KEYS[1], string.format('%.4f', full), 'PX', math.ceil((full - now) / 1000) + 1)
end
return {got, math.ceil(full - now)}
",
    )
});

/// Corrects a rate. `KEYS[1]` is the same as for [`RATE`]. The arguments are the microseconds to add, which
/// may be negative, and the maximum distance into the future.
static ADJUST: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local time = redis.call('TIME')
local now = (time[1] - 1700000000) * 1000000 + time[2]
local stored = tonumber(redis.call('GET', KEYS[1]) or '0')
local full = math.min(math.max(stored, now) + tonumber(ARGV[1]), now + tonumber(ARGV[2]))
if full > now then
    redis.call('SET', KEYS[1], string.format('%.4f', full), 'PX', math.ceil((full - now) / 1000) + 1)
else
    redis.call('DEL', KEYS[1])
end
return {1, math.max(0, math.ceil(full - now))}
",
    )
});

/// Takes from a quota. `KEYS[1]` is the count. The arguments are the limit, the milliseconds for which the
/// count is kept, and the cost. Returns whether the request passes, and the new count.
static QUOTA: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local came = tonumber(redis.call('GET', KEYS[1]) or '0')
if came + tonumber(ARGV[3]) > tonumber(ARGV[1]) then return {0, came} end
local new = came == 0
came = redis.call('INCRBY', KEYS[1], ARGV[3])
if new then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {1, came}
",
    )
});

/// Corrects a quota. `KEYS[1]` is the count. The arguments are the difference, which may be negative, and the
/// milliseconds for which the count is kept.
static RECOUNT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local came = tonumber(redis.call('GET', KEYS[1]) or '0')
local more = math.max(tonumber(ARGV[1]), -came)
if more ~= 0 then
    redis.call('INCRBY', KEYS[1], string.format('%.0f', more))
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, came + more}
",
    )
});

/// A question to the store.
#[derive(Clone, Debug)]
pub(crate) enum StoreCall {
    /// Takes an amount from a rate.
    Rate {
        /// The key of the bucket.
        key: Vec<u8>,
        /// The interval between two requests, in microseconds.
        interval: f64,
        /// The time in which an empty bucket fills, in microseconds.
        tolerance: f64,
        /// The wanted amount.
        want: u64,
        /// The least useful amount; if less is available, nothing is taken.
        least: u64,
        /// The time in which a bucket with the maximum deficit fills, in microseconds.
        ceiling: f64,
    },
    /// Corrects the amount that was taken from a rate.
    Adjust {
        /// The key of the bucket.
        key: Vec<u8>,
        /// The time to add until the bucket is full, in microseconds; may be negative.
        amount: f64,
        /// The maximum time until the bucket is full, in microseconds.
        ceiling: f64,
    },
    /// Takes an amount from a quota.
    Quota {
        /// The key of the count, which contains the period.
        key: Vec<u8>,
        /// The limit of the quota.
        limit: u64,
        /// The milliseconds for which the count is kept.
        keep: u64,
        /// The cost of the request.
        cost: u64,
    },
    /// Corrects the amount that was taken from a quota.
    Recount {
        /// The key of the count, which contains the period.
        key: Vec<u8>,
        /// The difference to add; may be negative.
        more: i64,
        /// The milliseconds for which the count is kept.
        keep: u64,
    },
}

impl StoreCall {
    pub async fn ask(&self, connection: &mut impl ConnectionLike) -> RedisResult<(i64, i64)> {
        match self {
            StoreCall::Rate { key, interval, tolerance, want, least, ceiling } => {
                let mut call = RATE.key(key.as_slice());
                call.arg(format!("{interval:.6}")).arg(format!("{tolerance:.6}"));
                call.arg(*want).arg(*least).arg(format!("{ceiling:.6}"));
                call.invoke_async(connection).await
            }
            StoreCall::Adjust { key, amount, ceiling } => {
                let mut call = ADJUST.key(key.as_slice());
                call.arg(format!("{amount:.6}")).arg(format!("{ceiling:.6}"));
                call.invoke_async(connection).await
            }
            StoreCall::Quota { key, limit, keep, cost } => {
                let mut call = QUOTA.key(key.as_slice());
                call.arg(*limit).arg(*keep).arg(*cost);
                call.invoke_async(connection).await
            }
            StoreCall::Recount { key, more, keep } => {
                let mut call = RECOUNT.key(key.as_slice());
                call.arg(*more).arg(*keep);
                call.invoke_async(connection).await
            }
        }
    }
}

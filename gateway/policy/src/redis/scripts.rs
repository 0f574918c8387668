//! Questions to Redis. Each is one script, which Redis runs atomically and by its own clock. Each script has one key, so a
//! single node of a cluster can run it.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

/// `KEYS[1]` is when the bucket is full, in microseconds since a fixed time: that is what a number of Lua's still tells in parts.
/// Given the interval, the tolerance, how many are wanted and how many at least, how many may, and after how many microseconds it
/// is full. What responses have cost can have taken it further ahead than the tolerance, which is bounded when that is written.
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

/// `KEYS[1]` is as of [`RATE`]. Given the microseconds that it is to be further ahead, which may be fewer than none, and how far
/// ahead it may be at most.
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

/// `KEYS[1]` is how many came. Given how many may, for how many milliseconds it is kept and how many this one is: whether it may,
/// and how many came then.
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

/// `KEYS[1]` is how many came. Given how many more those are, or fewer, and for how many milliseconds it is kept.
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

/// What it is asked.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// So many of a rate.
    Rate {
        /// Its key.
        key: Vec<u8>,
        /// Between two, in microseconds.
        interval: f64,
        /// From empty to full, in microseconds.
        tolerance: f64,
        /// How many are wanted.
        want: u64,
        /// How many at least, or none.
        least: u64,
        /// From as far below nothing as responses can take it to full, in microseconds.
        ceiling: f64,
    },
    /// More or less of a rate than was taken.
    Adjust {
        /// Its key.
        key: Vec<u8>,
        /// How much longer until it is full, in microseconds.
        amount: f64,
        /// How long that can be at most, in microseconds.
        ceiling: f64,
    },
    /// Some of a quota.
    Quota {
        /// Its key, with the period in it.
        key: Vec<u8>,
        /// How many there are.
        limit: u64,
        /// Milliseconds until the period is over.
        keep: u64,
        /// How many this request is.
        cost: u64,
    },
    /// More or less of a quota than was taken.
    Recount {
        /// Its key, with the period in it.
        key: Vec<u8>,
        /// How many more.
        more: i64,
        /// Milliseconds until the period is over.
        keep: u64,
    },
}

impl Question {
    pub async fn ask(&self, connection: &mut impl ConnectionLike) -> RedisResult<(i64, i64)> {
        match self {
            Question::Rate { key, interval, tolerance, want, least, ceiling } => {
                let mut call = RATE.key(key.as_slice());
                call.arg(format!("{interval:.6}")).arg(format!("{tolerance:.6}"));
                call.arg(*want).arg(*least).arg(format!("{ceiling:.6}"));
                call.invoke_async(connection).await
            }
            Question::Adjust { key, amount, ceiling } => {
                let mut call = ADJUST.key(key.as_slice());
                call.arg(format!("{amount:.6}")).arg(format!("{ceiling:.6}"));
                call.invoke_async(connection).await
            }
            Question::Quota { key, limit, keep, cost } => {
                let mut call = QUOTA.key(key.as_slice());
                call.arg(*limit).arg(*keep).arg(*cost);
                call.invoke_async(connection).await
            }
            Question::Recount { key, more, keep } => {
                let mut call = RECOUNT.key(key.as_slice());
                call.arg(*more).arg(*keep);
                call.invoke_async(connection).await
            }
        }
    }
}

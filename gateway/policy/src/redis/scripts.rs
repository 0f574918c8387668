//! What a Redis is asked, each as one script: it decides by its own clock, and atomically.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Script};

/// `KEYS[1]` is when the bucket is full, in microseconds since a fixed time: that is what a number of Lua's still tells in parts.
/// Given the interval, the tolerance and how many are wanted: how many may, and after how many microseconds it is full.
static RATE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local time = redis.call('TIME')
local now = (time[1] - 1700000000) * 1000000 + time[2]
local interval, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local stored = tonumber(redis.call('GET', KEYS[1]) or '0')
-- Further ahead than it can be filled it is where the clock was set back. That is written too, or it would never empty.
local full = math.min(math.max(stored, now), now + tolerance)
local room = math.floor((tolerance - (full - now)) / interval + 0.000001)
local got = math.max(0, math.min(room, tonumber(ARGV[3])))
if got > 0 or stored > full then
    full = full + got * interval
    redis.call('SET', KEYS[1], string.format('%.4f', full), 'PX', math.ceil((full - now) / 1000) + 1)
end
return {got, math.ceil(full - now)}
",
    )
});

/// `KEYS[1]` is how many came. Given how many may and for how many milliseconds it is kept: whether one more may, and how many
/// came then.
static QUOTA: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local came = tonumber(redis.call('GET', KEYS[1]) or '0')
if came >= tonumber(ARGV[1]) then return {0, came} end
came = redis.call('INCR', KEYS[1])
if came == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {1, came}
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
        want: u32,
    },
    /// One of a quota.
    Quota {
        /// Its key, with the period in it.
        key: Vec<u8>,
        /// How many there are.
        limit: u64,
        /// Milliseconds until the period is over.
        keep: u64,
    },
}

impl Question {
    pub async fn ask(&self, connection: &mut MultiplexedConnection) -> RedisResult<(i64, i64)> {
        match self {
            Question::Rate { key, interval, tolerance, want } => {
                let mut call = RATE.key(key.as_slice());
                call.arg(format!("{interval:.6}")).arg(format!("{tolerance:.6}")).arg(*want);
                call.invoke_async(connection).await
            }
            Question::Quota { key, limit, keep } => {
                let mut call = QUOTA.key(key.as_slice());
                call.arg(*limit).arg(*keep);
                call.invoke_async(connection).await
            }
        }
    }
}

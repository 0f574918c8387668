//! Checks the numbers of settings, and combinations that cannot be measured, such as HTTP/2 without TLS.
//! `study` calls it for every point, with the settings of each arm.

use crate::settings::{OriginKind, Settings};

/// The highest value of any count.
const COUNT_MAX: u64 = 100_000_000;

/// The most addresses of the generator: what fits into the last octet of an address.
const SOURCES_MAX: u32 = 250;

/// The longest time; a longer one is surely a mistake.
const TIME_MAX_SECONDS: f64 = 86_400.0;

/// Returns a message about the first setting whose number is out of range or does not fit the other settings;
/// `None` if there is none.
pub(crate) fn out_of_range(settings: &Settings) -> Option<String> {
    counts(settings)
        .or_else(|| recording(settings))
        .or_else(|| generator(settings))
        .or_else(|| protocols(settings))
        .or_else(|| origin(settings))
        .or_else(|| times(settings))
}

fn counts(settings: &Settings) -> Option<String> {
    let counts = [
        ("connections", settings.connections().into()),
        ("threads", settings.threads().into()),
        ("rounds", settings.rounds().into()),
        ("workers", settings.workers().into()),
        ("target_cores", settings.target_cores().into()),
        ("origins", settings.origins().into()),
        ("origin_workers", settings.origin_workers().into()),
        ("origin_kept", settings.origin_kept.unwrap_or(1).into()),
        ("chain", settings.chain().into()),
        ("routes", settings.routes().into()),
        ("requests", settings.requests.unwrap_or(1)),
        ("streams", settings.streams().into()),
    ];
    if let Some((name, _)) = counts.into_iter().find(|(_, count): &(&str, u64)| *count == 0) {
        return Some(format!("`{name}` is 0: expected at least 1"));
    }
    if let Some((name, count)) = counts.into_iter().find(|(_, count): &(&str, u64)| *count > COUNT_MAX) {
        return Some(format!("`{name}` is {count}: expected at most {COUNT_MAX}"));
    }
    if !(1..=SOURCES_MAX).contains(&settings.sources()) {
        return Some(format!("`sources` is {}: expected 1 to {SOURCES_MAX}", settings.sources()));
    }
    None
}

fn recording(settings: &Settings) -> Option<String> {
    if settings.replay.is_some() && settings.rate.is_some() {
        return Some("both `replay` and `rate`: a recording has times of its own".into());
    }
    if settings.replay_speed.is_some() && settings.replay.is_none() {
        return Some("`replay_speed` needs `replay`".into());
    }
    if !(settings.replay_speed() > 0.0 && settings.replay_speed().is_finite()) {
        return Some(format!("`replay_speed` is {}: expected a factor above 0", settings.replay_speed()));
    }
    None
}

/// Checks the settings that only the built-in generator has.
fn generator(settings: &Settings) -> Option<String> {
    let own = [
        ("ramp", settings.ramp.is_some()),
        ("sources", settings.sources.is_some()),
        ("replay", settings.replay.is_some()),
    ];
    let (name, _) = own.into_iter().find(|(_, is_set)| *is_set && settings.tool() != "builtin")?;
    Some(format!("`{name}` needs `tool: builtin`: {} has no such option", settings.tool()))
}

/// Checks the version of HTTP, and gRPC.
fn protocols(settings: &Settings) -> Option<String> {
    if !(1..=2).contains(&settings.http()) {
        return Some(format!("`http` is {}: expected 1 or 2", settings.http()));
    }
    if settings.streams() > 1 && settings.http() != 2 {
        return Some(
            "`streams` needs `http: 2`: a connection of HTTP/1 carries one request at a time".into(),
        );
    }
    if settings.http() == 2 && !settings.tls() {
        return Some("`http: 2` needs the feature `tls`: not every system takes HTTP/2 in plain text".into());
    }
    if settings.grpc_streams() && settings.tool() != "builtin" {
        return Some(format!(
            "`origin: grpc-stream` needs `tool: builtin`: {} keeps no stream open",
            settings.tool()
        ));
    }
    if settings.grpc_streams() && settings.response_body.is_some() {
        return Some(
            "with `origin: grpc-stream`, each message comes back: `response_body` cannot be set".into(),
        );
    }
    if settings.http() == 2 && settings.tool() != "h2load" && !settings.grpc_streams() {
        return Some(format!(
            "`http: 2` needs `tool: h2load`: {} speaks only HTTP/1",
            if settings.tool() == "builtin" { "the built-in generator" } else { settings.tool() }
        ));
    }
    if settings.grpc() && settings.http() != 2 {
        return Some("the origins `grpc` and `grpc-stream` need `http: 2`: gRPC has no other".into());
    }
    if settings.grpc() && (settings.method.is_some() || settings.origin_status() != 200) {
        return Some("with gRPC, requests are POST and answers 200: neither can be set".into());
    }
    None
}

/// Checks what the origin must speak.
fn origin(settings: &Settings) -> Option<String> {
    if settings.http2_origin() && settings.origin() == OriginKind::Builtin {
        return Some(
            "`http2_origin` needs `origin: nginx` or `origin: grpc`: the built-in one speaks only HTTP/1"
                .into(),
        );
    }
    if settings.http2_origin() && settings.chain() > 1 {
        return Some(
            "`http2_origin` needs `chain: 1`: the copies of a chain speak HTTP/1 to each other".into(),
        );
    }
    if settings.passthrough() && (settings.origin() != OriginKind::Nginx || settings.chain() > 1) {
        return Some("`passthrough` needs `origin: nginx` and `chain: 1`: no other origin speaks TLS".into());
    }
    if settings.passthrough() && !settings.tls() {
        return Some("`passthrough` needs `tls`: clients must speak it".into());
    }
    None
}

fn times(settings: &Settings) -> Option<String> {
    let times = [
        ("seconds", settings.seconds()),
        ("timeout", settings.timeout()),
        ("warm_up", settings.warm_up()),
        ("ramp", settings.ramp()),
        ("until_steady", settings.until_steady.unwrap_or(0.0)),
    ];
    if let Some((name, seconds)) = times.into_iter().find(|(_, seconds)| *seconds > TIME_MAX_SECONDS) {
        return Some(format!("`{name}` is {seconds}: expected at most {TIME_MAX_SECONDS} seconds, a day"));
    }
    let spans = [
        ("seconds", Some(settings.seconds())),
        ("timeout", settings.timeout),
        ("until_steady", settings.until_steady),
        ("rate", settings.rate),
        ("quota", settings.quota),
        ("origin_quota", settings.origin_quota),
    ];
    let above = |number: f64| number.is_finite() && number > 0.0;
    for (name, number) in spans {
        if let Some(number) = number.filter(|number| !above(*number)) {
            return Some(format!("`{name}` is {number}: expected a number above 0"));
        }
    }
    [("warm_up", settings.warm_up()), ("ramp", settings.ramp())]
        .into_iter()
        .find(|(_, seconds)| !(seconds.is_finite() && *seconds >= 0.0))
        .map(|(name, seconds)| format!("`{name}` is {seconds}: expected 0 or more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_measures_nothing_is_named() {
        assert_eq!(out_of_range(&Settings::default()), None);
        let reported = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            out_of_range(&settings).unwrap_or_default()
        };
        assert_eq!(reported(|s| s.rounds = Some(0)), "`rounds` is 0: expected at least 1");
        assert_eq!(reported(|s| s.requests = Some(0)), "`requests` is 0: expected at least 1");
        assert_eq!(reported(|s| s.seconds = Some(-1.0)), "`seconds` is -1: expected a number above 0");
        assert_eq!(reported(|s| s.rate = Some(f64::NAN)), "`rate` is NaN: expected a number above 0");
        assert_eq!(
            reported(|s| s.warm_up = Some(f64::INFINITY)),
            "`warm_up` is inf: expected at most 86400 seconds, a day"
        );
        let http2_origin = Some(vec!["http2_origin".to_owned()]);
        let mut settings = Settings { features: http2_origin, ..Settings::default() };
        assert_eq!(out_of_range(&settings), None);
        settings.origin = Some(OriginKind::Builtin);
        assert_eq!(
            out_of_range(&settings).unwrap_or_default(),
            "`http2_origin` needs `origin: nginx` or `origin: grpc`: the built-in one speaks only HTTP/1"
        );
        let streams = Settings {
            origin: Some(OriginKind::GrpcStream),
            http: Some(2),
            streams: Some(25),
            features: Some(vec!["tls".to_owned()]),
            request_body: Some(1024),
            ..Settings::default()
        };
        assert_eq!((out_of_range(&streams), streams.response_body()), (None, 1024));
        let other = |change: fn(&mut Settings)| {
            let mut settings = streams.clone();
            change(&mut settings);
            out_of_range(&settings).unwrap_or_default()
        };
        assert!(
            other(|s| s.tool = Some("h2load".into()))
                .starts_with("`origin: grpc-stream` needs `tool: builtin`")
        );
        assert!(other(|s| s.response_body = Some(9)).ends_with("`response_body` cannot be set"));
        assert!(other(|s| (s.http, s.streams) = (None, None)).ends_with("gRPC has no other"));
        (settings.origin, settings.chain) = (None, Some(2));
        assert!(out_of_range(&settings).unwrap_or_default().starts_with("`http2_origin` needs `chain: 1`"));
        assert_eq!(reported(|s| s.warm_up = Some(0.0)), "");
        assert_eq!(reported(|s| s.ramp = Some(-1.0)), "`ramp` is -1: expected 0 or more");
        assert_eq!(reported(|s| s.sources = Some(251)), "`sources` is 251: expected 1 to 250");
        assert_eq!(
            reported(|s| (s.tool, s.sources) = (Some("wrk".into()), Some(2))),
            "`sources` needs `tool: builtin`: wrk has no such option"
        );
    }
}

//! Checks a run after its end: the records of clients, origins and the gateway's log must agree, and every
//! rule must hold.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_observe::Snapshot;

use crate::gateway::Line;
use crate::recorder::{Asked, Delivery, Got, RunRecord, StreamEnd};
use crate::scenario::{Event, Leave, Mood, Scenario, cookie};

/// Returns a description of everything that is wrong with a run; empty if nothing is.
#[must_use]
pub fn audit(
    scenario: &Scenario,
    record: &RunRecord,
    mut lines: Vec<Line>,
    counts: &Snapshot,
) -> Vec<String> {
    if let Some(sabotage) = scenario.sabotage {
        sabotage.tamper(&mut lines);
    }
    let (streams, lines): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(|line| line.is_stream);
    let mut wrong = record.violations.clone();
    deliveries(record, &mut wrong);
    log(scenario, record, &lines, counts, &mut wrong);
    counters(counts, &mut wrong);
    sticky(scenario, record, &mut wrong);
    promises(scenario, record, &mut wrong);
    hedges(scenario, record, &mut wrong);
    pressure(record, &mut wrong);
    stream_ends(scenario, record, &streams, &mut wrong);
    wrong
}

/// Checks that each stream of layer 4 ends as its parties ended it: an orderly end is never made up, a promised
/// stream is whole, and the log has a line for each.
fn stream_ends(scenario: &Scenario, record: &RunRecord, lines: &[Line], wrong: &mut Vec<String>) {
    // The gateway's own ends, such as a timeout, are orderly too. Each has a line with its reason.
    let mut own = lines.iter().filter(|line| line.reason != "-").count();
    let drained = |until: Duration| scenario.drain.is_some_and(|drain| until >= drain);
    for (number, entry) in &record.streams {
        let Some(end) = entry.end else {
            wrong.push(format!("stream {number} has not ended: {entry:?}"));
            continue;
        };
        if drained(entry.until) {
            continue;
        }
        let client_ended = entry.finished || entry.left;
        let is_made_up_for_server = entry.end_arrived && !client_ended;
        let server_ended = entry.end_arrived || entry.cut == Some(Leave::Close);
        let is_made_up = end == StreamEnd::Whole && !(server_ended && entry.came == entry.echoed);
        if (is_made_up || is_made_up_for_server) && own > 0 {
            own -= 1;
        } else if is_made_up_for_server {
            wrong.push(format!("the server of stream {number} got an end that the client did not send"));
        } else if is_made_up {
            wrong.push(format!("stream {number} ended in good order, and its server did not: {entry:?}"));
        }
        let length =
            scenario.streams.iter().find(|plan| plan.number == *number).map_or(0, |plan| plan.length);
        let is_whole = end == StreamEnd::Whole && entry.greeted && entry.came == length;
        if scenario.mood != Mood::Rough && record.pressed.is_empty() && !is_whole {
            wrong.push(format!("stream {number} of {length} bytes is not whole: {entry:?}"));
        }
    }
    let connected = record.streams.values().filter(|entry| entry.connected).count();
    if scenario.mood != Mood::Rough && scenario.drain.is_none() && lines.len() != connected {
        wrong.push(format!("{} lines for {connected} streams", lines.len()));
    }
}

/// Checks that a request that is not idempotent is delivered at most once, and that a body without an end is
/// never delivered as whole.
fn deliveries(record: &RunRecord, wrong: &mut Vec<String>) {
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for delivery in &record.deliveries {
        *times.entry(delivery.request).or_default() += 1;
    }
    for (request, times) in times {
        let Some(asked) = record.asked.get(&request) else { continue };
        if asked.broken
            && record.deliveries.iter().any(|delivery| delivery.request == request && delivery.whole)
        {
            wrong.push(format!("request {request}, whose body has no end, was delivered as a whole"));
        }
        let idempotent = matches!(asked.method.as_str(), "GET" | "HEAD" | "PUT" | "DELETE");
        if times > 1 && !idempotent {
            wrong.push(format!("{} {request} was delivered {times} times", asked.method));
        }
    }
}

/// Checks that the log has one line for each request, and that the line agrees with the client and the
/// origins.
fn log(scenario: &Scenario, record: &RunRecord, lines: &[Line], counts: &Snapshot, wrong: &mut Vec<String>) {
    if lines.len() as u64 != counts.requests {
        wrong.push(format!("{} lines for {} requests", lines.len(), counts.requests));
    }
    let mut by_request: BTreeMap<u64, &Line> = BTreeMap::new();
    for line in lines {
        let number = line.target.rsplit('/').next().and_then(|number| number.parse().ok());
        let Some(number) = number.filter(|number| record.asked.contains_key(number)) else { continue };
        if by_request.insert(number, line).is_some() {
            wrong.push(format!("two lines for request {number}"));
        }
    }
    let mut nameless = 0;
    for (number, asked) in &record.asked {
        let line = by_request.get(number);
        let delivered =
            record.deliveries.iter().filter(|delivery| delivery.request == *number).count() as u64;
        if let Got::Whole(answer) = &asked.got {
            let turned_away = answer.reason.as_deref() == Some("connection_limit");
            match line {
                None if turned_away => {}
                // The line cannot name the request, because the head never arrived whole.
                None if answer.reason.as_deref() == Some("header_timeout") => nameless += 1,
                None => wrong.push(format!("no line for request {number}, which got {answer:?}")),
                Some(line) => {
                    let reason = answer.reason.as_deref().unwrap_or("-");
                    let agrees = line.status == answer.status
                        && line.bytes_out == answer.length
                        // A failure after the whole answer does not concern the client.
                        && (answer.reason.is_none() || line.reason == reason);
                    if !agrees {
                        wrong.push(format!("request {number} got {answer:?}, its line says {line:?}"));
                    }
                }
            }
        }
        let attempts = line.map_or(0, |line| line.attempts);
        if delivered > attempts {
            wrong.push(format!("request {number} was delivered {delivered} times in {attempts} attempts"));
        }
        // If nothing is lost, every attempt arrives. A body that turns out to be broken ends its attempt at
        // once; the endpoint may not have read the head by then.
        let answered = matches!(&asked.got, Got::Whole(answer) if answer.status != 400);
        let given_up = scenario.plans.iter().any(|plan| plan.contains("hedge:"));
        if scenario.mood == Mood::Calm && answered && delivered != attempts && !given_up {
            wrong.push(format!("of {attempts} attempts of request {number} {delivered} were delivered"));
        }
    }
    let late = lines.iter().filter(|line| line.reason == "header_timeout").count();
    if nameless > late {
        wrong.push(format!(
            "{nameless} clients were told that their heads came too late, {late} lines say so"
        ));
    }
}

/// Checks that all gauges are back at zero, and that the counters add up.
fn counters(counts: &Snapshot, wrong: &mut Vec<String>) {
    if (counts.in_flight, counts.client_connections) != (0, 0) {
        wrong.push(format!(
            "in the end {} requests and {} connections are under way",
            counts.in_flight, counts.client_connections
        ));
    }
    for upstream in &counts.upstreams {
        if (upstream.active(), upstream.idle) != (0, 0) {
            wrong.push(format!(
                "upstream {}: {} active and {} idle connections in the end",
                upstream.name,
                upstream.active(),
                upstream.idle
            ));
        }
    }
    if counts.reasons.iter().sum::<u64>() != counts.requests {
        wrong.push(format!("{:?} reasons of {} requests", counts.reasons, counts.requests));
    }
    if counts.log_dropped > 0 {
        wrong.push(format!("{} lines of the log were dropped", counts.log_dropped));
    }
}

/// Checks that a client with a cookie stays at its endpoint.
fn sticky(scenario: &Scenario, record: &RunRecord, wrong: &mut Vec<String>) {
    // If endpoints change or may be marked unhealthy, a client has to move to another one.
    let [plan] = scenario.plans.as_slice() else { return };
    let looked_up = scenario.events.iter().any(|(_, event)| matches!(event, Event::LookUp(..)));
    if scenario.mood != Mood::Calm || plan.contains("health:") || looked_up {
        return;
    }
    let mut homes: BTreeMap<(usize, String), usize> = BTreeMap::new();
    for delivery in &record.deliveries {
        let name = cookie(delivery.upstream);
        let pairs = delivery.cookie.iter().flat_map(|cookies| cookies.split("; "));
        let Some(pair) = pairs.into_iter().find(|pair| pair.starts_with(&name)) else { continue };
        let home = homes.entry((delivery.upstream, pair.to_owned())).or_insert(delivery.origin);
        if *home != delivery.origin {
            wrong.push(format!(
                "request {} went to origin {}, not to {home} as others with {pair}",
                delivery.request, delivery.origin
            ));
        }
    }
}

/// Checks that every request has an outcome, and that every promised one was served.
fn promises(scenario: &Scenario, record: &RunRecord, wrong: &mut Vec<String>) {
    for (number, asked) in &record.asked {
        if asked.got == Got::Waiting {
            wrong.push(format!("request {number} has got nothing, and nobody said so: {asked:?}"));
        }
        let drained = scenario.drain.is_some_and(|drain| asked.until >= drain);
        let promised = match scenario.mood {
            _ if asked.broken || record.pressed.iter().any(|pressed| meets(asked, pressed)) => false,
            Mood::Calm => true,
            Mood::Closing => !asked.body && asked.method != "POST",
            Mood::Rough => false,
        };
        if promised && !drained && !is_served(asked) {
            wrong.push(format!("request {number} was not served: {asked:?}"));
        }
    }
}

/// If nothing goes wrong, a second delivery must be a hedge: not too early, and at another endpoint.
fn hedges(scenario: &Scenario, record: &RunRecord, wrong: &mut Vec<String>) {
    let stalled = |(_, event): &(Duration, Event)| matches!(event, Event::Stall(_));
    if scenario.mood != Mood::Calm || scenario.events.iter().any(stalled) {
        return;
    }
    let texts = || scenario.plans.iter();
    let after = texts().flat_map(|plan| plan.split("hedge: {after: ").skip(1));
    let after = after.filter_map(|rest| rest.split("ms").next()?.parse().ok()).min();
    let looked_up = texts().any(|plan| plan.contains("discover:"));
    let also_put = texts().any(|plan| plan.contains("PUT]"));
    let mut by_request: BTreeMap<u64, Vec<&Delivery>> = BTreeMap::new();
    for delivery in &record.deliveries {
        by_request.entry(delivery.request).or_default().push(delivery);
    }
    for (request, deliveries) in by_request {
        let (Some(asked), [first, .., last]) = (record.asked.get(&request), deliveries.as_slice()) else {
            continue;
        };
        let safe = matches!(asked.method.as_str(), "GET" | "HEAD") || also_put && asked.method == "PUT";
        match after {
            None => wrong.push(format!("request {request} was delivered twice, and nobody hedges")),
            Some(_) if !safe => wrong.push(format!("{} {request} was hedged", asked.method)),
            Some(after) if last.at < asked.at + Duration::from_millis(after) => wrong.push(format!(
                "request {request} had a second attempt sooner than after {after} ms: {:?}, {:?}",
                asked.at, last.at
            )),
            Some(_) if deliveries.len() > 2 => wrong.push(format!("request {request} had a third attempt")),
            Some(_) if first.origin == last.origin && !looked_up => {
                wrong.push(format!("request {request} was hedged at the same endpoint"));
            }
            Some(_) => {}
        }
    }
}

/// Checks that requests are shed for lack of resources only during such a lack, and that all of them are shed
/// when they must be.
fn pressure(record: &RunRecord, wrong: &mut Vec<String>) {
    for (request, asked) in &record.asked {
        let shed = matches!(&asked.got, Got::Whole(answer) if answer.reason.as_deref() == Some("overload"));
        if shed && !record.pressed.iter().any(|pressed| meets(asked, pressed)) {
            wrong.push(format!("request {request} was turned away though nothing is short: {asked:?}"));
        }
        // Every priority is below 3. A client may leave meanwhile, and a worker that stood still may read its
        // request later.
        let forwarded = |(from, until, below): &(Duration, Duration, u8)| {
            let mut deliveries = record.deliveries.iter().filter(|delivery| delivery.request == *request);
            *below == 3 && asked.at > *from && deliveries.any(|delivery| delivery.at < *until)
        };
        if record.pressed.iter().any(forwarded) {
            wrong.push(format!("request {request} was forwarded while all were to be turned away"));
        }
    }
}

/// Returns whether a request was in progress at any moment of this period.
fn meets(asked: &Asked, (from, until, _): &(Duration, Duration, u8)) -> bool {
    asked.at <= *until && asked.until >= *from
}

fn is_served(asked: &Asked) -> bool {
    match &asked.got {
        Got::Whole(answer) => answer.delivery.is_some(),
        Got::Tunnel { whole } => *whole,
        Got::Told => true,
        _ => false,
    }
}

//! `canary`: the choice between a route's upstreams for a request.

use tollgate_tests::{Gateway, Origin, Signal, eventually, http2};

use super::jwt::{SECRET, hs256};

/// Starts a gateway with a route to `stable` and, by the policy only, to `next`.
fn gateway(stable: &Origin, next: &Origin, canary: &str) -> Gateway {
    Gateway::start(&config(stable, next, canary))
}

fn config(stable: &Origin, next: &Origin, canary: &str) -> String {
    format!(
        "routes: [{{to: [stable, {{upstream: next, weight: 0}}], policies: {{canary: {canary}}}}}]\n\
         upstreams: {{stable: \"{}\", next: \"{}\"}}\n",
        stable.address(),
        next.address()
    )
}

fn ask(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[test]
fn a_header_or_cookie_chooses_and_others_go_by_weight() {
    let (stable, next) = (Origin::named("stable"), Origin::named("next"));
    let rules = "[{to: next, headers: {X-Canary: always}}, {to: next, cookies: {beta: \"*\"}}]";
    let gateway = gateway(&stable, &next, rules);
    let mut client = gateway.client();
    for (fields, name) in [
        ("", "stable"),
        ("x-canary: always\r\n", "next"),
        ("X-Canary: never\r\n", "stable"),
        ("Cookie: a=1; beta=yes\r\n", "next"),
        ("Cookie: alphabeta=1\r\n", "stable"),
    ] {
        assert_eq!(client.ask(ask(fields)).text(), name, "{fields}");
    }
    let mut client = gateway.http2();
    assert_eq!(client.get("/").text(), "stable");
    assert_eq!(client.ask(http2::request("GET", "/", &[("x-canary", "always")])).text(), "next");
    assert_eq!(
        client.ask(http2::request("GET", "/", &[("cookie", "a=1"), ("cookie", "beta=2")])).text(),
        "next"
    );
    gateway.reconcile(&[&stable, &next]);
}

#[test]
fn a_percentage_by_cookie_is_kept_and_grows_by_a_reload() {
    let (stable, next) = (Origin::named("stable"), Origin::named("next"));
    let rules = |percent: u32| format!("{{to: next, percent: {percent}, by: cookie id}}");
    let gateway = gateway(&stable, &next, &rules(30));
    let mut client = gateway.client();
    let mut sides = |range: std::ops::Range<u32>| -> Vec<String> {
        range.map(|n| client.ask(ask(&format!("Cookie: id={n}\r\n"))).text()).collect()
    };
    let before = sides(0..200);
    let canary = before.iter().filter(|name| *name == "next").count();
    assert!((30..90).contains(&canary), "{canary}");
    assert_eq!(before, sides(0..200), "everybody stays");
    let all = config(&stable, &next, &rules(60));
    gateway.write_config(&format!("listen: $LISTEN\nadmin: $ADMIN\n{all}"));
    gateway.signal(Signal::HUP);
    eventually("more of them go there", || sides(0..200).iter().filter(|name| *name == "next").count() > 90);
    let after = sides(0..200);
    assert!(before.iter().zip(&after).all(|(before, after)| before == "stable" || after == "next"));
}

#[test]
fn a_consumer_stays_on_its_side_at_every_gateway_whatever_token_it_shows() {
    let (stable, next) = (Origin::named("stable"), Origin::named("next"));
    let routes = config(&stable, &next, "{to: next, percent: 50, by: consumer}");
    let all = format!("policies: {{jwt: {{secret: {SECRET}}}}}\n{routes}");
    let sides = |gateway: &Gateway, claims: &str| -> Vec<String> {
        let mut client = gateway.client();
        let tokens = (0..100).map(|n| hs256(&format!("\"sub\":\"c{n}\"{claims}")));
        tokens.map(|token| client.ask(ask(&format!("Authorization: Bearer {token}\r\n"))).text()).collect()
    };
    let (first, second) = (Gateway::start(&all), Gateway::start(&all));
    let before = sides(&first, "");
    assert_eq!(sides(&first, ",\"role\":\"chief\""), before);
    assert_eq!(sides(&second, ""), before);
    let canary = before.iter().filter(|name| *name == "next").count();
    assert!((25..=75).contains(&canary), "half of them, though all come from one address: {canary}");
}

/// Within five standard deviations: about one run in a million fails by chance.
#[test]
fn a_percentage_of_requests_goes_to_the_canary() {
    let (stable, next) = (Origin::named("stable"), Origin::named("next"));
    for (percent, expected) in [(0, 0..=0), (25, 181..=319), (100, 1000..=1000)] {
        let gateway = gateway(&stable, &next, &format!("{{to: next, percent: {percent}}}"));
        let mut client = gateway.client();
        let canary = (0..1000).filter(|_| client.get("/").text() == "next").count();
        assert!(expected.contains(&canary), "{canary} of 1000, at {percent} %");
    }
}

#[test]
fn blue_becomes_green_by_a_reload() {
    let (blue, green) = (Origin::named("blue"), Origin::named("green"));
    let gateway = gateway(&blue, &green, "{to: stable}");
    let mut client = gateway.client();
    assert_eq!(client.get("/").text(), "blue");
    let all = config(&blue, &green, "{to: next}");
    gateway.write_config(&format!("listen: $LISTEN\nadmin: $ADMIN\n{all}"));
    gateway.signal(Signal::HUP);
    eventually("green", || client.get("/").text() == "green");
}

#[test]
fn a_gateways_canary_leaves_routes_alone_that_do_not_go_there() {
    let (stable, next) = (Origin::named("stable"), Origin::named("next"));
    let gateway = Gateway::start(&format!(
        "policies: {{canary: {{to: next}}}}\nroutes: [{{match: /both, to: [stable, {{upstream: next, weight: 0}}]}}, {{to: stable}}]\n\
         upstreams: {{stable: \"{}\", next: \"{}\"}}\n",
        stable.address(),
        next.address()
    ));
    let mut client = gateway.client();
    assert_eq!(
        (client.get("/both").text(), client.get("/").text()),
        ("next".to_owned(), "stable".to_owned())
    );
}

/// 0.5 % of 20,000 requests are 100. More than six deviations from that are not chance; 1 % would be ten.
#[test]
fn half_a_percent_is_half_a_percent_of_canaries_copies_and_traces() {
    const EXPECTED: std::ops::RangeInclusive<usize> = 40..=160;
    let (stable, next, shadow) = (Origin::named("stable"), Origin::named("next"), Origin::ok());
    let collector =
        Origin::fixed("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
    let gateway = Gateway::start(&format!(
        "policies: {{trace: {{otlp: \"http://{}/v1/traces\", sample: 0.5%}}}}\n\
         routes: [{{to: [stable, {{upstream: next, weight: 0}}], policies: {{\
         canary: {{to: next, percent: 0.5}}, mirror: {{to: shadow, percent: 0.5, in_flight: 400}}}}}}]\n\
         upstreams: {{stable: \"{}\", next: \"{}\", shadow: \"{}\"}}\n",
        collector.address(),
        stable.address(),
        next.address(),
        shadow.address()
    ));
    let mut client = gateway.client();
    let mut canaries = 0;
    for _ in 0..200 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100));
        canaries += (0..100).filter(|_| client.response().text() == "next").count();
    }
    assert!(EXPECTED.contains(&canaries), "{canaries} canaries");
    let main: Vec<_> = stable.requests().into_iter().chain(next.requests()).collect();
    let sampled = |request: &&tollgate_tests::Request| {
        request.headers.get("traceparent").is_some_and(|context| context.ends_with("-01"))
    };
    let traces = main.iter().filter(sampled).count();
    assert_eq!(main.len(), 20_000);
    assert!(EXPECTED.contains(&traces), "{traces} traces");
    let events = |event: &str| {
        let sum = gateway.metrics().sum("tollgate_policy_events_total", &format!("event=\"{event}\""));
        sum.unwrap_or_default() as usize
    };
    // Every copy is one of these. No copy can follow, because the request is finished.
    let copies = events("sent") + events("dropped");
    assert!(EXPECTED.contains(&copies), "{copies} copies");
    eventually("a copy and a span to arrive", || shadow.count() > 0 && collector.count() > 0);
}

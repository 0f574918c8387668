//! Lists that the gateway sorts, filters and pages: routes and upstreams with figures, and resources.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tollgate_tests::api::{call, json_of, put};
use tollgate_tests::{Gateway, Origin, eventually, refused_address};

fn get(gateway: &Gateway, path: &str) -> Value {
    let answer = call(gateway, "GET", path, "", "");
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    json_of(&answer)
}

fn names(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().expect("items");
    items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
}

/// Starts a gateway with 300 routes, of which some go to an endpoint that refuses connections.
fn many(origin: &Origin) -> Gateway {
    let mut routes = String::new();
    for number in 0..300 {
        let to = if number % 100 == 7 { "gone" } else { "shop" };
        let _ = writeln!(routes, "  - {{name: r{number:03}, match: \"/r{number:03}/*\", to: {to}}}");
    }
    Gateway::start(&format!(
        "workers: 2\nroutes:\n{routes}upstreams:\n  shop: \"{}\"\n  gone: {{endpoints: \"{1}\", \
         health: {{tcp: on, interval: 100ms}}, retry: off}}\n  spare: \"{1}\"\n",
        origin.address(),
        refused_address()
    ))
}

#[test]
fn routes_are_sorted_filtered_and_paged() {
    let origin = Origin::named("a");
    let gateway = many(&origin);
    let page = get(&gateway, "/live/routes");
    assert_eq!((&page["total"], &page["found"], &page["offset"]), (&json!(300), &json!(300), &json!(0)));
    assert_eq!(names(&page).len(), 50);
    assert_eq!(page["window"], 0.0, "the first answer has no rates");
    assert_eq!(page["rate"].to_string(), "0.0", "no negative zero");
    let mut client = gateway.client();
    for _ in 0..20 {
        assert_eq!(client.get("/r250/x").status, 200);
    }
    for path in ["/r003/x", "/r007/x", "/nowhere"] {
        client.get(path);
    }
    eventually("rates", || get(&gateway, "/live/routes?sort=rate&limit=1")["items"][0]["name"] == "r250");
    let busiest = get(&gateway, "/live/routes?sort=rate&limit=4");
    assert_eq!(names(&busiest)[0], "r250");
    let row = &busiest["items"][0];
    assert!(row["recent"]["rate"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
    assert_eq!((&row["requests"], &row["match"]), (&json!(20), &json!("/r250/*")));
    assert_eq!(row["targets"], json!([{ "name": "shop", "weight": 1 }]));
    assert!(row["recent"]["p99"].is_number() && busiest["rate"].as_f64() >= row["recent"]["rate"].as_f64());
    // Requests without a route have a row too, but it belongs to no resource of the configuration.
    let nothing = get(&gateway, "/live/routes?q=-&sort=requests");
    assert!(
        nothing["items"]
            .as_array()
            .is_some_and(|rows| { rows.iter().any(|row| row["name"] == "-" && row["configured"] == false) })
    );

    let second = get(&gateway, "/live/routes?offset=297&limit=10");
    // `-` sorts before the names.
    assert_eq!(names(&second), ["r296", "r297", "r298", "r299"]);
    assert_eq!(names(&get(&gateway, "/live/routes?order=desc&limit=2")), ["r299", "r298"]);
    let filtered = get(&gateway, "/live/routes?q=GONE&limit=2");
    assert_eq!((names(&filtered), &filtered["found"]), (vec!["r007".into(), "r107".into()], &json!(3)));
    assert_eq!(names(&get(&gateway, "/live/routes?q=/r25&limit=1")), ["r250"]);
    assert_eq!(names(&get(&gateway, "/live/routes?state=failing")), ["r007"]);
    assert_eq!(get(&gateway, "/live/routes?state=active")["found"], 4);
    assert_eq!(call(&gateway, "GET", "/live/routes?sort=size", "", "").status, 400);
    assert_eq!(call(&gateway, "GET", "/live/routes?page=2", "", "").status, 400);
}

#[test]
fn upstreams_tell_whether_they_were_ever_contacted() {
    let origin = Origin::named("a");
    let gateway = many(&origin);
    let state = |name: &str| {
        let page = get(&gateway, &format!("/live/upstreams?q={name}"));
        let row = &page["items"][0];
        (row["state"].as_str().unwrap_or_default().to_owned(), row["states"].clone())
    };
    assert_eq!(state("shop"), ("unknown".to_owned(), json!({ "unknown": 1 })));
    let live = get(&gateway, "/live?upstreams=0&upstream=shop");
    assert_eq!(live["upstreams"][0]["endpoints"][0]["state"], "unknown");
    let mut client = gateway.client();
    client.get("/r001/x");
    client.get("/r007/x");
    eventually("a probe", || state("gone").0 == "unavailable");
    assert_eq!(state("shop"), ("available".to_owned(), json!({ "available": 1 })));
    assert_eq!(state("spare").0, "unknown");
    assert_eq!(names(&get(&gateway, "/live/upstreams?sort=state")), ["gone", "spare", "shop"]);
    assert_eq!(names(&get(&gateway, "/live/upstreams?state=unhealthy")), ["gone"]);
    let row = &get(&gateway, "/live/upstreams?q=gone&endpoints=0")["items"][0];
    assert_eq!((&row["endpoints"], &row["endpoints_left_out"]), (&json!([]), &json!(1)));
    // The live document can leave the lists to these.
    let live = get(&gateway, "/live?routes=0&upstreams=0&route=r007&upstream=shop");
    assert_eq!((&live["routes"][0]["name"], &live["upstreams"][0]["name"]), (&json!("r007"), &json!("shop")));
    assert_eq!(live["routes"].as_array().map(Vec::len), Some(1));
    let pages = gateway.admin("/upstreams").text();
    assert!(pages.contains("unknown") && pages.contains("unhealthy"), "{pages}");
    // The metrics count what takes requests.
    let available =
        gateway.metrics().sum("tollgate_upstream_endpoints", "upstream=\"shop\",state=\"available\"");
    assert_eq!(available, Some(1.0));
}

#[test]
fn resources_are_paged_in_the_order_that_is_asked_for() {
    let gateway = Gateway::start(
        "store: $DIR/store\nroutes: [{name: m, match: /m, respond: x}, {name: b, match: /b, respond: x}]",
    );
    for name in ["c", "a"] {
        assert_eq!(
            put(
                &gateway,
                &format!("/routes/{name}"),
                &json!({ "match": format!("/{name}"), "respond": "x" })
            )
            .status,
            201
        );
    }
    assert_eq!(names(&get(&gateway, "/routes")), ["m", "b", "a", "c"], "the file's order, then the store's");
    assert_eq!(names(&get(&gateway, "/routes?sort=name")), ["a", "b", "c", "m"]);
    let page = get(&gateway, "/routes?sort=name&order=desc&offset=1&limit=2");
    assert_eq!((names(&page), &page["found"]), (vec!["c".into(), "b".into()], &json!(4)));
    assert_eq!(names(&get(&gateway, "/routes?sort=source&order=desc&limit=1"))[0], "c");
    assert_eq!(get(&gateway, "/routes?offset=9")["items"], json!([]));
    assert_eq!(get(&gateway, "")["listen"], json!([format!("http://{}", gateway.address())]));
}

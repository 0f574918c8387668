//! Odd values of annotations cost what they say, and no more: whatever an Ingress has, its documents are valid. The
//! gateway refuses a document as a whole, so one bad value would otherwise take paths out of service.

mod settings;

use std::path::PathBuf;

use serde_json::{Value, json};
use tollgate_kubernetes::{Kind, Objects, RawObject, Translation, translate};

use settings::settings;

/// Annotations that another one needs, its name, and values of it.
type Case = (&'static [(&'static str, &'static str)], &'static str, &'static [&'static str]);

/// Annotations with values.
const CASES: &[Case] = &[
    (
        &[("enable-cors", "true")],
        "cors-allow-origin",
        &[
            "example.com",
            "https://*",
            "null",
            "*.a",
            "https://a.example/",
            "http://a, b",
            "https://a b",
            "https://ä.de",
        ],
    ),
    (&[("enable-cors", "true")], "cors-allow-methods", &["get", "*", "GET POST", "GET;POST", "G@T", ","]),
    (&[("enable-cors", "true")], "cors-allow-headers", &["*", "X-A X-B", "a:b", ","]),
    (&[("enable-cors", "true")], "cors-expose-headers", &["*", "X-A, *", "a:b", "Set-Cookie"]),
    (&[("enable-cors", "true")], "cors-max-age", &["0", "-1", "99999999999"]),
    (&[], "proxy-connect-timeout", &["0", "5s", "99999999", "18446744073709551615"]),
    (&[], "proxy-read-timeout", &["0", "99999999", "18446744073709551615"]),
    (&[], "proxy-body-size", &["0", "8mb", "10737418240", "4294967295g", "18446744073709551615k"]),
    (
        &[],
        "proxy-next-upstream",
        &["off", "http_502 off", "non_idempotent", "http_999", "error,timeout", ","],
    ),
    (&[], "proxy-next-upstream-tries", &["0", "1", "100000", "-1"]),
    (&[], "backend-protocol", &["http", "https", "GRPC", "GRPCS", "FCGI", "odd"]),
    (
        &[("affinity", "cookie")],
        "session-cookie-name",
        &["a b", "a;b", "a=b", "ö", "a/b", "__Host-a", "__Secure-a"],
    ),
    (&[("affinity", "cookie")], "session-cookie-path", &["/a b", "/a;b", "a", "/ö"]),
    (&[("affinity", "cookie")], "session-cookie-max-age", &["0", "-1", "99999999999"]),
    (&[("affinity", "cookie")], "session-cookie-expires", &["0", "99999999999"]),
    (&[("affinity", "cookie")], "session-cookie-samesite", &["None", "lax", "STRICT", "odd"]),
    (&[("affinity", "cookie")], "session-cookie-domain", &["a.example", "a b", "a;b", ".a"]),
    (&[], "load-balance", &["ewma", "round_robin", "ip_hash"]),
    (
        &[],
        "upstream-hash-by",
        &["$http_", "$arg_", "$http_a b", "$cookie_ö", "$request_uri$host", "$", "${}"],
    ),
    (&[], "server-alias", &["-a.example", "*", "~^a", "a_b", "shop.example", "a..b", "*.a.example"]),
    (&[], "upstream-vhost", &["*.a", "-", "a:80", "$host", "a b"]),
    (&[("rewrite-target", "/$1")], "x-forwarded-prefix", &["/a\nb", "a\"b", "{x}"]),
    (&[], "custom-headers", &["fields", "demo/fields", "absent", "other/x"]),
    (
        &[],
        "whitelist-source-range",
        &["10.0.0.1/8", "::/0", "x", "10.0.0.0/99", "fe80::1%eth0", "10.0.0.0/08"],
    ),
    (&[], "denylist-source-range", &["10.0.0.1/8", "x"]),
    (&[("auth-type", "basic"), ("auth-secret", "users")], "auth-realm", &["a\"b", "ö", "a\nb", "\u{7f}"]),
    (&[("auth-secret", "users")], "auth-type", &["basic", "digest", "Basic"]),
    (
        &[],
        "auth-url",
        &[
            "auth",
            "http://",
            "http:///x",
            "http://a b/",
            "http://u:p@a/",
            "http://a/#x",
            "http://a:99999/",
            "http://a..b/",
            "http://a/ö",
            "https://$host/x",
            "http://$arg_x/",
            "http://-a/",
        ],
    ),
    (
        &[("auth-url", "http://auth.example/")],
        "auth-signin",
        &[
            "/login",
            "http://a b/",
            "http://a/#x",
            "http://a/{x}",
            "https://$host/a?rd=$escaped_request_uri",
            "https://$odd/",
        ],
    ),
    (
        &[("auth-url", "http://auth.example/"), ("auth-signin", "http://a/")],
        "auth-signin-redirect-param",
        &["a b", "a&b", "a=b", "ö", "next"],
    ),
    (
        &[("auth-url", "http://auth.example/")],
        "auth-response-headers",
        &["X A", "a:b", "*", "Host", "Connection", "Te, X-A"],
    ),
    (&[("auth-url", "http://auth.example/")], "auth-method", &["GET", "get", "TRACE", "HEAD", "G T"]),
    (&[("auth-url", "http://auth.example/")], "auth-always-set-cookie", &["true", "yes"]),
    (
        &[("auth-url", "http://auth.example/")],
        "auth-cache-key",
        &[
            "$cookie_a",
            "$cookie_ö",
            "$http_",
            "$http_a b",
            "$arg_a&b$cookie_a$cookie_a",
            "$host",
            "$",
            "${}",
            "a",
            "$cookie_a~$http_x.y$remote_user",
        ],
    ),
    (
        &[("auth-url", "http://auth.example/"), ("auth-cache-key", "$cookie_a")],
        "auth-cache-duration",
        &[
            "200 5m",
            "5m",
            "any 0s",
            "200 401 0ms, any 1ms",
            "200",
            "099 5m",
            "200 18446744073709551615y",
            ",",
            "200 3w",
        ],
    ),
    (
        &[("whitelist-source-range", "10.0.0.0/8"), ("auth-url", "http://a/")],
        "satisfy",
        &["any", "all", "odd"],
    ),
    (&[], "limit-rps", &["0", "-1", "4294967296", "18446744073709551615"]),
    (&[], "limit-rpm", &["1", "18446744073709551615"]),
    (&[], "limit-connections", &["0", "18446744073709551615"]),
    (&[("limit-rps", "10")], "limit-burst-multiplier", &["0", "18446744073709551615"]),
    (&[("limit-rps", "10")], "limit-allowlist", &["10.0.0.1/8", "x"]),
    (&[], "limit-rate", &["0", "1", "-1", "100k", "18446744073709551615"]),
    (&[("limit-rate", "1")], "limit-rate-after", &["0", "1", "x", "18446744073709551615"]),
    (&[], "proxy-send-timeout", &["0", "1", "5s", "18446744073709551615"]),
    (&[], "proxy-next-upstream-timeout", &["0", "1", "5s", "18446744073709551615"]),
    (&[("default-backend", "pages")], "custom-http-errors", &["404", "200", "404,404", "4xx", "40400"]),
    (&[], "default-backend", &["absent", "web", "other/pages", "A", "a b"]),
    (
        &[],
        "mirror-target",
        &[
            "http://a:0/",
            "http://a:99999/",
            "http://a b",
            "http://a..b",
            "http://u@a",
            "http://a:80:80",
            "http://ö",
            "http://[::1]",
        ],
    ),
    (&[("mirror-target", "http://a")], "mirror-host", &["a b", "a:80", "$host", "*", "ö"]),
    (
        &[],
        "rewrite-target",
        &[
            "/a b",
            "/a#b",
            "http://",
            "http://a b/",
            "/%",
            "/%zz",
            "/../x",
            "?x=1",
            "/{x}",
            "/a?=b",
            "/a?$1",
            "/a?b={c}",
            "/ö",
            "$1",
        ],
    ),
    (
        &[],
        "app-root",
        &["/a b", "/a?b=c", "/#/a", "/a\nb", "//evil.example", "/$host", "http://a", "/ö", "/%zz"],
    ),
    (
        &[],
        "permanent-redirect",
        &[
            "http://",
            "http://a b",
            "https://a/ö",
            "https://a/{x}",
            "https://a/$1",
            "/x",
            "https://a/?b=$arg_c",
            "https://a/#b",
            "httpx://a",
            "https://$host:99999/",
        ],
    ),
    (&[("permanent-redirect", "https://a/")], "permanent-redirect-code", &["300", "304", "309", "x"]),
];

/// Annotations of a canary, with values.
const CANARIES: &[Case] = &[
    (&[], "canary-weight", &["-1", "1000", "x", "50"]),
    (&[("canary-weight", "50")], "canary-weight-total", &["0", "-1", "7", "18446744073709551615"]),
    (&[], "canary-by-header", &["X-A", "a b", "a:b", "*", "ö", "X-A*"]),
    (&[("canary-by-header", "X-A")], "canary-by-header-value", &["a", "a\nb", "${x}", "{y}", "ö", "*"]),
    (&[("canary-by-header", "X-A")], "canary-by-header-pattern", &["^a", "(", "(?=a)", "${x}", "a{2}", "*"]),
    (&[], "canary-by-cookie", &["a", "a b", "a=b", "*", "ö"]),
    (&[("affinity", "cookie")], "session-cookie-name", &["a b", "b"]),
];

/// Paths, which may also be expressions.
const PATHS: &[&str] = &[
    "/",
    "",
    "/a/(.*)",
    "/a(?=x)",
    "/(",
    "/a[",
    "/a{1000000}",
    "/(a|b)/(.*)",
    "/(a)\\1",
    "/ä",
    "/a b",
    "/a?b",
    "/a#b",
    "/%2f",
    "/%zz",
    "/.*",
    "/?(.*)",
    "/a\\d+",
    "/a\\",
    "^/a",
    "a",
    "/a+*",
    "/(?<n>x)",
    "/a/../b",
    "/a//b",
    "/*",
    "/a/*",
    "/a;b",
    "/{a}",
    "/:a",
    "/a/",
    "//",
];

fn put(objects: &mut Objects, kind: Kind, object: Value) {
    objects.put(kind, serde_json::from_value::<RawObject>(object).expect("an object"));
}

/// Translates an Ingress with these annotations and this path.
fn translated(annotations: &[(&str, &str)], path: &str, path_type: &str) -> Translation {
    translated_with_canary(annotations, path, path_type, None)
}

/// Translates an Ingress with these annotations and this path, and a canary of it.
fn translated_with_canary(
    annotations: &[(&str, &str)],
    path: &str,
    path_type: &str,
    canary: Option<&[(&str, &str)]>,
) -> Translation {
    let mut objects = Objects::default();
    let class = json!({"metadata": {"name": "own"}, "spec": {"controller": "tollgate.dev/gateway"}});
    put(&mut objects, Kind::IngressClass, class);
    for name in ["web", "pages"] {
        let metadata = json!({"namespace": "demo", "name": name});
        put(
            &mut objects,
            Kind::Service,
            json!({"metadata": metadata, "spec": {"ports": [{"name": "http", "port": 80}]}}),
        );
    }
    let metadata = json!({"namespace": "demo", "name": "users"});
    // alice with the password `wonderland`.
    let users =
        "YWxpY2U6JDJ5JDA0JGVuYVE5cUxpREpEemdYQ29NUFE5WE9xcUFscElnTjJMdmZYZUNSQnA3STVpdUNNR0dJUXUyCg==";
    put(&mut objects, Kind::Secret, json!({"metadata": metadata, "data": {"auth": users}}));
    let metadata = json!({"namespace": "demo", "name": "fields"});
    let fields = json!({"X-A": "b {c}", "X-B": "c\nd", "Connection": "close", "a b": "c"});
    put(&mut objects, Kind::ConfigMap, json!({"metadata": metadata, "data": fields}));
    let slice = json!({
        "metadata": {"namespace": "demo", "name": "pages-1", "labels": {"kubernetes.io/service-name": "pages"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "http", "port": 8080}],
    });
    put(&mut objects, Kind::EndpointSlice, slice);
    let own = ("shop", "web", annotations);
    for (name, service, annotations) in
        std::iter::once(own).chain(canary.map(|all| ("zcanary", "pages", all)))
    {
        let annotations: serde_json::Map<_, _> = annotations
            .iter()
            .map(|(name, value)| (format!("nginx.ingress.kubernetes.io/{name}"), Value::from(*value)))
            .collect();
        let backend = json!({"service": {"name": service, "port": {"number": 80}}});
        let path = json!({"path": path, "pathType": path_type, "backend": backend});
        let ingress = json!({
            "metadata": {"namespace": "demo", "name": name, "annotations": annotations},
            "spec": {"ingressClassName": "own", "rules": [{"host": "shop.example", "http": {"paths": [path]}}]},
        });
        put(&mut objects, Kind::Ingress, ingress);
    }
    translate(&objects, &settings())
}

/// Returns what the gateway would say about the documents; `None`: they are valid.
fn problem(translation: &Translation) -> Option<String> {
    tollgate_plan::register_policies();
    let config = tollgate_config::from_text("t", "kubernetes: {addresses: 192.0.2.0/24}", &|_| None).config;
    let config = config.expect("a configuration");
    let scope = tollgate_config::file_access::Scope::below(&[]);
    let mut documents = tollgate_config::Documents::new("kubernetes", PathBuf::new(), scope);
    for (key, document) in &translation.documents {
        let kind = tollgate_config::kind(key.kind).expect("a kind of resource");
        if let Err(problems) = documents.put(kind, &key.name, document.content.value()) {
            return Some(format!("{}/{}: {problems:?}", key.kind, key.name));
        }
    }
    let all = tollgate_config::CombinedResources::of(&config).with(&documents);
    tollgate_plan::compile_parts(&all).err().map(|problems| format!("{problems:?}"))
}

#[test]
fn odd_values_become_valid_documents() {
    let mut wrong = Vec::new();
    for (others, annotation, values) in CASES {
        for value in *values {
            let annotations: Vec<_> = others.iter().copied().chain([(*annotation, *value)]).collect();
            for (path, path_type) in [("/", "Prefix"), ("/a/(.*)", "ImplementationSpecific")] {
                let annotations: Vec<_> = match path_type {
                    "Prefix" => annotations.clone(),
                    _ => annotations.iter().copied().chain([("use-regex", "true")]).collect(),
                };
                if let Some(problem) = problem(&translated(&annotations, path, path_type)) {
                    wrong.push(format!("{annotations:?} {path}: {problem}"));
                }
            }
        }
    }
    for path in PATHS {
        for path_type in ["Prefix", "Exact", "ImplementationSpecific"] {
            for annotations in
                [&[][..], &[("use-regex", "true")], &[("use-regex", "true"), ("auth-type", "basic")]]
            {
                if let Some(problem) = problem(&translated(annotations, path, path_type)) {
                    wrong.push(format!("{annotations:?} {path} {path_type}: {problem}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An odd canary must not take its main Ingress out of service.
#[test]
fn odd_canaries_leave_the_main_route_valid() {
    let mut wrong = Vec::new();
    for (others, annotation, values) in CANARIES {
        for value in *values {
            let canary: Vec<_> = [("canary", "true")]
                .into_iter()
                .chain(others.iter().copied())
                .chain([(*annotation, *value)])
                .collect();
            let translation = translated_with_canary(&[], "/", "Prefix", Some(&canary));
            if let Some(problem) = problem(&translation) {
                wrong.push(format!("{canary:?}: {problem}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A text of an object is a text, also if it looks like a variable of a configuration file.
#[test]
fn texts_are_no_variables() {
    let mut objects = Objects::default();
    let own = json!({"metadata": {"name": "own"}, "spec": {"controllerName": "tollgate.dev/gateway"}});
    put(&mut objects, Kind::GatewayClass, own);
    let metadata = |name: &str| json!({"namespace": "demo", "name": name});
    let listener = json!({"name": "http", "port": 80, "protocol": "HTTP"});
    let gateway = json!({"gatewayClassName": "own", "listeners": [listener]});
    put(&mut objects, Kind::Gateway, json!({"metadata": metadata("g"), "spec": gateway}));
    let set = json!({"set": [{"name": "X-A", "value": "${HOME} {b}"}]});
    let rewrite = json!({"path": {"type": "ReplaceFullPath", "replaceFullPath": "/x${y}"}});
    let filters = json!([
        {"type": "RequestHeaderModifier", "requestHeaderModifier": set},
        {"type": "URLRewrite", "urlRewrite": rewrite},
    ]);
    let headers = json!([{"name": "X-B", "value": "${HOME:-none}"}]);
    let matches = json!([{"path": {"type": "Exact", "value": "/${a}"}, "headers": headers}]);
    let backends = json!([{"name": "web", "port": 80}]);
    let rule = json!({"matches": matches, "filters": filters, "backendRefs": backends});
    let route = json!({"parentRefs": [{"name": "g"}], "rules": [rule]});
    put(&mut objects, Kind::HttpRoute, json!({"metadata": metadata("r"), "spec": route}));
    put(&mut objects, Kind::Service, json!({"metadata": metadata("web"), "spec": {"ports": [{"port": 80}]}}));
    let translation = translate(&objects, &settings());
    assert_eq!(problem(&translation), None);
    let found = translation.documents.keys().find(|found| found.kind == "routes").expect("a route");
    let route = translation.documents[found].content.value();
    assert_eq!(route["match"][0]["path"], json!({"exact": "/$${a}"}));
    assert_eq!(route["match"][0]["headers"]["x-b"], json!({"exact": "$${HOME:-none}"}));
    assert_eq!(route["policies"]["headers"]["request"]["set"]["X-A"], json!("$${{HOME}} {{b}}"));
    assert_eq!(route["rewrite"]["path"], json!("/x$$${y}"));
}

/// Values made of the pieces that matter to one syntax or another.
#[test]
fn random_values_become_valid_documents() {
    const PIECES: &[&str] = &[
        "/",
        "a",
        "b.example",
        "http://",
        "https://",
        "$",
        "$1",
        "$host",
        "{",
        "}",
        "(",
        ")",
        "*",
        "?",
        "#",
        " ",
        ",",
        ":",
        "80",
        "0",
        "-1",
        "99999999999999999999",
        "=",
        "&",
        "%",
        "%2F",
        "..",
        ".",
        "\\",
        "\"",
        "\n",
        "ö",
        "|",
        "^",
        "[",
        "]",
        "+",
        "true",
        "on",
        "off",
        "any",
        ";",
        "@",
        "_",
        "cookie",
        "always",
    ];
    let mut random = fastrand::Rng::with_seed(33);
    let names: Vec<&str> = CASES.iter().map(|(_, annotation, _)| *annotation).collect();
    let needed: Vec<(&str, &str)> = CASES.iter().flat_map(|(others, ..)| others.iter().copied()).collect();
    let mut wrong = Vec::new();
    for _ in 0..3_000 {
        let mut text = |most: usize| -> String {
            (0..random.usize(1..=most)).map(|_| PIECES[random.usize(..PIECES.len())]).collect()
        };
        let (value, other, path) = (text(4), text(3), format!("/{}", text(3)));
        let (name, second) = (names[random.usize(..names.len())], names[random.usize(..names.len())]);
        let needed = needed[random.usize(..needed.len())];
        let annotations = [needed, (name, value.as_str()), (second, other.as_str())];
        let path_type = ["Prefix", "Exact", "ImplementationSpecific"][random.usize(..3)];
        if let Some(problem) = problem(&translated(&annotations, &path, path_type)) {
            wrong.push(format!("{annotations:?} {path} {path_type}: {problem}"));
        }
    }
    assert!(wrong.is_empty(), "{} of 3000:\n{}", wrong.len(), wrong.join("\n"));
}

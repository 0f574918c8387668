//! Secrets in documents: masked when they are shown, and restored when they are written back.

use serde_json::{Value, json};
use tollgate_config::{MASK, ResourceKind, kind, masked, register_plugin_secrets, unmasked};

fn route() -> &'static ResourceKind {
    tollgate_policy::register();
    kind("routes").expect("a kind")
}

#[test]
fn secrets_are_covered_and_kept_when_they_are_written_back() {
    let value =
        json!({"balance": {"sticky": {"cookie": "c", "secret": "hunter2-hunter2"}}, "endpoints": ["h:1"]});
    let shown = masked(route(), &value);
    assert_eq!(shown["balance"]["sticky"]["secret"], MASK);
    assert_eq!(shown["endpoints"], value["endpoints"]);
    let mut written = shown.clone();
    assert_eq!(unmasked(route(), &mut written, Some(&value)), Ok(()));
    assert_eq!(written, value);
    let mut written = shown;
    assert_eq!(unmasked(route(), &mut written, None), Err("/balance/sticky/secret".to_owned()));
    let value = json!({"policies": {
        "headers": {"request": {"set": {"Authorization": "Basic Zm9v", "X-Plain": "p"}}},
        "rate_limit": {"redis": {"url": "redis://u:p@h", "password": "p"}},
        "jwt": {"secret": "x", "url": "https://u@h"},
    }});
    let shown = masked(route(), &value);
    let covered = [
        "/policies/headers/request/set/Authorization",
        "/policies/rate_limit/redis/url",
        "/policies/rate_limit/redis/password",
        "/policies/jwt/secret",
    ];
    for pointer in covered {
        assert_eq!(shown.pointer(pointer), Some(&json!(MASK)), "{pointer}");
    }
    assert_eq!(shown["policies"]["headers"]["request"]["set"]["X-Plain"], "p");
    assert_eq!(shown["policies"]["jwt"]["url"], "https://u@h");
    let mut written = shown;
    assert_eq!((unmasked(route(), &mut written, Some(&value)), &written), (Ok(()), &value));
    // Secrets in a mapping by name. A client that omits one removes it.
    let value =
        json!({"hmac_keys": {"ann-1": "0123456789abcdef", "url": "fedcba9876543210"}, "groups": ["a"]});
    let mut written = masked(route(), &value);
    assert_eq!(written, json!({"hmac_keys": {"ann-1": MASK, "url": MASK}, "groups": ["a"]}));
    written["hmac_keys"].as_object_mut().expect("a mapping").shift_remove("ann-1");
    assert_eq!(unmasked(route(), &mut written, Some(&value)), Ok(()));
    assert_eq!(written["hmac_keys"], json!({"url": "fedcba9876543210"}));
    let mut new = json!({"hmac_keys": {"b/c": MASK}});
    assert_eq!(unmasked(route(), &mut new, Some(&value)), Err("/hmac_keys/b~1c".to_owned()));
    // A private key is masked anywhere, but the path of a key file is not.
    let pem = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let chain = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (value, shown) in [
        (json!({"certificate": chain, "key": pem}), json!({"certificate": chain, "key": MASK})),
        (json!({"certificate": format!("{chain}{pem}")}), json!({"certificate": MASK})),
        (json!({"certificate": "a.pem", "key": "a.key"}), json!({"certificate": "a.pem", "key": "a.key"})),
    ] {
        let mut written = masked(route(), &value);
        assert_eq!(written, shown);
        assert_eq!((unmasked(route(), &mut written, Some(&value)), &written), (Ok(()), &value));
    }
    let mut new = json!({"certificate": chain, "key": MASK});
    assert_eq!(unmasked(route(), &mut new.clone(), None), Err("/key".to_owned()));
    assert_eq!(unmasked(route(), &mut new, Some(&json!({"key": "a.key"}))), Err("/key".to_owned()));
    let variable = json!({"secret": "${STICKY}"});
    assert_eq!(masked(route(), &variable), variable);
}

#[test]
fn entries_of_a_list_keep_their_own_secrets() {
    let one = |issuer: &str, secret: &str| json!({"issuer": issuer, "secret": secret});
    let alternatives = |issuers: Value| json!({"policies": {"any_of": [{"jwt": {"issuers": issuers}}]}});
    let before = alternatives(json!([one("a", "secret of a"), one("b", "secret of b")]));
    let back = |issuers: Value| {
        let mut written = alternatives(issuers);
        unmasked(route(), &mut written, Some(&before)).map(|()| written)
    };
    assert_eq!(masked(route(), &before), alternatives(json!([one("a", MASK), one("b", MASK)])));
    let turned = alternatives(json!([one("b", "secret of b"), one("a", "secret of a")]));
    assert_eq!(back(json!([one("b", MASK), one("a", MASK)])), Ok(turned));
    assert_eq!(back(json!([one("b", MASK)])), Ok(alternatives(json!([one("b", "secret of b")]))));
    let changed = |secret: &str| json!({"issuer": "b", "secret": secret, "audience": "x"});
    assert_eq!(back(json!([changed(MASK)])), Ok(alternatives(json!([changed("secret of b")]))));
    let pointer = "/policies/any_of/0/jwt/issuers/0/secret";
    assert_eq!(back(json!([one("c", MASK)])), Err(pointer.to_owned()));
}

/// A pairwise comparison would take minutes.
#[test]
fn a_long_list_without_masks_is_compared_with_nothing() {
    let list = |from: u32| (from..from + 50_000).map(|n| n.to_string()).collect::<Vec<_>>();
    let value = |from: u32| json!({"policies": {"ip": {"deny": list(from)}, "jwt": {"secret": "s"}}});
    let mut written = masked(route(), &value(1));
    assert_eq!(unmasked(route(), &mut written, Some(&value(0))), Ok(()));
    assert_eq!(written, value(1));
}

#[test]
fn secrets_of_a_plugin_are_masked_only_in_its_settings() {
    register_plugin_secrets("lock", &["code", "codes"]);
    let value = json!({"code": 1, "policies": {"plugins": {
        "lock": {"codes": ["1", "2"], "deep": [{"code": "x"}], "hint": "y"},
        "other": {"code": "z"}, "code": "off"
    }}});
    let shown = masked(route(), &value);
    let lock = &shown["policies"]["plugins"]["lock"];
    assert_eq!(lock, &json!({"codes": [MASK, MASK], "deep": [{"code": MASK}], "hint": "y"}));
    assert_eq!((&shown["code"], &shown["policies"]["plugins"]["other"]["code"]), (&json!(1), &json!("z")));
    assert_eq!(shown["policies"]["plugins"]["code"], "off");
    let mut written = shown;
    assert_eq!((unmasked(route(), &mut written, Some(&value)), &written), (Ok(()), &value));
}

#[test]
fn a_set_of_policies_is_what_stands_under_policies() {
    register_plugin_secrets("bolt", &["code"]);
    tollgate_policy::register();
    let set = kind("policies").expect("a kind");
    let value = json!({
        "jwt": {"secret": "x"},
        "headers": {"request": {"set": {"Authorization": "Basic Zm9v"}}},
        "rate_limit": {"redis": {"url": "redis://u:p@h"}},
        "plugins": {"bolt": {"code": "x"}, "code": {"code": "z"}, "secret": "on"}
    });
    let shown = masked(set, &value);
    for pointer in ["/jwt/secret", "/headers/request/set/Authorization", "/rate_limit/redis/url"] {
        assert_eq!(shown.pointer(pointer), Some(&json!(MASK)), "{pointer}");
    }
    assert_eq!(
        shown["plugins"],
        json!({"bolt": {"code": MASK}, "code": {"code": "z"}, "secret": "on"}),
        "keys of a plugin's settings, and not the plugins' names"
    );
    let mut written = shown;
    assert_eq!((unmasked(set, &mut written, Some(&value)), &written), (Ok(()), &value));
    let mut new = json!({"plugins": {"bolt": {"code": MASK}}});
    assert_eq!(unmasked(set, &mut new, None), Err("/plugins/bolt/code".to_owned()));
}

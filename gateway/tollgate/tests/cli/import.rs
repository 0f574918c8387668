//! `tollgate import ingress-nginx`: manifests become a configuration that `check` accepts.

use super::{arg, file, run, run_with_input};

const MANIFESTS: &str = "
kind: Service
metadata: {name: shop, namespace: demo}
spec: {ports: [{port: 80}]}
---
kind: Ingress
metadata:
  name: shop
  namespace: demo
  annotations:
    nginx.ingress.kubernetes.io/rewrite-target: /$1
    nginx.ingress.kubernetes.io/limit-rps: '10'
    nginx.ingress.kubernetes.io/server-snippet: 'return 418;'
spec:
  ingressClassName: nginx
  rules:
    - host: shop.example
      http: {paths: [{path: /shop/(.*), pathType: ImplementationSpecific, backend: {service: {name: shop, port: {number: 80}}}}]}
";

#[test]
fn manifests_become_a_configuration() {
    let manifests = file(MANIFESTS);
    let ran = run(&["import", "ingress-nginx", arg(&manifests)]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.out.starts_with("# Ingress demo/shop\n#   same: limit-rps\n"), "{}", ran.out);
    assert!(ran.out.contains("#   NOT SUPPORTED: server-snippet: "), "{}", ran.out);
    assert!(ran.out.contains("shop.demo.svc.cluster.local:80"), "{}", ran.out);
    let checked = run_with_input(&["check", "-"], &ran.out);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let explained = run_with_input(&["explain", "-", "GET", "http://shop.example/shop/cart"], &ran.out);
    assert!(explained.code == Some(0) && explained.out.contains("ingress/demo/shop/00"), "{explained:?}");
}

#[test]
fn the_report_alone_and_mistakes() {
    let ran = run_with_input(&["import", "ingress-nginx", "--report", "-"], MANIFESTS);
    assert!(ran.code == Some(0) && ran.out.starts_with("Ingress demo/shop\n"), "{ran:?}");
    assert!(!ran.out.contains("listen"), "{ran:?}");
    for (args, input, message) in [
        (&["import", "ingress-nginx", "-"][..], "a: [", "standard input: "),
        (&["import", "ingress-nginx", "-"], "kind: Pod", "there is no Ingress of ingress-nginx"),
        (&["import", "ingress-nginx", "--class", "other", "-"], MANIFESTS, "there is no Ingress"),
        (&["import", "ingress-nginx", "/absent.yaml"], "", "cannot read /absent.yaml"),
    ] {
        let ran = run_with_input(args, input);
        assert!(ran.code == Some(2) && ran.err.contains(message), "{args:?}: {ran:?}");
    }
    assert_eq!(run(&["import", "ingress-nginx"]).code, Some(2));
    assert_eq!(run(&["import"]).code, Some(2));
}

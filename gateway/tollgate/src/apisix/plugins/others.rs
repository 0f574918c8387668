//! Plugins without a counterpart, and what to write instead.

/// Returns what to write instead of a plugin; `None` if it is not one of these.
pub fn replacement(name: &str) -> Option<&'static str> {
    Some(match name {
        "openid-connect" | "cas-auth" | "authz-casdoor" | "authz-keycloak" | "saml-auth" | "multi-auth"
        | "wolf-rbac" | "ldap-auth" | "dingtalk-auth" | "feishu-auth" => {
            "write `policies.jwt` or `policies.forward_auth` of the route, over /api/v1"
        }
        "opa" | "authz-casbin" => {
            "write `policies.ext_authz` or `policies.forward_auth` of the route, over /api/v1"
        }
        "forward-auth" => "write `policies.forward_auth` of the route, over /api/v1",
        "hmac-auth" => {
            "this gateway verifies signatures of RFC 9421: write `policies.hmac` of the route, over /api/v1"
        }
        "gzip" | "brotli" => "write `policies.compression` of the route, over /api/v1",
        "grpc-web" => "write `grpc_web: on` of the route, over /api/v1",
        "grpc-transcode" => "this gateway does not translate JSON to gRPC",
        "mocking" => "write `respond` of the route, over /api/v1",
        "fault-injection" => "write `policies.fault` of the route, over /api/v1",
        "client-control" => "write `limits.body` of the route, over /api/v1",
        "real-ip" => "write `forwarded.trusted_proxies` in the file",
        "proxy-control" | "proxy-buffering" => "write `buffer` of the route, over /api/v1",
        "proxy-cache" => "write `policies.cache` of the route, over /api/v1",
        "graphql-proxy-cache" => "this gateway stores only responses to GET",
        "csrf" | "referer-restriction" | "ua-restriction" => {
            "match the header instead: a route with `match.headers` and `respond`, over /api/v1"
        }
        "zipkin" | "skywalking" | "opentelemetry" | "datadog" => {
            "write `policies.trace` of the route, over /api/v1"
        }
        "http-logger"
        | "tcp-logger"
        | "udp-logger"
        | "kafka-logger"
        | "file-logger"
        | "syslog"
        | "log-rotate"
        | "clickhouse-logger"
        | "elasticsearch-logger"
        | "loki-logger"
        | "sls-logger"
        | "rocketmq-logger"
        | "google-cloud-logging"
        | "splunk-hec-logging"
        | "skywalking-logger"
        | "tencent-cloud-cls"
        | "loggly"
        | "error-log-logger" => "write `access_log` in the file",
        "node-status" | "server-info" | "batch-requests" | "public-api" => {
            "the admin API has `/status` and `/metrics`"
        }
        "serverless-pre-function"
        | "serverless-post-function"
        | "ext-plugin-pre-req"
        | "ext-plugin-post-req"
        | "ext-plugin-post-resp"
        | "aws-lambda"
        | "azure-functions"
        | "openwhisk"
        | "openfunction" => {
            "this gateway runs no functions: write a plugin of your own in Rust (docs/plugins.md)"
        }
        "workflow" | "attach-consumer-label" => "write a route for each case: `match` over /api/v1",
        "degraphql" | "body-transformer" | "request-validation" | "oas-validator" | "chaitin-waf"
        | "data-mask" => "this gateway does not inspect bodies: a plugin of your own can (docs/plugins.md)",
        "redirect-regex" => "write a route with `redirect`, over /api/v1",
        "ai-proxy"
        | "ai-proxy-multi"
        | "ai-rate-limiting"
        | "ai-prompt-guard"
        | "ai-prompt-template"
        | "ai-prompt-decorator"
        | "ai-rag"
        | "ai-aws-content-moderation"
        | "ai-request-rewrite" => {
            "this gateway has no limits by model: a limit by tokens is `policies.rate_limit` with `cost.response_header`, over /api/v1"
        }
        "limit-count-redis" => "write `limit-count` with `policy` `redis`",
        _ => return None,
    })
}

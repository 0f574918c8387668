//! The texts that `tollgate help COMMAND` prints after the options: exit statuses, signals, variables, examples.

pub(super) const TOP: &str = "\
Examples:
  tollgate demo                                a gateway with two services to play with
  tollgate check tollgate.yaml                 is the file valid?
  tollgate explain tollgate.yaml GET /v1/x     where would this request go, and why?
  tollgate run tollgate.yaml                   serve
  tollgate status                              is it running, and with which configuration?
  tollgate bench run quick                     what does it cost, compared with nginx and HAProxy?

The smallest useful file:
  listen: 127.0.0.1:8080
  routes:
    - match: api.example.com/v1/*
      to: [10.0.0.1:8080, 10.0.0.2:8080]";

pub(super) const BENCH: &str = "\
Examples:
  tollgate bench run quick                   three cells next to nginx and HAProxy, under 3 minutes
  tollgate bench systems                     which gateways are installed, and how to get the others
  tollgate bench run toll --html toll.html   the full comparison, as one page";

pub(super) const RUN: &str = "\
Signals:
  SIGHUP           Read the file again. If it has an error, the present configuration stays.
                   `tollgate reload` does the same and reports the result.
  SIGUSR1          Reopen the access log after a rotation.
  SIGUSR2          Start the program again and let it take over without a refused connection. If it
                   fails to start, nothing changes.
  SIGTERM, SIGINT  Wait for `timeouts.drain_delay`, stop accepting, finish requests in flight for at
                   most `timeouts.drain`, exit. A second one stops at once.

Environment:
  TOLLGATE_CONFIG  the configuration file, if none is named

Exit status:
  0  stopped by a signal, or by `tollgate stop`
  1  it could not start, or a worker failed
  2  the command line is invalid, or there is no configuration file

Examples:
  tollgate run
  tollgate run /etc/tollgate/tollgate.yaml";

pub(super) const CONTROLLER: &str = "\
Signals:
  SIGHUP           Read the file again. If it has an error, nothing changes.
  SIGTERM, SIGINT  Stop. The gateways keep what they serve.

Exit status:
  0  stopped by a signal; `status`: the controller answers
  1  it could not start; `status`: it does not answer
  2  the command line is invalid, or there is no configuration file

Examples:
  tollgate controller /etc/tollgate/controller.yaml
  tollgate controller status
  tollgate controller status --output json | jq '.gateways[] | select(.connected | not)'";

pub(super) const HASH: &str = "\
Which hash goes where:
  consumers: {alice: {api_keys: \"sha256:...\"}}           tollgate hash
  admin: {tokens: {ops: {token: \"sha256:...\"}}}          tollgate hash
  consumers: {alice: {password: \"$argon2id$...\"}}        tollgate hash --argon2

Exit status:
  0  the hash was printed
  1  there is no key or password, or it cannot be hashed

Examples:
  tollgate hash                                   asks for a key, without showing it
  tollgate hash --generate                        makes a key
  tollgate hash --argon2 < password.txt           a newline at the end is not part of the password";

pub(super) const STATUS: &str = "\
Exit status:
  0  the gateway answers
  1  it does not

Examples:
  tollgate status
  tollgate status --output json | jq .config.generation
  tollgate status --admin 10.0.0.7:9911";

pub(super) const RELOAD: &str = "\
Needs a token of the role `write`, if the admin listener requires one.

Exit status:
  0  the file is in force on every worker
  1  it was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate check && tollgate reload
  tollgate reload --output json | jq .generation";

pub(super) const STOP: &str = "\
Needs a token of the role `admin`, if the admin listener requires one.

Exit status:
  0  the gateway has ended; with `--no-wait`: it is about to end
  1  it refused, or does not answer

Examples:
  tollgate stop
  tollgate stop --timeout 5m
  tollgate stop --no-wait";

pub(super) const COST: &str = "\
Exit status:
  0  the figures were shown
  1  the gateway does not answer

Examples:
  tollgate cost
  tollgate cost --output json | jq '.windows[0].headroom_requests_per_second'";

pub(super) const CHECK: &str = "\
Exit status:
  0  every file is valid; there may be warnings
  1  a file has an error
  2  the command line is invalid, or there is no configuration file

Examples:
  tollgate check
  tollgate check tollgate.yaml
  tollgate check sites/*.yaml
  render-config | tollgate check -";

pub(super) const EXPLAIN: &str = "\
Exit status:
  0  a route takes the request, or a stream the connection
  1  none does, or the request is rejected
  2  the command line or the file has an error

Examples:
  tollgate explain GET '/v1/users?page=2'
  tollgate explain tollgate.yaml GET http://shop.example.com/ -H 'X-Canary: always'
  tollgate explain tollgate.yaml POST api.example.com/v1/orders --json
  tollgate explain tollgate.yaml GET /v1/users -H 'X-Forwarded-For: 203.0.113.7' --from 10.0.0.1
  tollgate explain tollgate.yaml --listener db --sni db.example.com";

pub(super) const TOP_LIVE: &str = "\
Environment:
  TOLLGATE_TOKEN    sent as a bearer token, if the admin listener requires one
  TOLLGATE_ADMIN    the address, if no option sets it; used by every command that contacts a gateway

Exit status:
  0  the figures were shown
  1  the gateway does not answer

Examples:
  tollgate top
  tollgate top --admin 10.0.0.7:9911
  tollgate top --once | head -20";

pub(super) const TRACE: &str = "\
Environment:
  TOLLGATE_TOKEN    sent as a bearer token, if the admin listener requires one
  TOLLGATE_ADMIN    the address, if no option sets it; used by every command that contacts a gateway

Exit status:
  0  the limit was reached
  1  the gateway does not answer, refuses, or has stopped

Examples:
  tollgate trace --limit 1
  tollgate trace --host api.example.com --path '/v1/*' --status 5xx
  tollgate trace --client 10.0.0.0/8 --reason rate_limited
  tollgate trace --stream mail
  tollgate trace --json | jq -r '.target + \" \" + (.total_ms | tostring)'";

pub(super) const GET: &str = "\
Exit status:
  0  the resources were shown
  1  the resource does not exist, or the gateway does not answer

Examples:
  tollgate get routes
  tollgate get routes --search shop --output json
  tollgate get routes/hello > hello.yaml
  tollgate get";

pub(super) const SET: &str = "\
Exit status:
  0  the change is durable, and in force on every worker
  1  the change was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate set routes/hello '{match: /hello, respond: hello}'
  tollgate set upstreams/shop --file shop.yaml
  tollgate set upstreams/shop --merge '{balance: least_requests}' --dry-run
  tollgate set routes/hello --if-version 3 '{match: /hello, respond: good day}'";

pub(super) const DELETE: &str = "\
Exit status:
  0  the removal is durable, and in force on every worker
  1  the change was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate delete routes/hello
  tollgate delete upstreams/shop --dry-run";

pub(super) const DIFF: &str = "\
Exit status:
  0  nothing would change
  1  something would change
  2  the file would be rejected, or the gateway does not answer

Examples:
  tollgate diff routes.yaml
  tollgate diff routes.yaml --prune
  tollgate diff 12                     what a rollback to version 12 would change";

pub(super) const HISTORY: &str = "\
Examples:
  tollgate history
  tollgate history --limit 100 --before 200
  tollgate history 12                  what version 12 changed";

pub(super) const ROLLBACK: &str = "\
A rollback is itself a version, so it can be reverted.

Exit status:
  0  the change is durable, and in force on every worker
  1  the change was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate rollback 12 --dry-run
  tollgate rollback 12";

pub(super) const EXPORT: &str = "\
Secrets are not exported: `(secret)` replaces them, and `import` into the same gateway leaves them
unchanged.

Examples:
  tollgate export > all.yaml
  tollgate export --stored | tollgate import - --admin 10.0.0.7:9911";

pub(super) const IMPORT: &str = "\
Exit status:
  0  all changes are durable, and in force on every worker
  1  the change was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate import routes.yaml
  tollgate import routes.yaml --prune --dry-run
  render-routes | tollgate import -
  kubectl get -A ingress,service,endpointslice,secret,configmap -o yaml |
    tollgate import ingress-nginx - > tollgate.yaml";

pub(super) const BACKUP: &str = "\
A copy is a store: to restore it, stop the gateway, replace the store by the copy, and start the
gateway.

Examples:
  tollgate backup /var/lib/tollgate/store.backup";

pub(super) const LOG: &str = "\
Components:
  admin, controller, discovery, etcd, gateway, health, kubernetes, listener, overload, policy,
  reload, tls, upgrade, upstream

Exit status:
  0  the levels were shown, or are in force
  1  the change was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate log
  tollgate log --component upstream=debug --component tls=debug
  tollgate log --level warn";

pub(super) const CACHE: &str = "\
Exit status:
  0  the state was shown, or the responses are purged
  1  the purge was rejected, or the gateway does not answer

Examples:
  tollgate cache status
  tollgate cache purge --url https://shop.example/products/7
  tollgate cache purge --prefix https://shop.example/images/
  tollgate cache purge --tag product-7 --soft
  tollgate cache purge --all";

pub(super) const DEMO: &str = "\
Examples:
  tollgate demo
  tollgate demo --listen 127.0.0.1:8081 --admin 127.0.0.1:9902
  tollgate demo --listen 127.0.0.1:0 --admin 127.0.0.1:0";

pub(super) const SCHEMA: &str = "\
Example, for an editor with the YAML language server:
  tollgate schema > tollgate.schema.json
  and as the first line of the configuration:
  # yaml-language-server: $schema=tollgate.schema.json";

pub(super) const CRDS: &str = "\
Example:
  tollgate crds | kubectl apply --server-side -f -";

pub(super) const COMPLETIONS: &str = "\
Examples:
  tollgate completions bash > /etc/bash_completion.d/tollgate
  tollgate completions zsh > \"${fpath[1]}/_tollgate\"
  tollgate completions fish > ~/.config/fish/completions/tollgate.fish";

pub(super) const MAN: &str = "\
Examples:
  tollgate man | man -l -
  tollgate man explain > tollgate-explain.1
  tollgate man --all /usr/local/share/man/man1";

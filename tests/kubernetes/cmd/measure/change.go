package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var rounds = flag.Int("rounds", 40, "how often each kind of change is made")

// change counts the requests that fail while routes, their backends, endpoints and listeners change. Every change leaves
// a server for each request at any time, so each one must be answered with 200.
func change(c *cluster) {
	c.backend("a", c.serve("a"))
	c.backend("b", c.serve("b"))
	for _, name := range []string{"still", "swapped", "moved", "filtered", "sliced", "weighted", "ruled"} {
		c.createRoute(name, "a", 80)
	}
	hosts := []string{
		"still.example", "swapped.example", "moved.example", "filtered.example", "sliced.example/x", "weighted.example",
		"ruled.example/old",
	}
	c.backend("sliced", c.serve("a"))
	c.patchRoute("sliced", rule(backends("sliced")))
	for _, host := range hosts {
		c.until(host)
	}
	other := c.serve("b")
	first := c.portOf("sliced")
	var waits []time.Duration
	counts, worst := c.under(hosts, func() {
		for round := range *rounds {
			to := []string{"b", "a"}[round%2]

			// The backend of a route.
			c.patchRoute("swapped", rule(backends(to)))
			waits = append(waits, c.answers("swapped.example", to))

			// The endpoints of a Service.
			c.setPort("sliced", []int{other, first}[round%2])
			waits = append(waits, c.answers("sliced.example/x", to))

			// A filter.
			name := fmt.Sprintf("x-round-%d", round)
			header := map[string]any{"type": "RequestHeaderModifier", "requestHeaderModifier": map[string]any{
				"set": []any{map[string]any{"name": name, "value": "1"}},
			}}
			c.patchRoute("filtered", map[string]any{"filters": []any{header}, "backendRefs": backends("a")})

			// Shares of the requests.
			shares := backends("a", "b")
			shares[0].(map[string]any)["weight"] = int64(round % 10)
			shares[1].(map[string]any)["weight"] = int64(10 - round%10)
			c.patchRoute("weighted", map[string]any{"backendRefs": shares})

			// A route takes a host over from another one, which then goes.
			from, next := "moved", "moved-too"
			if round%2 == 1 {
				from, next = next, from
			}
			c.createRouteOf(next, "moved.example", to)
			c.awaitAccepted(next)
			c.remove(from)

			// A route comes, and goes.
			brief := fmt.Sprintf("brief-%d", round)
			c.createRoute(brief, "a", 80)
			c.until(brief + ".example")
			c.remove(brief)

			// A rule comes before the one that has requests.
			before := map[string]any{"matches": []any{map[string]any{"path": map[string]any{
				"type": "Exact", "value": fmt.Sprintf("/new-%d", round),
			}}}, "backendRefs": backends("b")}
			c.patchRoute("ruled", before, rule(backends("a")))

			// A listener comes, and goes.
			listeners := []any{map[string]any{"name": "http", "port": int64(80), "protocol": "HTTP"}}
			if round%2 == 0 {
				listeners = append(listeners, map[string]any{"name": "more", "port": int64(8080), "protocol": "HTTP"})
			}
			c.patchObject(gateways, "g", map[string]any{"listeners": listeners})
		}
	})
	fmt.Printf("%d rounds of 9 changes: %s; the slowest request took %s; a swap was in force after a median of %s, p99 %s\n",
		*rounds, show(counts), milliseconds(worst), milliseconds(quantile(waits, 0.5)), milliseconds(quantile(waits, 0.99)))
	if failed := failures(counts); failed > 0 {
		c.close()
		log.Fatalf("%d requests failed", failed)
	}
}

// backends returns references to Services.
func backends(services ...string) []any {
	var all []any
	for _, service := range services {
		all = append(all, map[string]any{"name": service, "port": int64(80)})
	}
	return all
}

func rule(backends []any) map[string]any {
	return map[string]any{"backendRefs": backends}
}

// patchRoute replaces the rules of a route.
func (c *cluster) patchRoute(name string, rules ...map[string]any) {
	c.patchObject(routes, name, map[string]any{"rules": rules})
}

// patchObject replaces fields of an object's spec.
func (c *cluster) patchObject(resource schema.GroupVersionResource, name string, spec map[string]any) {
	patch, err := json.Marshal(map[string]any{"spec": spec})
	must(err)
	_, err = c.dynamic.Resource(resource).Namespace(c.namespace).Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	must(err)
}

func (c *cluster) createRouteOf(name, host, service string) {
	c.create(routes, "HTTPRoute", name, map[string]any{
		"parentRefs": []any{map[string]any{"name": "g"}},
		"hostnames":  []any{host},
		"rules":      []any{rule(backends(service))},
	})
}

func (c *cluster) remove(route string) {
	must(c.dynamic.Resource(routes).Namespace(c.namespace).Delete(context.Background(), route, metav1.DeleteOptions{}))
}

// awaitAccepted waits until a route's status says that it is accepted.
func (c *cluster) awaitAccepted(name string) {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		route, err := c.dynamic.Resource(routes).Namespace(c.namespace).Get(context.Background(), name, metav1.GetOptions{})
		must(err)
		if isAccepted(route) {
			return
		}
		if time.Now().After(end) {
			log.Fatalf("the route %s is not accepted after 20 s", name)
		}
	}
}

func (c *cluster) portOf(service string) int {
	slice, err := c.core.DiscoveryV1().EndpointSlices(c.namespace).Get(context.Background(), service+"-1", metav1.GetOptions{})
	must(err)
	return int(*slice.Ports[0].Port)
}

// setPort gives a Service another endpoint.
func (c *cluster) setPort(service string, port int) {
	_, err := c.core.DiscoveryV1().EndpointSlices(c.namespace).Update(context.Background(), slice(service, port), metav1.UpdateOptions{})
	must(err)
}

// answers sends requests until a server has answered with its text, and returns how long that took.
func (c *cluster) answers(host, text string) time.Duration {
	begin := time.Now()
	for {
		if _, body, err := c.get(poller, host); err == nil && body == text {
			return time.Since(begin)
		}
		if time.Since(begin) > 20*time.Second {
			log.Fatalf("%s does not answer %s after 20 s", host, text)
		}
		time.Sleep(500 * time.Microsecond)
	}
}

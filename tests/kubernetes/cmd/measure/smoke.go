package main

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// smoke follows one route through its life: a Service without endpoints, an endpoint, other endpoints, a host that no
// route has, and the end of the route. It needs no controllers.
func smoke(c *cluster) {
	ctx := context.Background()
	c.backend("s", c.serve("one"))
	slices := c.core.DiscoveryV1().EndpointSlices(c.namespace)
	must(slices.Delete(ctx, "s-1", metav1.DeleteOptions{}))
	c.createRoute("r", "s", 80)
	c.awaitAccepted("r")
	c.expect("r.example", 503, "no_endpoints")
	_, err := slices.Create(ctx, slice("s", c.serve("two")), metav1.CreateOptions{})
	must(err)
	c.expect("r.example", 200, "two")
	c.setPort("s", c.serve("three"))
	c.expect("r.example", 200, "three")
	c.expect("other.example", 404, "")
	c.patchRoute("r", rule(backends("none")))
	c.expect("r.example", 500, "")
	c.remove("r")
	c.expect("r.example", 404, "")
	fmt.Println("a route was accepted, served, changed and removed")
}

// expect sends requests until one is answered with a status and a text.
func (c *cluster) expect(host string, status int, text string) {
	begin := time.Now()
	for {
		got, body, err := c.get(poller, host)
		if err == nil && got == status && strings.Contains(body, text) {
			return
		}
		if time.Since(begin) > 20*time.Second {
			log.Fatalf("%s is not answered with %d %s after 20 s: %d %q, %v", host, status, text, got, body, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

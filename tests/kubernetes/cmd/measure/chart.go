package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var mode = flag.String("mode", "all-in-one", "the mode of the chart")

// chart sends requests to two Gateways on the same port. Each has the address of a Service of the type LoadBalancer, whose
// endpoints are the gateway's pods.
func chart(c *cluster) {
	one, other := c.address, c.gateway("h")
	if one == other {
		log.Fatalf("both Gateways have the address %s", one)
	}
	c.backend("s", c.serve("ok"))
	c.createRoute("first", "s", 80)
	c.until("first.example")
	c.awaitAccepted("first")
	backend := map[string]any{"name": "s", "port": int64(80)}
	c.create(routes, "HTTPRoute", "second", map[string]any{
		"parentRefs": []any{map[string]any{"name": "h"}},
		"hostnames":  []any{"second.example"},
		"rules":      []any{map[string]any{"backendRefs": []any{backend}}},
	})
	c.address = other
	c.until("second.example")
	// New connections, so that every pod answers.
	clients := client(1)
	clients.Transport.(*http.Transport).DisableKeepAlives = true
	wrong := []string{}
	for _, expected := range []struct {
		address, host string
		status        int
	}{{one, "first.example", 200}, {one, "second.example", 404}, {other, "first.example", 404}, {other, "second.example", 200}} {
		c.address = expected.address
		for range 20 {
			if status, _, err := c.get(clients, expected.host); err != nil || status != expected.status {
				wrong = append(wrong, fmt.Sprintf("%s at %s: %d, %v, and not %d", expected.host, expected.address, status, err, expected.status))
				break
			}
		}
	}
	services, pods := c.gatewayServices()
	fmt.Printf("chart, %s: Gateways at %s and %s, %d Services of the type LoadBalancer with %d pods each; each Gateway serves its own route\n",
		*mode, one, other, services, pods)
	if services != 2 || pods != 2 {
		wrong = append(wrong, "2 Services with 2 pods are expected")
	}
	if len(wrong) > 0 {
		c.close()
		log.Fatal(strings.Join(wrong, "; "))
	}
}

// gatewayServices returns how many Services the Gateways have, and how many ready endpoints the one with the fewest has,
// when it has as many as the gateway has pods.
func (c *cluster) gatewayServices() (int, int) {
	ctx := context.Background()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		services, err := c.core.CoreV1().Services(c.namespace).List(ctx, metav1.ListOptions{})
		must(err)
		slices, err := c.core.DiscoveryV1().EndpointSlices(c.namespace).List(ctx, metav1.ListOptions{})
		must(err)
		count, fewest := 0, -1
		for _, service := range services.Items {
			if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
				continue
			}
			count++
			ready := 0
			for _, slice := range slices.Items {
				if slice.Labels[discoveryv1.LabelServiceName] != service.Name {
					continue
				}
				for _, endpoint := range slice.Endpoints {
					if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
						ready++
					}
				}
			}
			if fewest < 0 || ready < fewest {
				fewest = ready
			}
		}
		if fewest >= 2 || time.Now().After(end) {
			return count, fewest
		}
	}
}

package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var (
	samples  = flag.Int("samples", 200, "how many single routes are measured")
	total    = flag.Int("routes", 5000, "how many routes there are in the end")
	host     = flag.String("host", "10.244.0.1", "an address of this machine that the gateway reaches; the API server refuses loopback addresses")
	load     = flag.Int("load", 500, "requests per second while single routes are measured")
	patience = 120 * time.Second
)

// speed measures how soon changes are in force.
func speed(c *cluster) {
	c.backend("s", c.serve("ok"))

	accepted := c.watchAccepted()
	writes := func() float64 {
		return c.metric("apiserver_request_total", `resource="httproutes"`, `subresource="status"`)
	}
	made, before, memoryBefore := 0, writes(), 0
	if *pid != 0 {
		memoryBefore = memory()
	}
	c.createRoute("first", "s", 80)
	made++
	c.until("first.example")
	made += c.single("one", made)

	begin := time.Now()
	c.many("burst", 300, 8)
	made += 300
	created := time.Now()
	c.all("burst", 300)
	answering := time.Since(created)
	await(accepted, made)
	fmt.Printf("300 routes at once: created in %s; after that all answer within %s and are accepted within %s\n",
		milliseconds(created.Sub(begin)), milliseconds(answering), milliseconds(time.Since(created)))
	bar("300 routes at once", time.Since(created), 500*time.Millisecond)

	begin = time.Now()
	c.many("row", 1000, 1)
	made += 1000
	created = time.Now()
	c.all("row", 1000)
	answering = time.Since(created)
	await(accepted, made)
	fmt.Printf("1,000 routes one by one: created in %s; after that all answer within %s and are accepted within %s\n",
		milliseconds(created.Sub(begin)), milliseconds(answering), milliseconds(time.Since(created)))
	bar("1,000 routes one by one", time.Since(created), 500*time.Millisecond)

	if rest := *total - made - *samples; rest > 0 {
		c.many("fill", rest, 8)
		made += rest
		c.all("fill", rest)
		await(accepted, made)
	}
	if *pid != 0 {
		// The allocator gives free pages back after a second or two: this is the memory that the routes take, not that
		// of the way there.
		time.Sleep(5 * time.Second)
		each := float64(memory()-memoryBefore) / float64(made)
		fmt.Printf("memory: %d MiB with %d routes, %.1f KiB a route\n", memory()/1024, made, each)
		if each > memoryMax {
			missed = append(missed, fmt.Sprintf("%.1f KiB a route, and not %.0f", each, memoryMax))
		}
	}
	made += c.single("many", made)
	await(accepted, made)
	fmt.Printf("writes of statuses: %.0f for %d routes\n", writes()-before, made)
	if written := int(writes() - before); written != made {
		missed = append(missed, fmt.Sprintf("%d writes of statuses for %d routes", written, made))
	}
	if len(missed) > 0 {
		c.close()
		log.Fatalf("bars missed: %s", strings.Join(missed, "; "))
	}
}

// memoryMax is the bar of the memory for each route, in KiB.
const memoryMax = 10.0

var missed []string

// bar notes that something took longer than it may.
func bar(what string, took, atMost time.Duration) {
	if took > atMost {
		missed = append(missed, fmt.Sprintf("%s took %s, and not %s", what, milliseconds(took), milliseconds(atMost)))
	}
}

// backend makes a Service with one endpoint, a port of this machine.
func (c *cluster) backend(service string, port int) {
	ctx := context.Background()
	spec := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: service}, Spec: spec}
	_, err := c.core.CoreV1().Services(c.namespace).Create(ctx, object, metav1.CreateOptions{})
	must(err)
	_, err = c.core.DiscoveryV1().EndpointSlices(c.namespace).Create(ctx, slice(service, port), metav1.CreateOptions{})
	must(err)
}

// slice returns the endpoints of a Service: one port of this machine.
func slice(service string, port int) *discoveryv1.EndpointSlice {
	name, number, yes := "http", int32(port), true
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &number}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{*host}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}}},
	}
}

// serve starts a server that answers every request with 200 and a text. It returns its port.
func (c *cluster) serve(text string) int {
	listener, err := net.Listen("tcp", net.JoinHostPort(*host, "0"))
	must(err)
	go func() {
		must(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })))
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// single makes routes one after the other under load, and measures the time from the answer of the API server to the
// first answer of the route. It returns how many it made.
func (c *cluster) single(prefix string, present int) int {
	var failed, sent atomic.Int64
	stop := make(chan struct{})
	var loading sync.WaitGroup
	loading.Add(1)
	go func() {
		defer loading.Done()
		clients := client(16)
		tick := time.NewTicker(time.Second / time.Duration(*load))
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				loading.Add(1)
				go func() {
					defer loading.Done()
					sent.Add(1)
					if status, _, err := c.get(clients, "first.example"); err != nil || status != 200 {
						failed.Add(1)
					}
				}()
			}
		}
	}()
	var times []time.Duration
	for number := range *samples {
		name := fmt.Sprintf("%s-%d", prefix, number)
		c.createRoute(name, "s", 80)
		times = append(times, c.until(name+".example"))
	}
	close(stop)
	loading.Wait()
	fmt.Printf("one route among %d: median %s, p99 %s, at most %s; %d of %d other requests failed\n", present,
		milliseconds(quantile(times, 0.5)), milliseconds(quantile(times, 0.99)), milliseconds(quantile(times, 1)),
		failed.Load(), sent.Load())
	bar(fmt.Sprintf("the median of one route among %d", present), quantile(times, 0.5), 30*time.Millisecond)
	bar(fmt.Sprintf("p99 of one route among %d", present), quantile(times, 0.99), 100*time.Millisecond)
	return *samples
}

var poller = client(1)

// until sends requests until one is answered with 200, and returns how long that took.
func (c *cluster) until(host string) time.Duration {
	begin := time.Now()
	for {
		if status, _, err := c.get(poller, host); err == nil && status == 200 {
			return time.Since(begin)
		}
		if time.Since(begin) > patience {
			log.Fatalf("%s does not answer within %s", host, patience)
		}
		time.Sleep(500 * time.Microsecond)
	}
}

// many makes routes with some writers at a time.
func (c *cluster) many(prefix string, count, writers int) {
	var group sync.WaitGroup
	for writer := range writers {
		group.Add(1)
		go func() {
			defer group.Done()
			for number := writer; number < count; number += writers {
				c.createRoute(fmt.Sprintf("%s-%d", prefix, number), "s", 80)
			}
		}()
	}
	group.Wait()
}

// all waits until each of some routes has answered.
func (c *cluster) all(prefix string, count int) {
	for number := count - 1; number >= 0; number-- {
		c.until(fmt.Sprintf("%s-%d.example", prefix, number))
	}
}

// watchAccepted counts the routes that are accepted. The API server ends the watch of a client that does not follow, so
// it is begun again after a listing.
func (c *cluster) watchAccepted() *atomic.Int64 {
	var count atomic.Int64
	seen := map[string]bool{}
	see := func(route *unstructured.Unstructured) {
		if name := route.GetName(); !seen[name] && isAccepted(route) {
			seen[name] = true
			count.Add(1)
		}
	}
	go func() {
		resource := c.dynamic.Resource(routes).Namespace(c.namespace)
		for {
			list, err := resource.List(context.Background(), metav1.ListOptions{})
			must(err)
			for number := range list.Items {
				see(&list.Items[number])
			}
			watch, err := resource.Watch(context.Background(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
			must(err)
			for event := range watch.ResultChan() {
				if route, ok := event.Object.(*unstructured.Unstructured); ok && route.GetKind() == "HTTPRoute" {
					see(route)
				}
			}
		}
	}()
	return &count
}

func isAccepted(route *unstructured.Unstructured) bool {
	parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
	for _, parent := range parents {
		conditions, _, _ := unstructured.NestedSlice(parent.(map[string]any), "conditions")
		for _, one := range conditions {
			if it := one.(map[string]any); it["type"] == "Accepted" && it["status"] == "True" {
				return true
			}
		}
	}
	return false
}

func await(accepted *atomic.Int64, count int) {
	for end := time.Now().Add(patience); accepted.Load() < int64(count); {
		if time.Now().After(end) {
			log.Fatalf("%d of %d routes are accepted after %s", accepted.Load(), count, patience)
		}
		time.Sleep(time.Millisecond)
	}
}

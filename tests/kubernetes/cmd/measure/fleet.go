package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	fleetSize   = flag.Int("gateways", 1, "how many gateways the fleet has; they listen on 127.10.0.1 and so on")
	fleetRoutes = flag.Int("fleet-routes", 50, "how many routes are made")
)

// fleetWindow is the time in which requests are counted. It is the same for each size, so that what the cluster does by
// itself is the same, too.
const fleetWindow = 30 * time.Second

// fleet makes routes, waits until each gateway of a fleet serves them, and counts what the API server had to do meanwhile.
func fleet(c *cluster) {
	clients := client(1)
	clients.Transport.(*http.Transport).DisableKeepAlives = true
	for gateway := 1; gateway <= *fleetSize; gateway++ {
		c.await(clients, gatewayAddress(gateway), "")
	}
	before := c.apiServerRequests()
	start := time.Now()
	var slowest time.Duration
	for number := 0; number < *fleetRoutes; number++ {
		name := fmt.Sprintf("fleet-%d", number)
		begun := time.Now()
		// A route to a Service that does not exist is 500; a host without a route is 404.
		c.createRoute(name, "none", 80)
		for gateway := 1; gateway <= *fleetSize; gateway++ {
			c.await(clients, gatewayAddress(gateway), name)
		}
		slowest = max(slowest, time.Since(begun))
	}
	took := time.Since(start)
	if took > fleetWindow {
		log.Fatalf("%d routes took %v, longer than the window", *fleetRoutes, took)
	}
	time.Sleep(time.Until(start.Add(fleetWindow)))
	after := c.apiServerRequests()
	total := 0
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(after)) {
		if count := after[what] - before[what]; count > 0 {
			total += count
			parts = append(parts, fmt.Sprintf("%s %d", what, count))
		}
	}
	watches := int(c.metric("apiserver_longrunning_requests", `verb="WATCH"`))
	fmt.Printf("gateways %d: %d requests to the API server in %v with %d new routes, %d watches, slowest route in force everywhere after %v\n",
		*fleetSize, total, fleetWindow, *fleetRoutes, watches, slowest.Round(time.Millisecond))
	fmt.Printf("  %s\n", strings.Join(parts, ", "))
	// The next measurement shall not count the end of this one.
	c.close()
	for {
		_, err := c.core.CoreV1().Namespaces().Get(context.Background(), c.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func gatewayAddress(number int) string {
	return net.JoinHostPort(fmt.Sprintf("127.10.%d.%d", number/250, number%250), "80")
}

// await waits until a gateway has the route of a host; without a name, until it answers.
func (c *cluster) await(client *http.Client, address, name string) {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		request, err := http.NewRequest(http.MethodGet, "http://"+address+"/", nil)
		must(err)
		request.Host = name + ".example"
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
			if name == "" || response.StatusCode != http.StatusNotFound {
				return
			}
		}
		if time.Now().After(end) {
			log.Fatalf("%s does not serve %q after 20 s", address, name)
		}
	}
}

var requestLabels = regexp.MustCompile(`^apiserver_request_total\{.*resource="([^"]*)".*subresource="([^"]*)".*verb="([^"]*)"`)

// apiServerRequests returns how many requests the API server has answered, by verb and resource.
func (c *cluster) apiServerRequests() map[string]int {
	page, err := c.core.RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	must(err)
	requests := map[string]int{}
	for _, line := range strings.Split(string(page), "\n") {
		labels := requestLabels.FindStringSubmatch(line)
		if labels == nil {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		must(err)
		what := labels[3] + " " + labels[1]
		if labels[2] != "" {
			what += "/" + labels[2]
		}
		requests[what] += int(value)
	}
	return requests
}

package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"
)

var (
	fleetSize   = flag.Int("gateways", 1, "how many gateways the fleet has; they listen on 127.10.0.1 and so on")
	fleetRoutes = flag.Int("routes", 50, "how many routes are made")
)

// fleet makes routes, waits until each gateway of a fleet serves them, and counts what the API server had to do meanwhile.
func fleet(c *cluster) {
	clients := client(1)
	clients.Transport.(*http.Transport).DisableKeepAlives = true
	requestsBefore, watches := c.apiServerLoad()
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
	// Both sizes take the same time, so that what the cluster does by itself is the same.
	time.Sleep(time.Until(start.Add(30 * time.Second)))
	requests, watchesAfter := c.apiServerLoad()
	fmt.Printf("gateways %d: %d requests to the API server in 30 s with %d new routes, %d watches (%d before), slowest route in force everywhere after %v\n",
		*fleetSize, requests-requestsBefore, *fleetRoutes, watchesAfter, watches, slowest.Round(time.Millisecond))
}

func gatewayAddress(number int) string {
	return net.JoinHostPort(fmt.Sprintf("127.10.%d.%d", number/250, number%250), "80")
}

// await waits until a gateway has the route of a host.
func (c *cluster) await(client *http.Client, address, name string) {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		request, err := http.NewRequest(http.MethodGet, "http://"+address+"/", nil)
		must(err)
		request.Host = name + ".example"
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode != http.StatusNotFound {
				return
			}
		}
		if time.Now().After(end) {
			log.Fatalf("%s does not serve %s after 20 s", address, name)
		}
	}
}

// apiServerLoad returns how many requests the API server has answered, and how many watches are open.
func (c *cluster) apiServerLoad() (requests, watches int) {
	requests = int(c.metric("apiserver_request_total"))
	watches = int(c.metric("apiserver_longrunning_requests", `verb="WATCH"`))
	return requests, watches
}

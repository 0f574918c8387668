package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os/exec"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	control  = flag.String("cluster", "", "the program that stops and starts parts of the cluster")
	second   = flag.String("second", "127.10.0", "the addresses of the gateway that does not lead begin with this")
	down     = flag.Duration("down", time.Minute, "how long the API server is away")
	etcd     = flag.Int("etcd", 0, "the process of etcd")
	converge = 2 * time.Second
)

// outage counts the requests that fail while parts of the control plane are away, and measures how soon changes are in
// force afterwards. Requests go to a gateway that does not lead at first: the leader is killed.
func outage(c *cluster) {
	c.backend("s", c.serve("ok"))
	c.createRoute("first", "s", 80)
	c.until("first.example")
	if *pid == 0 || *etcd == 0 || *control == "" {
		log.Fatal("outage needs -pid, -etcd and -cluster")
	}
	c.address = c.follower()
	missed, failed := 0, 0
	check := func(what string, counts map[string]int, worst time.Duration, took map[string]time.Duration) {
		failed += failures(counts)
		fmt.Printf("%s: %s; the slowest request took %s", what, show(counts), milliseconds(worst))
		for _, name := range []string{"answers", "is accepted"} {
			fmt.Printf("; a new route %s after %s", name, milliseconds(took[name]))
			if took[name] > converge {
				missed++
				fmt.Printf(" (bar: %s)", converge)
			}
		}
		fmt.Println()
	}
	number := 0
	// fresh makes a route, and returns how long it takes until it answers and is accepted.
	fresh := func() map[string]time.Duration {
		number++
		name := fmt.Sprintf("after-%d", number)
		c.createWhenPossible(name)
		begin := time.Now()
		took := map[string]time.Duration{"answers": c.until(name + ".example")}
		c.awaitAccepted(name)
		took["is accepted"] = time.Since(begin)
		return took
	}

	var took map[string]time.Duration
	counts, worst := c.under([]string{"first.example"}, func() {
		time.Sleep(time.Second)
		must(syscall.Kill(*pid, syscall.SIGKILL))
		took = fresh()
		time.Sleep(time.Second)
	})
	// The Lease belongs to the killed gateway until it expires: 1.5 s.
	check("leader killed", counts, worst, took)

	counts, worst = c.under([]string{"first.example"}, func() {
		time.Sleep(time.Second)
		run(*control, "stop", "apiserver")
		time.Sleep(*down)
		run(*control, "resume", "apiserver")
		took = fresh()
		time.Sleep(time.Second)
	})
	check(fmt.Sprintf("API server away for %s", *down), counts, worst, took)

	counts, worst = c.under([]string{"first.example"}, func() {
		time.Sleep(time.Second)
		must(syscall.Kill(*etcd, syscall.SIGSTOP))
		time.Sleep(15 * time.Second)
		must(syscall.Kill(*etcd, syscall.SIGCONT))
		took = fresh()
		time.Sleep(time.Second)
	})
	check("etcd stopped for 15 s", counts, worst, took)
	if failed > 0 || missed > 0 {
		c.close()
		log.Fatalf("%d requests failed, %d bars missed", failed, missed)
	}
}

// follower returns the address at which the gateway that does not lead serves the Gateway: the one of its addresses that
// answers.
func (c *cluster) follower() string {
	leader := c.address
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for last := range 32 {
			address := fmt.Sprintf("%s.%d", *second, last)
			connection, err := net.DialTimeout("tcp", net.JoinHostPort(address, "80"), time.Second)
			if err != nil {
				continue
			}
			connection.Close()
			c.address = address
			if status, _, err := c.get(client(1), "first.example"); err == nil && status == 200 {
				c.address = leader
				return address
			}
		}
	}
	log.Fatalf("no gateway answers at %s.*", *second)
	return ""
}

// createWhenPossible makes a route as soon as the API server takes it.
func (c *cluster) createWhenPossible(name string) {
	spec := map[string]any{
		"parentRefs": []any{map[string]any{"name": "g"}},
		"hostnames":  []any{name + ".example"},
		"rules":      []any{rule(backends("s"))},
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err := c.tryCreate(ctx, routes, "HTTPRoute", name, spec)
		cancel()
		if err == nil || apierrors.IsAlreadyExists(err) {
			return
		}
		if time.Now().After(end) {
			log.Fatalf("the API server takes no route: %v", err)
		}
	}
}

func run(program string, words ...string) {
	if out, err := exec.Command(program, words...).CombinedOutput(); err != nil {
		log.Fatalf("%s %v: %v: %s", program, words, err, out)
	}
}

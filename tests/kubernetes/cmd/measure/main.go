// measure: what a gateway in the cluster takes for changes, and what clients see of them.
//
//	measure speed    from a new route to its first answer, many routes at once, writes of statuses, memory
//	measure fleet    requests and watches of the API server, with a fleet of gateways
//	measure roll     requests during rolling restarts, and while a Deployment has no pods
//	measure change   requests while routes, backends, endpoints and listeners change
//	measure smoke    the life of one route, without controllers
//	measure outage   requests while the leader, the API server or etcd is away
//	measure chart    two Gateways of an installation by the chart, each with a Service of the type LoadBalancer
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

var (
	class = flag.String("class", "tollgate", "the GatewayClass")
	pid   = flag.Int("pid", 0, "the process of the gateway, of which the memory is read")

	gateways = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
	routes   = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
)

// cluster is the API server, with a namespace for the measurement.
type cluster struct {
	core      *kubernetes.Clientset
	dynamic   dynamic.Interface
	namespace string
	address   string // of the Gateway
}

func main() {
	log.SetFlags(0)
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig")
	if len(os.Args) < 2 {
		log.Fatal("measure speed|roll|fleet|change|outage|smoke|chart [flags]")
	}
	what := os.Args[1]
	os.Args = append(os.Args[:1], os.Args[2:]...)
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err)
	config.QPS = -1 // the measurement shall not wait for itself
	c := &cluster{core: kubernetes.NewForConfigOrDie(config), dynamic: dynamic.NewForConfigOrDie(config), namespace: what}
	// For 30 s after a namespace is gone, the API server looks up one of its name at each request.
	switch what {
	case "fleet":
		c.namespace = fmt.Sprintf("fleet-%d", *fleetSize)
	case "chart":
		c.namespace = "chart-" + *mode
	}
	c.open()
	defer c.close()
	switch what {
	case "speed":
		speed(c)
	case "roll":
		roll(c)
	case "fleet":
		fleet(c)
	case "change":
		change(c)
	case "outage":
		outage(c)
	case "smoke":
		smoke(c)
	case "chart":
		chart(c)
	default:
		log.Fatalf("measure speed|roll|fleet|change|outage|smoke|chart, not %s", what)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// open makes the namespace and a Gateway, and waits for its address.
func (c *cluster) open() {
	ctx := context.Background()
	c.close()
	for { // until an earlier namespace of this name is gone
		_, err := c.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}, metav1.CreateOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsAlreadyExists(err) {
			log.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.address = c.gateway("g")
}

// gateway makes a Gateway with a listener on port 80, and returns its address.
func (c *cluster) gateway(name string) string {
	listener := map[string]any{"name": "http", "port": int64(80), "protocol": "HTTP"}
	c.create(gateways, "Gateway", name, map[string]any{"gatewayClassName": *class, "listeners": []any{listener}})
	for end := time.Now().Add(20 * time.Second); ; {
		if time.Now().After(end) {
			log.Fatalf("the Gateway %s has no address after 20 s", name)
		}
		gateway, err := c.dynamic.Resource(gateways).Namespace(c.namespace).Get(context.Background(), name, metav1.GetOptions{})
		must(err)
		addresses, _, _ := unstructured.NestedSlice(gateway.Object, "status", "addresses")
		if len(addresses) > 0 {
			return addresses[0].(map[string]any)["value"].(string)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *cluster) close() {
	_ = c.core.CoreV1().Namespaces().Delete(context.Background(), c.namespace, metav1.DeleteOptions{})
}

func (c *cluster) create(resource schema.GroupVersionResource, kind, name string, spec map[string]any) {
	must(c.tryCreate(context.Background(), resource, kind, name, spec))
}

func (c *cluster) tryCreate(ctx context.Context, resource schema.GroupVersionResource, kind, name string, spec map[string]any) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.Group + "/" + resource.Version, "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": c.namespace}, "spec": spec,
	}}
	_, err := c.dynamic.Resource(resource).Namespace(c.namespace).Create(ctx, object, metav1.CreateOptions{})
	return err
}

// createRoute makes a route of the host NAME.example to a Service.
func (c *cluster) createRoute(name, service string, port int64) {
	backend := map[string]any{"name": service, "port": port}
	c.create(routes, "HTTPRoute", name, map[string]any{
		"parentRefs": []any{map[string]any{"name": "g"}},
		"hostnames":  []any{name + ".example"},
		"rules":      []any{map[string]any{"backendRefs": []any{backend}}},
	})
}

// client sends requests over connections of its own.
func client(connections int) *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

// get returns the status of an answer and its body. A host may be followed by a path.
func (c *cluster) get(client *http.Client, host string) (int, string, error) {
	host, path, _ := strings.Cut(host, "/")
	request, err := http.NewRequest(http.MethodGet, "http://"+c.address+"/"+path, nil)
	must(err)
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// metric returns the sum of a counter of the API server over all samples that have each of the labels.
func (c *cluster) metric(name string, labels ...string) float64 {
	text, err := c.core.RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	must(err)
	sum := 0.0
lines:
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, name+"{") {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(line, label) {
				continue lines
			}
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		must(err)
		sum += value
	}
	return sum
}

// memory returns the resident memory of the gateway in KiB.
func memory() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", *pid))
	must(err)
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kib, err := strconv.Atoi(fields[1])
			must(err)
			return kib
		}
	}
	return 0
}

// quantile returns the value below which a share of the sorted values is.
func quantile(values []time.Duration, share float64) time.Duration {
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
	if len(values) == 0 {
		return 0
	}
	return values[min(len(values)-1, int(share*float64(len(values))))]
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

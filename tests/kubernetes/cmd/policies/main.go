// policies: sends the requests of a table to the gateway, compares the statuses of TollgatePolicies, and gives the API
// server policies that it must refuse.
//
//	policies FILE...
//
// Each file has objects, which are applied before, and documents of the kinds Requests, Statuses and Refused.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// How long an answer or a status may differ before it is wrong: objects come into force one by one.
const patience = 10 * time.Second

var (
	policies = schema.GroupVersionResource{Group: "tollgate.dev", Version: "v1alpha1", Resource: "tollgatepolicies"}
	gateways = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
)

// exchange is a request and what is expected of it.
type exchange struct {
	Name, Host, Path string
	// Name and password.
	User string
	// Bytes of the body.
	Body   int
	Status int
	// Fields of the response: their whole values as expressions.
	Fields map[string]string
	// How often it is sent; of all answers, how many at least and at most have a status.
	Times  int
	Counts map[string][2]int
}

// expectation is a condition in the status of a policy.
type expectation struct {
	Policy, Ancestor, Type, Status, Reason string
	// A part of its message.
	Message string
}

// document is one of a file.
type document struct {
	Kind     string
	Gateway  string
	Requests []exchange
	Statuses []expectation
	Name     string
	Message  string
	Spec     map[string]any
}

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err)
	client := dynamic.NewForConfigOrDie(config)
	passed, failed := 0, 0
	report := func(name, why string) {
		if why == "" {
			passed++
			return
		}
		failed++
		fmt.Printf("FAIL %s: %s\n", name, why)
	}
	for _, file := range flag.Args() {
		for _, one := range read(file) {
			switch one.Kind {
			case "Requests":
				address := await(client, one.Gateway)
				for _, request := range one.Requests {
					report(request.Name, check(address, request))
				}
			case "Statuses":
				for _, wanted := range one.Statuses {
					report(wanted.Policy+" "+wanted.Type, holds(client, wanted))
				}
			case "Refused":
				report(one.Name, refused(client, one))
			}
		}
	}
	fmt.Printf("PASS %d\nFAIL %d\n", passed, failed)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func read(file string) []document {
	open, err := os.Open(file)
	must(err)
	defer open.Close()
	var all []document
	documents := yaml.NewYAMLOrJSONDecoder(open, 4096)
	for {
		var raw json.RawMessage
		if err := documents.Decode(&raw); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			log.Fatalf("%s: %v", file, err)
		}
		if len(raw) == 0 {
			continue
		}
		var object struct{ Kind string }
		must(json.Unmarshal(raw, &object))
		if object.Kind == "Requests" || object.Kind == "Statuses" || object.Kind == "Refused" {
			var one document
			must(json.Unmarshal(raw, &one))
			all = append(all, one)
		}
	}
}

// await returns the address of a Gateway that is programmed.
func await(client dynamic.Interface, gateway string) string {
	namespace, name, _ := strings.Cut(gateway, "/")
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		object, err := client.Resource(gateways).Namespace(namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			continue
		}
		addresses, _, _ := unstructured.NestedSlice(object.Object, "status", "addresses")
		for _, address := range addresses {
			return address.(map[string]any)["value"].(string)
		}
	}
	log.Fatalf("the Gateway %s has no address", gateway)
	return ""
}

// check sends a request until its answer is right, and returns what is wrong in the end.
func check(address string, one exchange) string {
	if one.Times > 0 {
		return count(address, one)
	}
	why := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		status, fields, err := send(address, one)
		switch {
		case err != nil:
			why = err.Error()
		case status != one.Status:
			why = fmt.Sprintf("the status is %d, not %d", status, one.Status)
		default:
			why = ""
		}
		for name, pattern := range one.Fields {
			if value := strings.Join(fields.Values(name), ", "); !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(value) {
				why += fmt.Sprintf("; %s is %q, not %q", name, value, pattern)
			}
		}
		if why == "" {
			return ""
		}
	}
	return why
}

// count sends a request several times and counts its answers.
func count(address string, one exchange) string {
	counts := map[string]int{}
	for range one.Times {
		status, _, err := send(address, one)
		if err != nil {
			return err.Error()
		}
		counts[fmt.Sprint(status)]++
	}
	for status, bounds := range one.Counts {
		if counts[status] < bounds[0] || counts[status] > bounds[1] {
			return fmt.Sprintf("%d of %s, not %d to %d: %v", counts[status], status, bounds[0], bounds[1], counts)
		}
	}
	return ""
}

func send(address string, one exchange) (int, http.Header, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(address, "80"))
		},
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	method, body := http.MethodGet, io.Reader(nil)
	if one.Body > 0 {
		method, body = http.MethodPost, strings.NewReader(strings.Repeat("x", one.Body))
	}
	path := one.Path
	if path == "" {
		path = "/"
	}
	request, err := http.NewRequest(method, "http://"+one.Host+path, body)
	if err != nil {
		return 0, nil, err
	}
	if user, password, found := strings.Cut(one.User, ":"); found {
		request.SetBasicAuth(user, password)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	return response.StatusCode, response.Header, nil
}

// holds waits until a policy has a condition, and returns what is wrong in the end.
func holds(client dynamic.Interface, wanted expectation) string {
	namespace, name, _ := strings.Cut(wanted.Policy, "/")
	why := "it does not exist"
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		object, err := client.Resource(policies).Namespace(namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			why = err.Error()
			continue
		}
		var status struct {
			Ancestors []struct {
				AncestorRef    struct{ Kind, Name string }
				ControllerName string
				Conditions     []struct{ Type, Status, Reason, Message string }
			}
		}
		raw, err := json.Marshal(object.Object["status"])
		must(err)
		must(json.Unmarshal(raw, &status))
		why = fmt.Sprintf("no such condition in %s", raw)
		for _, ancestor := range status.Ancestors {
			if ancestor.AncestorRef.Kind+"/"+ancestor.AncestorRef.Name != wanted.Ancestor {
				continue
			}
			for _, one := range ancestor.Conditions {
				if one.Type == wanted.Type && one.Status == wanted.Status && one.Reason == wanted.Reason &&
					strings.Contains(one.Message, wanted.Message) {
					return ""
				}
			}
		}
	}
	return why
}

// refused gives the API server a policy. Returns what is wrong unless it is refused with the message.
func refused(client dynamic.Interface, one document) string {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tollgate.dev/v1alpha1", "kind": "TollgatePolicy",
		"metadata": map[string]any{"name": "refused", "namespace": "policies"}, "spec": one.Spec,
	}}
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	_, err := client.Resource(policies).Namespace("policies").Create(context.Background(), object, options)
	switch {
	case err == nil:
		return "the API server takes it"
	case !strings.Contains(err.Error(), one.Message):
		return fmt.Sprintf("the API server says %q, not %q", err, one.Message)
	}
	return ""
}

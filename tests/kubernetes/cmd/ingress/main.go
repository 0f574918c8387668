// ingress: sends the requests of a table to the gateway and compares its answers. Each file has Ingresses, which are
// applied before, and documents `kind: Requests` with the requests.
//
//	ingress FILE...
//
// It also is the service that `auth-url` asks, and the server that gets copies of requests.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// How long an answer may differ before it is wrong: objects come into force one by one.
	patience = 10 * time.Second
	// Where the authorization service listens, and the server that gets copies.
	authorization = "127.0.0.1:8090"
	copies        = "127.0.0.1:8091"
	// Where an endpoint with TLS listens: the API server refuses loopback addresses.
	secure = "10.244.0.1:8443"
)

// exchange is a request and what is expected of it.
type exchange struct {
	Name string `json:"name"`
	// The method; without it GET.
	Method string `json:"method"`
	// The URL. Its host is sent as it is; the connection goes to the gateway.
	URL string `json:"url"`
	// Lines of the request.
	Headers map[string]string `json:"headers"`
	// Bytes of the body.
	Body int `json:"body"`
	// Bytes of a field of the request. The endpoint returns it, so that its answer is that long.
	Padding int `json:"padding"`
	// How often it is sent; the answers are counted.
	Times int `json:"times"`

	Status int `json:"status"`
	// Fields of the response: their whole values as expressions; empty: absent.
	Fields map[string]string `json:"fields"`
	// What the endpoint got: path, host, service, and fields of the request.
	Path    string            `json:"path"`
	Host    string            `json:"host"`
	Service string            `json:"service"`
	Got     map[string]string `json:"got"`
	// Of all answers, how many at least and at most: by status, or by the name of the Service.
	Counts map[string][2]int `json:"counts"`
	// Whether a copy of the request arrives elsewhere.
	Copied bool `json:"copied"`
	// How many seconds the answer takes at least and at most.
	Seconds *[2]float64 `json:"seconds"`
}

// answer is a response, with what the endpoint got if the body says so.
type answer struct {
	status int
	took   time.Duration
	fields http.Header
	echo   struct {
		Path, Host, Service string
		Headers             map[string][]string
	}
}

var copied atomic.Int64

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err)
	serve(authorization, authorize)
	serve(copies, func(w http.ResponseWriter, _ *http.Request) { copied.Add(1) })
	serveTLS(secure)
	address := await(kubernetes.NewForConfigOrDie(config))
	passed, failed := 0, 0
	for _, file := range flag.Args() {
		for _, one := range read(file) {
			if why := check(address, one); why != "" {
				fmt.Printf("FAIL %s: %s: %s\n", filepath.Base(file), one.Name, why)
				failed++
			} else {
				passed++
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

func serve(address string, handler http.HandlerFunc) {
	listener, err := net.Listen("tcp", address)
	must(err)
	go func() { log.Fatal(http.Serve(listener, handler)) }()
}

// serveTLS is an endpoint with a certificate that no authority has signed.
func serveTLS(address string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"passed.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(err)
	certificate := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	listener, err := tls.Listen("tcp", address, &tls.Config{Certificates: []tls.Certificate{certificate}})
	must(err)
	handler := func(w http.ResponseWriter, r *http.Request) {
		must(json.NewEncoder(w).Encode(map[string]any{
			"path": r.RequestURI, "host": r.Host, "service": "tls", "headers": r.Header,
		}))
	}
	go func() { log.Fatal(http.Serve(listener, http.HandlerFunc(handler))) }()
}

// authorize admits requests with the right token.
func authorize(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer good" {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	w.Header().Set("X-User", "alice of "+r.Header.Get("X-Original-Url"))
}

// await returns the address that every Ingress has.
func await(client *kubernetes.Clientset) string {
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		list, err := client.NetworkingV1().Ingresses("").List(context.Background(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			continue
		}
		addresses := map[string]bool{}
		for _, ingress := range list.Items {
			address := ""
			if points := ingress.Status.LoadBalancer.Ingress; len(points) > 0 {
				address = points[0].IP
			}
			addresses[address] = true
		}
		if !addresses[""] && len(addresses) == 1 {
			for address := range addresses {
				return address
			}
		}
	}
	log.Fatal("the Ingresses have no address")
	return ""
}

func read(file string) []exchange {
	open, err := os.Open(file)
	must(err)
	defer open.Close()
	var all []exchange
	documents := yaml.NewYAMLOrJSONDecoder(open, 4096)
	for {
		var document struct {
			Kind     string     `json:"kind"`
			Requests []exchange `json:"requests"`
		}
		if err := documents.Decode(&document); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			log.Fatalf("%s: %v", file, err)
		}
		if document.Kind == "Requests" {
			all = append(all, document.Requests...)
		}
	}
}

// check sends a request until its answer is right, and returns what is wrong in the end.
func check(address string, one exchange) string {
	if one.Times > 0 {
		return count(address, one)
	}
	before, why := copied.Load(), ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got, err := send(address, one); err != nil {
			why = err.Error()
		} else if why = compare(one, got); why == "" && one.Copied && copied.Load() == before {
			why = "no copy arrived"
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
		got, err := send(address, one)
		if err != nil {
			return err.Error()
		}
		counts[fmt.Sprint(got.status)]++
		if got.echo.Service != "" {
			counts[got.echo.Service]++
		}
	}
	for key, bounds := range one.Counts {
		if counts[key] < bounds[0] || counts[key] > bounds[1] {
			return fmt.Sprintf("%d of %s, not %d to %d: %v", counts[key], key, bounds[0], bounds[1], counts)
		}
	}
	return ""
}

func compare(one exchange, got answer) string {
	differs := func(what, expected, got string) string {
		if expected == "" || expected == got {
			return ""
		}
		return fmt.Sprintf("%s is %q, not %q", what, got, expected)
	}
	found := []string{
		differs("the status", fmt.Sprint(one.Status), fmt.Sprint(got.status)),
		differs("the path", one.Path, got.echo.Path),
		differs("the host", one.Host, got.echo.Host),
		differs("the Service", one.Service, got.echo.Service),
	}
	if limits := one.Seconds; limits != nil && (got.took.Seconds() < limits[0] || got.took.Seconds() > limits[1]) {
		found = append(found, fmt.Sprintf("it took %v, not %v s to %v s", got.took, limits[0], limits[1]))
	}
	fields := func(what string, wanted map[string]string, values func(string) []string) {
		for name, pattern := range wanted {
			value := strings.Join(values(name), ", ")
			if (pattern == "") != (value == "") || !regexp.MustCompile("^(?:"+pattern+")$").MatchString(value) {
				found = append(found, fmt.Sprintf("%s %s is %q, not %q", what, name, value, pattern))
			}
		}
	}
	fields("the response's", one.Fields, got.fields.Values)
	fields("the request's", one.Got, http.Header(got.echo.Headers).Values)
	return strings.Join(slices.DeleteFunc(found, func(text string) bool { return text == "" }), "; ")
}

// send writes a request to a new connection, byte by byte as the table has it.
func send(address string, one exchange) (answer, error) {
	var got answer
	scheme, rest, _ := strings.Cut(one.URL, "://")
	host, target := rest, "/"
	if at := strings.IndexByte(rest, '/'); at >= 0 {
		host, target = rest[:at], rest[at:]
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	connection, err := net.DialTimeout("tcp", net.JoinHostPort(address, port), time.Second)
	if err != nil {
		return got, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return got, err
	}
	if scheme == "https" {
		connection = tls.Client(connection, &tls.Config{ServerName: host, InsecureSkipVerify: true})
	}
	method := one.Method
	if method == "" {
		method = "GET"
	}
	var request bytes.Buffer
	fmt.Fprintf(&request, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, host)
	for name, value := range one.Headers {
		fmt.Fprintf(&request, "%s: %s\r\n", name, value)
	}
	if one.Padding > 0 {
		fmt.Fprintf(&request, "X-Padding: %s\r\n", strings.Repeat("x", one.Padding))
	}
	if one.Body > 0 {
		fmt.Fprintf(&request, "Content-Length: %d\r\n", one.Body)
	}
	request.WriteString("\r\n")
	request.Write(bytes.Repeat([]byte("x"), one.Body))
	start := time.Now()
	if _, err := connection.Write(request.Bytes()); err != nil && one.Body == 0 {
		return got, err
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), &http.Request{Method: method})
	if err != nil {
		return got, err
	}
	defer response.Body.Close()
	got.status, got.fields = response.StatusCode, response.Header
	body, err := io.ReadAll(response.Body)
	got.took = time.Since(start)
	if err == nil {
		// Other bodies are not the endpoint's.
		_ = json.Unmarshal(body, &got.echo)
	}
	return got, nil
}

// Command go-reverseproxy is the floor for gateways written in Go: the standard library's reverse proxy and nothing else.
//
// Its settings come from the environment, see system.yaml; GOMAXPROCS sets the workers.
package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"
)

// buffers lends the proxy its copy buffers, which it would otherwise allocate anew for every body.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte       { return *b.pool.Get().(*[]byte) }
func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }

func text(name string) string {
	value := os.Getenv(name)
	if value == "" {
		log.Fatalf("%s is not set in the environment", name)
	}
	return value
}

func number(name string) int {
	value, err := strconv.Atoi(text(name))
	if err != nil {
		log.Fatalf("%s must be a whole number: %v", name, err)
	}
	return value
}

func seconds(name string) time.Duration { return time.Duration(number(name)) * time.Second }

func main() {
	target := &url.URL{Scheme: "http", Host: text("ORIGIN")}
	forwarded := os.Getenv("FORWARDED") == "on"
	silent := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			request.Out.Host = request.In.Host
			if forwarded {
				request.SetXForwarded()
			}
		},
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: seconds("CONNECT_SECONDS")}).DialContext,
			ResponseHeaderTimeout: seconds("RESPONSE_SECONDS"),
			IdleConnTimeout:       seconds("IDLE_SECONDS"),
			// The default of two idle connections a host would open one for nearly every request.
			MaxIdleConnsPerHost: number("KEEPALIVE"),
			DisableCompression:  true,
		},
		BufferPool: &buffers{sync.Pool{New: func() any { buffer := make([]byte, 32<<10); return &buffer }}},
		ErrorLog:   silent,
	}
	server := &http.Server{Addr: text("LISTEN"), Handler: proxy, IdleTimeout: seconds("IDLE_SECONDS"), ErrorLog: silent}
	// HTTP/1.1 alone, over TLS too, where the library would offer HTTP/2.
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	if certificate := os.Getenv("TLS_CERTIFICATE"); certificate != "" {
		log.Fatal(server.ListenAndServeTLS(certificate, text("TLS_KEY")))
	}
	log.Fatal(server.ListenAndServe())
}

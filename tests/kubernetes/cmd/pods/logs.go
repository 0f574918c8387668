package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"time"
)

// serve answers the API server's requests for logs.
func (r *runner) serve() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, q *http.Request) {
		since := time.Time{}
		if t := q.URL.Query().Get("sinceTime"); t != "" {
			since, _ = time.Parse(time.RFC3339, t)
		}
		r.mu.Lock()
		var found *container
		for _, it := range r.pods {
			if it.namespace == q.PathValue("namespace") && it.name == q.PathValue("pod") {
				for _, c := range it.containers {
					if c.name == q.PathValue("container") {
						found = c
					}
				}
			}
		}
		r.mu.Unlock()
		if found == nil {
			http.NotFound(w, q)
			return
		}
		_, _ = io.WriteString(w, found.text(since))
	})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	host, _, _ := net.SplitHostPort(*listen)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: nodes[0].name}, NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.ParseIP(host)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(err)
	server := &http.Server{Addr: *listen, Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}}
	must(server.ListenAndServeTLS("", ""))
}

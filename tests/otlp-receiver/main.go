// otlp-receiver takes OTLP over HTTP with the data model of OpenTelemetry's own collector, and prints what it understood, one
// document a line. It listens on the address that is its argument.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// request is a document of logs or of spans.
type request interface {
	UnmarshalJSON([]byte) error
	MarshalJSON() ([]byte, error)
}

var printing sync.Mutex

func receive(path string, make func() request) {
	http.HandleFunc("POST "+path, func(answer http.ResponseWriter, asked *http.Request) {
		if asked.Header.Get("Content-Type") != "application/json" {
			http.Error(answer, "not JSON", http.StatusUnsupportedMediaType)
			return
		}
		body, err := io.ReadAll(asked.Body)
		document := make()
		if err == nil {
			err = document.UnmarshalJSON(body)
		}
		var understood []byte
		if err == nil {
			understood, err = document.MarshalJSON()
		}
		if err != nil {
			http.Error(answer, err.Error(), http.StatusBadRequest)
			return
		}
		printing.Lock()
		defer printing.Unlock()
		fmt.Println(string(understood))
		answer.Header().Set("Content-Type", "application/json")
		io.WriteString(answer, "{}")
	})
}

func main() {
	receive("/v1/logs", func() request { document := plogotlp.NewExportRequest(); return &document })
	receive("/v1/traces", func() request { document := ptraceotlp.NewExportRequest(); return &document })
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
